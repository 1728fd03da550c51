"""The absolute value of a Cauchy variable."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.cauchy import Cauchy
from adjoint.distributions.transformed_distribution import Folded

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """|X| with X of the Cauchy distribution around 0.

    Parameters
    ----------
    scale : float or Tensor
        Of X, and the median.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.HalfCauchy(2.0).cdf(ad.tensor(2.0))
    tensor(0.5000)
    """

    _shows_parameters = False
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base = Cauchy

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._derive(validate_args, scale=scale)

    @property
    def mean(self) -> Tensor:
        return ad.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
