"""The gamma distribution, of positive numbers."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._functions import gammainc
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _xlogy
from adjoint.ops.sampling import _standard_gamma

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Density proportional to x^(concentration - 1) exp(-rate x) for positive x.

    Draws are differentiable with respect to both parameters, by implicit reparameterisation (Figurnov, Mohamed and
    Mnih, 2018), and so are those of all distributions that are built of gamma variables.

    Parameters
    ----------
    concentration : float or Tensor
    rate : float or Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    concentration: Tensor
    rate: Tensor

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        unit = _standard_gamma(self.concentration.expand(shape))
        draws = unit / self.rate.expand(shape)
        return draws.clamp(min=ad.finfo(draws.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        value = ad.as_tensor(value, dtype=rate.dtype, device=rate.device)
        self._check(value)
        return a * rate.log() + _xlogy(a - 1, value) - rate * value - ad.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + ad.lgamma(a) + (1 - a) * ad.digamma(a)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return ad.lgamma(x + 1) - (x + 1) * ad.log(-y)
