"""The categorical distribution: which of n alternatives."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import Choices
from adjoint.distributions.distribution import Distribution

__all__ = ["Categorical"]


class Categorical(Choices, Distribution):
    """The number, from 0, of one of n alternatives.

    Parameters
    ----------
    probs : Tensor, optional
        Of shape (…, n): probabilities, which need not be normalised.
    logits : Tensor, optional
        Of shape (…, n): their logarithms; one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.distributions.Categorical(ad.tensor([1.0, 1.0, 2.0]))
    >>> d.log_prob(ad.tensor(2)).exp()
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_choices(validate_args, probs, logits, of_vectors=False)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return ad.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return self._draw(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value = value.long().unsqueeze(-1)
        shape = ad.broadcast_shapes(value.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand(shape + self.logits.shape[-1:])
        return logits.gather(-1, value.expand(shape + (1,))).squeeze(-1)

    def entropy(self) -> Tensor:
        return self._choice_entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ad.arange(self._num_events, dtype=ad.int64, device=self._param.device)
        return self._enumerated(values, expand)
