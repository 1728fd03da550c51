"""Shapes: transposes as members of Tensor, ``view(dtype)``, broadcasting, grids, and copies in another memory format.

Start reading at `Views`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, alternate, composition, extend
from adjoint._tensor.device import contiguous_format, memory_format, preserve_format
from adjoint._tensor.memory_format import copied, laid
from adjoint._types import Any, Callable, DType, Ints, MemoryFormat, Shape

_view = Tensor.view


# --- members ---------------------------------------------------------------------------------------------------------


def _needs_matrix(x, name):
    if x.ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {x.ndim}-D tensor."
        )


def _changing_shape(name):
    """The method that gives a tensor the shape of one of its views."""
    view = getattr(Tensor, name)

    def method(self, *args, **kwargs):
        return _C._become_view(self, view(self, *args, **kwargs), name)

    method.__name__ = name + "_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__doc__ = f"`{name}` in place: the tensor itself is another view of its memory from now on."
    return method


@extend
class Views(Members):
    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order, as a view."""
        return self.permute(tuple(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged, as a view."""
        _needs_matrix(self, "mT")
        return self.transpose(-2, -1) if self.ndim else self.T

    @property
    def H(self) -> Tensor:
        """The transposed conjugate of a matrix."""
        if self.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
                + (" For batches of matrices, consider using tensor.mH" if self.ndim > 2 else "")
            )
        return self.T.conj() if self.is_complex() else self.T

    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged, and the complex conjugate."""
        _needs_matrix(self, "mH")
        return self.mT.conj() if self.is_complex() else self.mT

    def view_as(self, other: Tensor) -> Tensor:
        """``view(other.shape)``."""
        return self.view(other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """``reshape(other.shape)``."""
        return self.reshape(other.shape)

    def expand_as(self, other: Tensor) -> Tensor:
        """``expand(other.shape)``."""
        return self.expand(other.shape)

    def view(self, *shape: Ints | DType, dtype: DType | None = None, size: Shape | None = None) -> Tensor:
        """The same elements under another shape, or the same bytes as another dtype, without copying.

        Parameters
        ----------
        shape : int or tuple of int
            One size may be -1. Or a dtype: the last dimension then changes with the size of the elements.

        Raises
        ------
        RuntimeError
            The layout does not allow it; `reshape` copies then.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.arange(6).view(2, 3).shape
        adjoint.Size([2, 3])
        >>> ad.ones(2).view(ad.int32)
        tensor([1065353216, 1065353216], dtype=adjoint.int32)
        """
        if dtype is None and size is None:
            if len(shape) != 1 or not isinstance(shape[0], (_C.dtype, type)):
                return _view(self, *shape)
            dtype = shape[0]
        elif dtype is None:
            sizes: Any = size
            return _view(self, sizes)
        return _reinterpret(self, _C._dtype(dtype))

    def dim_order(self, *, ambiguity_check: bool | list[memory_format] = False) -> tuple[int, ...]:
        """The dimensions from the outermost in memory to the innermost.

        Parameters
        ----------
        ambiguity_check : bool or list of memory formats
            Whether several orders that fit as well are an error: of dimensions of one element, or of one stride. Of memory
            formats, one alone must fit then; dimensions of one stride stay an error.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2, 3).t().dim_order()
        (1, 0)
        """
        formats = [] if isinstance(ambiguity_check, bool) else ambiguity_check
        if not (isinstance(formats, list) and all(isinstance(f, memory_format) for f in formats)):
            raise TypeError(
                f"The ambiguity_check argument must be a bool or a list of memory formats, but got {ambiguity_check!r}"
            )
        order = tuple(sorted(range(self.ndim), key=lambda d: (-self.stride(d), d)))
        alike = len({*self.stride()}) < self.ndim
        if ambiguity_check is False or not (alike or 1 in self.shape):
            return order
        if alike or sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats: its shape is "
                f"{tuple(self.shape)}, its strides are {self.stride()}"
            )
        return order

    unsqueeze_ = _changing_shape("unsqueeze")

    squeeze_ = _changing_shape("squeeze")

    transpose_ = swapaxes_ = swapdims_ = _changing_shape("transpose")

    t_ = _changing_shape("t")

    as_strided_ = _changing_shape("as_strided")


def _reinterpret(x, dtype):
    if dtype is x.dtype:
        return x[...]  # with the strides of dimensions of one element, too
    batch = _C._batch_of(x)
    if batch is not None and (x.shape or dtype.itemsize == x.element_size()):
        samples, level = batch
        return _C._batched(_reinterpret(samples, dtype), 0, level)
    if _C._requires_grad_anywhere(x):
        raise RuntimeError(
            "view(dtype) has no derivative: use .detach() first, or .to(dtype) to convert values"
        )
    old, new = x.element_size(), dtype.itemsize
    size, stride, offset = list(x.shape), list(x.stride()), x.storage_offset()
    if old != new:
        if not size:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {x.dtype._type_name} as {dtype._type_name} (different element sizes)"
            )
        what = f"to view {x.dtype._type_name} as {dtype._type_name} (different element sizes)"
        if old < new and size[-1] % (new // old):
            raise RuntimeError(f"self.size(-1) must be divisible by {new // old} {what}, but got {size[-1]}")
        if old < new and offset % (new // old):
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {new // old} {what}, but got {offset}"
            )
        if stride[-1] != 1 and size[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {stride[-1]}")
        if old < new:
            ratio = new // old
            for d, step in enumerate(stride[:-1]):
                if step % ratio:
                    raise RuntimeError(
                        f"self.stride({d}) must be divisible by {ratio} {what}, but got {step}"
                    )
            size[-1] //= ratio
            stride, offset = [s // ratio for s in stride[:-1]] + [1], offset // ratio
        else:
            ratio = old // new
            size[-1] *= ratio
            stride, offset = [s * ratio for s in stride[:-1]] + [1], offset * ratio
    return _C._over(_C._storage_bytes(x), dtype, tuple(size), tuple(stride), offset)


# --- functions -------------------------------------------------------------------------------------------------------


@composition
def ravel(input: Tensor) -> Tensor:
    """Flatten to one dimension: a view where the elements are contiguous."""
    return input.contiguous().reshape(-1)


@composition
def adjoint(input: Tensor) -> Tensor:
    """The transposed conjugate of the last two dimensions."""
    return input.mH


@composition(method=False)
def broadcast_shapes(*shapes: Any) -> _C.Size:
    """The shape that all of the given shapes broadcast to.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.broadcast_shapes((3, 1), (4,))
    adjoint.Size([3, 4])
    """
    result: list[int] = []
    for place, shape in enumerate(shapes):
        if isinstance(shape, float):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}"
            )
        shape = [shape] if isinstance(shape, int) else list(shape)
        result = [1] * (len(shape) - len(result)) + result
        for i, n in enumerate(reversed(shape), 1):
            if n < 0:
                raise NegativeLength(
                    "Attempting to broadcast a dimension with negative length! "
                    f"Trying to create tensor with negative dimension {n}: {shape}"
                )
            if result[-i] == 1:
                result[-i] = n
            elif n not in (1, result[-i]):
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape. Attempting to broadcast a dimension of "
                    f"length {n} at {-i}! Mismatching argument at index {place} had {tuple(shape)}; but expected shape should "
                    f"be broadcastable to {result}"
                )
    return _C.Size(result)


class NegativeLength(ValueError, RuntimeError):
    """A size below zero: torch has raised the one and the other."""


def _all(tensors):
    """Tensors given one by one, or as one sequence."""
    return tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors


@composition(method=False)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape, as views; those that have it are given back."""
    tensors = _all(tensors)
    try:
        shape = broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError as error:
        _name_mismatch([t.shape for t in tensors], error)
        raise
    return tuple(t if t.shape == shape else t.expand(shape) for t in tensors)


def _name_mismatch(shapes, error):
    """RuntimeError in the words of element-wise operators: the first dimension, counted from the last, that does not fit."""
    common = list(shapes[0])
    for shape in shapes[1:]:
        rank = max(len(common), len(shape))
        a, b = ([1] * (rank - len(s)) + list(s) for s in (common, shape))
        for i in reversed(range(rank)):
            if a[i] != b[i] and 1 not in (a[i], b[i]):
                raise RuntimeError(
                    f"The size of tensor a ({a[i]}) must match the size of tensor b ({b[i]}) at non-singleton dimension "
                    f"{i}; the shapes are {', '.join(str(list(s)) for s in shapes)}"
                ) from error
        common = [y if x == 1 else x for x, y in zip(a, b)]


@composition(method=False)
def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
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


def _at_least(n: int) -> Callable[..., Any]:
    names = {1: "atleast_1d", 2: "atleast_2d", 3: "atleast_3d"}

    def raised(*tensors: Tensor) -> Any:
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
    return composition(method=False)(raised)


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


# --- memory formats --------------------------------------------------------------------------------------------------


@alternate
def contiguous(input: Tensor, memory_format: MemoryFormat = contiguous_format) -> Tensor:
    """The tensor in row-major order, or in the order of a memory format: itself where it lies so, else a copy."""
    return laid(input, memory_format)


@alternate
def clone(input: Tensor, *, memory_format: MemoryFormat = preserve_format) -> Tensor:
    """A copy: with the same order of dimensions in memory, or that of a memory format."""
    return copied(input, memory_format)
