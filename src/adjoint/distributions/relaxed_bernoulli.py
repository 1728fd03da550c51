"""Bernoulli variables made continuous, so that draws are differentiable (Maddison, Mnih and Teh, 2017)."""

from __future__ import annotations

from adjoint._C import Size
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._probs import ProbsOrLogits
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import SigmoidTransform
from adjoint.distributions.utils import _softplus, _uniform, broadcast_all

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log odds of `RelaxedBernoulli`: (logits + logistic noise) / temperature.

    Parameters
    ----------
    temperature : Tensor
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(ad.tensor(1.0), probs=0.5).log_prob(ad.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
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
        self._set_probs(validate_args, probs, logits)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        u = _uniform(self._extended_shape(sample_shape), self._param)
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        difference = self.logits - value * self.temperature
        return self.temperature.log() + difference - 2 * _softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """A number between 0 and 1 that comes nearer to either as the temperature falls.

    Parameters
    ----------
    temperature : Tensor
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        Its log odds: one of the two must be given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.RelaxedBernoulli(ad.tensor(0.5), probs=ad.tensor([0.1, 0.9])).sample().shape
    adjoint.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
