"""The Cauchy distribution, whose mean does not exist."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The ratio of two independent normal variables, shifted and scaled.

    Parameters
    ----------
    loc : float or Tensor
        The median.
    scale : float or Tensor
        Half of the width at half of the height.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Cauchy(0.0, 1.0).cdf(ad.tensor(1.0))
    tensor(0.7500)
    """

    loc: Tensor
    scale: Tensor

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return ad.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ad.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.loc + self.scale * self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return ad.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ad.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
