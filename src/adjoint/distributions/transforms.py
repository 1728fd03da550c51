"""Functions between sets, most of them invertible, that know how they change volumes. Start reading at `Transform`.

A transform takes values of `domain` to values of `codomain`; for a bijection, `log_abs_det_jacobian(x, y)` is the logarithm
of what it multiplies volumes by, without the event dimensions. With `cache_size=1` the last pair is kept, so that the inverse
of a value just computed costs nothing and is exact.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size, Tensor
from adjoint._publish.register import listing
from adjoint._types import Shape
from adjoint.distributions import constraints
from adjoint.distributions._joined_transforms import CatTransform, StackTransform
from adjoint.distributions._matrix_transforms import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    _at_least,
)
from adjoint.distributions._transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    _InverseTransform,  # noqa: F401 - programs import it from here
)
from adjoint.distributions.utils import (
    _softplus,
    _sum_rightmost,
    broadcast_all,
    lazy_property,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.distributions.distribution import Distribution


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]
__dir__ = listing(__name__)

identity_transform = ComposeTransform([])
identity_transform.__doc__ = """The transform that changes nothing.

Parameters
----------
x : Tensor

Returns
-------
Tensor

Examples
--------
>>> import adjoint as ad
>>> ad.distributions.identity_transform(ad.ones(2))
tensor([1., 1.])
"""


class _Elementwise(Transform):
    """A bijection of each element that rises."""

    domain: constraints.Constraint = constraints.real
    codomain: constraints.Constraint = constraints.positive
    bijective = True
    sign = +1

    def __eq__(self, other):
        return type(self) is type(other)


class ExpTransform(_Elementwise):
    """y = exp(x).

    Examples
    --------
    >>> from adjoint.distributions import ExpTransform
    >>> ExpTransform().inv
    _InverseTransform(ExpTransform())
    """

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SoftplusTransform(_Elementwise):
    """y = log(1 + exp(x))."""

    def _call(self, x):
        return _softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x)


class SigmoidTransform(_Elementwise):
    """y = 1 / (1 + exp(-x)), a rounding away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x):
        return _inside(x.sigmoid())

    def _inverse(self, y):
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x) - _softplus(x)


class TanhTransform(_Elementwise):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class PowerTransform(_Elementwise):
    """y = x^exponent, for positive x.

    Parameters
    ----------
    exponent : float or Tensor
    """

    domain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1):
        return (
            self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)
        )

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.exponent.abs().log() + (self.exponent - 1) * x.log()

    def forward_shape(self, shape: Shape) -> Shape:
        return ad.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AbsTransform(Transform):
    """y = |x|; its inverse gives the value that is not negative."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other):
        return isinstance(other, AbsTransform)

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale x.

    Parameters
    ----------
    loc, scale : float or Tensor
    event_dim : int
        0 for a transform of each element, 1 of vectors, 2 of matrices.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.AffineTransform(1.0, 2.0)(ad.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        return self._event_dim

    def _real(self):
        return (
            constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real
        )

    domain = codomain = constraints.dependent_property(is_discrete=False)(_real)

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other):
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    @property
    def sign(self):
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log()
        else:
            result = ad.full((), math.log(abs(self.scale)), dtype=x.dtype, device=x.device)
        # A number scales each element of the event; so does a tensor that broadcasts along it.
        event = x.shape[x.dim() - self.event_dim :]
        if self.event_dim:
            shape = ad.broadcast_shapes(result.shape, event)
            result = _sum_rightmost(result.expand(shape), self.event_dim)
        return result.expand(ad.broadcast_shapes(result.shape, x.shape[: x.dim() - self.event_dim]))

    def forward_shape(self, shape: Shape) -> Shape:
        return ad.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class ReshapeTransform(Transform):
    """Events of one shape as events of another.

    Parameters
    ----------
    in_shape, out_shape : Size
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Shape:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _reshaped(shape, self.out_shape, self.in_shape)


class SoftmaxTransform(Transform):
    """y = softmax(x): not one to one, so it has no density; it serves to optimise over a simplex."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other):
        return isinstance(other, SoftmaxTransform)

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Shape) -> Shape:
        return _at_least(1, shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors of n real numbers as points of a simplex of n + 1, each number breaking its share off what is left.

    0 is taken to the middle of the simplex. Logarithms of shares are added, so that no share is rounded to 0 or 1.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.StickBreakingTransform()(ad.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other):
        return isinstance(other, StickBreakingTransform)

    @staticmethod
    def _offset(x, n):
        return ad.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _logarithms(self, x):
        """Of the shares that are taken, and of what is left after each."""
        t = x - self._offset(x, x.shape[-1])
        return -_softplus(-t), (-_softplus(t)).cumsum(-1)

    def _call(self, x):
        taken, left = self._logarithms(x)
        zero = x.new_zeros(x.shape[:-1] + (1,))
        return (ad.cat([taken, zero], -1) + ad.cat([zero, left], -1)).exp()

    def _inverse(self, y):
        # What is left is summed from the end: no cancellation.
        left = y[..., 1:].flip(-1).cumsum(-1).flip(-1).clamp(min=ad.finfo(y.dtype).tiny)
        return y[..., :-1].log() - left.log() + self._offset(y, y.shape[-1] - 1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        taken, left = self._logarithms(x)
        return (taken + left).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        return _at_least(1, shape)[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _at_least(1, shape)[:-1] + (shape[-1] - 1,)


class CumulativeDistributionTransform(Transform):
    """y = F(x), with F a distribution's cumulative distribution function.

    Parameters
    ----------
    distribution : Distribution
        Of numbers, with `cdf`, `icdf` and `log_prob`.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):  # type: ignore[override]
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


def _inside(y):
    """Within the open unit interval."""
    limits = ad.finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1 - limits.eps)


def _same(a, b):
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else equal


def _reshaped(shape, old, new):
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if Size(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size(shape[:cut]) + new
