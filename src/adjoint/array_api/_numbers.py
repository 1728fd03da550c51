"""Reductions, sorting and set functions."""

from __future__ import annotations

import collections

import adjoint as ad
from adjoint._types import Any, DType, Tensor
from adjoint.array_api._shapes import axes_of

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "sort",
    "std",
    "sum",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "var",
]

UniqueAllResult = collections.namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = collections.namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = collections.namedtuple("UniqueInverseResult", "values inverse_indices")


def sum(x: Tensor, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; of small integers as int64."""
    axes = axes_of(x, axis)
    if not axes:
        return x.to(dtype or ad.sum(x).dtype, copy=True)
    return ad.sum(x, axes, keepdims, dtype=dtype)


def prod(x: Tensor, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product over axes; of small integers as int64."""
    result = x.to(dtype or ad.prod(x).dtype, copy=True)
    for a in sorted((a % x.ndim for a in axes_of(x, axis)), reverse=True):
        result = ad.prod(result, a, keepdims)
    return result


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over axes."""
    axes = axes_of(x, axis)
    return ad.mean(x, axes, keepdims) if axes else x.clone()


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes: squares of distances over n - correction."""
    axes = axes_of(x, axis)
    return ad.var(x, axes, correction=correction, keepdim=keepdims) if axes else (x - x).abs()


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes, the root of `var`."""
    axes = axes_of(x, axis)
    return ad.std(x, axes, correction=correction, keepdim=keepdims) if axes else (x - x).abs()


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes."""
    axes = axes_of(x, axis)
    return ad.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes."""
    axes = axes_of(x, axis)
    return ad.amin(x, axes, keepdims) if axes else x.clone()


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether no element over axes is zero."""
    axes = axes_of(x, axis)
    return ad.all(x != 0, axes, keepdims) if axes else x.to(ad.bool, copy=True)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether an element over axes is not zero."""
    axes = axes_of(x, axis)
    return ad.any(x != 0, axes, keepdims) if axes else x.to(ad.bool, copy=True)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements over axes are not zero."""
    return sum((x != 0).to(ad.int64), axis=axis, keepdims=keepdims)


def _position(f, x, axis, keepdims):
    if axis is None:
        found = f(x.reshape(-1), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return f(x, axis, keepdims)


def argmax(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is, the first of equal ones."""
    return _position(ad.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is, the first of equal ones."""
    return _position(ad.argmin, x, axis, keepdims)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """In order along an axis."""
    return ad.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices by which `sort` takes the elements."""
    return ad.sort(x, dim=axis, descending=descending, stable=stable).indices


def _accumulate(f, neutral, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{f.__name__}(): axis is required for an array of {x.ndim} dimensions")
        axis = 0
    result = f(x if x.ndim else x.reshape(1), axis, dtype=dtype)
    if include_initial:
        first = ad.full_like(result.narrow(axis, 0, 0), neutral)
        shape = [1 if a == axis % result.ndim else n for a, n in enumerate(result.shape)]
        result = ad.cat([ad.full(shape, neutral, dtype=first.dtype), result], axis)
    return result


def cumulative_sum(
    x: Tensor, /, *, axis: Any = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Sums of the first elements along an axis."""
    return _accumulate(ad.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: Any = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Products of the first elements along an axis."""
    return _accumulate(ad.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Any = None
) -> Tensor:
    """Differences of neighbours along an axis, `n` times; scikit-learn gives `n` by position, as NumPy has it."""
    return ad.diff(x, n, axis, prepend, append)


def _unique(x):
    """Values as they were met in order, where each was first, which is whose, how many; each NaN for itself."""
    flat = x.reshape(-1)
    if not flat.numel():
        none = ad.zeros(0, dtype=ad.int64)
        return flat, none, none.reshape(x.shape), none
    values, order = _ordered(flat)
    new = ad.ones_like(order, dtype=ad.bool)
    new[1:] = values[1:] != values[:-1]
    firsts = ad.nonzero(new)[:, 0]
    inverse = ad.empty_like(order)
    inverse[order] = ad.cumsum(new, 0) - 1
    counts = ad.diff(ad.cat([firsts, ad.tensor([flat.numel()])]))
    return values[firsts], order[firsts], inverse.reshape(x.shape), counts


def _ordered(flat):
    if not flat.is_complex():
        return ad.sort(flat, stable=True)
    order = ad.sort(flat.imag, stable=True).indices
    order = order[ad.sort(flat.real[order], stable=True).indices]
    return flat[order], order


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """Different elements, where each is first, which of them each element is, and how often each is there."""
    return UniqueAllResult(*_unique(x))


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """Different elements, and how often each is there."""
    values, _, _, counts = _unique(x)
    return UniqueCountsResult(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """Different elements, and which of them each element is."""
    values, _, inverse, _ = _unique(x)
    return UniqueInverseResult(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """Different elements."""
    return _unique(x)[0]
