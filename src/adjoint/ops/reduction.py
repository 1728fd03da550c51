"""Element-wise operations and reductions that are compositions of the core's operators, and torch's overloads of those.

Each function is written once and published twice, as function and as method: see `_register.overload`. A function of
the same name as an operator is called only for arguments that the operator's own signature does not take. Shapes and
indexing are in `_shaping`, products in `_products`. Start reading at `float_power`.
"""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._creation import _into
from adjoint._register import overload

# --- arithmetic ----------------------------------------------------------------------------------------------------


@overload
def float_power(input, exponent, *, out=None) -> Tensor:
    """The power, computed in float64 or complex128."""
    parts = [x for x in (input, exponent) if isinstance(x, (Tensor, complex))]
    whole = builtins.any(x.is_complex() if isinstance(x, Tensor) else True for x in parts)
    wide = _C.complex128 if whole else _C.float64
    base, exponent = (x.to(wide) if isinstance(x, Tensor) else x for x in (input, exponent))
    return _C.pow(base, exponent, out=out)


@overload(inplace=True)
def deg2rad(input, *, out=None) -> Tensor:
    """Degrees as radians."""
    return _C.mul(input, 0.017453292519943295, out=out)


@overload(inplace=True)
def rad2deg(input, *, out=None) -> Tensor:
    """Radians as degrees."""
    return _C.mul(input, 57.29577951308232, out=out)


# Of a sum whose length is an argument.
_MOST_TERMS = 2**24


