"""From real numbers into a constraint's set: `biject_to` one to one, for sampling; `transform_to` for optimising.

Examples
--------
>>> import adjoint as ad
>>> from adjoint.distributions import constraints, transform_to
>>> transform_to(constraints.simplex)(ad.zeros(4))
tensor([0.2500, 0.2500, 0.2500, 0.2500])
"""

from __future__ import annotations

import numbers

from adjoint._types import Any
from adjoint.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Which transform leads into the set of a constraint, by the constraint's class."""

    def __init__(self) -> None:
        self._registry: dict = {}
        super().__init__()

    def register(self, constraint: Any, factory=None):
        """State what makes the transform for constraints of a class; without it, a decorator.

        Parameters
        ----------
        constraint : type or Constraint
        factory : callable, optional
            Takes the constraint, gives the transform.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        """The transform into the set of a constraint."""
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()
for _registry, _name, _what in (
    (
        biject_to,
        "biject_to",
        "The one-to-one transform from all real numbers into the set of a constraint, for sampling.",
    ),
    (
        transform_to,
        "transform_to",
        "A transform from all real numbers into the set of a constraint, for optimising.",
    ),
):
    _registry.__doc__ = f"""{_what}

Parameters
----------
constraint : Constraint

Returns
-------
Transform

Examples
--------
>>> import adjoint as ad
>>> from adjoint.distributions import constraints, {_name}
>>> {_name}(constraints.positive)(ad.zeros(2))
tensor([1., 1.])
"""


def _both(constraint):
    """Register one factory, which is told by which registry it is asked."""

    def register(make):
        for registry in (biject_to, transform_to):
            registry.register(constraint, lambda c, registry=registry: make(c, registry))
        return make

    return register


@_both(constraints.real)
def _(constraint, registry):
    return transforms.identity_transform


@_both(constraints.independent)
def _(constraint, registry):
    base = registry(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.greater_than)
@_both(constraints.greater_than_eq)
def _(constraint, registry):
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    return transforms.ComposeTransform(parts)


@_both(constraints.less_than)
def _(constraint, registry):
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    return transforms.ComposeTransform(parts)


@_both(constraints.interval)
@_both(constraints.half_open_interval)
def _(constraint, registry):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, numbers.Number) and isinstance(high, numbers.Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


@_both(constraints.corr_cholesky)
def _(constraint, registry):
    return transforms.CorrCholeskyTransform()


@_both(constraints.cat)
def _(constraint, registry):
    return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@_both(constraints.stack)
def _(constraint, registry):
    return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda _: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda _: transforms.PositiveDefiniteTransform())
