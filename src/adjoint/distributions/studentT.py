"""Student's t distribution: a normal variable over an estimate of its deviation."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.chi2 import Chi2
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """A standard normal variable over the root of a chi-square variable per degree of freedom, scaled and shifted.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom.
    loc, scale : float or Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    df: Tensor
    loc: Tensor
    scale: Tensor

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        df = ad.where(finite, self.df, ad.full_like(self.df, 4.0))
        variance = self.scale.square() * df / (df - 2)
        return variance.masked_fill(~finite, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        normal = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        spread = Chi2(self.df, validate_args=False).rsample(sample_shape) / self.df
        return self.loc + self.scale * normal * spread.rsqrt()

    def _log_normalizer(self):
        half = self.df / 2
        return self.scale.log() + 0.5 * (self.df * math.pi).log() + ad.lgamma(half) - ad.lgamma(half + 0.5)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * ad.log1p(z.square() / self.df) - self._log_normalizer()

    def entropy(self) -> Tensor:
        half = self.df / 2
        return (half + 0.5) * (ad.digamma(half + 0.5) - ad.digamma(half)) + self._log_normalizer()
