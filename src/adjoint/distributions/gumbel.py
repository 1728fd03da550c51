"""The Gumbel distribution, of the greatest of many values."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import AffineTransform, ExpTransform
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import euler_constant

__all__ = ["Gumbel"]


class Gumbel(Derived):
    """Distribution function exp(-exp(-(x - loc) / scale)).

    Parameters
    ----------
    loc : float or Tensor
        The mode.
    scale : float or Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._derive(validate_args, loc=loc, scale=scale)

    def _parts(self):
        limits = ad.finfo(self.loc.dtype)
        low = ad.full_like(self.loc, limits.tiny)
        base = Uniform(low, ad.full_like(self.loc, 1 - limits.eps), validate_args=False)
        flipped = AffineTransform(0, -ad.ones_like(self.scale))
        return base, [ExpTransform().inv, flipped, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]

    def _standard(self, value):
        return (value - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
