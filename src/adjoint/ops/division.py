"""Common divisors and multiples of integers. Start reading at `gcd`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import give, need_tensors
from adjoint._publish.register import composition
from adjoint._tensor.dtypes import result_type
from adjoint.ops.shape import broadcast_tensors


@composition(inplace=True)
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor of integers."""
    need_tensors("gcd", input=input, other=other)
    if any(t.is_floating_point() or t.is_complex() for t in (input, other)):
        raise RuntimeError("gcd(): expected tensors of integers")
    if input.dtype is _C.bool and other.dtype is _C.bool:
        raise NotImplementedError(
            "gcd(): not implemented for 'bool'; convert first, for example with .to(int64)"
        )
    dtype = result_type(input, other)
    x, y = broadcast_tensors(input.to(dtype).abs(), other.to(dtype).abs())
    while not y.is_meta and bool((y != 0).any()):
        done = y == 0
        x, y = _C.where(done, x, y), _C.where(done, y, x % _C.where(done, 1, y))
    return give(out, x, "gcd")


@composition(inplace=True)
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of integers."""
    need_tensors("lcm", input=input, other=other)
    divisor = gcd(input, other)
    return _C.abs(input // _C.where(divisor == 0, 1, divisor) * other, out=out)
