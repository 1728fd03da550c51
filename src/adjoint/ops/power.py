"""Powers: in double precision, and of two. Start reading at `float_power`."""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, composition, extend
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
    return _C.mul(input, _C.pow(2.0, other), out=out)
