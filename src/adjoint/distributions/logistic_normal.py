"""Points of a simplex made from a normal vector by breaking a stick."""

from __future__ import annotations

from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.independent import Independent
from adjoint.distributions.normal import Normal
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """`StickBreakingTransform` of a vector of independent normal variables.

    Parameters
    ----------
    loc, scale : float or Tensor
        Of shape (…, n): means and standard deviations; draws have n + 1 elements.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.LogisticNormal(ad.zeros(2), ad.ones(2)).sample().shape
    adjoint.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(Independent(base, 1), StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale
