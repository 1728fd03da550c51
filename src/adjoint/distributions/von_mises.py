"""The von Mises distribution, of angles."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._functions import VonMisesDraw, circular_variance, log_bessel0e
from adjoint.distributions.distribution import Distribution

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles in radians, of density proportional to exp(concentration cos(x - loc)).

    Draws lie in [-π, π) and are differentiable with respect to both parameters: by implicit reparameterisation
    (Figurnov, Mohamed and Mnih, 2018), the derivative of the distribution function over the density.

    Parameters
    ----------
    loc : float or Tensor
        The mean direction, in radians.
    concentration : float or Tensor
        For large values about the inverse of the variance.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.VonMises(0.0, 1.0).log_prob(ad.tensor(0.0))
    tensor(-1.0738)
    """

    concentration: Tensor
    loc: Tensor

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(κ)/I0(κ)."""
        return circular_variance(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        fall = 2 * ((value - self.loc) / 2).sin().square()
        return -self.concentration * fall - math.log(2 * math.pi) - log_bessel0e(self.concentration)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        concentration = self.concentration.expand(shape)
        with ad.no_grad():
            angle = _draw(concentration.double()).to(concentration.dtype)
        angle = VonMisesDraw.apply(concentration, angle) + self.loc
        return angle - 2 * math.pi * ((angle.detach() + math.pi) / (2 * math.pi)).floor()


def _draw(k):
    """Angles around 0, by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
    # 1/ρ - 1 and r - 1 of the paper, in forms that neither end of κ rounds away.
    tau = 1 + (1 + 4 * k.square()).sqrt()
    rho = 2 * k / (tau + (2 * tau).sqrt())
    excess = (1 - rho).square() / (2 * rho)
    result = ad.zeros_like(k)
    missing = ad.ones_like(k, dtype=ad.bool)
    while missing.any():
        u = ad.rand((3, *k.shape), dtype=k.dtype, device=k.device)
        rise = 2 * (u[0] * (math.pi / 2)).sin().square()  # 1 - z
        fall = excess * rise / (excess + 2 - rise)  # 1 - f
        c = k * (excess + fall)
        accepted = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
        angle = 2 * (fall / 2).clamp(max=1.0).sqrt().asin() * (u[2] - 0.5).sign()
        result = ad.where(accepted, angle, result)  # of several accepted, the last, as torch has it
        missing = missing & ~accepted
    return result
