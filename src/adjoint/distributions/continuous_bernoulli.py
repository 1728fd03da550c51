"""The continuous Bernoulli distribution, of the unit interval (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._functions import _polynomial
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _uniform, broadcast_all

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Density proportional to probs^x (1 - probs)^(1 - x) on the unit interval, which is to exp(logits x).

    Parameters
    ----------
    probs : float or Tensor, optional
        Not a mean: that is `mean`.
    logits : float or Tensor, optional
        log(probs / (1 - probs)): one of the two must be given.
    lims : tuple of float
        Accepted as in torch, and not needed: near probs = 1/2 series in `logits` take over by themselves.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.ContinuousBernoulli(logits=0.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _carried = ("_given", "_lims")

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._set_probs(validate_args, probs, logits)

    @property
    def mean(self) -> Tensor:
        near, l, small = _split(self.logits, 0.3)
        series = 0.5 + small * _even(small, _MEAN)
        h = l.abs()
        low = 1 / h + (-h).exp() / ad.expm1(
            -h
        )  # of negative logits; the mean of their opposites is 1 less that
        return ad.where(near, series, ad.where(l > 0, 1 - low, low))

    @property
    def variance(self) -> Tensor:
        near, l, small = _split(self.logits, 0.3)
        h = l.abs()
        return ad.where(near, _even(small, _VARIANCE), h.pow(-2) - (-h).exp() / ad.expm1(-h).square())

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.icdf(_uniform(self._extended_shape(sample_shape), self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        near, l, small = _split(self.logits, 0.3)
        # From the end where the density is greatest, where large terms of the exponent and the normaliser are equal.
        exponent = ad.where(l > 0, value - 1, value) * self.logits
        series = (value - 0.5) * small - small.square() * _even(small, _LOG)
        return ad.where(near, series, exponent - _log_width(l))

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        value, logits = broadcast_all(value, self.logits)
        near, l, small = _split(logits, 1e-3)
        # For positive logits from the other end, so that nothing overflows.
        x = ad.where(l > 0, 1 - value, value)
        ratio = ad.expm1(-l.abs() * x) / ad.expm1(-l.abs())
        v, w = value, value * (1 - value)
        series = v - small * w * (0.5 - small * ((1 - 2 * v) / 12 + small * w / 24))
        result = ad.where(near, series, ad.where(l > 0, 1 - ratio, ratio))
        return result.clamp(min=0.0, max=1.0)

    def icdf(self, value: Tensor) -> Tensor:
        value, logits = broadcast_all(value, self.logits)
        near, l, small = _split(logits, 1e-3)
        q = ad.where(l > 0, 1 - value, value)
        far = -ad.log1p(q * ad.expm1(-l.abs())) / l.abs()
        v, w = value, value * (1 - value)
        # The cumulants of a Bernoulli variable of mean v.
        series = v + small * w * (0.5 + small * ((1 - 2 * v) / 6 + small * (1 - 6 * w) / 24))
        return ad.where(near, series, ad.where(l > 0, 1 - far, far))

    def entropy(self) -> Tensor:
        return self._log_normalizer(self.logits) - self.logits * self.mean

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((exp(x) - 1) / x), whose derivatives are the mean and the variance."""
        near, l, small = _split(x, 0.3)
        far = l.clamp(min=0) + _log_width(l)
        return ad.where(near, small / 2 + small.square() * _even(small, _LOG), far)


# log(sinh(x/2) / (x/2)) = x²/24 - x⁴/2880 + …, over x²; and its first two derivatives, the first over x.
_LOG = (1 / 24, -1 / 2880, 1 / 181440, -1 / 9676800, 1 / 479001600, -691 / 15692092416000)
_MEAN = tuple((2 * k + 2) * c for k, c in enumerate(_LOG))
_VARIANCE = tuple((2 * k + 1) * c for k, c in enumerate(_MEAN))


def _even(x, coefficients):
    return _polynomial(coefficients, x.square())


def _log_width(l):
    """log((1 - exp(-|l|)) / |l|), of the decay of the density from its greatest value, 1, over the interval."""
    h = l.abs()
    return ad.log1p(-(-h).exp()) - h.log()


def _split(logits, limit):
    """Where logits are small; logits with 1 in place of those; and with 0 in place of all others, for series."""
    near = logits.abs() < limit
    return near, ad.where(near, ad.ones_like(logits), logits), ad.where(near, logits, ad.zeros_like(logits))
