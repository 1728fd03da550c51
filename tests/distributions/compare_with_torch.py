"""Compare with torch, by hand: `python tests/distributions/compare_with_torch.py` where torch is installed beside Adjoint.

Over the table of the tests, with the same parameters and values: densities, moments, entropies, distribution functions, shapes,
representations, error texts, transforms, divergences. Prints what differs and how many values agreed. The tests need no torch.
"""

import math
import re
import sys
import warnings
from collections import Counter

import numpy as np
import table
import torch
import torch.distributions as T

import adjoint as ad
from adjoint import distributions as D

warnings.simplefilter("ignore")
counts, differing = Counter(), []


def module_of(make, package):
    name = make.__name__
    for module in (package, package.relaxed_bernoulli, package.relaxed_categorical):
        if isinstance(getattr(module, name, None), type):
            return getattr(module, name)
    return {
        "mixture": lambda probs, loc, scale, **o: package.MixtureSameFamily(
            package.Categorical(probs, **o), package.Normal(loc, scale, **o), **o
        ),
        "independent": lambda loc, scale, **o: package.Independent(package.Normal(loc, scale, **o), 1, **o),
        "precision": lambda loc, precision_matrix, **o: package.MultivariateNormal(
            loc, precision_matrix=precision_matrix, **o
        ),
    }[name]


def plain(x):
    if isinstance(x, (ad.Tensor, torch.Tensor)):
        return x.detach().numpy()
    return x


def outcome(f):
    try:
        return plain(f())
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return error


def text(x):
    x = re.sub(r"adjoint\.(?=Size|float|int)", "torch.", str(x))
    return re.sub(r"\s+", " ", x)


def compare(kind, name, ours, theirs, tolerance=1e-8):
    a, b = outcome(ours), outcome(theirs)
    counts[kind, "compared"] += 1
    if isinstance(a, Exception) or isinstance(b, Exception):
        same = type(a) is type(b) and (isinstance(a, NotImplementedError) or text(a) == text(b))
        if isinstance(b, NotImplementedError) and not isinstance(a, Exception):
            counts[kind, "more than torch"] += 1
            return
    elif isinstance(a, np.ndarray) or isinstance(a, float):
        a, b = np.asarray(a), np.asarray(b)
        same = a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = text(a) == text(b)
    counts[kind, "agree"] += bool(same)
    if not same:
        differing.append(f"{kind} {name}\n    {text(a)[:300]}\n    {text(b)[:300]}")


def jittered(parameters, rng):
    """The parameters, moved at random within their sets."""
    result = {}
    for key, value in parameters.items():
        if isinstance(value, int) or "matrix" in key or "tril" in key:
            result[key] = value
            continue
        value = np.array(value, float)
        result[key] = value * np.exp(0.1 * rng.standard_normal(value.shape))
        if key == "probs":
            result[key] = np.clip(result[key], 0, 0.99)
    return result


def pair(entry, rng, dtype="float64", **options):
    ours, theirs = {}, {}
    for key, value in jittered(entry.parameters, rng).items():
        number = isinstance(value, int)
        ours[key] = value if number else ad.tensor(value, dtype=getattr(ad, dtype))
        theirs[key] = value if number else torch.tensor(value, dtype=getattr(torch, dtype))
    return entry.make(**ours, **options), module_of(entry.make, T)(**theirs, **options)


