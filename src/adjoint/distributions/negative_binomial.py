"""The negative binomial distribution: how many trials succeed before so many have failed."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.utils import _softplus

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """How many trials succeed before `total_count` of them have failed.

    Parameters
    ----------
    total_count : float or Tensor
        Need not be an integer.
    probs : float or Tensor, optional
        The probability that a trial succeeds, below 1.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.NegativeBinomial(3, probs=0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    total_count: Tensor

    def __init__(
        self,
        total_count: int | Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs(validate_args, probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @property
    def _gamma(self):
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return ad.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self.total_count
        chance = -n * _softplus(self.logits) - value * _softplus(-self.logits)
        ways = ad.lgamma(n + value) - ad.lgamma(1 + value) - ad.lgamma(n)
        # Without failures to wait for, none succeeds: both terms with n are infinite.
        return chance + ways.masked_fill(n + value == 0, 0.0)
