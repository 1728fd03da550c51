"""Variational inference (Kucukelbir and others, 2017): the posterior of a logistic regression, approximated by a normal.

    python examples/variational_inference.py

A normal distribution over the weights, with all its covariances, is moved until its bound on the logarithm of the evidence is
largest; draws are written as mean + factor · noise, so that the bound can be differentiated. Importance sampling then says
how far the bound is from what it bounds. Start reading at `bound`.
"""

import argparse
import math
import time

import adjoint as ad
from adjoint import distributions, nn, optim

COUNT, SCALE = 60, 3.0  # of points; the prior's standard deviation


def make_data():
    """Points of the plane with a column of ones, and their classes by a line, some on the wrong side."""
    points = ad.cat([2 * ad.randn(COUNT, 2), ad.ones(COUNT, 1)], dim=1)
    chances = (points @ ad.tensor([1.5, -1.0, 0.5])).sigmoid()
    return points, ad.bernoulli(chances)


def log_joint(weights, points, classes):
    """log p(classes, weights) for each row of `weights`."""
    prior = distributions.Normal(0.0, SCALE).log_prob(weights).sum(-1)
    logits = weights @ points.T
    return prior + (classes * logits - nn.functional.softplus(logits)).sum(-1)


def bound(posterior, points, classes, draws):
    """An unbiased estimate of E[log p(classes, weights) - log q(weights)], the evidence lower bound."""
    return log_joint(posterior.rsample((draws,)), points, classes).mean() + posterior.entropy()


def log_evidence(posterior, points, classes, draws):
    """log p(classes) by importance sampling, where draws come from the approximation."""
    weights = posterior.sample((draws,))
    ratios = log_joint(weights, points, classes) - posterior.log_prob(weights)
    return (ad.logsumexp(ratios, dim=0) - math.log(draws)).item()


def make_posterior(mean, factor):
    triangle = factor.tril(-1) + ad.diag(factor.diagonal().exp())
    return distributions.MultivariateNormal(mean, scale_tril=triangle)


def draw(path, posterior, points, classes, bounds):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    side = ad.linspace(-5, 5, 60)
    y, x = ad.meshgrid(side, side, indexing="ij")
    grid = ad.stack([x.flatten(), y.flatten(), ad.ones(x.numel())], dim=1)
    chances = (posterior.sample((200,)) @ grid.T).sigmoid().mean(0).view(60, 60)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(bounds)
    left.set(xlabel="step", ylabel="evidence lower bound", ylim=(bounds[-1] - 30, bounds[-1] + 5))
    right.contourf(side.tolist(), side.tolist(), chances.tolist(), levels=8, cmap="coolwarm", alpha=0.6)
    right.scatter(*points[:, :2].T.tolist(), c=classes.tolist(), cmap="coolwarm", s=14, edgecolors="black")
    right.set(title="chance of class 1, over the posterior")
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="variational_inference.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    points, classes = make_data()
    mean, factor = ad.zeros(3, requires_grad=True), ad.zeros(3, 3, requires_grad=True)
    optimizer = optim.Adam([mean, factor], lr=0.03)
    start, bounds = time.perf_counter(), []
    for _ in range(300 if options.short else 2000):
        loss = -bound(make_posterior(mean, factor), points, classes, draws=16)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bounds.append(-loss.item())
    seconds = time.perf_counter() - start
    with ad.no_grad():
        posterior = make_posterior(mean, factor)
        lower = bound(posterior, points, classes, draws=4000).item()
        evidence = log_evidence(posterior, points, classes, draws=4000)
        print(f"bound     {bounds[0]:.2f} -> {lower:.2f}; log evidence {evidence:.2f}, {seconds:.2f} s")
        print(
            "weights  ", ", ".join(f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, posterior.stddev, strict=True))
        )
        try:
            draw(options.output, posterior, points, classes, bounds)
            print(f"picture   {options.output}")
        except ImportError:
            print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
