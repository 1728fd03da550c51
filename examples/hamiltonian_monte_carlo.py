"""Hamiltonian Monte Carlo (Duane and others, 1987; Neal, 2011): draws from a density bent like a banana.

    python examples/hamiltonian_monte_carlo.py

Position and momentum follow Hamilton's equations for a while, by the leapfrog, and the error that it makes in the energy
decides whether the end is accepted. Many chains go at once: one gradient serves all. The density's moments are known, and
printed beside those of the draws. A transition is a few hundred small operations: `ad.jit` replays them. Start reading at `transition`.
"""

import argparse
import time

import adjoint as ad

CHAINS, WIDTH = 100, 0.5  # of the banana, across


def log_density(z):
    """x is standard normal, y given x normal about x² - 1: both have mean 0, and variances 1 and 2 + WIDTH²."""
    x, y = z.unbind(-1)
    return -(x.square() + ((y - x.square() + 1) / WIDTH).square()) / 2


def gradient(z):
    z = z.detach().requires_grad_()
    # Chains do not see one another: the gradient of the sum holds the gradient of each.
    return ad.autograd.grad(log_density(z).sum(), z)[0]


def leapfrog(z, momentum, step, count):
    momentum = momentum + step / 2 * gradient(z)
    path = [z]
    for i in range(count):
        z = z + step * momentum
        momentum = momentum + (step if i < count - 1 else step / 2) * gradient(z)
        path.append(z)
    return z, momentum, path


def transition(z, step, count):
    """(the chains' next states, which of them moved)."""
    momentum = ad.randn(z.shape)
    end, momentum_at_end, _ = leapfrog(z, momentum, step, count)
    energy = momentum.square().sum(-1) / 2 - log_density(z)
    energy_at_end = momentum_at_end.square().sum(-1) / 2 - log_density(end)
    accepted = ad.rand(z.shape[0]) < (energy - energy_at_end).exp()
    return ad.where(accepted.unsqueeze(-1), end, z), accepted


def seconds_of(f, *args, times=20):
    """The least time of a call."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        f(*args)
        found.append(time.perf_counter() - start)
    return min(found)


def draw(path, draws, one_path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.6), layout="constrained")
    across, up = draws[:1500].T.tolist()
    axes.scatter(across, up, s=3, color="tab:blue", alpha=0.4, linewidths=0)
    axes.plot(*one_path.T.tolist(), ".-", color="tab:red", label="one path")
    axes.set(xlim=(-3.5, 3.5), ylim=(-3, 8))
    axes.legend()
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--step", type=float, default=0.2)
    parser.add_argument("--output", default="hamiltonian_monte_carlo.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few draws: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    z, kept, rate = ad.randn(CHAINS, 2), [], 0.0
    warm_up, count = (20, 100) if options.short else (100, 1000)
    move = ad.jit(transition)
    start = time.perf_counter()
    for i in range(warm_up + count):
        z, accepted = move(z, options.step, 15)
        if i >= warm_up:
            kept.append(z)
            rate += accepted.float().mean().item() / count
    draws = ad.cat(kept)
    seconds = time.perf_counter() - start
    (x, y), (x2, y2) = draws.mean(0).tolist(), draws.var(0).tolist()
    print(f"accepted  {rate:.1%} of {warm_up + count} transitions of {CHAINS} chains, {seconds:.2f} s")
    taken = [seconds_of(f, z, options.step, 15) for f in (transition, move)]
    print(f"replay    a transition takes {taken[1] / taken[0]:.2f} of the time that it takes without ad.jit")
    print(f"means     {x:.3f}, {y:.3f} (exactly 0, 0)")
    print(f"variances {x2:.3f}, {y2:.3f} (exactly 1, {2 + WIDTH**2})")
    try:
        path = leapfrog(ad.tensor([[-1.5, 1.0]]), ad.tensor([[2.0, 0.5]]), options.step, 15)[2]
        draw(options.output, draws, ad.cat(path))
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
