"""The Kumaraswamy distribution, of the unit interval: like a beta distribution, with a distribution function in closed form."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import _xlog1py, _xlogy, broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(Derived):
    """Distribution function 1 - (1 - x^a)^b on the unit interval.

    Parameters
    ----------
    concentration1 : float or Tensor
        a.
    concentration0 : float or Tensor
        b.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self._derive(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _parts(self):
        a, b = self.concentration1, self.concentration0
        base = Uniform(ad.zeros_like(a), ad.ones_like(a), validate_args=False)
        return base, [
            PowerTransform(1 / b),
            AffineTransform(1.0, -1.0),
            PowerTransform(1 / a),
        ]

    def _moment(self, n):
        """The mean of x^n: b B(1 + n/a, b)."""
        a, b = self.concentration1, self.concentration0
        k = 1 + n / a
        return (b.log() + ad.lgamma(k) + ad.lgamma(b) - ad.lgamma(k + b)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value, a, b = broadcast_all(value, self.concentration1, self.concentration0)
        return a.log() + b.log() + _xlogy(a - 1, value) + _xlog1py(b - 1, -(value**a))

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return -ad.expm1(self.concentration0 * ad.log1p(-(value**self.concentration1)))

    def icdf(self, value: Tensor) -> Tensor:
        return (-ad.expm1(ad.log1p(-value) / self.concentration0)) ** (1 / self.concentration1)

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        a, b = (ad.where(inside, c, ad.full_like(c, 2.0)) for c in (a, b))
        return ((a - 1) / (a * b - 1)).pow(1 / a).masked_fill(~inside, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ad.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
