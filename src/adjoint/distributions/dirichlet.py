"""The Dirichlet distribution, of the points of a simplex."""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import _xlogy
from adjoint.ops.sampling import _sample_dirichlet

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Density proportional to the product of x_i^(concentration_i - 1) on the simplex.

    Parameters
    ----------
    concentration : Tensor
        Of shape (…, n).

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Dirichlet(ad.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def _total(self):
        return self.concentration.sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self._total.unsqueeze(-1)

    @property
    def mode(self) -> Tensor:
        a = (self.concentration - 1).clamp(min=0.0)
        mode = a / a.sum(-1, keepdim=True)
        # With all concentrations below 1 the density is greatest at a corner.
        corner = (self.concentration < 1).all(-1, keepdim=True)
        best = self.concentration.argmax(-1, keepdim=True)
        return ad.where(corner, ad.zeros_like(mode).scatter(-1, best, 1.0), mode)

    @property
    def variance(self) -> Tensor:
        total = self._total.unsqueeze(-1)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        concentration = self.concentration.expand(self._extended_shape(sample_shape))
        return _sample_dirichlet(concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self._log_density(value)

    def _log_density(self, value):
        a = self.concentration
        return _xlogy(a - 1, value).sum(-1) + ad.lgamma(self._total) - ad.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, total, n = self.concentration, self._total, self.concentration.shape[-1]
        spread = (total - n) * ad.digamma(total) - ((a - 1) * ad.digamma(a)).sum(-1)
        return ad.lgamma(a).sum(-1) - ad.lgamma(total) + spread

    @property
    def _mean_carrier_measure(self):
        """Of h(x) = Π 1 / x_i."""
        a = self.concentration
        return (ad.digamma(self._total).unsqueeze(-1) - ad.digamma(a)).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return ad.lgamma(x).sum(-1) - ad.lgamma(x.sum(-1))
