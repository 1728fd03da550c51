"""The Poisson distribution: how many events come, each at any time alike."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _xlogy

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Probability rate^k exp(-rate) / k!.

    Parameters
    ----------
    rate : float or Tensor
        The mean; 0 is allowed.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Poisson(4.0).log_prob(ad.tensor(0.0))
    tensor(-4.)
    """

    rate: Tensor

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return ad.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return _xlogy(value, self.rate) - self.rate - ad.lgamma(value + 1)

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
