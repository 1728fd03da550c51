"""Kullback-Leibler divergences between families: the mean under p of log q, and the entropy of p.

The mean of log q needs of p only its support and a few expectations, which each p states once in `_Expectations`. Where p
leaves the support of q the divergence is infinite. Start reading at `_cross`.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Any
from adjoint.distributions.bernoulli import Bernoulli
from adjoint.distributions.beta import Beta
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.gumbel import Gumbel
from adjoint.distributions.kl import register_kl
from adjoint.distributions.laplace import Laplace
from adjoint.distributions.normal import Normal
from adjoint.distributions.pareto import Pareto
from adjoint.distributions.poisson import Poisson
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import _xlogy, euler_constant


class _Expectations:
    """Of a distribution p: the ends of its support; the means of log x, of log(1 - x) and of exp(-t x)."""

    low: Any = -math.inf
    high: Any = math.inf

    def __init__(self, p: Any) -> None:
        self.p = p


class _OfBeta(_Expectations):
    low, high = 0, 1

    def log(self):
        return ad.digamma(self.p.concentration1) - ad.digamma(self.p._total)


class _OfContinuousBernoulli(_Expectations):
    low, high = 0, 1


class _OfExponential(_Expectations):
    low = 0

    def log(self):
        return -euler_constant - self.p.rate.log()

    def exp(self, t):
        return self.p.rate / (self.p.rate + t)


class _OfGamma(_Expectations):
    low = 0

    def log(self):
        return ad.digamma(self.p.concentration) - self.p.rate.log()

    def exp(self, t):
        return (-self.p.concentration * ad.log1p(t / self.p.rate)).exp()


class _OfNormal(_Expectations):
    def exp(self, t):
        return (-t * self.p.loc + 0.5 * (t * self.p.scale).square()).exp()

    def distance(self, point):
        """The mean of |x - point|."""
        z = (self.p.loc - point) / self.p.scale
        density = (-0.5 * z.square()).exp() * math.sqrt(2 / math.pi)
        return self.p.scale * (density + z * ad.erf(z / math.sqrt(2)))


class _OfPareto(_Expectations):
    def __init__(self, p: Any) -> None:
        super().__init__(p)
        self.low = p.scale

    def log(self):
        return self.p.scale.log() + 1 / self.p.alpha


class _OfUniform(_Expectations):
    def __init__(self, p: Any) -> None:
        super().__init__(p)
        self.low, self.high = p.low, p.high

    def _log(self, low, high):
        low, high = low.clamp(min=0), high.clamp(min=0)
        return (_xlogy(high, high) - _xlogy(low, low)) / (self.p.high - self.p.low) - 1

    def log(self):
        return self._log(self.p.low, self.p.high)

    def log_rest(self):
        return self._log(1 - self.p.high, 1 - self.p.low)

    def exp(self, t):
        width = t * (self.p.high - self.p.low)
        return (-t * self.p.low).exp() * -ad.expm1(-width) / width


_OF = {
    Beta: _OfBeta,
    ContinuousBernoulli: _OfContinuousBernoulli,
    Exponential: _OfExponential,
    Gamma: _OfGamma,
    Gumbel: _Expectations,
    Laplace: _Expectations,
    Normal: _OfNormal,
    Pareto: _OfPareto,
    Uniform: _OfUniform,
}


def _normal(p, q, of):
    away = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return -0.5 * away - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _exponential(p, q, of):
    return q.rate.log() - q.rate * p.mean


def _gamma(p, q, of):
    a, rate = q.concentration, q.rate
    return a * rate.log() - ad.lgamma(a) + (a - 1) * of.log() - rate * p.mean


def _gumbel(p, q, of):
    t = 1 / q.scale
    return -q.scale.log() - t * (p.mean - q.loc) - of.exp(t) * (t * q.loc).exp()


def _laplace(p, q, of):
    return -(2 * q.scale).log() - of.distance(q.loc) / q.scale


def _beta(p, q, of):
    a, b = q.concentration1, q.concentration0
    return (a - 1) * of.log() + (b - 1) * of.log_rest() - q._log_normalizer(a, b)


def _continuous_bernoulli(p, q, of):
    return q.logits * p.mean - q._log_normalizer(q.logits)


def _pareto(p, q, of):
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * of.log()


def _uniform(p, q, of):
    return -(q.high - q.low).log()


#: For each family of q: the mean of log q, the ends of its support, and from which families of p.
_everything = lambda q: (-math.inf, math.inf)
_positive = lambda q: (0, math.inf)
_unit = lambda q: (0, 1)
_CROSS = {
    Normal: (
        _normal,
        _everything,
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    ),
    Gumbel: (_gumbel, _everything, (Exponential, Gamma, Normal, Uniform)),
    Laplace: (_laplace, _everything, (Normal,)),
    Exponential: (
        _exponential,
        _positive,
        (Beta, ContinuousBernoulli, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform),
    ),
    Gamma: (_gamma, _positive, (Beta, Exponential, Gumbel, Laplace, Normal, Pareto, Uniform)),
    Beta: (_beta, _unit, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform)),
    ContinuousBernoulli: (
        _continuous_bernoulli,
        _unit,
        (Beta, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform),
    ),
    Pareto: (
        _pareto,
        lambda q: (q.scale, math.inf),
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Uniform),
    ),
    Uniform: (
        _uniform,
        lambda q: (q.low, q.high),
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto),
    ),
}


def _cross(p, q, of, mean_log, ends):
    """KL(p || q) from the mean under p of log q."""
    low, high = ends(q)
    of_both = ad.zeros(
        ad.broadcast_shapes(p.batch_shape, q.batch_shape), dtype=p.mean.dtype, device=p.mean.device
    )
    outside = (of_both + of.low < low) | (of_both + of.high > high)
    if outside.all():  # also where p has no rule for what q needs
        return of_both.masked_fill(outside, math.inf)
    return (-p.entropy() - mean_log(p, q, of)).masked_fill(outside, math.inf)


def _register(p_type, q_type, mean_log, ends):
    register_kl(p_type, q_type)(lambda p, q: _cross(p, q, _OF[p_type](p), mean_log, ends))


for _q, (_mean_log, _ends, _families) in _CROSS.items():
    for _p in _families:
        _register(_p, _q, _mean_log, _ends)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (_xlogy(p.probs, q.rate) - q.rate)


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _infinite(p, q):
    return ad.full_like(p.rate + q.probs, math.inf)
