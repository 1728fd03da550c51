"""Powers: in double precision, and of two. Start reading at `float_power`."""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import give
from adjoint._publish.register import Members, composition, extend
from adjoint._tensor.dtypes import result_type
from adjoint._types import Number


@composition
def float_power(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The power, computed in float64 or complex128."""
    parts = [x for x in (input, exponent) if isinstance(x, (Tensor, complex))]
    whole = builtins.any(x.is_complex() if isinstance(x, Tensor) else True for x in parts)
    wide = _C.complex128 if whole else _C.float64
    base, exponent = (x.to(wide) if isinstance(x, Tensor) else x for x in (input, exponent))
    return _C.pow(base, exponent, out=out)


@extend
class Power(Members):
    def float_power_(self, exponent: Tensor | Number) -> Tensor:
        """`float_power` in place, of a tensor of float64 or complex128: no other can hold the result."""
        complex_power = self.is_complex() or isinstance(exponent, complex)
        complex_power = complex_power or isinstance(exponent, Tensor) and exponent.is_complex()
        wide = _C.complex128 if complex_power else _C.float64
        if self.dtype is not wide:
            raise RuntimeError(
                f"the base given to float_power_ has dtype {self.dtype._type_name} but the operation's result requires dtype "
                f"{wide._type_name}"
            )
        return self.pow_(exponent)


@composition(inplace=True)
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``."""
    dtype = result_type(input, other)
    if dtype.is_complex:
        return _C.mul(input, _C.pow(2.0, other), out=out)
    if not dtype.is_floating_point:
        dtype = _C.get_default_dtype()
    x, n = (t.to(_C.float64) if isinstance(t, Tensor) else t for t in (input, other))
    if dtype is not _C.float64:
        # Elements of smaller types, by any power that does not take all of them to 0 or infinity, are normal here: one rounding.
        return give(out, (x * _C.pow(2.0, _bounded(n, 600))).to(dtype), "ldexp")
    # In steps that are exact, but for the last: the result may be finite where the power is not.
    n = _bounded(n, 3000)
    last = _bounded(n, 1000)
    middle = _bounded(n - last, 1000)
    steps = (_C.pow(2.0, step) for step in (n - last - middle, middle, last))
    for step in steps:
        x = x * step
    return give(out, x, "ldexp")


def _bounded(n, most):
    return n.clamp(-most, most) if isinstance(n, Tensor) else min(max(n, -most), most)
