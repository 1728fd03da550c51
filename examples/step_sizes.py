"""Meta-learning of step sizes: what gradient descent should do in each of eight steps, learned by descending through it.

    python examples/step_sizes.py

The problems are quadratics of random curvatures between 1 and 20. For these the best steps are known: one over the roots of
a Chebyshev polynomial (Young, 1953), which make the worst error smallest. Those that are learned, for the mean error, come
near them. Start reading at `errors`.
"""

import argparse
import math
import time

import adjoint as ad
from adjoint import optim

COUNT, LOWEST, HIGHEST = 8, 1.0, 20.0


def errors(steps, curvatures):
    """|x|² after descending from 1 on curvature · x² / 2, for each curvature."""
    x = ad.ones_like(curvatures)
    for step in steps:
        x = x - step * curvatures * x
    return x.square()


def chebyshev():
    angles = ((2 * i + 1) * math.pi / (2 * COUNT) for i in range(COUNT))
    middle, radius = (HIGHEST + LOWEST) / 2, (HIGHEST - LOWEST) / 2
    return ad.tensor(sorted(1 / (middle + radius * math.cos(a)) for a in angles))


def draw(path, learned, known, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    curvatures = ad.linspace(LOWEST, HIGHEST, 300)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.semilogy(losses)
    left.set(xlabel="step of learning", ylabel="mean error after eight steps")
    fixed = ad.full((COUNT,), 2 / (LOWEST + HIGHEST))
    for name, steps in ("learned", learned), ("Chebyshev's", known), ("the best constant", fixed):
        right.semilogy(curvatures.tolist(), errors(steps, curvatures).tolist(), label=name)
    right.set(xlabel="curvature", ylabel="error after eight steps", ylim=(1e-8, 1))
    right.legend()
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="step_sizes.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    # Equal steps would stay equal, as the order does not matter: so they start apart.
    logarithms = ad.linspace(math.log(0.05), math.log(0.3), COUNT).requires_grad_()
    optimizer = optim.Adam([logarithms], lr=0.01)
    start, losses = time.perf_counter(), []
    for _ in range(500 if options.short else 4000):
        curvatures = LOWEST + (HIGHEST - LOWEST) * ad.rand(256)
        loss = errors(logarithms.exp(), curvatures).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - start
    learned, known = logarithms.detach().exp().sort().values, chebyshev()
    curvatures = ad.linspace(LOWEST, HIGHEST, 10_000)
    of_learned, of_known = (errors(s, curvatures).mean().item() for s in (learned, known))
    constant = errors(ad.full((COUNT,), 2 / (LOWEST + HIGHEST)), curvatures).mean().item()
    print("learned    ", ", ".join(f"{s:.3f}" for s in learned.tolist()))
    print("Chebyshev's", ", ".join(f"{s:.3f}" for s in known.tolist()))
    print(
        f"error       {of_learned:.2e} learned, {of_known:.2e} Chebyshev's, {constant:.2e} constant, {seconds:.2f} s"
    )
    try:
        draw(options.output, learned, known, losses)
        print(f"picture     {options.output}")
    except ImportError:
        print("picture     none: matplotlib is not installed")


if __name__ == "__main__":
    main()
