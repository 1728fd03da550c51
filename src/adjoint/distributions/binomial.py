"""The binomial distribution: how many of n trials succeed."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _softplus

__all__ = ["Binomial"]


class Binomial(ProbsOrLogits, Distribution):
    """How many of `total_count` trials succeed, each with probability `probs`.

    Parameters
    ----------
    total_count : int or Tensor
    probs : float or Tensor, optional
        The probability that a trial succeeds.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Binomial(10, probs=ad.tensor([0.0, 0.25, 1.0])).mean
    tensor([ 0.0000,  2.5000, 10.0000])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    total_count: Tensor

    def __init__(
        self,
        total_count: int | Tensor = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs(validate_args, probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ad.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with ad.no_grad():
            return ad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self.total_count
        ways = ad.lgamma(n + 1) - ad.lgamma(value + 1) - ad.lgamma(n - value + 1)
        return ways + value * self.logits - n * _softplus(self.logits)

    def entropy(self) -> Tensor:
        self._homogeneous("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def _homogeneous(self, what):
        if self.total_count.numel() and not self.total_count.min() == self.total_count.max():
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return int(self.total_count.max()) if self.total_count.numel() else 0

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._homogeneous("enumerate_support")
        return self._enumerated(ad.arange(1 + n, dtype=self._param.dtype, device=self._param.device), expand)
