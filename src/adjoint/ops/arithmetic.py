"""Arithmetic: degrees and radians, and products scaled by a complex factor.

Start reading at `_with_complex`, which makes the forms of `addcmul` and `addcdiv` that their operators do not take.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import alternate, composition
from adjoint._types import Number


@composition(inplace=True)
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees as radians."""
    return _C.mul(input, 0.017453292519943295, out=out)


@composition(inplace=True)
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians as degrees."""
    return _C.mul(input, 57.29577951308232, out=out)


def _with_complex(name, term):
    """`name` with a complex factor, which the operator of that name does not take: it turns to this."""

    def compose(
        input: Tensor,
        tensor1: Tensor,
        tensor2: Tensor,
        *,
        value: Number | Tensor = 1,
        out: Tensor | None = None,
    ) -> Tensor:
        if not isinstance(value, complex):
            raise TypeError(f"{name}(): argument 'value' must be Number, not {type(value).__name__}")
        if not any(t.is_complex() for t in (input, tensor1, tensor2)):
            raise RuntimeError(f"{name}(): value cannot be converted to a real type without loss: {value}")
        return _C.add(input, _C.mul(term(tensor1, tensor2), value), out=out)

    compose.__name__ = name
    return alternate(compose)


addcmul = _with_complex("addcmul", _C.mul)


addcdiv = _with_complex("addcdiv", _C.div)
