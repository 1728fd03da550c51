"""The normal distribution, and those that are its functions."""

from __future__ import annotations

import math

from adjoint import _C
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _standard_normal

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """The normal (Gaussian) distribution.

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor
        The standard deviation.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Normal(0.0, 1.0).log_prob(ad.tensor(0.0))
    tensor(-0.9189)
    """

    loc: Tensor
    scale: Tensor

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.loc + self.scale * _standard_normal(
            self._extended_shape(sample_shape), self.loc.dtype, self.loc.device
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z.square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        from adjoint import special

        return special.ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        from adjoint import special

        return self.loc + self.scale * special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self):
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.square() / y + 0.5 * _C.log(-math.pi / y)
