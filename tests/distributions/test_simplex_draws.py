"""Gradients of draws from beta and Dirichlet distributions: those at fixed probability, against mpmath and by their variance."""

import time

import mpmath as mp
import numpy as np
import pytest

import adjoint as ad

D = ad.distributions


def slope(x, a, b):
    """dx/da of a draw from Beta(a, b), over 1 - x: -(∂I/∂a) / f / (1 - x)."""
    x, a, b = mp.mpf(x), mp.mpf(a), mp.mpf(b)
    h = a * mp.mpf(10) ** -20
    rise = mp.betainc(a + h, b, 0, x, regularized=True) - mp.betainc(a - h, b, 0, x, regularized=True)
    return -rise / (2 * h) * mp.beta(a, b) / (x ** (a - 1) * (1 - x) ** b)


@pytest.mark.parametrize(("dtype", "error"), [(ad.float64, 1e-12), (ad.float32, 1.2e-7)], ids=str)
@pytest.mark.parametrize("size", [1, 30, 1000])
def test_slopes_against_mpmath(dtype, error, size):
    rng = np.random.default_rng(size)
    a, b = (ad.tensor(size ** rng.uniform(-1, 1, 25), dtype=dtype) for _ in range(2))
    x = ad.tensor(rng.beta(a.numpy(), b.numpy()), dtype=dtype).clamp(1e-30, 1 - 2**-20)
    found = ad._C._dirichlet_slope(x, a, b)
    with mp.workdps(60):
        for got, *at in zip(found.tolist(), x.tolist(), a.tolist(), b.tolist(), strict=True):
            expected = slope(*at)
            assert abs(got - expected) <= error * abs(expected), at


@pytest.mark.parametrize(
    ("x", "a", "b", "expected"),
    [
        (1 - 1e-6, 1e6, 1.0, 9.999994999998334e-07),  # mpmath
        (0.99999, 1e6, 40.0, 9.999755006268146e-07),
        (0.5, 1e6, 1e6, 5.0000016666668e-07),  # 1 / (2 s) / (1 - x), and what the next order adds
        (0.5, 1e10, 1e10, 5e-11),
        (0.0, 2.0, 3.0, 0.0),
        (1.0, 2.0, 1e-3, 0.64473209223139),  # the limit, (ψ(a + b) - ψ(a)) / b
    ],
)
def test_far_parameters_and_ends(x, a, b, expected):
    found = ad._C._dirichlet_slope(*(ad.tensor(v, dtype=ad.float64) for v in (x, a, b)))
    assert found.item() == pytest.approx(expected, rel=1e-8, abs=0)


def test_shares_of_many():
    """Small shares, up to some deviations beyond their mean: a short sum serves, and is as exact."""
    rng = np.random.default_rng(5)
    a, b = rng.uniform(0.5, 3, 40).astype(np.float32), np.float32(1000)
    x = rng.gamma(a, size=40).astype(np.float32) * np.linspace(0.2, 2, 40, dtype=np.float32) / b
    found = ad._C._dirichlet_slope(*(ad.tensor(v) for v in np.broadcast_arrays(x, a, b)))
    mirrored = ad._C._dirichlet_slope(*(ad.tensor(v) for v in np.broadcast_arrays(np.float32(1) - x, b, a)))
    with mp.workdps(60):
        for got, other, v, p in zip(found.tolist(), mirrored.tolist(), x, a, strict=True):
            expected = slope(float(v), float(p), float(b))
            assert abs(got - expected) <= 1.2e-7 * abs(expected), (v, p)
            expected = slope(float(np.float32(1) - v), float(b), float(p))
            assert abs(other - expected) <= 1.2e-7 * abs(expected), (v, p)
    c = ad.ones(64, 512, requires_grad=True)
    start = time.process_time()
    D.Dirichlet(c).rsample().square().sum().backward()
    assert time.process_time() - start < 0.5  # a sum of thousands of terms for each share took twice as long


@pytest.mark.parametrize("concentration", [[5.0, 5.0, 5.0], [0.5, 2.0, 8.0]])
def test_gradients_of_draws(concentration):
    """Without bias, and of no more variance than the variable at fixed probability has."""
    c = ad.tensor(concentration, dtype=ad.float64).expand(20000, 3).clone().requires_grad_()
    ad.manual_seed(0)
    x = D.Dirichlet(c).rsample()
    (found,) = ad.autograd.grad(x[:, 0].sum(), c)
    total, first = sum(concentration), concentration[0]
    expected = [(total - first) / total**2] + [-first / total**2] * 2  # of the mean
    mean, error = found.mean(0), found.std(0) / len(found) ** 0.5
    assert ((mean - ad.tensor(expected)).abs() < 4 * error).all()
    if first == 5:
        assert found[:, 0].std() < 0.0036  # 0.0067 by way of gamma variables


def test_beta_draws_move_at_fixed_probability():
    a = ad.tensor([0.7, 3.0, 20.0], dtype=ad.float64, requires_grad=True)
    b = ad.tensor([2.0, 0.4, 30.0], dtype=ad.float64, requires_grad=True)
    x = D.Beta(a, b).rsample()
    for parameter, swapped in ((a, False), (b, True)):
        (found,) = ad.autograd.grad(x.sum(), parameter, retain_graph=True)
        with mp.workdps(40):
            for got, v, p, q in zip(found.tolist(), x.tolist(), a.tolist(), b.tolist(), strict=True):
                v = mp.mpf(v)
                expected = -slope(1 - v, q, p) * v if swapped else slope(v, p, q) * (1 - v)
                assert got == pytest.approx(float(expected), rel=1e-9)


def test_only_the_second_derivative_is_refused():
    a = ad.tensor([2.0, 3.0], requires_grad=True)
    (found,) = ad.autograd.grad(D.Dirichlet(a).rsample()[0], a, create_graph=True)
    with pytest.raises(NotImplementedError, match="_dirichlet_slope"):
        ad.autograd.grad(found.sum(), a)
