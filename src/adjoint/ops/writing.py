"""Writing elements: in place (`copy_`, `fill_`, `index_put_`) and into copies (`scatter`, `put`). Start reading at `Writing`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give, ignores
from adjoint._publish.register import Members, composition, extend
from adjoint._switches import announce, switches
from adjoint._types import Any, Callable, Ints, Number, Shape
from adjoint.ops.part import sliced as _sliced


@extend
class Writing(Members):
    """Writes in place."""

    @ignores("non_blocking", why="a copy is done when the call returns", warns=False)
    def copy_(self, src: Tensor, non_blocking: bool = False) -> Tensor:
        """Write the values of another tensor, broadcast and converted."""
        return _C._copy(self, src)

    def fill_(self, value: Number | Tensor) -> Tensor:
        """Write one value everywhere."""
        return _C._fill(self, value)

    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
        return _C._zero(self)

    def fill_diagonal_(self, fill_value: Number, wrap: bool = False) -> Tensor:
        """Write one value along the main diagonal of a matrix, or where all indices of a cube are equal.

        Parameters
        ----------
        wrap : bool
            In a tall matrix, start again at the top of the columns after each square and one row.
        """
        if self.ndim < 2 or self.ndim > 2 and len({*self.shape}) > 1:
            raise RuntimeError(
                "fill_diagonal_(): all dimensions of input must be of equal length, and there must be two or more, "
                f"but got {list(self.shape)}"
            )
        if self.ndim > 2:
            diagonal = _C._arange(0, self.shape[0], 1, dtype=_C.int64)
            self[(diagonal,) * self.ndim] = fill_value
            return self
        rows, columns = self.shape
        for start in range(0, rows, columns + 1) if wrap else (0,):
            self[start : start + columns].diagonal().fill_(fill_value)
        return self

    def index_put_(self, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
        """Write values, or add them, at the positions that index tensors name."""
        if isinstance(indices, Tensor):
            raise TypeError(
                "index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor"
            )
        if not isinstance(values, Tensor):
            values = _C._full((), values, dtype=self.dtype)
        if accumulate and values.dtype is not self.dtype:  # other writes see to it themselves
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{self.dtype} for the destination and {values.dtype} for the source."
            )
        if not indices:
            raise RuntimeError(
                f"index_put_(): the tuple of indices is empty: shape mismatch: value tensor of shape {list(values.shape)} "
                f"cannot be broadcast to indexing result of shape {list(self.shape)}. Use copy_() or add_() to write a "
                "whole tensor"
            )
        if values.ndim > 1 and values.ndim > (rank := _rank_of_part(self, indices)):
            raise RuntimeError(
                f"index_put_(): shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result "
                f"with {rank} dimensions"
            )
        if accumulate:
            if any(isinstance(i, Tensor) and i.dtype is _C.uint8 for i in indices):
                announce(
                    f"indexing with dtype {switches.package}.uint8 is now deprecated, please use a dtype {switches.package}.bool instead.",
                    stacklevel=2,
                )
            return _C._index_put(self, values, list(indices), True)
        self[tuple(slice(None) if i is None else i for i in indices)] = values
        return self

    def apply_(self, callable: Callable[..., Any]) -> Tensor:
        """Write what a Python function gives for each element. Slow: operators do the same at once.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.arange(3).apply_(lambda i: i * i)
        tensor([0, 1, 4])
        """
        return _by_elements(self, "apply_", callable)

    def map_(self, tensor: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Write ``callable(element, other)`` for each element and that of another tensor in its place."""
        return _by_elements(self, "map_", callable, tensor)

    def map2_(self, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Write ``callable(element, of_x, of_y)`` for each element and those of two tensors in its place."""
        return _by_elements(self, "map2_", callable, x, y)


def _by_elements(t, name, function, *others):
    """Write a function of each element, and of those of other tensors, which are broadcast."""
    if any(isinstance(x, Tensor) and _C._requires_grad_anywhere(x) for x in (t, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    for other in others:
        if not isinstance(other, Tensor):
            raise TypeError(
                f"{name}(): expected a tensor beside the function, but got {type(other).__name__}"
            )
        if other.dtype is not t.dtype:
            raise TypeError(
                f"{name}(): expected tensors of one type, but got {other.dtype} beside {t.dtype}; convert with .to()"
            )
    lists = [x.expand(t.shape).reshape(-1).tolist() for x in (t, *others)]
    made = _C.tensor([function(*elements) for elements in zip(*lists)], dtype=t.dtype)
    return t.copy_(made.reshape(t.shape))


def _rank_of_part(t, indices):
    """How many dimensions the part of a tensor has that these index tensors name."""
    masks = [i.ndim for i in indices if i is not None and i.dtype in (_C.bool, _C.uint8)]
    others = [i.ndim for i in indices if i is not None and i.dtype not in (_C.bool, _C.uint8)]
    return t.ndim - sum(masks) - len(others) + max([1] * bool(masks) + others, default=0)


@composition
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` written, or added, at the positions that index tensors name."""
    return input.clone().index_put_(indices, values, accumulate)


@composition(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with the elements of `source` written, or added, at positions of all elements in row-major order."""
    if index.dtype is not _C.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype}")
    if index.numel() != source.numel():
        raise RuntimeError("put_(): Expected source and index to have the same number of elements")
    at = (index.reshape(-1),)
    return input.reshape(-1).index_put(at, source.reshape(-1), accumulate).reshape(input.shape)


@composition(inplace=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
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
        multiply: Any = _C._scatter_multiply if isinstance(src, Tensor) else _C._scatter_multiply_value
        result = multiply(input, dim, index, src)
    else:
        write: Any = _C._scatter if isinstance(src, Tensor) else _C._scatter_value
        result = write(input, dim, index, src, reduce)
    return give(out, result, "scatter", converts=False)


# --- into the copy of a part -----------------------------------------------------------------------------------------


def _with_part(input, src, part):
    """A copy of `input` in which the part that a function of it views holds `src`."""
    result = input.clone()
    view = part(result)
    if view.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(view.shape)}"
        )
    view.copy_(src)
    return result


@composition
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` instead of ``input.select(dim, index)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.select_scatter(ad.zeros(2, 2), ad.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _with_part(input, src, lambda x: x.select(dim, index))


@composition
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` instead of the slice ``start:end:step`` of a dimension."""
    result = _with_part(input, src, lambda x: _sliced(x, dim, start, end, step))
    return give(out, result, "slice_scatter", converts=False)


@composition
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` instead of ``input.diagonal(offset, dim1, dim2)``."""
    return _with_part(input, src, lambda x: x.diagonal(offset, dim1, dim2))


@composition
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Shape, stride: Ints, storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` instead of ``input.as_strided(size, stride, storage_offset)``."""
    return _with_part(input, src, lambda x: x.as_strided(size, stride, storage_offset))


# --- what meets in one place -----------------------------------------------------------------------------------------

#: The value that changes nothing, by how elements are combined.
_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1}


def _neutral(reduce, dtype):
    if reduce in _NEUTRAL:
        return _NEUTRAL[reduce]
    if dtype is _C.bool:
        return reduce == "amin"
    if dtype.is_floating_point:
        return float("-inf" if reduce == "amax" else "inf")
    from adjoint._tensor.dtypes import iinfo

    return iinfo(dtype).min if reduce == "amax" else iinfo(dtype).max


def _combined(input, dim, index, src, reduce, include_self, name):
    """Elements of `src`, and of `input` if asked for, combined where `index` says; what gets none stays as it is."""
    if src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if reduce == "mean" and input.dtype in (_C.float16, _C.bfloat16):
        # The sum may be beyond what the halves reach, and the count beyond what they tell apart.
        return _combined(input.float(), dim, index, src.float(), reduce, include_self, name).to(input.dtype)
    if not include_self:
        untouched = _C._full(input.shape, True).scatter(dim, index, False)
        input = _C.where(untouched, input, _C._full((), _neutral(reduce, input.dtype), dtype=input.dtype))
    if reduce == "prod":
        return _C._scatter_multiply(input, dim, index, src)
    if reduce in ("amax", "amin"):
        if input.dtype is _C.bool:
            return _combined(input.to(_C.uint8), dim, index, src.to(_C.uint8), reduce, True, name).to(_C.bool)
        return _C._scatter_extreme(input, dim, index, src, reduce == "amax")
    total = input.scatter_add(dim, index, src)
    if reduce == "sum":
        return total
    ones = _C._full(src.shape, 1, dtype=input.dtype)
    count = _C._full(input.shape, int(include_self), dtype=input.dtype).scatter_add(dim, index, ones)
    count = count.clamp(min=1)
    return total / count if count.is_floating_point() or count.is_complex() else total // count


@composition(inplace=True)
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` in which the elements of `src` are reduced at the indices along a dimension.

    Parameters
    ----------
    reduce : 'sum', 'prod', 'mean', 'amax' or 'amin'
        How elements that meet are combined. Of equal extremes each gets its share of the gradient.
    include_self : bool
        Whether the element that was there takes part; where nothing comes, it stays.

    Examples
    --------
    >>> import adjoint as ad
    >>> src, index = ad.tensor([1.0, 2, 3, 4]), ad.tensor([0, 1, 0, 1])
    >>> ad.scatter_reduce(ad.zeros(3), 0, index, src, "mean", include_self=False)
    tensor([2., 3., 0.])
    """
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    result = _combined(input, dim, index, src, reduce, include_self, "scatter_reduce")
    return give(out, result, "scatter_reduce", converts=False)


@composition(inplace=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` in which the slices of `source` are reduced into those that `index` names along a dimension.

    Parameters
    ----------
    index : int64 or int32 Tensor, shape (n)
    reduce : 'prod', 'mean', 'amax' or 'amin'
    include_self : bool
        Whether what was there takes part; slices that nothing comes to stay as they are.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    if index.ndim > 1:
        raise IndexError(f"index_reduce(): Index is supposed to be a vector, but got {index.ndim} dimensions")
    if input.ndim == 0:
        flat = index_reduce(input.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self)
        return give(out, flat.reshape(()), "index_reduce", converts=False)
    axis, count = dimension(dim, input.ndim), index.numel()
    if source.ndim == 0 or source.size(dim) != count:
        given = source.size(dim) if source.ndim else 1
        if source.ndim or count != 1:
            raise RuntimeError(
                f"index_reduce_(): Number of indices ({count}) should be equal to source.size(dim): ({given}), for dim: "
                f"{axis}"
            )
        source = source.reshape(1)
    expected = [*input.shape[:axis], count, *input.shape[axis + 1 :]]
    if [*source.shape] != expected:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(input.shape)} source.shape = {list(source.shape)}"
        )
    along = index.to(_C.int64).reshape([-1 if d == axis else 1 for d in range(input.ndim)]).expand(expected)
    try:
        result = _combined(input, axis, along, source, reduce, include_self, "index_reduce")
    except RuntimeError as error:
        if "is out of bounds for dimension" not in str(error):
            raise
        raise IndexError(str(error)) from None  # as the other functions of a vector of indices
    return give(out, result, "index_reduce", converts=False)
