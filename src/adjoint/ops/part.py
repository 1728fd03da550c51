"""Splitting: views and copies of pieces along a dimension. Start reading at `tensor_split`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give, give_all
from adjoint._publish.register import composition
from adjoint._switches import switches
from adjoint._tensor.device import contiguous_format
from adjoint._types import Any, Callable, Ints, Sequence

_MOST_PARTS = 2**24  # as in the core


@composition
def tensor_split(input: Tensor, indices_or_sections: Ints | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along a dimension into views: a number of nearly equal ones, or at given indices."""
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
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"tensor_split(): number of sections must be larger than 0, got {indices_or_sections}"
            )
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    size = input.size(dim)
    if isinstance(indices_or_sections, int):
        if indices_or_sections > _MOST_PARTS:
            raise RuntimeError(
                f"tensor_split(): {indices_or_sections} parts were asked for, but one call gives at most {_MOST_PARTS}"
            )
        each, longer = divmod(size, indices_or_sections)
        cuts = [k * each + min(k, longer) for k in range(indices_or_sections + 1)]
    else:
        cuts = [0, *(min(size, max(0, i + size if i < 0 else i)) for i in indices_or_sections), size]
    return tuple(input.narrow(dim, a, max(0, b - a)) for a, b in zip(cuts, cuts[1:]))


def _splitter(
    name: str, axis: Callable[[Any], int], least: int
) -> Callable[[Tensor, Any], tuple[Tensor, ...]]:
    def cut(input: Tensor, indices_or_sections: Ints) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(
                f"{switches.package}.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        dim = axis(input)
        if isinstance(indices_or_sections, int):
            size = input.shape[dim]
            if indices_or_sections <= 0 or size % indices_or_sections:
                raise RuntimeError(
                    f"{switches.package}.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not "
                    f"divisible by the split_size {indices_or_sections}!"
                )
        elif not isinstance(indices_or_sections, (Tensor, list, tuple)):
            raise TypeError(
                f"{name}() received an invalid combination of arguments: argument 'indices_or_sections' (position 2) must "
                f"be int or tuple of ints, not {type(indices_or_sections).__name__}"
            )
        return tensor_split(input, indices_or_sections, dim)

    cut.__name__ = cut.__qualname__ = name
    cut.__doc__ = f"`tensor_split` along dimension {axis(None)}."
    return composition(cut)


hsplit = _splitter("hsplit", lambda x: 0 if x is not None and x.ndim == 1 else 1, 1)
vsplit = _splitter("vsplit", lambda x: 0, 2)
dsplit = _splitter("dsplit", lambda x: 2, 3)


@composition
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, with parts that may be written in place: they are copies, and share no memory."""
    return tuple(part.clone() for part in input.chunk(chunks, dim))


@composition
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
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


@composition
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, with parts that may be written in place: they are copies, and share no memory."""
    return tuple(part.clone() for part in input.split_with_sizes(split_sizes, dim))


# --- copies of views -------------------------------------------------------------------------------------------------


def sliced(input, dim=0, start=None, end=None, step=1) -> Tensor:
    """The view ``start:end:step`` of a dimension."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return input[(slice(None),) * dimension(dim, input.ndim, False) + (slice(start, end, step),)]


def _copier(name: str, view: Callable[..., Any], several: bool = False) -> Callable[..., Any]:
    def copied(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = view(input, *args, **kwargs)
        if not several:
            return give(out, result.clone(memory_format=contiguous_format), name, converts=False)
        if out is None:
            return tuple(part.clone(memory_format=contiguous_format) for part in result)
        give_all(out, result, name, converts=False)
        return None

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"`{name.removesuffix('_copy')}` as a copy, which shares no memory with its input."
    return composition(method=name == "narrow_copy")(copied)


def _method(name: str) -> Callable[..., Any]:
    """What a method of that name does, whatever it becomes."""
    return lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)


alias_copy = _copier("alias_copy", lambda input: input)
as_strided_copy = _copier("as_strided_copy", _method("as_strided"))
detach_copy = _copier("detach_copy", _method("detach"))
diagonal_copy = _copier("diagonal_copy", _method("diagonal"))
expand_copy = _copier("expand_copy", _method("expand"))
narrow_copy = _copier("narrow_copy", _method("narrow"))
permute_copy = _copier("permute_copy", _method("permute"))
select_copy = _copier("select_copy", _method("select"))
squeeze_copy = _copier("squeeze_copy", _method("squeeze"))
t_copy = _copier("t_copy", _method("t"))
transpose_copy = _copier("transpose_copy", _method("transpose"))
unfold_copy = _copier("unfold_copy", _method("unfold"))
unsqueeze_copy = _copier("unsqueeze_copy", _method("unsqueeze"))
view_copy = _copier("view_copy", _method("view"))
view_as_complex_copy = _copier("view_as_complex_copy", _method("view_as_complex"))
view_as_real_copy = _copier("view_as_real_copy", _method("view_as_real"))
slice_copy = _copier("slice_copy", sliced)
split_copy = _copier("split_copy", _method("split"), several=True)
split_with_sizes_copy = _copier("split_with_sizes_copy", _method("split_with_sizes"), several=True)
unbind_copy = _copier("unbind_copy", _method("unbind"), several=True)
