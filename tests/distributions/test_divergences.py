"""Every registered Kullback-Leibler divergence against the mean of log p - log q over draws; dispatch."""

import warnings

import numpy as np
import pytest
from table import TABLE

import adjoint as ad
from adjoint import distributions as D
from adjoint.distributions import kl

N = 40000


def random_of(cls, seed):
    """A distribution of a class, with parameters near to those of the table."""
    entry = next(e for e in TABLE if e.make is cls)
    rng = np.random.default_rng(seed)
    parameters = {}
    for k, v in entry.tensors().items():
        if isinstance(v, ad.Tensor) and k not in ("covariance_matrix",):
            v = v * ad.tensor(np.exp(0.15 * rng.standard_normal(v.shape)))
            v = v.clamp(max=0.95) if k == "probs" else v
            if v.dim() and v.shape[0] > 2:
                v = v[:2]
        parameters[k] = v
    return entry.make(**parameters)


FAMILIES = {
    D.ExponentialFamily: [
        D.Exponential,
        D.Gamma,
        D.Normal,
        D.Poisson,
        D.Bernoulli,
        D.Beta,
        D.Dirichlet,
        D.ContinuousBernoulli,
        D.Wishart,
    ],
    D.TransformedDistribution: [D.LogNormal],
    D.Independent: [],
}
PAIRS = [
    (p, q, rule)
    for (a, b), rule in kl._KL_REGISTRY.items()
    for p, q in (zip(FAMILIES[a], FAMILIES[b]) if a in FAMILIES else [(a, b)])
    if a.__module__.startswith("adjoint.")
]


@pytest.mark.parametrize("p, q, rule", PAIRS, ids=[f"{p.__name__}-{q.__name__}" for p, q, _ in PAIRS])
def test_the_mean_over_draws(p, q, rule):
    p, q = random_of(p, 1), random_of(q, 2)
    if isinstance(p, D.Pareto):  # so that the variance is finite, and of the ratio too
        p = D.Pareto(p.scale + 3, p.alpha + 6)
    if isinstance(q, D.Uniform) and isinstance(p, (D.Beta, D.ContinuousBernoulli, D.Uniform)):
        q = D.Uniform(q.low.clamp(max=-1), q.high.clamp(min=5))
    if isinstance(p, D.Uniform) and not isinstance(q, D.Uniform):
        p = D.Uniform(p.low * 0 + 0.6, p.low * 0 + 0.9)
    if isinstance(p, D.LogNormal):
        q = p.expand(p.batch_shape)
        q = D.TransformedDistribution(D.Normal(p.loc + 0.3, p.scale * 1.2), q.transforms)
    ad.manual_seed(6)
    x = p.sample((N,))
    with ad.no_grad():
        q._validate_args = False
        difference = p.log_prob(x) - q.log_prob(x)
    found = rule(p, q)
    assert found.shape == difference.shape[1:]
    outside = (
        ~q.support.check(x) if not isinstance(q, D.Wishart) else ad.zeros_like(difference, dtype=ad.bool)
    )
    infinite = outside.any(0) | difference.isinf().any(0)
    if isinstance(p, D.Poisson) and not isinstance(q, D.Poisson):  # too rare to be among the draws
        infinite = ad.ones_like(infinite)
    assert ad.equal(found.isinf(), infinite.expand(found.shape))
    finite = ~infinite
    difference = ad.where(finite, difference, ad.zeros_like(difference))
    slack = 5 * difference.std(0) / N**0.5 + 1e-9
    error = ad.where(finite, found - difference.mean(0), ad.zeros_like(found)).abs()
    assert (error <= slack).all()
    assert (found >= -1e-12).all()


def test_a_divergence_from_itself_is_zero():
    for entry in TABLE:
        p = entry.distribution()
        try:
            divergence = D.kl_divergence(p, p)
        except NotImplementedError:
            continue
        assert divergence.shape == p.batch_shape
        np.testing.assert_allclose(divergence.numpy(), 0, atol=1e-12, err_msg=entry.name)


def test_independent_sums():
    p = D.Independent(D.Normal(ad.zeros(2, 3), 1.0), 1)
    q = D.Independent(D.Normal(ad.ones(2, 3), 1.0), 1)
    assert ad.equal(D.kl_divergence(p, q), ad.full((2,), 1.5))


def test_the_most_specific_rule_is_taken_and_ambiguity_is_told():
    class P(D.Normal):
        pass

    class Q(D.Normal):
        pass

    try:
        D.register_kl(P, D.Normal)(lambda p, q: 1)
        D.register_kl(D.Normal, Q)(lambda p, q: 2)
        assert D.kl_divergence(P(0.0, 1.0), D.Normal(0.0, 1.0)) == 1
        with pytest.warns(
            RuntimeWarning, match=r"Ambiguous kl_divergence\(P, Q\). Please register_kl\(P, Q\)"
        ):
            assert D.kl_divergence(P(0.0, 1.0), Q(0.0, 1.0)) == 1
        D.register_kl(P, Q)(lambda p, q: 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(P(0.0, 1.0), Q(0.0, 1.0)) == 3
    finally:
        for key in [k for k in kl._KL_REGISTRY if P in k or Q in k]:
            del kl._KL_REGISTRY[key]
        kl._KL_MEMOIZE.clear()


def test_refusals():
    with pytest.raises(NotImplementedError, match="No KL.* p type Normal and q type Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        D.register_kl(3, D.Normal)


def test_a_rule_may_name_a_class_that_is_no_distribution_itself():
    class Mixin:
        pass

    class Mine(Mixin, D.Normal):
        pass

    try:
        D.register_kl(Mixin, D.Normal)(lambda p, q: 1)
        assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)) == 1
    finally:
        del kl._KL_REGISTRY[Mixin, D.Normal]
        kl._KL_MEMOIZE.clear()
