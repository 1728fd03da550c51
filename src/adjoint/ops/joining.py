"""Joining tensors: stacks by rows and columns, blocks along a diagonal, and all combinations of elements.

Start reading at `hstack`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import composition
from adjoint._tensor.creation import triu_indices
from adjoint._types import Sequence
from adjoint.ops.shape import _all, atleast_1d, atleast_2d, atleast_3d, meshgrid


def _some(tensors, name):
    if isinstance(tensors, (list, tuple)) and not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@composition(method=False)
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate along columns: dimension 1, or 0 for one-dimensional tensors."""
    tensors = [atleast_1d(t) for t in _some(tensors, "hstack")]
    return _C.cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1, out=out)


@composition(method=False)
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate along dimension 0; one-dimensional tensors become rows."""
    return _C.cat([atleast_2d(t) for t in _some(tensors, "vstack")], 0, out=out)


@composition(method=False)
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """`vstack`."""
    return vstack(tensors, out=out)


@composition(method=False)
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate along the third dimension."""
    return _C.cat([atleast_3d(t) for t in _some(tensors, "dstack")], 2, out=out)


@composition(method=False)
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate along dimension 1; one-dimensional tensors become columns."""
    return _C.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in _some(tensors, "column_stack")], 1, out=out)


@composition(method=False)
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices along its diagonal."""
    blocks = [atleast_2d(t) for t in _all(tensors)]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(_C.constant_pad_nd(b, (before, width - before - b.shape[1])))
        before += b.shape[1]
    return _C.cat(rows)


@composition(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return _C.stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], -1)


@composition(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
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
    if r == 2:
        size = input.shape[0]
        return input[triu_indices(size, size, 0 if with_replacement else 1).t()]
    chooser = combinations_with_replacement if with_replacement else combinations
    chosen = [choice for choice in chooser(range(input.shape[0]), r)]  # noqa: C416 a loop that Ctrl-C ends
    return input[_C.tensor(chosen)]
