"""Sets of values: what parameters may be, and what distributions give. Start reading at `Constraint`.

A constraint's `check` answers for each value whether it lies in the set; `event_dim` is the number of rightmost dimensions that
make one value together. Constraints that need parameters are classes, the others instances.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Any, Sequence, Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]
__dir__ = listing(__name__)


class Constraint:
    """A set of values.

    Attributes
    ----------
    is_discrete : bool
        Whether the set is countable, so that nothing moves through it continuously.
    event_dim : int
        How many rightmost dimensions make one value.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor):
        """For each value, whether it lies in the set: a bool tensor without the event dimensions."""
        raise NotImplementedError(f"{type(self).__name__}.check")

    def __repr__(self):
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """Depends on other parameters, so that it can be checked by a distribution only."""

    def __init__(self, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    def _known(self, name):
        value = getattr(self, "_" + name)
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self):
        return self._known("is_discrete")

    @property
    def event_dim(self):
        return self._known("event_dim")

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same with more known of it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Tensor):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint) -> bool:
    """Whether a constraint depends on a distribution's parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of distributions that gives a constraint; asked of the class, it is one that depends."""

    def __init__(
        self, fn=None, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn):  # type: ignore[override]  # a decorator, as a property's constructor is
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Values of a constraint, all of which must hold along more dimensions."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor):
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.dim() < n:
            expected = self.base_constraint.event_dim + n
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return result.flatten(-n).all(-1) if n else result

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values in the set of any component of a mixture, whose components stand in the last batch dimension."""

    def __init__(self, base_constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value: Tensor):
        # A component dimension is put in front of the event.
        event = self.base_constraint.event_dim
        if value.dim() < event:
            raise ValueError(f"Expected value.dim() >= {event} but got {value.dim()}")
        return self.base_constraint.check(value.unsqueeze(-1 - event)).any(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor):
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Between two bounds, either of which may be missing; they may be tensors."""

    def __init__(self, **bounds) -> None:
        for name, value in bounds.items():
            setattr(self, name, value)
        self._bounds = bounds
        super().__init__()

    def __repr__(self):
        shown = ", ".join(f"{name}={value}" for name, value in self._bounds.items())
        return f"{type(self).__name__[1:]}({shown})"


class _IntegerInterval(_Bounded):
    lower_bound: Any
    upper_bound: Any
    is_discrete = True

    def __init__(self, lower_bound, upper_bound) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Tensor):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    upper_bound: Any
    is_discrete = True

    def __init__(self, upper_bound) -> None:
        super().__init__(upper_bound=upper_bound)

    def check(self, value: Tensor):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    lower_bound: Any
    is_discrete = True

    def __init__(self, lower_bound) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Tensor):
        return value == value  # NaN is none


class _GreaterThan(_Bounded):
    lower_bound: Any

    def __init__(self, lower_bound) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor):
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    lower_bound: Any

    def __init__(self, lower_bound) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor):
        return self.lower_bound <= value


class _LessThan(_Bounded):
    upper_bound: Any

    def __init__(self, upper_bound) -> None:
        super().__init__(upper_bound=upper_bound)

    def check(self, value: Tensor):
        return value < self.upper_bound


class _Interval(_Bounded):
    lower_bound: Any
    upper_bound: Any

    def __init__(self, lower_bound, upper_bound) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Tensor):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    lower_bound: Any
    upper_bound: Any

    def check(self, value: Tensor):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    def check(self, value: Tensor):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_Matrix):
    def check(self, value: Tensor):
        lower = (value.tril() == value).flatten(-2).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_Matrix):
    def check(self, value: Tensor):
        # Rows accumulate rounding.
        tolerance = _epsilon(value) * value.size(-1) * 10
        of_length_one = ((value * value).sum(-1).sqrt() - 1).abs().le(tolerance).all(-1)
        return _LowerCholesky().check(value) & of_length_one


class _Square(_Matrix):
    def check(self, value: Tensor):
        fits = value.shape[-2] == value.shape[-1]
        return ad.full(value.shape[:-2], fits, dtype=ad.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor):
        return super().check(value) & ad.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor):
        symmetric = super().check(value)
        return symmetric if not symmetric.all() else ad.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor):
        symmetric = super().check(value)
        return symmetric if not symmetric.all() else ad.linalg.cholesky_ex(value).info.eq(0)


class _Cat(Constraint):
    """Constraints of parts that lie one after the other along a dimension."""

    def __init__(self, cseq, dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor):
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return ad.cat(checks, self.dim)


class _Stack(Constraint):
    """Constraints of parts that stand side by side along a dimension."""

    def __init__(self, cseq, dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor):
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return ad.stack([c.check(v) for v, c in zip(parts, self.cseq)], self.dim)


def _epsilon(value):
    return ad.finfo(value.dtype).eps


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
