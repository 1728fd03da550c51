"""One-hot vectors made continuous, so that draws are differentiable (Jang, Gu and Poole, 2017; Maddison et al., 2017)."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import Choices
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import ExpTransform
from adjoint.distributions.utils import _uniform, broadcast_all

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Choices, Distribution):
    """The logarithm of `RelaxedOneHotCategorical`.

    Parameters
    ----------
    temperature : Tensor
    probs, logits : Tensor, optional
        Of shape (…, n), like in `Categorical`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(ad.tensor(1.0), probs=ad.ones(3)).sample().shape
    adjoint.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # In fact the vectors whose exponentials sum to 1.
    support = constraints.real_vector
    has_rsample = True
    _carried = ("_given", "temperature")

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (self.temperature,) = broadcast_all(temperature)
        self._set_choices(validate_args, probs, logits, of_vectors=True)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        u = _uniform(self._extended_shape(sample_shape), self._param)
        gumbel = -(-u.log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self._num_events
        score = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        scale = ad.lgamma(ad.full_like(self.temperature, n)) + (n - 1) * self.temperature.log()
        return score + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A point of the simplex that comes nearer to a corner as the temperature falls.

    Parameters
    ----------
    temperature : Tensor
    probs, logits : Tensor, optional
        Of shape (…, n), like in `Categorical`.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.distributions.RelaxedOneHotCategorical(ad.tensor(0.5), probs=ad.tensor([0.2, 0.8]))
    >>> d.rsample().sum().round(decimals=3)
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
