"""Shape manipulation, indexing and joining."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint._types import Any, Ints, Sequence, Shape
from adjoint.array_api._elementwise import together
from adjoint.array_api._info import result_type

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "isin",
    "moveaxis",
    "nonzero",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "searchsorted",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tile",
    "unstack",
    "where",
]


def axes_of(x, axis):
    """All axes for None; a tuple for one."""
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def broadcast_arrays(*arrays: Any) -> Sequence[Tensor]:
    """Broadcast arrays to their common shape."""
    return tuple(ad.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast."""
    try:
        return tuple(ad.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def broadcast_to(x: Tensor, /, shape: Shape) -> Tensor:
    """`x` repeated to a shape, without a copy."""
    return ad.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Concatenate arrays along an axis; flatten them first if `axis` is None."""
    dtype = result_type(*arrays)
    arrays = [x.to(dtype) for x in arrays]
    return ad.cat([x.reshape(-1) for x in arrays], 0) if axis is None else ad.cat(arrays, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Stack arrays along a new axis."""
    dtype = result_type(*arrays)
    return ad.stack([x.to(dtype) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis."""
    return ad.unbind(x, axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """Insert an axis of length 1; several where `axis` is a tuple."""
    if isinstance(axis, int):
        if not -x.ndim - 1 <= axis <= x.ndim:
            raise IndexError(
                f"expand_dims(): axis {axis} is out of range for an array of {x.ndim} dimensions"
            )
        return ad.unsqueeze(x, axis)
    rank = x.ndim + len(axis)
    if len({a % rank for a in axis if -rank <= a < rank}) != len(axis):
        raise ValueError(
            f"expand_dims(): axes {axis} are not different axes of an array of {rank} dimensions"
        )
    for i in sorted(a % rank for a in axis):
        x = ad.unsqueeze(x, i)
    return x


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Remove axes of length 1.

    Raises
    ------
    ValueError
        One of the axes has another length.
    """
    axes = axes_of(x, axis)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze(): axis {a} has length {x.shape[a]}, not 1")
    return ad.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """Reverse the order of the elements along some or all axes."""
    return ad.flip(x, axes_of(x, axis))


def moveaxis(x: Tensor, source: Ints, destination: Ints, /) -> Tensor:
    """Move axes to other positions; the others keep their order."""
    return ad.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """Permute the axes."""
    return ad.permute(x, axes)


def reshape(x: Tensor, /, shape: Shape, *, copy: bool | None = None) -> Tensor:
    """Reshape; a copy where `copy` is True, and never where it is False."""
    if copy:
        return x.clone().reshape(shape)
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape(): not possible without a copy (copy=False): {error}") from None
    return ad.reshape(x, shape)


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Shift elements along axes; those that leave at one end come in at the other."""
    return ad.roll(x, shift) if axis is None else ad.roll(x, shift, axis)


def repeat(x: Tensor, repeats: Any, /, *, axis: Any = None) -> Tensor:
    """Repeat each element."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(ad.int64)
    return ad.repeat_interleave(x.reshape(-1) if axis is None else x, repeats, 0 if axis is None else axis)


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Repeat the whole array."""
    return ad.tile(x, repetitions)


def take(x: Tensor, indices: Any, /, *, axis: Any = None) -> Tensor:
    """Parts along an axis by a one-dimensional array of indices."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take(): axis is required for an array of {x.ndim} dimensions")
        axis = 0
    indices = ad.as_tensor(indices)
    return ad.index_select(x, axis, ad.where(indices < 0, indices + x.shape[axis], indices))


def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Elements by an array of indices along an axis; the other axes broadcast."""
    shape = list(
        ad.broadcast_shapes(
            *(t.shape[: axis % x.ndim] + (1,) + t.shape[axis % x.ndim + 1 :] for t in (x, indices))
        )
    )
    sizes = [[*shape[: axis % x.ndim], t.shape[axis], *shape[axis % x.ndim + 1 :]] for t in (x, indices)]
    indices = ad.where(indices < 0, indices + x.shape[axis], indices)
    return ad.gather(x.expand(sizes[0]), axis, indices.expand(sizes[1]).to(ad.int64))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Indices of elements that are not zero, one array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero(): an array without dimensions has no indices")
    return ad.nonzero(x, as_tuple=True)


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where the elements of `x2` belong in the sorted array `x1`."""
    if not isinstance(x2, Tensor):
        x2 = ad.tensor(x2)
    dtype = ad.promote_types(x1.dtype, x2.dtype)
    return ad.searchsorted(x1.to(dtype), x2.to(dtype), side=side, sorter=sorter)


def isin(x1: Tensor, x2: Tensor, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is among those of `x2`."""
    return ad.isin(*together(x1, x2), invert=invert)


def where(condition: Any, x1: Tensor | None = None, x2: Tensor | None = None, /) -> Any:
    """Elements of `x1` where the condition holds, else of `x2`; without these, the indices where it holds, as `nonzero` has them."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    return ad.where(condition, *together(x1, x2))
