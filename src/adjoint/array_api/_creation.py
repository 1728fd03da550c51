"""Array creation functions."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint._types import Any, Device, DType, Sequence, Shape

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Device | None = None, copy: bool | None = None
) -> Tensor:
    """An array of numbers, nested sequences, buffers or arrays; without a copy where `copy` is not True and none is needed.

    Raises
    ------
    ValueError
        `copy` is False and a copy is needed.
    """
    if copy is None:
        return ad.as_tensor(obj, dtype=dtype, device=device)
    if copy:
        return (
            obj.to(dtype or obj.dtype, copy=True)
            if isinstance(obj, Tensor)
            else ad.tensor(obj, dtype=dtype, device=device)
        )
    if isinstance(obj, Tensor):
        found = obj
    elif hasattr(obj, "__dlpack__"):
        found = ad.from_dlpack(obj)
    elif hasattr(obj, "__array_interface__") or isinstance(obj, memoryview):
        found = ad.as_tensor(obj)
    else:
        raise ValueError(
            f"asarray(): {type(obj).__name__} cannot become an array without a copy (copy=False)"
        )
    if dtype is not None and found.dtype is not dtype:
        raise ValueError(f"asarray(): {found.dtype} cannot become {dtype} without a copy (copy=False)")
    return found


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: int = 1,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Tensor:
    """Numbers from `start` up to but without `stop`; none where the step leads away from it."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step <= 0 and step != 0:
        whole = all(isinstance(x, int) for x in (start, stop, step))
        return ad.empty(0, dtype=dtype or (ad.int64 if whole else None), device=device)
    return ad.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """An array that is not initialised."""
    return ad.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """An array of zeros."""
    return ad.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """An array of ones."""
    return ad.ones(_shape(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: Any, *, dtype: DType | None = None, device: Device | None = None
) -> Tensor:
    """An array of one value."""
    return ad.full(_shape(shape), fill_value, dtype=dtype, device=device)


def eye(
    n_rows: Any,
    n_cols: Any = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Tensor:
    """Ones on the diagonal number `k`, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    result = ad.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def linspace(
    start: Any,
    stop: Any,
    /,
    num: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`; without the last one where `endpoint` is False."""
    if dtype is None and any(isinstance(x, complex) for x in (start, stop)):
        dtype = ad.promote_types(ad.get_default_dtype(), ad.complex64)
    if endpoint:
        return ad.linspace(start, stop, num, dtype=dtype, device=device)
    return ad.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Any, indexing: str = "xy") -> Sequence[Tensor]:
    """Coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): expected indexing to be 'xy' or 'ij', but got {indexing!r}")
    order = list(range(len(arrays)))
    if indexing == "xy":
        order[:2] = order[1::-1]
    shape = [arrays[i].numel() for i in order]
    return tuple(x.reshape([-1 if i == k else 1 for i in order]).expand(shape) for k, x in enumerate(arrays))


def from_dlpack(x: Tensor, /, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's."""
    found = ad.from_dlpack(x) if device is None else ad.from_dlpack(x, device=device)
    return found.clone() if copy else found


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """An array of the shape and type of `x` that is not initialised."""
    return ad.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """Zeros in the shape and type of `x`."""
    return ad.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """Ones in the shape and type of `x`."""
    return ad.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: DType | None = None, device: Device | None = None
) -> Tensor:
    """One value in the shape and type of `x`."""
    return ad.full_like(x, fill_value, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of each matrix on and below diagonal number `k`; zeros above."""
    return ad.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of each matrix on and above diagonal number `k`; zeros below."""
    return ad.triu(x, k)
