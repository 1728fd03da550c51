"""Mixtures of distributions of one family."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._switches import switches
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.constraints import MixtureSameFamilyConstraint
from adjoint.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A draw of one of k components, which is itself drawn.

    Parameters
    ----------
    mixture_distribution : Categorical
        Of the numbers of components.
    component_distribution : Distribution
        Whose last batch dimension, of size k, counts the components.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical, MixtureSameFamily, Normal
    >>> MixtureSameFamily(Categorical(ad.ones(2)), Normal(ad.tensor([0.0, 4.0]), 1.0)).mean
    tensor(2.)
    """

    arg_constraints: dict = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Distribution,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f" The Mixture distribution needs to be an  instance of {switches.package}.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"The Component distribution need to be an instance of {switches.package}.distributions.Distribution"
            )
        batch_shape = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixture_distribution.batch_shape), reversed(batch_shape)):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible "
                    f"with `component_distribution.batch_shape`({batch_shape})"
                )
        count = mixture_distribution.param_shape[-1]
        components = component_distribution.batch_shape[-1] if component_distribution.batch_shape else None
        if components is not None and count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = count
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self.component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self.mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        super(MixtureSameFamily, new).__init__(batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self):
        return self._mixture_distribution

    @property
    def component_distribution(self):
        return self._component_distribution

    def _average(self, x):
        """Over the components, of what has the shape of their events."""
        probs = self.mixture_distribution.probs
        probs = probs.reshape(probs.shape + (1,) * self._event_ndims)
        return (probs * x).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._average(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        # The law of total variance.
        away = self.component_distribution.mean - self.mean.unsqueeze(-1 - self._event_ndims)
        return self._average(self.component_distribution.variance + away.square())

    def _per_component(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def cdf(self, value: Tensor) -> Tensor:
        below = self.component_distribution.cdf(self._per_component(value))
        return (below * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        log_probs = self.component_distribution.log_prob(self._per_component(value))
        return (log_probs + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            sample_shape = Size(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            which = self.mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            draws = self.component_distribution.sample(sample_shape)
            which = which.reshape(which.shape + (1,) * (1 + self._event_ndims))
            which = which.expand(which.shape[: dim + 1] + self._event_shape)
            return draws.gather(dim, which).squeeze(dim)

    def __repr__(self):
        return f"{type(self).__name__}(\n  {self.mixture_distribution},\n  {self.component_distribution})"
