"""Incomplete gamma functions, zeta and orthogonal polynomials against mpmath and SciPy, and which of their derivatives are refused.

Errors are counted in units in the last place, and shared by how much the function magnifies the rounding of x. Start reading at
`far_off`.
"""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from bessel_reference import hurwitz
from helpers import check_derivatives, tensor, uniform

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck

S = ad.special
RANDOM = np.random.default_rng(5)
ORDERS = np.concatenate(
    [np.exp(RANDOM.uniform(-8, 8, 150)), RANDOM.uniform(0.1, 30, 150), RANDOM.uniform(100, 1e5, 50)]
)
PLACES = ORDERS * np.exp(RANDOM.normal(0, 0.5, ORDERS.size)) * (np.arange(ORDERS.size) < 300) + (
    ORDERS + 2 * np.sqrt(ORDERS)
) * (np.arange(ORDERS.size) >= 300)


def density(a, x):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def far_off(found, true, magnified=0):
    """The error in units in the last place, shared by 1 + |x f'(x) / f(x)|."""
    if abs(true) < mp.mpf("1e-300"):
        return 0.0
    unit = np.spacing(abs(float(true)))
    return float(abs(mp.mpf(float(found)) - true) / unit / (1 + abs(magnified)))


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma(upper):
    call = S.gammaincc if upper else S.gammainc
    worst = (0.0,)
    with mp.workdps(30):
        for a, x, found in zip(ORDERS, PLACES, call(tensor(ORDERS), tensor(PLACES)).tolist()):
            A, X = mp.mpf(a), mp.mpf(x)
            limits = (X, mp.inf) if upper else (0, X)
            true = mp.gammainc(A, *limits, regularized=True)
            if true > mp.mpf("1e-300"):
                worst = max(worst, (far_off(found, true, X * density(A, X) / true), a, x, found))
    assert worst[0] <= 8, worst


def test_the_density_that_is_its_derivative():
    worst = (0.0,)
    x = tensor(PLACES, requires_grad=True)
    (slope,) = ad.autograd.grad(S.gammainc(tensor(ORDERS), x).sum(), x)
    with mp.workdps(30):
        for a, at, found in zip(ORDERS, PLACES, slope.tolist()):
            A, X = mp.mpf(a), mp.mpf(at)
            worst = max(worst, (far_off(found, density(A, X), A - 1 - X), a, at, found))
    assert worst[0] <= 12, worst


def test_incomplete_gamma_at_the_ends():
    inf, nan = math.inf, math.nan
    for a, x, p in (
        (0, 0, nan), (0, 1, 1), (1, 0, 0), (inf, 1, 0), (inf, inf, nan), (1, inf, 1), (-1, 1, nan), (1, -1, nan), (nan, 1, nan),
        (1, nan, nan), (1e-300, 1e-300, 1), (1e10, 1e10, 0.5000013298076013), (200, 200, float(mp.gammainc(200, 0, 200, regularized=True))),
    ):  # fmt: skip
        pair = ad.tensor(float(a), dtype=ad.float64), ad.tensor(float(x), dtype=ad.float64)
        for value, wanted in ((ad.igamma(*pair), p), (ad.igammac(*pair), 1 - p)):
            np.testing.assert_allclose(value.item(), wanted, rtol=1e-14, atol=1e-290)
    # Beside 1, the other one keeps its digits.
    tiny = S.gammaincc(ad.tensor(1e-12, dtype=ad.float64), ad.tensor(0.25, dtype=ad.float64)).item()
    np.testing.assert_allclose(tiny, float(mp.gammainc(mp.mpf(1e-12), 0.25, regularized=True)), rtol=1e-13)
    x = ad.tensor([1.0, 2.0])
    assert x.igamma_(ad.tensor([1.0, 1.0])) is x and x.tolist() == pytest.approx([1 - 1 / math.e, 0.26424112])


