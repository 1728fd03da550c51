"""Densities, distribution functions, moments and entropies against scipy.stats; draws by Kolmogorov-Smirnov and chi-square."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from table import IDS, SCALAR, TABLE, defined

import adjoint as ad

WITH_SCIPY = [(e, i) for e, i in zip(TABLE, IDS) if e.scipy is not None]
ENTRIES = pytest.mark.parametrize("entry", [e for e, _ in WITH_SCIPY], ids=[i for _, i in WITH_SCIPY])
#: Angles: SciPy's moments are those of numbers.
CIRCULAR = ("VonMises",)
UNIVARIATE = [e for e in SCALAR if e.scipy is not None]


def values(entry, n=5):
    ad.manual_seed(3)
    return entry.distribution().sample((n,))


@ENTRIES
def test_log_prob(entry):
    d, reference = entry.distribution(), entry.reference()
    x = values(entry)
    f = reference.logpmf if hasattr(reference, "logpmf") and d.support.is_discrete else reference.logpdf
    y = x.numpy()
    if d.event_shape:
        y = y.reshape((-1, *d.event_shape))
        if entry.name == "Wishart":
            y = np.moveaxis(y, 0, -1)
        if entry.name == "Dirichlet":
            y = y.T
    np.testing.assert_allclose(d.log_prob(x).numpy().ravel(), np.ravel(f(y)), rtol=1e-9, atol=1e-9)


@ENTRIES
def test_moments_and_entropy(entry):
    d, reference = entry.distribution(), entry.reference()
    if entry.name in CIRCULAR:
        assert np.allclose(d.mean.numpy(), entry.parameters["loc"])
        return
    if entry in UNIVARIATE:
        mean, variance = reference.mean(), reference.var()
    else:
        mean = reference.mean() if callable(reference.mean) else reference.mean
        if callable(getattr(reference, "var", None)):
            variance = reference.var()
        else:
            variance = np.diag(reference.cov() if callable(reference.cov) else reference.cov)
    if np.isnan(mean).any():  # of Cauchy: there is none, and the second moment is infinite
        assert np.isnan(d.mean.numpy()).all() and np.isinf(d.variance.numpy()).all()
        return
    np.testing.assert_allclose(d.mean.numpy().reshape(np.shape(mean)), mean, rtol=1e-9)
    np.testing.assert_allclose(d.variance.numpy().reshape(np.shape(variance)), variance, rtol=1e-9)
    entropy = defined(d.entropy)
    if entropy is not None and entry.name != "Poisson":
        np.testing.assert_allclose(
            np.ravel(entropy.numpy()), np.ravel(reference.entropy()), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(d.perplexity().numpy(), np.exp(entropy.numpy()))


@pytest.mark.parametrize("entry", UNIVARIATE, ids=[e.name for e in UNIVARIATE])
def test_cdf_and_icdf(entry):
    d, reference = entry.distribution(), entry.reference()
    x = values(entry)
    cdf = defined(lambda: d.cdf(x))
    if cdf is not None:
        np.testing.assert_allclose(cdf.numpy(), reference.cdf(x.numpy()), rtol=1e-9)
    q = ad.tensor([[0.01], [0.3], [0.5], [0.999]], dtype=ad.float64)
    icdf = defined(lambda: d.icdf(q))
    if icdf is not None:
        np.testing.assert_allclose(icdf.numpy(), reference.ppf(q.numpy()), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(d.cdf(icdf).numpy(), np.broadcast_to(q.numpy(), icdf.shape), rtol=1e-9)


WITH_CDF = [e for e in SCALAR if not e.distribution().support.is_discrete]


@pytest.mark.parametrize("entry", WITH_CDF, ids=[e.name for e in WITH_CDF])
def test_the_density_integrates_to_the_moments(entry):
    """Also of those that SciPy lacks: of the mass, the mean and the variance."""
    d = entry.distribution(validate_args=False)
    if entry.name in ("Cauchy", "HalfCauchy", "VonMises"):
        return
    for i in range(d.batch_shape.numel()):
        # In coordinates in which tails and ends are seen well.
        t = (np.arange(200000) + 0.5) / 200000
        x = np.sinh(np.clip(12 * (2 * t - 1), -12, 12))
        weight = np.cosh(12 * (2 * t - 1)) * 24 / 200000
        if entry.name in ("Beta", "ContinuousBernoulli", "Kumaraswamy", "RelaxedBernoulli"):
            x = 0.5 * (1 + np.tanh(18 * (t - 0.5)))
            weight = x * (1 - x) * 36 / 200000
        elif entry.name not in (
            "Normal",
            "Laplace",
            "Gumbel",
            "StudentT",
            "LogitRelaxedBernoulli",
            "mixture",
        ):
            low = {"Pareto": "scale", "GeneralizedPareto": "loc", "Uniform": "low"}.get(entry.name)
            low = np.broadcast_to(entry.parameters[low], d.batch_shape).ravel()[i] if low else 0.0
            y = np.exp(80 * (t - 0.6))
            x, weight = low + y, y * 80 / 200000
        points = ad.tensor(x).reshape((-1,) + (1,) * len(d.batch_shape))
        density = d.log_prob(points).exp().numpy().reshape(len(x), -1)[:, i] * weight
        density = np.nan_to_num(density)
        assert density.sum() == pytest.approx(1, abs=2e-4)
        mean = defined(lambda: d.mean)
        if mean is not None:
            mean = mean.numpy().ravel()[i]
            assert (density * x).sum() == pytest.approx(mean, rel=1e-3, abs=1e-4)
            variance = d.variance.numpy().ravel()[i]
            if entry.name != "Pareto" and entry.name != "InverseGamma" and entry.name != "StudentT":
                assert (density * (x - mean) ** 2).sum() == pytest.approx(variance, rel=5e-3)
        entropy = defined(d.entropy)
        if entropy is not None:
            log = d.log_prob(points).numpy().reshape(len(x), -1)[:, i]
            assert -(density * np.where(density > 0, log, 0)).sum() == pytest.approx(
                entropy.numpy().ravel()[i], rel=2e-3, abs=2e-3
            )


N = 5000


@pytest.mark.parametrize("entry", SCALAR, ids=[e.name for e in SCALAR])
def test_draws(entry):
    d = entry.distribution()
    ad.manual_seed(11)
    x = d.sample((N,)).numpy()
    assert x.shape == (N, *d.batch_shape)
    for i in range(x.shape[1]):
        sample = x[:, i]
        if d.support.is_discrete:
            top = int(sample.max()) + 1
            support = ad.arange(top, dtype=ad.float64).reshape(-1, 1)
            expected = N * d.log_prob(support).exp().numpy()[:, i]
            seen, often = np.bincount(sample.astype(int), minlength=top), expected > 5
            expected = expected[often] * seen[often].sum() / expected[often].sum()
            p = scipy.stats.chisquare(seen[often], expected).pvalue if often.sum() > 1 else 1.0
        else:
            if entry.scipy is not None:
                cdf = lambda v: entry.scipy(**{k: np.asarray(u)[i] for k, u in entry.parameters.items()}).cdf(
                    v
                )
            else:
                cdf = lambda v: defined(lambda: d.cdf(ad.tensor(v).reshape(-1, 1))).numpy()[:, i]
            if entry.name == "LogitRelaxedBernoulli":
                temperature, probs = (entry.parameters[k][i] for k in ("temperature", "probs"))
                logit = np.log(probs) - np.log1p(-probs)
                cdf = lambda v: 1 / (1 + np.exp(-(v * temperature - logit)))
            if entry.name == "RelaxedBernoulli":
                temperature, probs = (entry.parameters[k][i] for k in ("temperature", "probs"))
                logit = np.log(probs) - np.log1p(-probs)
                cdf = lambda v: 1 / (1 + np.exp(-((np.log(v) - np.log1p(-v)) * temperature - logit)))
            if entry.name in CIRCULAR:  # SciPy counts from half a turn before the mean direction
                loc = entry.parameters["loc"][i]
                sample = (sample - loc + np.pi) % (2 * np.pi) - np.pi + loc
            p = scipy.stats.kstest(sample, cdf).pvalue
        assert p > 1e-3


VECTORS = [(e, i) for e, i in zip(TABLE, IDS) if e not in SCALAR and e.name != "Categorical"]


@pytest.mark.parametrize("entry", [e for e, _ in VECTORS], ids=[i for _, i in VECTORS])
def test_draws_of_vectors_have_their_means_and_variances(entry):
    d = entry.distribution()
    ad.manual_seed(5)
    x = d.sample((N,))
    assert x.shape == (N, *d.batch_shape, *d.event_shape)
    assert d.support.check(x.float() if entry.name == "LKJCholesky" else x).all()
    away = (x - x.mean(0)).square()
    for found, of in ((x, lambda: d.mean), (away, lambda: d.variance)):
        expected = defined(of)
        if expected is not None:
            slack = 4.5 * found.std(0) / N**0.5 + 1e-9
            assert ((found.mean(0) - expected).abs() <= slack).all()


def test_draws_of_categories_come_as_often_as_they_should():
    ad.manual_seed(5)
    d = next(e for e in TABLE if e.name == "Categorical").distribution()
    x = d.sample((N,)).numpy()
    for i, probs in enumerate(d.probs.numpy()):
        assert scipy.stats.chisquare(np.bincount(x[:, i], minlength=3), N * probs).pvalue > 1e-3


@pytest.mark.parametrize("eta", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_correlations_of_lkj_are_beta_variables(dim, eta):
    """Each of them: 2 Beta(b, b) - 1 with b = eta + dim/2 - 1 (Lewandowski, Kurowicka and Joe, 2009)."""
    ad.manual_seed(2)
    factor = ad.distributions.LKJCholesky(dim, ad.tensor(eta, dtype=ad.float64)).sample((3000,))
    matrix = (factor @ factor.mT).numpy()
    b = eta + dim / 2 - 1
    for i in range(dim):
        for j in range(i):
            assert scipy.stats.kstest((matrix[:, i, j] + 1) / 2, scipy.stats.beta(b, b).cdf).pvalue > 1e-3
