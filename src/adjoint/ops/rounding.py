"""Rounding: the next number that a dtype has. Start reading at `nextafter`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import give, need_tensors
from adjoint._publish.register import composition
from adjoint._tensor.dtypes import result_type

_BITS = {_C.float16: _C.int16, _C.bfloat16: _C.int16, _C.float32: _C.int32, _C.float64: _C.int64}


@composition(inplace=True)
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next representable number after `input` in the direction of `other`.

    It moves with `input`, with derivative 1, but where the two are equal: there it is `other`, taken as constant.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nextafter(ad.tensor(1.0), ad.tensor(2.0))
    >>> (x - 1).item() == ad.finfo(ad.float32).eps
    True
    """
    need_tensors("nextafter", input=input, other=other)
    dtype = result_type(input, other)
    if dtype is _C.float32 or dtype is _C.float64:
        return _C._nextafter(input.to(dtype), other.to(dtype), out=out)
    if _C._is_differentiated(input, other):
        return give(out, _nextafter_function().apply(input, other), "nextafter")
    if dtype not in _BITS:
        raise RuntimeError(
            f"nextafter(): expected floating-point tensors, but got {input.dtype} and {other.dtype}"
        )
    x, y = (t.detach().to(dtype).clone() for t in (input, other))
    whole = x + y
    x, y = x.expand(whole.shape).clone(), y.expand(whole.shape)
    bits = x.view(_BITS[dtype])
    # Numbers of one sign are ordered as their bits are; at zero the smallest number of the other's sign follows.
    stepped = bits + _C.where((y > x) == (x > 0), 1, -1).to(bits.dtype)
    least = (_C._full((), 1, dtype=bits.dtype)).view(dtype)
    result = _C.where(x == 0, _C.where(y > 0, least, -least), stepped.view(dtype))
    result = _C.where(x == y, y, result)
    result = _C.where(whole.isnan() & (x.isnan() | y.isnan()), whole, result)
    return give(out, result, "nextafter")


# Made when it is first asked for: see `_nextafter_function`.
_next_after = None


def _nextafter_function():
    global _next_after
    if _next_after is not None:
        return _next_after
    from adjoint.autograd.function import Function

    class NextAfter(Function):
        @staticmethod
        def forward(ctx, input, other):
            ctx.equal = input.detach() == other.detach()
            return nextafter(input, other)

        @staticmethod
        def backward(ctx, gradient):
            along = _C.where(ctx.equal, 0, gradient) if ctx.needs_input_grad[0] else None
            return along, _C._zeros(gradient.shape, dtype=gradient.dtype) if ctx.needs_input_grad[1] else None

        @staticmethod
        def jvp(ctx, tangent, other):
            return _C.where(ctx.equal, 0, tangent)

    _next_after = NextAfter
    return NextAfter
