"""Shapes, joining and indexing as compositions of the core's operators, and torch's overloads of those.

Start reading at `split`; how functions reach users is said in `_register`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._creation import _into
from adjoint._register import overload

# --- views -----------------------------------------------------------------------------------------------------------


@overload
def tensor_split(input, indices_or_sections, dim=0) -> tuple[Tensor, ...]:
    """Consecutive pieces along a dimension, as views: so many of nearly one size, or cut at the given places."""
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got "
                f"a tensor with {indices_or_sections.ndim} dims"
            )
        if indices_or_sections.dtype is not _C.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{indices_or_sections.dtype._type_name}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if not isinstance(indices_or_sections, (list, tuple)):
        if not isinstance(indices_or_sections, int):
            raise TypeError(
                "tensor_split(): argument 'indices_or_sections' (position 2) must be int or tuple of ints, not "
                f"{type(indices_or_sections).__name__}"
            )
        return _C._split_sections(input, indices_or_sections, dim)
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    size = input.size(dim)
    cuts = [0, *(min(size, max(0, i + size if i < 0 else i)) for i in indices_or_sections), size]
    return tuple(input.narrow(dim, a, max(0, b - a)) for a, b in zip(cuts, cuts[1:]))


def _splitter(name, axis, least):
    def cut(input, indices_or_sections):
        if input.ndim < least:
            raise RuntimeError(
                f"{name} requires a tensor with at least {least} dimension(s), but got {input.ndim}"
            )
        return tensor_split(input, indices_or_sections, axis(input))

    cut.__name__ = cut.__qualname__ = name
    cut.__doc__ = f"`tensor_split` along dimension {axis(None)}."
    overload(cut)


_splitter("hsplit", lambda x: 0 if x is not None and x.ndim == 1 else 1, 1)
_splitter("vsplit", lambda x: 0, 2)
_splitter("dsplit", lambda x: 2, 3)


@overload
def unsafe_chunk(input, chunks, dim=0) -> tuple[Tensor, ...]:
    """`chunk`, with parts that may be written in place: they are copies, and share no memory."""
    return tuple(part.clone() for part in input.chunk(chunks, dim))


@overload
def unsafe_split(tensor, split_size, dim=0) -> tuple[Tensor, ...]:
    """`split`, with parts that may be written in place: they are copies, and share no memory.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(4, requires_grad=True)
    >>> a, b = x.unsafe_split(2)
    >>> a.mul_(3).sum().backward()
    >>> x.grad
    tensor([3., 3., 0., 0.])
    """
    return tuple(part.clone() for part in tensor.split(split_size, dim))


@overload
def unsafe_split_with_sizes(input, split_sizes, dim=0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, with parts that may be written in place: they are copies, and share no memory."""
    return tuple(part.clone() for part in input.split_with_sizes(split_sizes, dim))


@overload
def ravel(input) -> Tensor:
    """All elements in one dimension, next to each other: a view where they are so already."""
    return input.contiguous().reshape(-1)


@overload
def adjoint(input) -> Tensor:
    """The transposed conjugate of the last two dimensions."""
    return input.mH


@overload(method=False)
def broadcast_shapes(*shapes) -> _C.Size:
    """The shape that all of the given shapes broadcast to.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.broadcast_shapes((3, 1), (4,))
    adjoint.Size([3, 4])
    """
    result: list[int] = []
    for shape in shapes:
        shape = [shape] if isinstance(shape, int) else list(shape)
        result = [1] * (len(shape) - len(result)) + result
        for i, n in enumerate(reversed(shape), 1):
            if n < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({n}): ({n})")
            if result[-i] == 1:
                result[-i] = n
            elif n not in (1, result[-i]):
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    + " and ".join(str(tuple(s) if not isinstance(s, int) else (s,)) for s in shapes)
                )
    return _C.Size(result)


def _all(tensors):
    """Tensors given one by one, or as one sequence."""
    return tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors


