"""Element-wise functions. Those of one array are Adjoint's own; those of two promote as the standard says.

In the standard an array without dimensions counts as any other, and a Python number takes the type of the array beside it;
Adjoint's operators let both give way. Start reading at `together`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint._types import Any, Callable
from adjoint.array_api._info import of_number, result_type

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def together(*operands):
    """Arrays of one type, of operands of which at least one is an array and others may be Python numbers."""
    dtype = result_type(*(x for x in operands if isinstance(x, Tensor)))
    for x in operands:
        if not isinstance(x, Tensor):
            dtype = of_number(x, dtype)
    return [
        x if isinstance(x, Tensor) and x.dtype is dtype else ad.as_tensor(x, dtype=dtype) for x in operands
    ]


def _two(f, name: str | None = None) -> Callable[[Any, Any], Tensor]:
    """An operator of the package on arrays and Python numbers, by the standard's promotion."""

    def function(x1, x2, /):
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype:
            return f(x1, x2)
        return f(*together(x1, x2))

    function.__name__ = function.__qualname__ = name = name or f.__name__
    function.__doc__ = f"`adjoint.{name}` of arrays and Python numbers, by the standard's promotion."
    return function


def _floor_divide(x1, x2):
    """As the quotient has it where an operand is infinite: torch's is NaN, or -1 for -0."""
    result = ad.floor_divide(x1, x2)
    if not result.is_floating_point():
        return result
    return ad.where(ad.isinf(x1) | ad.isinf(x2), ad.floor(x1 / x2), result)


abs = ad.abs
acos = ad.acos
acosh = ad.acosh
asin = ad.asin
asinh = ad.asinh
atan = ad.atan
atanh = ad.atanh
ceil = ad.ceil
conj = ad.conj
cos = ad.cos
cosh = ad.cosh
exp = ad.exp


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1 of each element; the real part of a complex 0 is 0 without a sign, as the standard has it."""
    y = ad.expm1(x)
    return ad.complex(y.real + 0.0, y.imag) if y.is_complex() else y


floor = ad.floor
isfinite = ad.isfinite
isinf = ad.isinf
isnan = ad.isnan
log = ad.log
log10 = ad.log10
log1p = ad.log1p
log2 = ad.log2
logical_not = ad.logical_not
negative = ad.negative
positive = ad.positive
real = ad.real
reciprocal = ad.reciprocal
round = ad.round
signbit = ad.signbit
sin = ad.sin
sinh = ad.sinh
sqrt = ad.sqrt
square = ad.square
tan = ad.tan
tanh = ad.tanh
trunc = ad.trunc
bitwise_invert = ad.bitwise_not

add = _two(ad.add)
atan2 = _two(ad.atan2)
bitwise_and = _two(ad.bitwise_and)
bitwise_or = _two(ad.bitwise_or)
bitwise_xor = _two(ad.bitwise_xor)
bitwise_left_shift = _two(ad.bitwise_left_shift)
bitwise_right_shift = _two(ad.bitwise_right_shift)
copysign = _two(ad.copysign)
divide = _two(ad.divide)
equal = _two(ad.eq, "equal")
floor_divide = _two(_floor_divide, "floor_divide")
greater = _two(ad.greater)
greater_equal = _two(ad.greater_equal)
hypot = _two(ad.hypot)
less = _two(ad.less)
less_equal = _two(ad.less_equal)
logaddexp = _two(ad.logaddexp)
logical_and = _two(ad.logical_and)
logical_or = _two(ad.logical_or)
logical_xor = _two(ad.logical_xor)
maximum = _two(ad.maximum)
minimum = _two(ad.minimum)
multiply = _two(ad.multiply)
nextafter = _two(ad.nextafter)
not_equal = _two(ad.not_equal)
pow = _two(ad.pow)
remainder = _two(ad.remainder)
subtract = _two(ad.subtract)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of complex numbers, those of absolute value 1 in their direction. Of -0 it is 0."""
    return ad.sgn(x) + 0 if x.is_floating_point() else ad.sgn(x)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts of a complex array; of a real one, zeros."""
    return x.imag if x.is_complex() else ad.zeros_like(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements below `min` become `min`, those above `max` become `max`; the type stays that of `x`."""
    bounds = [None if b is None else ad.as_tensor(b, device=x.device).to(x.dtype) for b in (min, max)]
    if bounds == [None, None]:
        return x.clone()
    return ad.clamp(x, *bounds)
