"""A neural differential equation (Chen and others, 2018) learns to follow a spiral, by its adjoint equation.

    python examples/neural_ode.py

A network is the right-hand side of dy/dt = f(y). Its derivative solves another differential equation, backwards in time: so
nothing of the way there need be kept. The program shows that this gradient is that of differentiating through every step,
but for the error of the solver. A step is some thousand small operations, which `ad.jit` replays. Start reading at `Solve`.
"""

import argparse
import time

import adjoint as ad
from adjoint import nn, optim

STEPS = 4  # of Runge and Kutta's method, from one observation to the next


def runge_kutta(f, y, span, steps=STEPS):
    """The state after `span`; `y` is a tuple of tensors, as is what `f` gives."""
    h = span / steps

    def moved(k, by):
        return tuple(a + by * b for a, b in zip(y, k, strict=True))

    for _ in range(steps):
        k1 = f(y)
        k2 = f(moved(k1, h / 2))
        k3 = f(moved(k2, h / 2))
        k4 = f(moved(k3, h))
        slopes = zip(k1, k2, k3, k4, strict=True)
        y = moved([(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in slopes], h)
    return y


class Solve(ad.autograd.Function):
    """The state after `span`, whose cotangent a goes back by da/dt = -a ∂f/∂y, and the parameters' by -a ∂f/∂p."""

    @staticmethod
    def forward(ctx, f, span, y, *parameters):
        ctx.f, ctx.span = f, span
        (end,) = runge_kutta(lambda s: (f(s[0]),), (y,), span)
        ctx.save_for_backward(end, *parameters)
        return end

    @staticmethod
    def backward(ctx, cotangent):
        end, *parameters = ctx.saved_tensors

        def back(state):
            y, a = state[0].detach().requires_grad_(), state[1]
            with ad.enable_grad():
                slope = ctx.f(y)
            products = ad.autograd.grad(slope, (y, *parameters), a)
            return (-slope.detach(), *products)

        zeros = [ad.zeros_like(p) for p in parameters]
        _, *found = runge_kutta(back, (end, cotangent, *zeros), ctx.span)
        return None, None, *found


def trajectory(f, start, times, adjoint=True):
    """The states at evenly spaced times, stacked."""
    states, span = [start], float(times[1] - times[0])
    for _ in times[1:]:
        if adjoint:
            states.append(Solve.apply(f, span, states[-1], *f.parameters()))
        else:
            states.append(runge_kutta(lambda s: (f(s[0]),), (states[-1],), span)[0])
    return ad.stack(states)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, y):
        return self.net(y**3)


def draw(path, observed, followed, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.semilogy(losses)
    left.set(xlabel="step", ylabel="mean squared error")
    right.plot(*observed[:, 0].T.tolist(), "o", markersize=3, label="observed")
    right.plot(*followed[:, 0].T.tolist(), label="learned")
    right.legend()
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="neural_ode.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    spiral = ad.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    times = ad.linspace(0, 6, 61)
    with ad.no_grad():
        truth = [(ad.tensor([[2.0, 0.0]]),)]
        for _ in times[1:]:
            truth.append(runge_kutta(lambda s: (s[0] ** 3 @ spiral,), truth[-1], 0.1))
        observed = ad.stack([y for (y,) in truth])
    model = Model()

    # Both gradients of one loss, over a second.
    found = []
    for adjoint in True, False:
        loss = (trajectory(model, observed[0], times[:11], adjoint) - observed[:11]).square().mean()
        found.append(ad.cat([g.flatten() for g in ad.autograd.grad(loss, list(model.parameters()))]))
    difference = ((found[0] - found[1]).norm() / found[1].norm()).item()
    print(f"gradient  by the adjoint and through every step: relative difference {difference:.1e}")

    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    count = 40 if options.short else 1000
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, count)

    def differentiate(places):
        path = trajectory(model, observed[places], times[:11])
        wanted = ad.stack([observed[places + i] for i in range(11)])
        loss = (path - wanted).square().mean()
        loss.backward()
        return loss.detach()

    # The learning rate is another at each step, so the optimiser's part is not replayed.
    losses, taken = [], []
    start, replayed = time.perf_counter(), ad.jit(differentiate)
    for i in range(count):
        begin = time.perf_counter()
        optimizer.zero_grad()
        # Stretches of a second, from twelve random places at once.
        loss = (differentiate if i < 10 else replayed)(ad.randint(0, 51, (12,)))
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        taken.append(time.perf_counter() - begin)
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    print(f"loss      {first:.4f} -> {last:.4f}, {time.perf_counter() - start:.2f} s")
    share = min(taken[13:]) / min(taken[:10])
    print(f"replay    a step takes {share:.2f} of the time that it takes without ad.jit")
    try:
        with ad.no_grad():
            draw(options.output, observed, trajectory(model, observed[0], times), losses)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