def test_derivatives_by_place():
    a, x = tensor(uniform(0.5, 5, 6)), tensor(uniform(0.5, 5, 6, seed=1), requires_grad=True)
    for f in (ad.igamma, ad.igammac):
        assert gradcheck(lambda x, f=f: f(a, x), (x,), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(lambda x, f=f: f(a, x), (x,))
    s = tensor(uniform(1.5, 5, 6))
    assert gradgradcheck(lambda q: S.zeta(s, q), (x,))


@pytest.mark.parametrize("call, name", [(ad.igamma, "igamma"), (ad.igammac, "igammac"), (S.zeta, "_zeta")])
def test_derivatives_that_are_refused(call, name):
    a = ad.tensor([2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=name):
        call(a, ad.ones(1)).sum().backward()


def test_zeta():
    s = np.concatenate(
        [RANDOM.uniform(1.001, 30, 100), RANDOM.integers(2, 9, 60).astype(float), [1.0000001, 40.0, 60.0]]
    )
    q = np.concatenate([np.exp(RANDOM.uniform(-3, 5, 100)), RANDOM.uniform(-8, 8, 60), [1.0, 1.0, 0.25]])
    worst = (0.0,)
    with mp.workdps(40):
        for a, b, found in zip(s, q, S.zeta(tensor(s), tensor(q)).tolist()):
            # Left of 0, terms of both signs may cancel.
            size = hurwitz(mp.mpf(a), abs(mp.mpf(b) - round(b))) if b < 0 else 0
            true = hurwitz(mp.mpf(a), mp.mpf(b))
            worst = max(worst, (far_off(found, true, size / true), a, b, found))
    assert worst[0] <= 6, worst
    inf, nan = math.inf, math.nan
    for a, b, wanted in (
        (1, 2, inf),
        (0.5, 2, nan),
        (2, 0, inf),
        (2, -3, inf),
        (2.5, -0.5, nan),
        (2, inf, 0),
        (nan, 1, nan),
    ):
        np.testing.assert_array_equal(S.zeta(ad.tensor(float(a)), float(b)).item(), wanted)
    assert S.zeta(2, ad.tensor(1.0)).item() == pytest.approx(math.pi**2 / 6)


POLYNOMIALS = {
    "chebyshev_polynomial_t": scipy.special.eval_chebyt,
    "chebyshev_polynomial_u": scipy.special.eval_chebyu,
    # cos((n + 1/2) t) / cos(t / 2) and sin((n + 1/2) t) / sin(t / 2), x = cos t
    "chebyshev_polynomial_v": lambda n, x: np.cos((n + 0.5) * np.arccos(x)) / np.cos(np.arccos(x) / 2),
    "chebyshev_polynomial_w": lambda n, x: np.sin((n + 0.5) * np.arccos(x)) / np.sin(np.arccos(x) / 2),
    "shifted_chebyshev_polynomial_t": scipy.special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": scipy.special.eval_sh_chebyu,
    "hermite_polynomial_h": scipy.special.eval_hermite,
    "hermite_polynomial_he": scipy.special.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.special.eval_laguerre,
    "legendre_polynomial_p": scipy.special.eval_legendre,
}
for _kind in "vw":
    POLYNOMIALS[f"shifted_chebyshev_polynomial_{_kind}"] = lambda n, x, kind=_kind: POLYNOMIALS[
        f"chebyshev_polynomial_{kind}"
    ](n, 2 * x - 1)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials(name):
    call, reference = getattr(S, name), POLYNOMIALS[name]
    x = uniform(0.05, 0.95, 7)
    for n in (0, 1, 2, 3, 10, 25):
        np.testing.assert_allclose(call(tensor(x), n).numpy(), reference(n, x), rtol=1e-11, atol=1e-12)
    degrees = np.array([0, 1, 2, 3, 4, 5, -2])
    wanted = np.where(degrees < 0, 0, reference(np.maximum(degrees, 0), x))
    np.testing.assert_allclose(call(tensor(x), tensor(degrees)).numpy(), wanted, rtol=1e-12, atol=1e-13)
    check_derivatives(lambda x: call(x, 4), [x])
    check_derivatives(lambda x: call(x, 1), [x])
    # All derivatives are known: the fourth of degree four is a constant, the fifth is none.
    y = t = tensor(x[:1], requires_grad=True)
    y = call(t, 4)
    for _ in range(4):
        (y,) = ad.autograd.grad(y.sum(), t, create_graph=True)
    highest = np.polyfit(np.linspace(0, 1, 5), call(tensor(np.linspace(0, 1, 5)), 4).numpy(), 4)[0]
    np.testing.assert_allclose(y.item(), 24 * highest, rtol=1e-8)
    assert ad.autograd.grad(y.sum(), t)[0].item() == 0
    assert math.isnan(call(ad.tensor(math.nan), 3).item()) and math.isnan(call(ad.tensor(0.5), 1e9).item())
