"""Optimisation of hyper-parameters through unrolled training (Maclaurin and others, 2015): one penalty for each feature.

    python examples/hyperparameters.py

A linear regression of forty features, of which five matter, is trained by a hundred steps of gradient descent. The error on
other data is differentiated through all of them, by the penalties and the step size, which then descend, too. Start reading
at `trained`.
"""

import argparse
import time

import adjoint as ad
from adjoint import optim

FEATURES, USEFUL, POINTS, STEPS = 40, 5, 50, 100


def make_data(count: int, truth: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    x = ad.randn(count, FEATURES)
    return x, x @ truth + ad.randn(count)


def trained(x, y, log_penalties, log_rate):
    """The weights after STEPS steps with momentum on the penalised error, as a function of the hyper-parameters."""
    penalties, rate = log_penalties.exp(), log_rate.exp()
    w, velocity = ad.zeros(FEATURES), ad.zeros(FEATURES)
    for _ in range(STEPS):
        gradient = x.T @ (x @ w - y) / x.shape[0] + penalties * w
        velocity = 0.8 * velocity - rate * gradient
        w = w + velocity
    return w


def error(w, x, y):
    return (x @ w - y).square().mean()


def draw(path, log_penalties, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(losses)
    left.axhline(1, color="gray", linestyle=":")
    left.set(xlabel="step", ylabel="validation error after training")
    right.bar(range(FEATURES), log_penalties.exp().tolist(), color=["tab:red"] * USEFUL + ["tab:blue"] * 35)
    right.set(xlabel="feature (the red ones matter)", ylabel="penalty", yscale="log")
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="hyperparameters.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    truth = ad.cat([1 + ad.rand(USEFUL), ad.zeros(FEATURES - USEFUL)])
    training, validation, test = make_data(POINTS, truth), make_data(POINTS, truth), make_data(2000, truth)
    log_penalties = ad.full((FEATURES,), -3.0, requires_grad=True)
    log_rate = ad.tensor(-4.0, requires_grad=True)
    with ad.no_grad():
        before = error(trained(*training, log_penalties, log_rate), *test).item()
    optimizer = optim.Adam([log_penalties, log_rate], lr=0.05)
    start, losses = time.perf_counter(), []
    for _ in range(40 if options.short else 300):
        loss = error(trained(*training, log_penalties, log_rate), *validation)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - start
    with ad.no_grad():
        after = error(trained(*training, log_penalties, log_rate), *test).item()
        useful, others = (
            log_penalties[:USEFUL].mean().exp().item(),
            log_penalties[USEFUL:].mean().exp().item(),
        )
    print(f"test      {before:.3f} -> {after:.3f} (the noise alone: 1), {seconds:.2f} s")
    print(f"penalty   {useful:.3f} of features that matter, {others:.3f} of the others")
    try:
        draw(options.output, log_penalties.detach(), losses)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
