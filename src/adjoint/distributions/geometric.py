"""The geometric distribution: how many trials fail before the first that succeeds."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _softplus, _uniform, _xlog1py

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits, Distribution):
    """How many trials fail before the first success, from 0.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability that a trial succeeds, not 0.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs(validate_args, probs, logits)
        if self._validate_args and self._given == "probs" and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{self.probs[~(self.probs > 0)]}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return ad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            u = _uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return _xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return (_softplus(self.logits) - self.logits * self.probs) / self.probs
