"""The absolute value of a normal variable."""

from __future__ import annotations

import math

from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.normal import Normal
from adjoint.distributions.transformed_distribution import Folded

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """|X| with X of the normal distribution around 0.

    Parameters
    ----------
    scale : float or Tensor
        The standard deviation of X.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _shows_parameters = False
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base = Normal

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._derive(validate_args, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)
