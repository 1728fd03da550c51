"""The beta distribution, of the unit interval."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.dirichlet import Dirichlet
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Density proportional to x^(a - 1) (1 - x)^(b - 1) on the unit interval.

    Parameters
    ----------
    concentration1 : float or Tensor
        a.
    concentration0 : float or Tensor
        b.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _carried = ()

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        both = ad.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(Size(batch_shape))
        super(Beta, new).__init__(Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def _total(self):
        return self.concentration1 + self.concentration0

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / self._total

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self.concentration1 * self.concentration0 / (self._total.square() * (self._total + 1))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self._dirichlet._log_density(ad.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _mean_carrier_measure(self):
        return self._dirichlet._mean_carrier_measure

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return ad.lgamma(x) + ad.lgamma(y) - ad.lgamma(x + y)
