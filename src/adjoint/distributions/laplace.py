"""The Laplace distribution: exponential to both sides."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Density proportional to exp(-|x - loc| / scale).

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Laplace(0.0, 1.0).cdf(ad.tensor(0.0))
    tensor(0.5000)
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
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        drawn = self.loc.new_empty(self._extended_shape(sample_shape))
        drawn = drawn.uniform_(ad.finfo(drawn.dtype).eps - 1, 1)
        return self.loc - self.scale * drawn.sign() * (-drawn.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        z = (value - self.loc) / self.scale
        # Of the smaller tail.
        tail = 0.5 * (-z.abs()).exp()
        return ad.where(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        low = value < 0.5
        tail = 2 * ad.where(low, value, 1 - value)
        return self.loc + self.scale * ad.where(low, tail.log(), -tail.log())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