@overload(inplace=True)
def mvlgamma(input, p, *, out=None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`.

    ``p (p - 1) / 4 · log π + Σ lgamma(x - i / 2)`` for i from 0 to p - 1, for x > (p - 1) / 2.
    """
    from math import log, pi

    if p < 1:
        raise RuntimeError(f"mvlgamma(): p has to be greater than or equal to 1, but got p={p}")
    if p > _MOST_TERMS:
        raise RuntimeError(f"mvlgamma(): p={p} would add more than {_MOST_TERMS} terms, which is the most")
    dtype = input.dtype if input.is_floating_point() else _C.get_default_dtype()
    terms = _C.lgamma(input.unsqueeze(-1) - _C._arange(0, p, 1, dtype, False) / 2).sum(-1)
    return _C.add(terms, p * (p - 1) / 4 * log(pi), out=out)


@overload
def gelu(input, approximate="none") -> Tensor:
    """``x Φ(x)``, Φ the normal distribution function; with 'tanh', its common approximation."""
    if approximate == "none":
        return _C._gelu_none(input)
    if approximate == "tanh":
        return _C._gelu_tanh(input)
    raise RuntimeError(f"approximate argument must be either none or tanh, but got {approximate!r}")


# --- comparison ----------------------------------------------------------------------------------------------------


@overload
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> Tensor:
    """Whether ``|input - other| <= atol + rtol * |other|``, element by element.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.isclose(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose(): {input.dtype} did not match {other.dtype}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose(): rtol and atol must not be negative, but got rtol={rtol}, atol={atol}")
    input, other = input.detach(), other.detach()
    close = input == other
    if equal_nan:
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    if not (input.is_floating_point() or input.is_complex()):
        input, other = input.to(_C.float64), other.to(_C.float64)
    allowed = other.abs() * rtol + atol
    distance = (input - other).abs()
    return close | (distance.isfinite() & (distance <= allowed))


@overload
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> bool:
    """Whether `isclose` holds for all elements; a bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@overload
def equal(input, other) -> bool:
    """Whether two tensors have the same shape and the same elements; a bool."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    return input.shape == other.shape and bool((input == other).all())


@overload
def isreal(input) -> Tensor:
    """Where the imaginary part is zero."""
    return input.imag == 0 if input.is_complex() else _C._full(input.shape, True)


@overload
def is_nonzero(input) -> bool:
    """Whether the single element is not zero; a bool."""
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no' if input.numel() == 0 else 'more than one'} value"
            f"{'s' if input.numel() == 0 else ''} is ambiguous"
        )
    return bool(input != 0)


# --- questions about tensors and types -------------------------------------------------------------------------------


@overload(method=False)
def is_tensor(obj) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


@overload(method=False)
def typename(obj) -> str:
    """The name of an object's type; of a tensor with its dtype, as ``x.type()``."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@overload(method=False)
def is_floating_point(input) -> bool:
    """Whether the dtype is a floating-point type."""
    return input.is_floating_point()


@overload(method=False)
def is_complex(input) -> bool:
    """Whether the dtype is complex."""
    return input.is_complex()


@overload(method=False)
def is_inference(input) -> bool:
    """Whether the tensor was made in `inference_mode`: it counts no writes and can be saved for no backward pass.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     ad.is_inference(ad.ones(2))
    True
    """
    return input.is_inference()


@overload(method=False)
def numel(input) -> int:
    """The number of elements."""
    return input.numel()


@overload(method=False)
def result_type(*tensors) -> _C.dtype:
    """The dtype that an operation on the arguments would have: tensors or numbers.

    Tensors with dimensions decide; zero-dimensional ones, and then numbers, only where their category is higher.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.result_type(ad.tensor([1]), 1.5)
    adjoint.float32
    """
    groups: tuple[list[_C.dtype], ...] = ([], [], [])
    for x in tensors:
        if isinstance(x, Tensor):
            groups[1 if x.ndim == 0 else 0].append(x.dtype)
        else:
            groups[2].append(_C.tensor(x).dtype)
    result = None
    for group in groups:
        lower = None
        for dtype in group:
            lower = dtype if lower is None else _C.promote_types(lower, dtype)
        if result is None:
            result = lower
        elif lower is not None and _category(lower) > _category(result):
            real = result.is_floating_point and lower.is_complex
            result = result.to_complex() if real else _C.promote_types(result, lower)
    if result is None:
        raise TypeError("result_type() expected at least one tensor or number, but got none")
    return result


def _category(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not _C.bool)


# --- reductions ----------------------------------------------------------------------------------------------------


@overload
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None) -> Tensor:
    """The mean of the elements that are not NaN."""
    count = (~input.isnan()).sum(dim, keepdim=keepdim)
    return _C.div(_C.nansum(input, dim, keepdim, dtype=dtype), count, out=out)


@overload
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None) -> Tensor:
    """The p-norm of the elements, of all of them or along dimensions.

    Parameters
    ----------
    p : float or 'fro'
        'fro' is 2; inf and -inf are the largest and smallest absolute value, 0 counts the elements that are not zero.
    dim : int or tuple of int, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.norm(ad.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(p, str):
        if p != "fro":
            from adjoint import linalg

            return linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
        p = 2.0
    result = _C._vector_norm(input, 2.0 if p is None else p, dim, keepdim, dtype=dtype)
    return result if out is None else _into(out, result, "norm")


@overload
def dist(input, other, p=2) -> Tensor:
    """The p-norm of ``input - other``."""
    return norm(input - other, p)


@overload
def trapezoid(y, x=None, *, dx=1, dim=-1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule."""
    if y.shape[dim] == 0:
        return y.sum(dim)
    if x is not None and x.ndim == 1 and x.shape[0] != y.shape[dim]:
        raise RuntimeError(
            f"trapezoid(): There must be one `x` value for each sample point: {y.shape[dim]}, but got {x.shape[0]}"
        )
    ends = y.narrow(dim, 1, y.shape[dim] - 1) + y.narrow(dim, 0, y.shape[dim] - 1)
    if x is None:
        return ends.sum(dim) * (dx / 2)
    steps = x.narrow(-1, 1, x.shape[-1] - 1) - x.narrow(-1, 0, x.shape[-1] - 1)
    if x.ndim == 1 and y.ndim > 1:
        steps = steps.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    return (ends * steps).sum(dim) / 2


@overload(method=False)
def trapz(y, x=None, *, dx=1, dim=-1) -> Tensor:
    """`trapezoid`, by its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


@overload
def diff(input, n=1, dim=-1, prepend=None, append=None, *, out=None) -> Tensor:
    """Differences of neighbours along a dimension, `n` times; of bools, whether they differ.

    Parameters
    ----------
    prepend, append : Tensor, optional
        What to put before and after the input along the dimension first.

    Raises
    ------
    RuntimeError
        `n` is negative, or the input is a number.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.diff(ad.tensor([1, 4, 9]), prepend=ad.tensor([0]))
    tensor([1, 3, 5])
    """
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    ends = [x for x in (prepend, input, append) if x is not None]
    # Without a step the result is still a new tensor, and what would be put around the input is left away.
    result = input.clone() if n == 0 else input if len(ends) == 1 else _C.cat(ends, dim)
    for _ in range(builtins.min(n, result.shape[dim])):
        size = builtins.max(result.shape[dim] - 1, 0)
        later, earlier = result.narrow(dim, result.shape[dim] - size, size), result.narrow(dim, 0, size)
        result = later != earlier if result.dtype is _C.bool else later - earlier
    return result if out is None else _into(out, result, "diff")


@overload
def dropout(input, p=0.5, train=True) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p), when `train` is true."""
    from adjoint.nn import functional

    return functional.dropout(input, p, train)
