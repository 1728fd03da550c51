"""Functions of pairs of numbers: `nextafter`, `ldexp`, `gcd`, `lcm`, and `polygamma`, as compositions of the core's operators.

How functions reach users is said in `_register`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._creation import _into
from adjoint._register import overload


def _need_tensors(name, **given):
    for position, (argument, value) in enumerate(given.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
            )


_BITS = {_C.float16: _C.int16, _C.bfloat16: _C.int16, _C.float32: _C.int32, _C.float64: _C.int64}


@overload(inplace=True)
def nextafter(input, other, *, out=None) -> Tensor:
    """The next number of the dtype after `input` on the way to `other`.

    It moves with `input`, with derivative 1, but where the two are equal: there it is `other`, taken as constant.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nextafter(ad.tensor(1.0), ad.tensor(2.0))
    >>> (x - 1).item() == ad.finfo(ad.float32).eps
    True
    """
    _need_tensors("nextafter", input=input, other=other)
    if _C.is_grad_enabled() and (input.requires_grad or other.requires_grad):
        return _nextafter_function().apply(input, other)
    dtype = _C.promote_types(input.dtype, other.dtype)
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
    least = (_C._full((), 1, bits.dtype)).view(dtype)
    result = _C.where(x == 0, _C.where(y > 0, least, -least), stepped.view(dtype))
    result = _C.where(x == y, y, result)
    result = _C.where(whole.isnan() & (x.isnan() | y.isnan()), whole, result)
    return result if out is None else _into(out, result, "nextafter")


@overload(method=False)
def polygamma(n, input, *, out=None) -> Tensor:
    """The n-th derivative of `digamma`; as a method ``input.polygamma(n)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.polygamma(1, ad.tensor(1.0))  # π²/6
    tensor(1.6449)
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, but got {n}")
    return _C.digamma(input, out=out) if n == 0 else _C._polygamma(input, n, out=out)


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
            return along, _C._zeros(gradient.shape, gradient.dtype, False) if ctx.needs_input_grad[
                1
            ] else None

    _next_after = NextAfter
    return NextAfter


def _with_complex(name, term):
    """`name` with a complex factor, which the operator of that name does not take: it turns to this."""

    def compose(input, tensor1, tensor2, *, value=1, out=None) -> Tensor:
        if not isinstance(value, complex):
            raise TypeError(f"{name}(): argument 'value' must be Number, not {type(value).__name__}")
        if not any(t.is_complex() for t in (input, tensor1, tensor2)):
            raise RuntimeError(f"{name}(): value cannot be converted to a real type without loss: {value}")
        return _C.add(input, _C.mul(term(tensor1, tensor2), value), out=out)

    compose.__name__, compose.__doc__ = name, getattr(_C, name).__doc__
    return overload(compose)


addcmul = _with_complex("addcmul", _C.mul)
addcdiv = _with_complex("addcdiv", _C.div)


@overload(inplace=True)
def ldexp(input, other, *, out=None) -> Tensor:
    """``input * 2**other``."""
    return _C.mul(input, _C.pow(2.0, other), out=out)


@overload(inplace=True)
def gcd(input, other, *, out=None) -> Tensor:
    """The greatest common divisor of integers."""
    _need_tensors("gcd", input=input, other=other)
    if any(t.is_floating_point() or t.is_complex() for t in (input, other)):
        raise RuntimeError("gcd(): expected tensors of integers")
    if input.dtype is _C.bool and other.dtype is _C.bool:
        raise RuntimeError("gcd(): not implemented for 'bool'; convert first, for example with .to(int64)")
    x, y = (input + other * 0).abs(), (other + input * 0).abs()
    while bool((y != 0).any()):
        done = y == 0
        x, y = _C.where(done, x, y), _C.where(done, y, x % _C.where(done, 1, y))
    return x if out is None else _into(out, x, "gcd")


@overload(inplace=True)
def lcm(input, other, *, out=None) -> Tensor:
    """The least common multiple of integers."""
    _need_tensors("lcm", input=input, other=other)
    divisor = gcd(input, other)
    return _C.abs(input // _C.where(divisor == 0, 1, divisor) * other, out=out)
