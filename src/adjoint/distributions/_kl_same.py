"""Kullback-Leibler divergences within a family. Start reading at `_normal`."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint.distributions.bernoulli import Bernoulli
from adjoint.distributions.beta import Beta
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.cauchy import Cauchy
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.dirichlet import Dirichlet
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.geometric import Geometric
from adjoint.distributions.gumbel import Gumbel
from adjoint.distributions.half_normal import HalfNormal
from adjoint.distributions.independent import Independent
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.laplace import Laplace
from adjoint.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal, _low_rank_log_det
from adjoint.distributions.multivariate_normal import MultivariateNormal, _half_log_det
from adjoint.distributions.normal import Normal
from adjoint.distributions.one_hot_categorical import OneHotCategorical
from adjoint.distributions.pareto import Pareto
from adjoint.distributions.poisson import Poisson
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import _softplus, _sum_rightmost, euler_constant
from adjoint.linalg import solve_triangular


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """F. Chyzak and F. Nielsen, 2019."""
    distance = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return (distance / (4 * p.scale * q.scale)).log()


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - 1 - ratio.log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    moment = (ad.lgamma(1 + ratio) - away).exp()
    return away + moment - ratio.log() + (ratio - 1) * euler_constant - 1


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    log_ratio = (p.rate / q.rate).log()
    shapes = ad.lgamma(b) - ad.lgamma(a) + (a - b) * ad.digamma(a)
    return shapes + b * log_ratio + a * (q.rate / p.rate - 1)


def _dirichlet_of(a, b):
    total_a, total_b = a.sum(-1), b.sum(-1)
    sums = ad.lgamma(total_a) - ad.lgamma(total_b)
    each = ad.lgamma(b) - ad.lgamma(a) + (a - b) * (ad.digamma(a) - ad.digamma(total_a.unsqueeze(-1)))
    return sums + each.sum(-1)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    return _dirichlet_of(p.concentration, q.concentration)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet_of(p._dirichlet.concentration, q._dirichlet.concentration)


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() + ratio - 1 - ratio.log()
    return result.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


def _outcome(p, log_p, q, log_q):
    """The part of an outcome: 0 if p excludes it, infinite if q alone does."""
    return (p * (log_p - log_q)).masked_fill(q == 0, math.inf).masked_fill(p == 0, 0.0)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    a, b = p.logits, q.logits
    one = _outcome(p.probs, -_softplus(-a), q.probs, -_softplus(-b))
    return one + _outcome(1 - p.probs, -_softplus(a), 1 - q.probs, -_softplus(b))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    result = p.total_count * _bernoulli(p, q)
    return result.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return _bernoulli(p, q) / p.probs


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p, q):
    return _outcome(p.probs, p.logits, q.probs, q.logits).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    zero = p.rate == 0
    log_ratio = ad.where(zero, ad.ones_like(p.rate), p.rate).log() - q.rate.log()
    return ad.where(zero, ad.zeros_like(p.rate), p.rate * log_ratio) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    a, b = p.logits, q.logits
    return p._log_normalizer(b) - p._log_normalizer(a) + p.mean * (a - b)


def _root(p):
    """A matrix R with R Rᵀ the covariance of p."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    w, d = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()
    batch = ad.broadcast_shapes(w.shape[:-2], d.shape[:-2])
    return ad.cat([w.expand(batch + w.shape[-2:]), d.expand(batch + d.shape[-2:])], -1)


def _log_det(p):
    """Of the covariance."""
    if isinstance(p, MultivariateNormal):
        return 2 * _half_log_det(p._unbroadcasted_scale_tril)
    return _low_rank_log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)


def _quadratic(q, r):
    """The trace of Rᵀ Σ⁻¹ R, with Σ the covariance of q."""
    if isinstance(q, MultivariateNormal):
        return _whitened(q._unbroadcasted_scale_tril, r)
    scaled = r / q._unbroadcasted_cov_diag.unsqueeze(-1)
    low = q._unbroadcasted_cov_factor.mT @ scaled
    return (r * scaled).sum((-2, -1)) - _whitened(q._capacitance_tril, low)


def _whitened(factor, r):
    batch = ad.broadcast_shapes(factor.shape[:-2], r.shape[:-2])
    factor, r = factor.expand(batch + factor.shape[-2:]), r.expand(batch + r.shape[-2:])
    return solve_triangular(factor, r, upper=False).square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two multivariate normals with different event shapes cannot be computed"
        )
    away = _quadratic(q, (p.loc - q.loc).unsqueeze(-1))
    return 0.5 * (_log_det(q) - _log_det(p) + _quadratic(q, _root(p)) + away - p.event_shape[0])


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p, q):
    """The Bregman divergence of the log normaliser (F. Nielsen and R. Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "be computed using Bregman divergences"
        )
    params, normalizer, means = p._normalizer_and_means()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for a, b, mean in zip(params, others, means):
        term = (b - a) * mean
        result = result - _sum_rightmost(term, term.dim() - result.dim())
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL between {type(p).__name__} and {type(q).__name__} with different transforms or event shapes"
        )
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(more, 0))


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents that reinterpret different numbers of dimensions")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
