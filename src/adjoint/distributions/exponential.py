"""The exponential distribution: how long until an event that comes at a constant rate."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """Density rate exp(-rate x) for x >= 0.

    Parameters
    ----------
    rate : float or Tensor
        The inverse of the mean.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    rate: Tensor

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ad.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return -ad.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ad.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -ad.log(-x)
