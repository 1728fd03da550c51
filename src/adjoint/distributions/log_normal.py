"""The exponential of a normal variable."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.normal import Normal
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(Derived):
    """exp(X) with X of the normal distribution.

    Parameters
    ----------
    loc, scale : float or Tensor
        The mean and the standard deviation of X.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    _shows_parameters = False
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._derive(validate_args, loc=loc, scale=scale)

    def _parts(self):
        return Normal(self.loc, self.scale, validate_args=False), [ExpTransform()]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return ad.expm1(square) * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
