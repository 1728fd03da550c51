"""Powers: in double precision, and of two. Start reading at `float_power`."""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._register import composition


@composition
def float_power(input, exponent, *, out=None) -> Tensor:
    """The power, computed in float64 or complex128."""
    parts = [x for x in (input, exponent) if isinstance(x, (Tensor, complex))]
    whole = builtins.any(x.is_complex() if isinstance(x, Tensor) else True for x in parts)
    wide = _C.complex128 if whole else _C.float64
    base, exponent = (x.to(wide) if isinstance(x, Tensor) else x for x in (input, exponent))
    return _C.pow(base, exponent, out=out)


@composition(inplace=True)
def ldexp(input, other, *, out=None) -> Tensor:
    """``input * 2**other``."""
    return _C.mul(input, _C.pow(2.0, other), out=out)
