"""Functions of the elements where a mask holds, as torch.masked has them: reductions, softmax, cumulative sums.

What is masked out is as if it were not there: a sum takes 0 for it, a product 1, a maximum the least number. Where nothing is
left, a mean is NaN. The mask is bool, and broadcasts to the input; without one, all elements count. Start reading at `_filled`.
"""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.register import listing
from adjoint._types import Any, Dims, DType, Ints, Sequence
from adjoint.ops.writing import _neutral

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
__dir__ = listing(__name__)


def _mask(input, mask):
    if mask.dtype is not _C.bool:
        raise TypeError(f"masked: expected a mask of bool, but got {mask.dtype}")
    return mask.expand(input.shape) if mask.ndim <= input.ndim else mask


def _filled(input, mask, value):
    """The input with a value where the mask does not hold."""
    if mask is None:
        return input
    return _C.where(_mask(input, mask), input, _C._full((), value, dtype=input.dtype))


def _typed(input, dtype):
    return input if dtype is None else input.to(dtype)


def _dims(input, dim):
    """The dimensions to reduce, as a list; none given means all."""
    if dim is None or not isinstance(dim, int) and not len(dim):
        return list(range(input.ndim))
    return [dim] if isinstance(dim, int) else list(dim)


def _reduced(reduce):
    name = reduce.__name__

    def reduction(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor:
        x = _typed(input, dtype)
        # Sums of bools and small integers are of int64.
        if name in ("sum", "prod") and dtype is None and not (x.is_floating_point() or x.is_complex()):
            x = x.to(_C.int64)
        return reduce(_filled(x, mask, _neutral(name, x.dtype)), _dims(input, dim), keepdim)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = reduce.__doc__
    return reduction


@_reduced
def sum(x: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """The sum of the elements where the mask holds: 0 where there are none.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.masked.sum(ad.tensor([1.0, 2.0, 4.0]), 0, mask=ad.tensor([True, False, True]))
    tensor(5.)
    """
    return x.sum(dims, keepdim)


@_reduced
def prod(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """The product of the elements where the mask holds: 1 where there are none."""
    for d in sorted((d % builtins.max(x.ndim, 1) for d in dims), reverse=True):
        x = x.prod(d, keepdim=True)
    return x if keepdim or not dims else x.squeeze(dims)


@_reduced
def amax(x: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """The largest element where the mask holds: the least number of the dtype where there are none."""
    return x.amax(dims, keepdim)


@_reduced
def amin(x: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """The smallest element where the mask holds: the greatest number of the dtype where there are none."""
    return x.amin(dims, keepdim)


def argmax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest element is among those where the mask holds: an index, in the dtype of the input as in torch."""
    x = _filled(input, mask, _neutral("amax", input.dtype))
    return x.argmax(dim, keepdim).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest element is among those where the mask holds: an index, in the dtype of the input as in torch."""
    x = _filled(input, mask, _neutral("amin", input.dtype))
    return x.argmin(dim, keepdim).to(dtype or input.dtype)


def _counted(x, mask, dims):
    """How many elements count, with reduced dimensions kept."""
    if mask is None:
        return _C._full((), x.numel() if not dims else _size(x, dims), dtype=x.dtype)
    return _mask(x, mask).sum(dims, keepdim=True).to(x.dtype)


def _size(x, dims):
    size = 1
    for d in dims:
        size *= x.shape[d] if x.ndim else 1
    return size


def _has_fractions(x):
    return x.is_floating_point() or x.is_complex()


def _need_fractions(name, x):
    if not _has_fractions(x):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {x.dtype}"
        )


def _squeezed(x, dims, keepdim):
    return x if keepdim else x.squeeze(dims)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the elements where the mask holds: NaN where there are none."""
    x, dims = _typed(input, dtype), _dims(input, dim)
    _need_fractions("mean", x)
    total = _filled(x, mask, 0).sum(dims, True)
    return _squeezed(total / _counted(x, mask, dims), dims, keepdim)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median of the elements where the mask holds, the lower one of two: NaN where there are none."""
    x = _typed(input, dtype)
    if mask is None:
        return x.median(dim, keepdim)[0]
    fractions = _has_fractions(x)
    result = _filled(x if fractions else x.float(), mask, float("nan")).nanmedian(dim, keepdim)[0]
    if not fractions and result.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result if fractions else result.to(x.dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements where the mask holds.

    Parameters
    ----------
    correction : number, 1 when left out
        What is taken from their count; 0 and 1 are `unbiased` False and True.

    Returns
    -------
    Tensor
        Of the dtype of the input, complex where that is, as in torch; float32 for integers.
    """
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    less = (1 if unbiased is None else int(unbiased)) if correction is None else correction
    x, dims = _typed(input, dtype), _dims(input, dim)
    if not _has_fractions(x):
        x = x.float()
    count = _counted(x, mask, dims)
    centred = _filled(x - _filled(x, mask, 0).sum(dims, True) / count, mask, 0)
    squares = centred * (centred.conj() if x.is_complex() else centred)
    count = count.real if x.is_complex() else count
    result = _squeezed(squares.sum(dims, True) / (count - less).clamp(min=0), dims, keepdim)
    return _typed(result, dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of the elements where the mask holds."""
    x = _typed(input, dtype)
    _need_fractions("norm", x)
    order = 2.0 if ord is None else float(ord)
    nothing = float("inf") if order == float("-inf") else 0
    return _C._vector_norm(_filled(x, mask, nothing), order, _dims(input, dim), keepdim)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``log(sum(exp(input)))`` of the elements where the mask holds: -inf where there are none."""
    x = input if _has_fractions(input) else input.float()
    return _filled(x, mask, float("-inf")).logsumexp(_dims(input, dim), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Any = None,
    other_mask: Any = None,
) -> Tensor:
    """``log(exp(input) + exp(other))``, without what its mask does not hold for."""
    x, y = _typed(input, dtype), _typed(other, dtype)
    return _C.logaddexp(_filled(x, input_mask, float("-inf")), _filled(y, other_mask, float("-inf")))


def softmax(input: Tensor, dim: Any, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` over the elements where the mask holds, and 0 elsewhere; NaN where there are none.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.masked.softmax(ad.zeros(3), 0, mask=ad.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return _filled(_typed(input, dtype), mask, float("-inf")).softmax(dim)


def log_softmax(input: Tensor, dim: Any, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """`log_softmax` over the elements where the mask holds, and -inf elsewhere; NaN where there are none."""
    return _filled(_typed(input, dtype), mask, float("-inf")).log_softmax(dim)


def softmin(input: Tensor, dim: Any, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of the negative."""
    return softmax(-_typed(input, dtype), dim, mask=mask)


def cumsum(input: Tensor, dim: Any, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The sum up to each element of those where the mask holds."""
    x = _typed(input, dtype)
    return _filled(x, mask, 0).cumsum(dim, dtype=x.dtype)


def cumprod(input: Tensor, dim: Any, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The product up to each element of those where the mask holds."""
    x = _typed(input, dtype)
    return _filled(x, mask, 1).cumprod(dim, dtype=x.dtype)


def normalize(
    input: Tensor,
    ord: Any,
    dim: Any,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divided by the norm of the elements where the mask holds, or by `eps` where that is larger; 0 elsewhere."""
    x = _typed(input, dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / length.clamp(min=eps)


register.publish(globals())
