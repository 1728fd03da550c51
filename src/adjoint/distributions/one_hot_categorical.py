"""The categorical distribution with one-hot vectors as draws; also with a gradient that goes straight through."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import Choices
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Choices, Distribution):
    """One of n alternatives, as a vector with a 1 in its place.

    Parameters
    ----------
    probs : Tensor, optional
        Of shape (…, n): probabilities, which need not be normalised.
    logits : Tensor, optional
        Of shape (…, n): their logarithms; one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.OneHotCategorical(ad.tensor([0.0, 1.0, 0.0])).sample()
    tensor([0., 1., 0.])
    """

    _shows_parameters = False
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_choices(validate_args, probs, logits, of_vectors=True)

    @property
    def _categorical(self):
        return Categorical(**{self._given: self._param}, validate_args=False)

    def _one_hot(self, numbers):
        return ad.nn.functional.one_hot(numbers, self._num_events).to(self._param.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return self._one_hot(self._draw(Size(Size(sample_shape) + self._batch_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._choice_entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._num_events
        values = ad.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + tuple(self._batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws have the derivative of the probabilities (Bengio, Léonard and Courville, 2013).

    Parameters
    ----------
    probs, logits : Tensor, optional
        Of shape (…, n), like in `OneHotCategorical`.

    Examples
    --------
    >>> import adjoint as ad
    >>> p = ad.tensor([0.25, 0.75], requires_grad=True)
    >>> ad.distributions.OneHotCategoricalStraightThrough(p).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