@overload(method=False)
def broadcast_tensors(*tensors) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape, as views."""
    tensors = _all(tensors)
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


@overload(method=False)
def meshgrid(*tensors, indexing=None) -> tuple[Tensor, ...]:
    """The coordinates of a grid: for each one-dimensional input a tensor of the shape of the grid, as views.

    Parameters
    ----------
    indexing : 'ij' or 'xy'
        Whether the first input runs along the rows, as here by default, or along the columns, as NumPy has it.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, y = ad.meshgrid(ad.arange(2), ad.arange(3), indexing="ij")
    >>> x.tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    axes = list(_all(tensors))
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid(): indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in axes:
        if t.ndim > 1:
            raise RuntimeError(
                f"meshgrid(): Expected 0D or 1D tensor in the tensor list but got: {list(t.shape)}"
            )
        if t.dtype is not axes[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(axes) > 1
    if swapped:
        axes[:2] = axes[1::-1]
    shape = [t.numel() for t in axes]
    grids = [
        t.reshape([-1 if i == k else 1 for i in range(len(axes))]).expand(shape) for k, t in enumerate(axes)
    ]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def _at_least(n):
    names = {1: "atleast_1d", 2: "atleast_2d", 3: "atleast_3d"}

    def raised(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return lift(tensors[0])
        return tuple(lift(t) for t in _all(tensors))

    def lift(t):
        if n == 3 and t.ndim >= 1:
            t = t.reshape(1, -1) if t.ndim == 1 else t
            return t.unsqueeze(-1) if t.ndim == 2 else t
        return t if t.ndim >= n else t.reshape([1] * (n - t.ndim) + list(t.shape))

    raised.__name__ = raised.__qualname__ = names[n]
    raised.__doc__ = f"Each tensor with at least {n} dimension(s), as views."
    return overload(raised, method=False)


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


# --- joining and rearranging -----------------------------------------------------------------------------------------


@overload(method=False)
def hstack(tensors, *, out=None) -> Tensor:
    """Join along columns: along dimension 1, or 0 for one-dimensional tensors."""
    tensors = [atleast_1d(t) for t in tensors]
    return _C.cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1, out=out)


@overload(method=False)
def vstack(tensors, *, out=None) -> Tensor:
    """Join along rows; one-dimensional tensors become rows."""
    return _C.cat([atleast_2d(t) for t in tensors], 0, out=out)


@overload(method=False)
def row_stack(tensors, *, out=None) -> Tensor:
    """`vstack`."""
    return vstack(tensors, out=out)


@overload(method=False)
def dstack(tensors, *, out=None) -> Tensor:
    """Join along the third dimension."""
    return _C.cat([atleast_3d(t) for t in tensors], 2, out=out)


@overload(method=False)
def column_stack(tensors, *, out=None) -> Tensor:
    """Join along columns; one-dimensional tensors become columns."""
    return _C.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1, out=out)


@overload
def fliplr(input) -> Tensor:
    """Reverse the columns."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


@overload
def flipud(input) -> Tensor:
    """Reverse the rows."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


