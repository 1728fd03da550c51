"""The Weibull distribution, of lifetimes whose hazard is a power."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.utils import _xlogy, euler_constant

__all__ = ["Weibull"]


class Weibull(Derived):
    """Survival function exp(-(x / scale)^concentration) for positive x.

    Parameters
    ----------
    scale : float or Tensor
    concentration : float or Tensor
        The exponent.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(
        self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._derive(validate_args, scale=scale, concentration=concentration)

    def _parts(self):
        base = Exponential(ad.ones_like(self.scale), validate_args=False)
        return base, [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        k, z = self.concentration, value / self.scale
        return k.log() - self.scale.log() + _xlogy(k - 1, z) - z**k

    def _moment(self, n):
        return self.scale**n * ad.lgamma(1 + n / self.concentration).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration.clamp(min=1)
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - k.reciprocal()) + (self.scale / k).log() + 1
