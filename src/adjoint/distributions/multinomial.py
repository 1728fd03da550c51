"""The multinomial distribution: how often each of n alternatives comes in so many trials."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import Choices
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.distribution import Distribution

__all__ = ["Multinomial"]


class Multinomial(Choices, Distribution):
    """How often each of n alternatives comes in `total_count` trials.

    Parameters
    ----------
    total_count : int
    probs : Tensor, optional
        Of shape (…, n): probabilities, which need not be normalised.
    logits : Tensor, optional
        Of shape (…, n): their logarithms; one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Multinomial(8, ad.tensor([1.0, 1.0, 2.0])).mean
    tensor([2., 2., 4.])
    """

    _shows_parameters = False
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _carried = ("_given", "total_count")

    def __init__(
        self,
        total_count: int | Tensor = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._set_choices(validate_args, probs, logits, of_vectors=True)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            shape = self._extended_shape(sample_shape)
            trials = self._draw(Size((self.total_count,) + shape[:-1])).movedim(0, -1)
            counts = ad.zeros(shape, dtype=self.probs.dtype, device=self.probs.device)
            return counts.scatter_add(-1, trials, ad.ones_like(trials, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        impossible = (value == 0) & (self.logits == -math.inf)
        logits = ad.where(impossible, ad.zeros_like(self.logits), self.logits)
        ways = ad.lgamma(value.sum(-1) + 1) - ad.lgamma(value + 1).sum(-1)
        return ways + (value * logits).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = Binomial(n, probs=self.probs, validate_args=False)
        k = counts.enumerate_support(expand=False)
        expected = (counts.log_prob(k).exp() * ad.lgamma(k + 1)).sum(dim=(0, -1))
        return n * self._choice_entropy() - math.lgamma(n + 1) + expected
