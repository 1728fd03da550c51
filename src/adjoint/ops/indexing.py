"""Indices: where elements are, reading at them, and turning them into coordinates or rows. Writing is in `writing`.

Start reading at `nonzero`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give
from adjoint._publish.register import composition
from adjoint._switches import switches
from adjoint._types import Any, Dims, Shape
from adjoint.ops.shape import broadcast_shapes


@composition
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The indices of the elements that are not zero: one row per element, or one tensor per dimension.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nonzero(ad.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    if as_tuple:
        if out is not None:
            raise TypeError(
                "nonzero(): out= takes one tensor, and as_tuple=True gives one per dimension; leave one of the two out"
            )
        return _C._nonzero(input if input.ndim else input.reshape(1)).unbind(1)
    result = _C._nonzero(input)
    return give(out, result, "nonzero", converts=False)


@composition
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, as rows."""
    return _C._nonzero(input)


@composition
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The indices of the first `size` elements that are not zero, as rows; rows that are left hold `fill_value`."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, but got {size}")
    found = _C._nonzero(input)[:size]
    rest = _C._full((size - found.shape[0], input.ndim), fill_value, dtype=_C.int64)
    return give(out, _C.cat((found, rest)), "nonzero_static")


@composition
def take_along_dim(input: Tensor, indices: Tensor, dim: Dims = None, *, out: Tensor | None = None) -> Tensor:
    """The elements at the indices along a dimension; the other dimensions broadcast. Without `dim`, of all elements.

    Along a dimension, negative indices count from its end.
    """
    if indices.dtype is not _C.int64:
        raise RuntimeError(
            f"{switches.package}.take_along_dim(): dtype of indices should be Long but got {indices.type()}"
        )
    if dim is None:
        return _C.gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    along: Any = dimension(dim, input.ndim)
    mine, theirs = list(input.shape), list(indices.shape)
    mine[along] = theirs[along] = 1
    common = list(broadcast_shapes(mine, theirs))
    mine, theirs = list(common), list(common)
    mine[along], theirs[along] = input.shape[along], indices.shape[along]
    indices = _C.where(indices < 0, indices + input.shape[along], indices)
    return _C.gather(input.expand(mine), along, indices.expand(theirs), out=out)


@composition(method=False)
def unravel_index(indices: Tensor, shape: Shape) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of positions in a tensor of a shape.

    Parameters
    ----------
    indices : Tensor of integers
    shape : int or sequence of int
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, list, tuple)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
        if size < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    # A small dtype need not hold the sizes.
    indices = indices.to(_C.int64)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(indices % size)
        indices = indices // size
    return tuple(reversed(coordinates))


@composition(method=False)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension that is 1 at the index and 0 elsewhere.

    Parameters
    ----------
    tensor : int64 Tensor, not negative
    num_classes : int
        The size of the new dimension; -1 takes one more than the largest index.
    """
    if tensor.dtype is not _C.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, but got {tensor.dtype}"
        )
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _C._zeros((*tensor.shape, num_classes), dtype=_C.int64)
    if tensor.is_meta and num_classes > 0:
        return _C._empty((*tensor.shape, num_classes), dtype=_C.int64)
    # Where the number of classes is given, all samples of a vmap() are looked at together.
    whole = _C._whole(tensor) if num_classes > 0 else tensor
    least, largest = (x.item() for x in _C.aminmax(whole))
    if least < 0:
        raise RuntimeError(f"Class values must be non-negative, but one of them is {least}.")
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes <= largest:
        raise RuntimeError(f"Class values must be smaller than num_classes, but {largest} >= {num_classes}.")
    if whole.shape != tensor.shape:
        return (tensor.unsqueeze(-1) == _C._arange(0, num_classes, 1, dtype=_C.int64)).to(_C.int64)
    count = tensor.numel()
    hot = _C._zeros((count * num_classes,), dtype=_C.int64)
    hot[_C._arange(0, count * num_classes, num_classes) + tensor.reshape(-1)] = 1
    return hot.view((*tensor.shape, num_classes))
