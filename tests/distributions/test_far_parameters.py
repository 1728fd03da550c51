"""Distributions at parameters and values far out, and what is derived of exponential families. References from mpmath."""

import mpmath
import pytest

import adjoint as ad
from adjoint import distributions as D
from adjoint.distributions.exp_family import ExponentialFamily

LOGITS = [-1e20, -1e12, -1e4, -30.0, -1.0, -0.1, 1e-3, 0.5, 40.0, 1e4, 1e12, 1e20]


def exact(logit, value):
    """Log density, mean and variance."""
    with mpmath.workdps(60):
        x, v = mpmath.mpf(logit), mpmath.mpf(value)
        normalizer = mpmath.log(abs(mpmath.expm1(-abs(x)) / x)) + max(x, 0)
        mean = -1 / mpmath.expm1(-x) - 1 / x if x > -1e5 else -1 / x
        h = mpmath.exp(-abs(x))
        return float(v * x - normalizer), float(mean), float(1 / x**2 - h / (1 - h) ** 2)


@pytest.mark.parametrize("logit", LOGITS)
@pytest.mark.parametrize("dtype, digits", [(ad.float32, 3e-6), (ad.float64, 1e-13)], ids=str)
def test_continuous_bernoulli(logit, dtype, digits):
    logits = ad.tensor(logit, dtype=dtype, requires_grad=True)
    d = D.ContinuousBernoulli(logits=logits)
    for value in (0.0, 0.25, 1.0):
        density, mean, variance = exact(logits.item(), value)
        found = d.log_prob(ad.tensor(value, dtype=dtype))
        assert found.item() == pytest.approx(density, rel=digits, abs=digits)
        (slope,) = ad.autograd.grad(found, logits)
        assert slope.item() == pytest.approx(value - mean, rel=100 * digits, abs=digits)
    assert d.mean.item() == pytest.approx(mean, rel=100 * digits, abs=digits)
    assert d.variance.item() >= 0 and d.variance.item() == pytest.approx(
        variance, rel=1e3 * digits, abs=digits
    )
    assert all(g.isfinite() for g in ad.autograd.grad(d.mean + d.variance, logits))


FAMILIES = [
    D.Beta(ad.tensor([0.5, 2.0]), ad.tensor([3.0, 4.0])),
    D.Dirichlet(ad.tensor([[0.5, 2.0, 3.0], [1.0, 4.0, 2.0]])),
    D.Gamma(ad.tensor([0.5, 2.0]), ad.tensor([3.0, 4.0])),
    D.Normal(ad.tensor([0.5, 2.0]), ad.tensor([3.0, 4.0])),
    D.Exponential(ad.tensor([0.5, 2.0])),
    D.Bernoulli(ad.tensor([0.5, 0.2])),
    D.ContinuousBernoulli(ad.tensor([0.3, 0.8])),
    D.Wishart(ad.tensor(5.0), covariance_matrix=ad.tensor([[2.0, 0.5], [0.5, 1.0]])),
]


@pytest.mark.parametrize("d", FAMILIES, ids=lambda d: type(d).__name__)
def test_the_entropy_of_the_family_is_that_of_the_distribution(d):
    assert ad.allclose(ExponentialFamily.entropy(d), d.entropy(), atol=1e-4)


def test_gamma_takes_numbers():
    assert D.Gamma(ad.tensor(1.0), ad.tensor(1.0)).log_prob(1).item() == -1
    assert D.Chi2(ad.tensor(1.0)).log_prob(1).item() == pytest.approx(-1.4189385)


def test_probabilities_of_nan_end():
    """A series that waits for its sum to stand still would wait for NaN for ever."""
    for made in (D.Gamma(2.0, 1.0, validate_args=False), D.Gamma(-0.5, 1.0, validate_args=False)):
        assert made.cdf(ad.tensor([float("nan"), -1.0])).isnan().all()
    assert D.Chi2(3.0).cdf(ad.tensor(float("inf"))).item() == 1


def test_ends_of_supports_have_probabilities():
    for made in (D.LogNormal(0.0, 1.0), D.Weibull(1.0, 2.0), D.InverseGamma(1.0, 1.0)):
        assert made.cdf(ad.tensor(0.0)).item() == 0
        with pytest.raises(ValueError, match="within the support|invalid values"):
            made.log_prob(ad.tensor(-1.0))
    with pytest.raises(ValueError, match="within the support"):
        D.LogNormal(0.0, 1.0).cdf(ad.tensor(-1.0))


def test_parameters_of_the_common_shape_are_kept_themselves():
    loc = ad.zeros(3, requires_grad=True)
    made = D.Normal(loc, 1.0)
    assert made.loc is loc and ad.broadcast_tensors(loc, ad.ones(1))[0] is loc
    made.log_prob(ad.ones(3)).sum().backward()
    assert made.loc.grad.tolist() == [1.0, 1.0, 1.0]
