"""The uniform distribution on an interval."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import broadcast_all

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Constant density on the half-open interval [low, high).

    Parameters
    ----------
    low, high : float or Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Uniform(0.0, 4.0).variance
    tensor(1.3333)
    """

    high: Tensor
    low: Tensor

    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def _range(self):
        return self.high - self.low

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return ad.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return self._range / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return self._range.square() / 12

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        u = ad.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * self._range

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value, low, high = broadcast_all(value, self.low, self.high)
        # The logarithm of 0 outside, by the sum, so that the slope by the ends is that of the width, as torch has it.
        inside = ((value >= low) & (value < high)).to(value.dtype)
        return inside.log() - (high - low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return ((value - self.low) / self._range).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * self._range + self.low

    def entropy(self) -> Tensor:
        return self._range.log()
