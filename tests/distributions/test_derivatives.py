"""Derivatives: of log probabilities by gradcheck, of draws against the distribution function at fixed probability."""

import math

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from table import IDS, SCALAR, TABLE, defined

import adjoint as ad
from adjoint import distributions as D
from adjoint.autograd import gradcheck
from adjoint.distributions._functions import (
    VonMisesDraw,
    circular_variance,
    gammainc,
    log_bessel0e,
    von_mises_grad,
)


@pytest.mark.parametrize("entry", TABLE, ids=IDS)
def test_log_prob_entropy_and_moments(entry):
    d = entry.distribution()
    ad.manual_seed(4)
    x = d.sample((2,))
    tensors = entry.tensors(requires_grad=True)
    names = [k for k, v in tensors.items() if isinstance(v, ad.Tensor) and v.requires_grad]
    moves = not d.support.is_discrete and entry.name not in ("Wishart", "LKJCholesky")
    inside = (
        moves
        and d.support.event_dim == 0
        or entry.name in ("MultivariateNormal", "LowRankMultivariateNormal")
    )

    def of(*values):
        new = dict(zip(names, values))
        p = entry.make(**{**tensors, **new}, validate_args=False)
        results = [p.log_prob(values[-1] if inside else x)]
        for f in (p.entropy, lambda: p.mean, lambda: p.variance):
            result = defined(f)
            if result is not None and result.isfinite().all() and result.requires_grad:
                results.append(result)
        return tuple(results)

    values = [tensors[k] for k in names] + ([x.detach().requires_grad_()] if inside else [])
    assert gradcheck(of, values, fast_mode=True)


def cdf_of(entry, d):
    """The distribution function of floats, from SciPy, or the distribution's own."""
    if entry.scipy is not None:
        return lambda parameters, x: entry.scipy(**parameters).cdf(x)
    if defined(lambda: d.cdf(d.sample())) is None:
        return None
    return lambda parameters, x: (
        entry.make(**{k: ad.tensor(v) for k, v in parameters.items()}).cdf(ad.tensor(x)).numpy()
    )


PATHWISE = [e for e in SCALAR if e.distribution().has_rsample and cdf_of(e, e.distribution()) is not None]


@pytest.mark.parametrize("entry", PATHWISE, ids=[e.name for e in PATHWISE])
def test_draws_move_as_the_distribution_function_says(entry):
    """At a fixed probability, dF/dθ + f dx/dθ = 0; a draw of several independent variables obeys it in the mean only."""
    ad.manual_seed(8)
    tensors = entry.tensors(requires_grad=True)
    d = entry.make(**tensors)
    many = entry.name in ("FisherSnedecor", "StudentT", "Beta", "Laplace")
    x = d.rsample((20000 if many else 50,))
    cdf = cdf_of(entry, d)
    parameters = {k: v.detach().numpy() for k, v in tensors.items()}
    for name, value in parameters.items():
        if not tensors[name].requires_grad:
            continue
        if many:  # by the mean of cos x, whose derivative is that of an integral of F
            seen = x[:, 0].clamp(-5, 5).cos().sum() / len(x)
            found = ad.autograd.grad(seen, tensors[name], retain_graph=True)[0][0].item()
            grid = np.linspace(-5, 5, 20001)
            h = 1e-5
            moved = [cdf({**parameters, name: value + s * h}, grid[:, None])[:, 0] for s in (1, -1)]
            by = (moved[0] - moved[1]) / (2 * h)
            expected = (
                np.trapezoid(np.sin(grid) * by, grid)
                if hasattr(np, "trapezoid")
                else np.trapz(np.sin(grid) * by, grid)
            )
            each = 1.5 / math.sqrt(len(x))
            assert abs(found - expected) < 4 * each * max(1, abs(expected)), name
            continue
        (found,) = ad.autograd.grad(x.sum(), tensors[name], retain_graph=True)
        rows = x.detach().numpy()
        if entry.name == "VonMises":  # SciPy counts from half a turn before the mean direction
            loc = parameters["loc"]
            rows = (rows - loc + np.pi) % (2 * np.pi) - np.pi + loc
        h = 1e-6 * np.maximum(1e-2, np.abs(value))
        up, down = (cdf({**parameters, name: value + s * h}, rows) for s in (1, -1))
        density = d.log_prob(x).exp().detach().numpy()
        expected = (-(up - down) / (2 * h) / density).sum(0)
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("kappa", [1e-3, 0.5, 2.0, 30.0, 500.0, 1e5])
@pytest.mark.parametrize("turn", [0.1, 0.7, 1.5, 4.0])
def test_the_derivative_of_a_von_mises_draw(kappa, turn):
    x = min(turn / max(1.0, math.sqrt(kappa)), math.pi - 1e-3)
    with mpmath.workdps(50):
        k = mpmath.mpf(kappa)
        a = mpmath.besseli(1, k) / mpmath.besseli(0, k)
        f = lambda t: (mpmath.cos(t) - a) * mpmath.exp(k * (mpmath.cos(t) - mpmath.cos(x)))
        expected = -mpmath.quad(f, mpmath.linspace(0, x, 9))
    found = von_mises_grad(ad.tensor(kappa, dtype=ad.float64), ad.tensor(x, dtype=ad.float64)).item()
    assert found == pytest.approx(float(expected), rel=1e-9)


