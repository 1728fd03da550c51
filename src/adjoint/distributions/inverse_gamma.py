"""The reciprocal of a gamma variable."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(Derived):
    """1 / X with X of the gamma distribution.

    Parameters
    ----------
    concentration, rate : float or Tensor
        Of X.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    _shows_parameters = False
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._derive(validate_args, concentration=concentration, rate=rate)

    def _parts(self):
        base = Gamma(self.concentration, self.rate, validate_args=False)
        return base, [PowerTransform(-ad.ones_like(self.rate))]

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return ad.where(a > 1, self.rate / ad.where(a > 1, a - 1, ad.ones_like(a)), ad.full_like(a, math.inf))

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = ad.where(self.concentration > 2, self.concentration, ad.full_like(self.concentration, 3.0))
        finite = self.rate.square() / ((a - 1).square() * (a - 2))
        return finite.masked_fill(self.concentration <= 2, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + ad.lgamma(a) - (1 + a) * ad.digamma(a)
