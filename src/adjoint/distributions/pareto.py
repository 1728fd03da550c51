"""The Pareto distribution: a power law above a threshold."""

from __future__ import annotations

from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.transformed_distribution import Derived
from adjoint.distributions.transforms import AffineTransform, ExpTransform

__all__ = ["Pareto"]


class Pareto(Derived):
    """Survival function (scale / x)^alpha for x >= scale.

    Parameters
    ----------
    scale : float or Tensor
        The lower end.
    alpha : float or Tensor
        The exponent.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._derive(validate_args, scale=scale, alpha=alpha)

    def _parts(self):
        base = Exponential(self.alpha, validate_args=False)
        return base, [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite below
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self.alpha.log() - self.scale.log() - (self.alpha + 1) * (value / self.scale).log()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