def test_a_von_mises_draw_can_be_differentiated_twice():
    """Against second differences of quantiles."""
    kappa, p, h = np.array([0.5, 3.0]), np.array([0.8, 0.3]), 1e-2
    quantile = lambda k: np.array(
        [
            scipy.optimize.brentq(lambda x: scipy.stats.vonmises.cdf(x, a) - b, -3, 3, xtol=1e-14)
            for a, b in zip(k, p)
        ]
    )
    k = ad.tensor(kappa, requires_grad=True)
    draw = VonMisesDraw.apply(k, ad.tensor(quantile(kappa)))
    (first,) = ad.autograd.grad(draw.sum(), k, create_graph=True)
    (second,) = ad.autograd.grad(first.sum(), k)
    low, mid, high = (quantile(kappa + s * h) for s in (-1, 0, 1))
    np.testing.assert_allclose(first.detach().numpy(), (high - low) / (2 * h), rtol=1e-3)
    np.testing.assert_allclose(second.numpy(), (high - 2 * mid + low) / h**2, rtol=2e-3)


@pytest.mark.parametrize("x", [0.0, 1e-8, 0.3, 5.0, 199.0, 201.0, 1e4, 1e8])
def test_bessel_functions(x):
    with mpmath.workdps(60):
        i0, i1 = mpmath.besseli(0, x), mpmath.besseli(1, x)
        log0, variance = mpmath.log(i0) - x, 1 - i1 / i0
    t = ad.tensor(x, dtype=ad.float64)
    assert log_bessel0e(t).item() == pytest.approx(float(log0), rel=1e-13, abs=1e-15)
    assert circular_variance(t).item() == pytest.approx(float(variance), rel=1e-13)


@pytest.mark.parametrize("a", [1e-3, 0.5, 1.0, 7.0, 300.0])
def test_the_incomplete_gamma_function(a):
    x = ad.tensor([0.0, 1e-5, 0.3 * a, a, 1.5 * a + 1, 5 * a + 30, math.inf], dtype=ad.float64)
    expected = [
        float(mpmath.gammainc(a, 0, v, regularized=True)) if v < math.inf else 1.0 for v in x.tolist()
    ]
    a = ad.tensor(a, dtype=ad.float64)
    np.testing.assert_allclose(gammainc(a, x).numpy(), expected, rtol=1e-11)
    inner = x[2:5].clone().requires_grad_()
    assert gradcheck(gammainc, (a.requires_grad_(), inner), rtol=1e-4)


EDGES = [
    (D.Gamma, (1.0, 2.0), 0.0),
    (D.Chi2, (2.0,), 0.0),
    (D.Beta, (1.0, 1.0), 0.0),
    (D.Beta, (1.0, 3.0), 0.0),
    (D.Beta, (3.0, 1.0), 1.0),
    (D.Kumaraswamy, (1.0, 1.0), 1.0),
    (D.Exponential, (2.0,), 0.0),
    (D.Poisson, (0.0,), 0.0),
    (D.Geometric, (1.0,), 0.0),
    (D.Laplace, (0.0, 1.0), 0.0),
    (D.HalfNormal, (1.0,), 0.0),
    (D.HalfCauchy, (1.0,), 0.0),
    (D.Uniform, (0.0, 1.0), 0.0),
    (D.Pareto, (1.0, 2.0), 1.0),
    (D.GeneralizedPareto, (0.0, 1.0, 0.0), 0.0),
    (D.GeneralizedPareto, (0.0, 1.0, -0.5), 0.0),
    (D.ContinuousBernoulli, (0.5,), 0.0),
    (D.ContinuousBernoulli, (0.5,), 1.0),
    (D.Bernoulli, (0.0,), 0.0),
    (D.Bernoulli, (1.0,), 1.0),
    (D.StudentT, (1.0,), 0.0),
]


@pytest.mark.parametrize("make, parameters, x", EDGES)
def test_no_gradient_is_nan_at_the_edge(make, parameters, x):
    parameters = [ad.tensor(p, dtype=ad.float64, requires_grad=True) for p in parameters]
    x = ad.tensor(x, dtype=ad.float64, requires_grad=True)
    log_prob = make(*parameters).log_prob(x)
    assert log_prob.isfinite()
    for g in ad.autograd.grad(log_prob, [*parameters, x], allow_unused=True):
        assert g is None or not g.isnan()


def test_the_gradient_goes_straight_through():
    probs = ad.tensor([0.2, 0.3, 0.5], dtype=ad.float64, requires_grad=True)
    d = D.OneHotCategoricalStraightThrough(probs)
    draw = d.rsample((4,))
    assert ((draw > 0.5).sum(-1) == 1).all()
    (found,) = ad.autograd.grad((draw * ad.tensor([1.0, 2.0, 3.0])).sum(), probs)
    (expected,) = ad.autograd.grad((D.Categorical(probs).probs * ad.tensor([1.0, 2.0, 3.0])).sum() * 4, probs)
    assert ad.allclose(found, expected)
