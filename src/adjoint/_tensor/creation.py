"""Functions that make tensors: filled, in sequence, like another one. Of data: `data`; random: `random`.

Sizes are spelt out or given as one sequence, ``zeros(2, 3)`` or ``zeros((2, 3))``. All take `dtype` (the default type
when it is left out), `device`, `requires_grad`, and `layout`, and `pin_memory`, which is refused where it is true; many
take `out`: `_creation_keywords.creation` adds these. Start reading at `empty`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import refuse_names
from adjoint._switches import announce, switches
from adjoint._tensor.creation_keywords import creation
from adjoint._tensor.device import preserve_format
from adjoint._types import Any, Device, DType, Ints, MemoryFormat, Number, Sequence

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "range",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]

_empty, _full = _C._empty, _C._full


# --- filled ------------------------------------------------------------------------------------------------------


def _made_in(result, memory_format, name):
    from adjoint._tensor.memory_format import relaid

    if memory_format is preserve_format:
        raise RuntimeError(
            f"{name}(): unsupported memory format option preserve_format: there is no tensor to follow"
        )
    return relaid(result, memory_format, name)


@creation(row=_empty)
def empty(
    *size: Ints, dtype: DType | None = None, memory_format: MemoryFormat | None = None, **keywords: Any
) -> Tensor:
    """A tensor whose elements are whatever the memory held."""
    result = _empty(_size(size, keywords, "empty"), dtype=dtype)
    return result if memory_format is None else _made_in(result, memory_format, "empty")


@creation(row=_C._zeros)
def zeros(*size: Ints, dtype: DType | None = None, **keywords: Any) -> Tensor:
    """A tensor of zeros.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.zeros(2, 3, dtype=ad.int64)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    return _C._zeros(_size(size, keywords, "zeros"), dtype=dtype)


@creation(row=_C._ones)
def ones(*size: Ints, dtype: DType | None = None, **keywords: Any) -> Tensor:
    """A tensor of ones.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.ones(2)
    tensor([1., 1.])
    """
    return _C._ones(_size(size, keywords, "ones"), dtype=dtype)


@creation(row=_full)
def full(size: Ints, fill_value: Number | Tensor, *, dtype: DType | None = None, names: Any = None) -> Tensor:
    """A tensor of one value; its dtype follows from the value.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.full((2,), 7)
    tensor([7, 7])
    """
    refuse_names("full", names)
    if isinstance(fill_value, Tensor) and dtype is None:
        dtype = fill_value.dtype
    return _full(size, fill_value, dtype=dtype)


def _size(size, keywords, name):
    """The sizes, by position, spelt out or as one sequence, or by the keyword `size`; `names` may be None."""
    if not keywords:
        if len(size) == 1 and type(size[0]) is not int:
            first = size[0]
            if isinstance(first, Tensor):
                return first.tolist()
            return size if hasattr(first, "__index__") else first
        return size
    given = keywords.pop("size", None)
    refuse_names(name, keywords.pop("names", None))
    if keywords:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(keywords))!r}")
    if given is not None and size:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    return size if given is None else given


@creation(out=False)
def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: DType | None = None) -> Tensor:
    """A tensor of given strides whose elements are whatever the memory held."""
    if len(size) != len(stride):
        raise RuntimeError(
            f"empty_strided(): mismatch in length of strides and shape: they are {tuple(stride)} and {tuple(size)}"
        )
    if min(size, default=0) < 0 or min(stride, default=0) < 0:
        raise RuntimeError(
            f"empty_strided(): Negative sizes and strides are not supported: they are {tuple(size)} and {tuple(stride)}"
        )
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    made = _empty((length,), dtype=dtype)
    if made._device_number or _C._batch_of(made) is not None:
        return made.as_strided(tuple(size), tuple(stride)).data
    return _C._over(_C._storage_bytes(made), made.dtype, tuple(size), tuple(stride), 0)


@creation(out=False, consults=True, row=_C._empty_like)
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `empty`, with the shape, the dtype and the order of strides of `input`."""
    return empty_laid(input, dtype, memory_format, device, "empty_like")


@creation(out=False, consults=True, row=_C._zeros_like)
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `zeros`, with the shape, the dtype and the order of strides of `input`."""
    return _laid(_C._zeros_like, (input,), dtype, memory_format, device, "zeros_like")


@creation(out=False, consults=True, row=_C._ones_like)
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `ones`, with the shape, the dtype and the order of strides of `input`."""
    return _laid(_C._ones_like, (input,), dtype, memory_format, device, "ones_like")


@creation(out=False, consults=True, row=_C._full_like)
def full_like(
    input: Tensor,
    fill_value: Number | Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `full`, with the shape, the dtype and the order of strides of `input`."""
    return _laid(_C._full_like, (input, fill_value), dtype, memory_format, device, "full_like")


def empty_laid(input, dtype, memory_format, device, name):
    """`empty_like` for functions that fill it."""
    return _laid(_C._empty_like, (input,), dtype, memory_format, device, name)


def _laid(row, like, dtype, memory_format, device, name):
    made = row(*like, dtype=dtype, device_number=device)
    return (
        made
        if memory_format is None or memory_format is preserve_format
        else _made_in(made, memory_format, name)
    )


@creation(out=False)
def scalar_tensor(s: Number, *, dtype: DType | None = None) -> Tensor:
    """A zero-dimensional tensor of the default dtype."""
    return _full((), s, dtype=dtype or _C.get_default_dtype())


