"""Functions of elements. Those of one array are Adjoint's own; those of two promote as the standard says.

In the standard an array without dimensions counts as any other, and a Python number takes the type of the array beside it;
Adjoint's operators let both give way. Start reading at `together`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint.array_api._info import of_number, result_type

_ONE = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2 "
    "logical_not negative positive real reciprocal round signbit sin sinh sqrt square tan tanh trunc"
).split()
_TWO = (
    "add atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign divide equal floor_divide greater "
    "greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter "
    "not_equal pow remainder subtract"
).split()

__all__ = [*_ONE, *_TWO, "bitwise_invert", "clip", "sign"]


def together(*operands):
    """Arrays of one type, of operands of which at least one is an array and others may be Python numbers."""
    dtype = result_type(*(x for x in operands if isinstance(x, Tensor)))
    for x in operands:
        if not isinstance(x, Tensor):
            dtype = of_number(x, dtype)
    return [
        x if isinstance(x, Tensor) and x.dtype is dtype else ad.as_tensor(x, dtype=dtype) for x in operands
    ]


def _two(name):
    f = {"equal": ad.eq, "floor_divide": _floor_divide}.get(name) or getattr(ad, name)

    def function(x1, x2, /):
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype:
            return f(x1, x2)
        return f(*together(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`adjoint.{name}` of arrays and Python numbers, by the standard's promotion."
    return function


def _floor_divide(x1, x2):
    """As the quotient has it where an operand is infinite: torch's is NaN, or -1 for -0."""
    result = ad.floor_divide(x1, x2)
    if not result.is_floating_point():
        return result
    return ad.where(ad.isinf(x1) | ad.isinf(x2), ad.floor(x1 / x2), result)


globals().update({name: getattr(ad, name) for name in _ONE}, **{name: _two(name) for name in _TWO})
bitwise_invert = ad.bitwise_not


def sign(x, /):
    """-1, 0 or 1; of complex numbers, those of absolute value 1 in their direction. Of -0 it is 0."""
    return ad.sgn(x) + 0 if x.is_floating_point() else ad.sgn(x)


def imag(x, /):
    """The imaginary parts of a complex array; of a real one, zeros."""
    return x.imag if x.is_complex() else ad.zeros_like(x)


def clip(x, /, min=None, max=None):
    """Elements below `min` become `min`, those above `max` become `max`; the type stays that of `x`."""
    bounds = [None if b is None else ad.as_tensor(b, device=x.device).to(x.dtype) for b in (min, max)]
    if bounds == [None, None]:
        return x.clone()
    return ad.clamp(x, *bounds)
