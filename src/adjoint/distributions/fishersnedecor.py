"""The F distribution: the ratio of two estimates of a variance."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.gamma import Gamma

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The ratio of two chi-square variables, each over its degrees of freedom.

    Parameters
    ----------
    df1, df2 : float or Tensor
        Degrees of freedom above and below.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.FisherSnedecor(3.0, 4.0).mean
    tensor(2.)
    """

    df1: Tensor
    df2: Tensor

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.square() * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (
            Gamma(df / 2, df, False).rsample(shape[: len(sample_shape)]) for df in (self.df1, self.df2)
        )
        return (above / below).clamp(min=ad.finfo(above.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        beta = ad.lgamma(a) + ad.lgamma(b) - ad.lgamma(a + b)
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * ad.log1p(ratio * value) - beta