def distributions(rng):
    for entry, name in zip(table.TABLE, table.IDS):
        p, q = pair(entry, rng)
        x = p.sample((4,))
        y = torch.tensor(x.numpy())
        compare("log_prob", name, lambda: p.log_prob(x), lambda: q.log_prob(y))
        compare("cdf", name, lambda: p.cdf(x), lambda: q.cdf(y))
        u = rng.uniform(0.05, 0.95, (3, 1))
        compare("icdf", name, lambda: p.icdf(ad.tensor(u)), lambda: q.icdf(torch.tensor(u)), 1e-6)
        for what in (
            "mean",
            "mode",
            "variance",
            "stddev",
            "batch_shape",
            "event_shape",
            "has_rsample",
            "support",
        ):
            compare(what, name, lambda: getattr(p, what), lambda: getattr(q, what), 1e-6)
        compare(
            "arg_constraints",
            name,
            lambda: dict(sorted(p.arg_constraints.items(), key=str)).keys(),
            lambda: dict(sorted(q.arg_constraints.items(), key=str)).keys(),
        )
        compare("entropy", name, p.entropy, q.entropy, 1e-6)
        compare("enumerate_support", name, p.enumerate_support, q.enumerate_support)
        compare(
            "expand",
            name,
            lambda: p.expand((3, *p.batch_shape)).log_prob(x[:3]),
            lambda: q.expand((3, *q.batch_shape)).log_prob(y[:3]),
        )
        fresh = pair(entry, np.random.default_rng(0))
        compare("repr", name, lambda: repr(fresh[0]), lambda: repr(fresh[1]))
        compare(
            "refused value",
            name,
            lambda: p.log_prob(ad.full((2,) + p.batch_shape + p.event_shape, math.nan, dtype=ad.float64)),
            lambda: q.log_prob(
                torch.full((2,) + q.batch_shape + q.event_shape, math.nan, dtype=torch.float64)
            ),
        )
        for key, (bad, _) in entry.refused.items():
            ours, theirs = entry.tensors(), {}
            theirs = {k: v if isinstance(v, int) else torch.tensor(v.numpy()) for k, v in ours.items()}
            value = np.array(bad, float) if not isinstance(entry.parameters[key], int) else bad
            ours[key], theirs[key] = (
                ad.tensor(value, dtype=ad.float64),
                torch.tensor(value, dtype=torch.float64),
            )
            compare(
                "refused parameter",
                name,
                lambda: entry.make(**ours),
                lambda: module_of(entry.make, T)(**theirs),
            )


def divergences(rng):
    for a, i in zip(table.TABLE, table.IDS):
        for b, j in zip(table.TABLE, table.IDS):
            p, tp = pair(a, rng)
            q, tq = pair(b, rng)
            if p.event_shape != q.event_shape or len({1, *p.batch_shape, *q.batch_shape}) > 2:
                continue
            compare(
                "kl",
                f"{i} {j}",
                lambda: ad.distributions.kl_divergence(p, q),
                lambda: T.kl_divergence(tp, tq),
                1e-6,
            )


def constraint_pairs():
    names = [
        n for n in D.constraints.__all__ if isinstance(getattr(D.constraints, n), D.constraints.Constraint)
    ]
    for n in names:
        if n != "dependent":
            yield n, getattr(D.constraints, n), getattr(T.constraints, n)
    for make, values in (
        ("greater_than", (2.0,)),
        ("less_than", (-1.0,)),
        ("interval", (-2.0, 5.0)),
        ("half_open_interval", (0.0, 3.0)),
        ("integer_interval", (1, 4)),
        ("greater_than_eq", (1.5,)),
        ("multinomial", (3,)),
    ):
        yield make, getattr(D.constraints, make)(*values), getattr(T.constraints, make)(*values)


def transforms(rng):
    for name, c, t in constraint_pairs():
        compare("constraint repr", name, lambda: repr(c), lambda: repr(t))
        shape = (4,) + (3,) * c.event_dim
        for x in (
            rng.standard_normal(shape),
            np.zeros(shape),
            np.ones(shape),
            np.eye(3) * np.ones(shape) if c.event_dim == 2 else np.full(shape, 1 / 3),
        ):
            compare("constraint check", name, lambda: c.check(ad.tensor(x)), lambda: t.check(torch.tensor(x)))
        for registry in ("biject_to", "transform_to"):
            f, g = outcome(lambda: getattr(D, registry)(c)), outcome(lambda: getattr(T, registry)(t))
            compare(registry, name, lambda: repr(f), lambda: repr(g))
            if isinstance(f, Exception):
                continue
            x = rng.standard_normal((4,) + (3,) * f.domain.event_dim)
            compare("transform", name, lambda: f(ad.tensor(x)), lambda: g(torch.tensor(x)))
            compare("inverse", name, lambda: f.inv(f(ad.tensor(x))), lambda: g.inv(g(torch.tensor(x))))
            compare(
                "jacobian",
                name,
                lambda: f.log_abs_det_jacobian(ad.tensor(x), f(ad.tensor(x))),
                lambda: g.log_abs_det_jacobian(torch.tensor(x), g(torch.tensor(x))),
            )
            compare(
                "forward_shape",
                name,
                lambda: tuple(f.forward_shape(x.shape)),
                lambda: tuple(g.forward_shape(x.shape)),
            )


def main(rounds=3):
    rng = np.random.default_rng(1)
    compare("names", "__all__", lambda: sorted(D.__all__), lambda: sorted(T.__all__))
    for _ in range(rounds):
        distributions(rng)
        transforms(rng)
    divergences(rng)
    print("\n".join(dict.fromkeys(differing)))
    for kind in dict.fromkeys(k for k, _ in counts):
        print(kind, {what: n for (k, what), n in counts.items() if k == kind})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