@overload
def rot90(input, k=1, dims=(0, 1)) -> Tensor:
    """Turn by 90 degrees, `k` times, in the plane of two dimensions, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    first, second = dims
    if input.ndim < 2 or (first - second) % input.ndim == 0:
        raise RuntimeError(
            f"rot90(): expected two different dimensions of a tensor with at least two, but got {dims}"
        )
    k %= 4
    if k == 0:
        return input.clone()
    if k == 2:
        return input.flip((first, second))
    return input.flip(second if k == 1 else first).transpose(first, second)


@overload
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None) -> Tensor:
    """Each element repeated in its place.

    Parameters
    ----------
    repeats : int, or one-dimensional integer Tensor
        How often, for all or for each element along `dim`.
    dim : int, optional
        Without it the input is flattened.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.repeat_interleave(ad.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        # Of one argument: the index of each, repeated that often.
        return _C._repeat_interleave_each(_C._arange(0, input.numel(), 1, None, False), input, 0)
    if dim is None:
        input, dim = input.reshape(-1), 0
    if isinstance(repeats, (list, tuple)):
        repeats = _C.tensor(list(repeats))
    if isinstance(repeats, Tensor):
        if repeats.numel() != 1:
            return _C._repeat_interleave_each(input, repeats, dim)
        repeats = repeats.item()
    return _C._repeat_interleave(input, repeats, dim)


@overload
def diag(input, diagonal=0, *, out=None) -> Tensor:
    """A matrix with the given diagonal, or the diagonal of a matrix."""
    if input.ndim == 1:
        result = input.diag_embed(diagonal)
    elif input.ndim == 2:
        result = input.diagonal(diagonal).clone()
    else:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return result if out is None else _into(out, result, "diag")


@overload
def diagflat(input, offset=0) -> Tensor:
    """A matrix with the elements of the input on a diagonal."""
    return input.reshape(-1).diag_embed(offset)


@overload
def trace(input) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return input.diagonal().sum()


@overload(method=False)
def cartesian_prod(*tensors) -> Tensor:
    """All combinations of one element of each, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return _C.stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], -1)


@overload(method=False)
def combinations(input, r=2, with_replacement=False) -> Tensor:
    """All choices of `r` elements of a one-dimensional tensor, as rows."""
    from itertools import combinations, combinations_with_replacement
    from math import comb

    if input.ndim != 1:
        raise RuntimeError(f"combinations(): Expects a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations(): Expects a non-negative number, but got {r}")
    n = input.shape[0] + (max(r - 1, 0) if with_replacement and input.shape[0] else 0)
    if r == 0 or r > n:
        return input[:0].reshape(0, r) if r else input[:0]
    # Of 64 the halves alone can be chosen in more ways than there are addresses.
    if min(r, n - r) > 32 or comb(n, r) * r > 2**28:
        raise RuntimeError(
            f"combinations(): {r} of {input.shape[0]} elements can be chosen in more ways than a result can list"
        )
    chooser = combinations_with_replacement if with_replacement else combinations
    chosen = [choice for choice in chooser(range(input.shape[0]), r)]  # noqa: C416 a loop that Ctrl-C ends
    return input[_C.tensor(chosen)]


@overload(method=False)
def block_diag(*tensors) -> Tensor:
    """A matrix with the given matrices along its diagonal."""
    blocks = [atleast_2d(t) for t in _all(tensors)]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(_C.constant_pad_nd(b, (before, width - before - b.shape[1])))
        before += b.shape[1]
    return _C.cat(rows)


# --- indexing --------------------------------------------------------------------------------------------------------


@overload
def nonzero(input, *, as_tuple=False, out=None):
    """The indices of the elements that are not zero: one row per element, or one tensor per dimension.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nonzero(ad.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    if as_tuple:
        return _C._nonzero(input if input.ndim else input.reshape(1)).unbind(1)
    result = _C._nonzero(input)
    return result if out is None else _into(out, result, "nonzero")


@overload
def argwhere(input) -> Tensor:
    """The indices of the elements that are not zero, as rows."""
    return _C._nonzero(input)


@overload
def take_along_dim(input, indices, dim=None, *, out=None) -> Tensor:
    """The elements at the indices along a dimension; the other dimensions broadcast. Without `dim`, of all elements.

    Along a dimension, negative indices count from its end.
    """
    if indices.dtype is not _C.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.type()}"
        )
    if dim is None:
        return _C.gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    dim %= input.ndim
    mine, theirs = list(input.shape), list(indices.shape)
    mine[dim] = theirs[dim] = 1
    common = list(broadcast_shapes(mine, theirs))
    mine, theirs = list(common), list(common)
    mine[dim], theirs[dim] = input.shape[dim], indices.shape[dim]
    indices = _C.where(indices < 0, indices + input.shape[dim], indices)
    return _C.gather(input.expand(mine), dim, indices.expand(theirs), out=out)


@overload(inplace=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None) -> Tensor:
    """A copy of `input` with elements of `src`, or a number, written at the indices along a dimension.

    Parameters
    ----------
    reduce : 'add' or 'multiply', optional
        Combine with what is there instead of writing over it.
    """
    if value is not None:
        src = value
    if src is None:
        raise TypeError("scatter(): missing argument 'src' or 'value'")
    if reduce == "multiply":
        multiply = _C._scatter_multiply if isinstance(src, Tensor) else _C._scatter_multiply_value
        return multiply(input, dim, index, src)
    if isinstance(src, Tensor):
        return _C._scatter(input, dim, index, src, reduce)
    return _C._scatter_value(input, dim, index, src, reduce)


@overload(method=False)
def index_put(input, indices, values, accumulate=False) -> Tensor:
    """A copy of `input` with `values` written, or added, at the indices."""
    return input.index_put(indices, values, accumulate)


@overload(method=False)
def one_hot(tensor, num_classes=-1) -> Tensor:
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
        return _C._zeros((*tensor.shape, num_classes), _C.int64)
    least, largest = (x.item() for x in _C.aminmax(tensor))
    if least < 0:
        raise RuntimeError(f"Class values must be non-negative, but one of them is {least}.")
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes <= largest:
        raise RuntimeError(f"Class values must be smaller than num_classes, but {largest} >= {num_classes}.")
    return (tensor.unsqueeze(-1) == _C._arange(0, num_classes, 1, None, False)).to(_C.int64)