# --- in sequence -------------------------------------------------------------------------------------------------


def _is_integral(dtype):
    return not (dtype is None or dtype.is_floating_point or dtype.is_complex or dtype is _C.bool)


def _whole(*numbers):
    return [int(x) for x in numbers]


@creation(out=False)
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: DType | None = None
) -> Tensor:
    """A tensor whose dimensions lie in memory in the order `physical_layout`, from the outermost; its elements are arbitrary."""
    if sorted(physical_layout) != [*_places(size)]:
        if len(size) != len(physical_layout):
            raise RuntimeError(
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
                f"{len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
            )
        outside = [d for d in physical_layout if not 0 <= d < len(size)]
        raise RuntimeError(
            f"empty_permuted(): Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {outside[0]})"
            if outside
            else f"empty_permuted(): Duplicate dim not allowed: physical_layout is {tuple(physical_layout)}"
        )
    made = _empty([size[d] for d in physical_layout], dtype=dtype)
    return made.permute([list(physical_layout).index(d) for d in _places(size)])


def _places(sizes):
    return (d for d, _ in enumerate(sizes))


@creation(row=_C._arange)
def arange(
    start: Number | Tensor = 0,
    end: Number | Tensor | None = None,
    step: Number | Tensor = 1,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Numbers from `start` up to, but not including, `end`, in steps of `step`: ``arange(end)``, ``arange(start, end, step)``.

    The dtype is int64 when all three are integers, else the default floating-point type. Numbers for an integer dtype
    lose their fractions: before the count for int64, after it for smaller ones.

    Raises
    ------
    ValueError
        `step` becomes 0 for an integer dtype.
    RuntimeError
        `step` is 0 or points away from `end`, or a bound is not finite.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.arange(3)
    tensor([0, 1, 2])
    >>> ad.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    """
    if end is None:
        start, end = 0, start
    return _C._arange(start, end, step, dtype=dtype)


def _ends(name, start, end, dtype) -> tuple[Any, Any]:
    """The ends of a sequence as numbers; whole ones for an integer dtype."""
    for x in (start, end):
        if isinstance(x, Tensor) and x.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got start with {_rank(start)} "
                f"dimension(s) and end with {_rank(end)} dimension(s)."
            )
    if dtype is not None and _is_integral(_C._dtype(dtype)):
        start, end = _whole(start, end)
    return start, end


def _rank(x):
    return x.ndim if isinstance(x, Tensor) else 0


@creation
def range(
    start: Number | Tensor = 0,
    end: Number | Tensor | None = None,
    step: Number | Tensor = 1,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Numbers from `start` to `end`, both included, in steps of `step`; `arange` leaves out the end."""
    if end is None:
        raise TypeError("range() missing 1 required positional argument: 'end'")
    announce(
        f"{switches.package}.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's "
        f"range builtin. Instead, use {switches.package}.arange, which produces values in [start, end).",
        stacklevel=4,
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    steps: Any = (end - start) / step
    if steps < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}"
        )
    count = int(steps) + 1
    places = _C._arange(0, count, 1, dtype=_C.float64)
    return (places * step + start).to(_C.get_default_dtype() if dtype is None else dtype)


@creation
def linspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, *, dtype: DType | None = None
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if _is_mapped(start) or _is_mapped(end):
        return _between(start, end, steps, dtype)
    start, end = _ends("linspace", start, end, dtype)
    if any(isinstance(x, Tensor) and _C._requires_grad_anywhere(x) for x in (start, end)):
        return _between(start, end, steps, dtype)
    if isinstance(start, complex) or isinstance(end, complex):
        from adjoint import complex as joined

        parts = (
            _C._linspace(getattr(start, part), getattr(end, part), steps, None, False)
            for part in ("real", "imag")
        )
        made = joined(*parts)
        return made if dtype is None else made.to(dtype)
    first: Any = start
    last: Any = end
    return _C._linspace(first, last, steps, dtype, False)


def _is_mapped(end):
    return isinstance(end, Tensor) and _C._is_batched(end)


def _between(start, end, steps, dtype):
    """`linspace` by operators, for ends that are mapped or differentiated: from the nearer end, as the core has it."""
    dtype = dtype or (start + end + 0.0).dtype
    step = (end - start) / (steps - 1 or 1)
    at = _C._arange(0, steps, 1, dtype=_C.int64)
    return _C.where(at < steps // 2 + steps % 2, start + at * step, end - (steps - 1 - at) * step).to(dtype)


@creation
def logspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """`base` to the powers of ``linspace(start, end, steps)``."""
    if _is_mapped(start) or _is_mapped(end):
        return base ** _between(start, end, steps, dtype)
    # Of a single step the power is converted, not the exponent.
    first, last = _ends("logspace", start, end, dtype if steps != 1 else None)
    return _C._logspace(first, last, steps, base, dtype, False)


@creation(row=_C._eye)
def eye(n: int, m: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """A matrix with ones on its diagonal and zeros elsewhere, of shape (n, m); square when `m` is left out.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _C._eye(n, m, dtype=dtype)


@creation(out=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None) -> Tensor:
    """Rows and columns of the elements on and below a diagonal of a (row, col) matrix, as a tensor of two rows."""
    return _C._triangle_indices(row, col, offset, False, dtype)


@creation(out=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None) -> Tensor:
    """Rows and columns of the elements on and above a diagonal of a (row, col) matrix, as a tensor of two rows."""
    return _C._triangle_indices(row, col, offset, True, dtype)
