"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _softplus

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Bernoulli(ad.tensor([0.25, 1.0])).mean
    tensor([0.2500, 1.0000])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs(validate_args, probs, logits)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return ad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return value * self.logits - _softplus(self.logits)

    def entropy(self) -> Tensor:
        return _softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ad.arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self):
        return (ad.logit(self.probs),)

    def _log_normalizer(self, x):
        return _softplus(x)
