"""The generalised Pareto distribution, of what exceeds a threshold."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _uniform, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Survival function (1 + c z)^(-1/c), with z = (x - loc) / scale and c the concentration; exp(-z) for c = 0.

    Parameters
    ----------
    loc : float or Tensor
        The lower end.
    scale : float or Tensor
    concentration : float or Tensor
        c: the weight of the tail. Below 0 the upper end is loc - scale / c.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    concentration: Tensor
    loc: Tensor
    scale: Tensor

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.loc, self._end)

    @property
    def _end(self):
        c = self.concentration
        bounded = c < 0
        end = self.loc - self.scale / ad.where(bounded, c, -ad.ones_like(c))
        return end.masked_fill(~bounded, math.inf)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.icdf(_uniform(self._extended_shape(sample_shape), self.loc))

    def _hazard(self, value):
        """log(1 + c z) / c, which is minus the logarithm of the survival function, and 1 + c z."""
        z, c = broadcast_all((value - self.loc) / self.scale, self.concentration)
        z = z.clamp(min=0.0)
        product = c * z
        inside = (product > -1.0) & (product.abs() >= 1e-3)
        one = ad.ones_like(c)
        far = ad.log1p(ad.where(inside, product, one)) / ad.where(inside, c, one)
        near = z * (1 - product * (0.5 - product * (1 / 3 - product * (0.25 - product / 5))))
        return ad.where(inside, far, near).masked_fill(product <= -1.0, math.inf), product

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        hazard, product = self._hazard(value)
        inside = product > -1.0
        log = ad.log1p(ad.where(inside, product, ad.zeros_like(product)))
        result = -self.scale.log() - log - ad.where(inside, hazard, ad.zeros_like(hazard))
        # At the very end the density is that of z there: 0 for c > -1, 1 / scale for c = -1, and infinite below.
        return result.masked_fill(~inside | (value < self.loc), -math.inf)

    def log_survival_function(self, value: Tensor):
        """The logarithm of the probability of greater values.

        Returns
        -------
        Tensor
        """
        self._check(value)
        return -self._hazard(value)[0]

    def log_cdf(self, value: Tensor):
        """The logarithm of `cdf`.

        Returns
        -------
        Tensor
        """
        self._check(value)
        return ad.log(-ad.expm1(-self._hazard(value)[0]))

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return -ad.expm1(-self._hazard(value)[0])

    def icdf(self, value: Tensor) -> Tensor:
        # The inverse of the hazard: expm1(c h) / c, with h = -log(1 - value).
        h, c = broadcast_all(-ad.log1p(-value), self.concentration)
        product = c * h
        far = product.abs() >= 1e-3
        one = ad.ones_like(c)
        z = ad.expm1(ad.where(far, product, one)) / ad.where(far, c, one)
        near = h * (1 + product * (0.5 + product * (1 / 6 + product * (1 / 24 + product / 120))))
        return self.loc + self.scale * ad.where(far, z, near)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        finite = c < 1
        mean = self.loc + self.scale / ad.where(finite, 1 - c, ad.ones_like(c))
        return mean.masked_fill(~finite, math.inf)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        finite = c < 0.5
        below = ad.where(finite, (1 - c).square() * (1 - 2 * c), ad.ones_like(c))
        return (self.scale.square() / below).masked_fill(~finite, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
