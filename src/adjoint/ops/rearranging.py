"""Copies of elements in another order or number: reversed, turned, repeated, put on a diagonal.

Start reading at `repeat_interleave`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import give
from adjoint._publish.register import composition
from adjoint._types import Sequence


@composition
def fliplr(input: Tensor) -> Tensor:
    """Reverse the columns."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


@composition
def flipud(input: Tensor) -> Tensor:
    """Reverse the rows."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


@composition
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by 90 degrees, `k` times, in the plane of two dimensions, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    first, second = dims
    if input.ndim < 2:
        raise RuntimeError(f"rot90(): expected total dims >= 2, but got total dims = {input.ndim}")
    if (first - second) % input.ndim == 0:
        raise RuntimeError(
            f"rot90(): expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}"
        )
    for name, dim in (("dim0", first), ("dim1", second)):
        if not -input.ndim <= dim < input.ndim:
            raise RuntimeError(
                f"Rotation {name} out of range, {name} = {dim}: the input has {input.ndim} dimensions"
            )
    k %= 4
    if k == 0:
        return input.clone()
    if k == 2:
        return input.flip((first, second))
    return input.flip(second if k == 1 else first).transpose(first, second)


@composition
def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Repeat each element in its place.

    Parameters
    ----------
    repeats : int, or one-dimensional integer Tensor
        How often, for all or for each element along `dim`.
    dim : int, optional
        Without it the input is flattened.
    output_size : int, optional
        How many there are in the end, if that is known: it is checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.repeat_interleave(ad.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if output_size is not None:
        made = repeat_interleave(input, repeats, dim)
        if made.shape[dim or 0] != output_size:
            raise RuntimeError(
                f"repeat_interleave: Invalid output_size, expected {made.shape[dim or 0]} but got {output_size}"
            )
        return made
    if repeats is None:
        # Of one argument: the index of each, repeated that often.
        return _C._repeat_interleave_each(_C._arange(0, input.numel(), 1), input, 0)
    if dim is None:
        input, dim = input.reshape(-1), 0
    if isinstance(repeats, (list, tuple)):
        repeats = _C.tensor(list(repeats))
    if isinstance(repeats, Tensor):
        if repeats.numel() != 1:
            return _C._repeat_interleave_each(input, repeats, dim)
        repeats = int(repeats.item())
    return _C._repeat_interleave(input, repeats, dim)


@composition
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with the given diagonal, or the diagonal of a matrix."""
    if input.ndim == 1:
        result = input.diag_embed(diagonal)
    elif input.ndim == 2:
        result = input.diagonal(diagonal).clone()
    else:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return give(out, result, "diag", converts=False)


@composition
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the elements of the input on a diagonal."""
    return input.reshape(-1).diag_embed(offset)
