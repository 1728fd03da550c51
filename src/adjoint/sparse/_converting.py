"""Sparse tensors from tensors of other layouts, and the other way round; recorded. Start reading at `to_sparse`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor.device import LAYOUTS, WRITTEN
from adjoint.sparse._making import COO, CSC, CSR, compressed, coo


def dense(x) -> Tensor:
    """All elements of a sparse tensor; recorded."""
    values = _C._sparse_values(x)
    if x.sparse_dim() == 0:
        return values.sum(0)
    if values.dtype is _C.bool:
        return _C._put_index(values.to(_C.uint8), list(x.shape), _C._sparse_positions(x)).to(_C.bool)
    return _C._put_index(values, list(x.shape), _C._sparse_positions(x))


def to_coo(x) -> Tensor:
    """A matrix of any sparse layout by coordinates; recorded."""
    number = x._layout_number
    if number == COO:
        return x
    made = coo(_C._sparse_values(x), _C.stack(_C._sparse_positions(x)), x.shape, number == CSR)
    return _C._sparse_coalesce(made) if number == CSC else made


def to_compressed(x, number) -> Tensor:
    """A sparse matrix by compressed rows or columns; recorded."""
    from adjoint import arange, searchsorted

    if x._layout_number == number:
        return x
    x = to_coo(x)
    _, _, indices, _, values = _C._sparse_parts(x)
    if indices.shape[0] != 2 or values.ndim != 1:
        raise NotImplementedError(
            f"to_sparse(): a tensor of {indices.shape[0]} sparse and {values.ndim - 1} dense dimensions has no layout "
            f"{LAYOUTS[number]} here: only matrices have"
        )
    size = tuple(x.shape)
    if number == CSC:
        x = coo(_C._sparse_values(x), indices.flip(0), size[::-1])
    x = _C._sparse_coalesce(x)
    rows, columns = _C._sparse_parts(x)[2]
    begins = searchsorted(rows.contiguous(), arange(x.shape[0] + 1))
    return compressed(_C._sparse_values(x), begins, columns.contiguous(), size, number)


def to_sparse(x, sparse_dim=None, layout=None, blocksize=None, dense_dim=None) -> Tensor:
    if isinstance(sparse_dim, type(LAYOUTS[0])):
        sparse_dim, layout = None, sparse_dim
    number = COO if layout is None else LAYOUTS.index(layout) if layout in LAYOUTS else -1
    if layout is None and x.layout is LAYOUTS[COO] and sparse_dim is None:
        return x
    if number < 1 or blocksize is not None:
        raise RuntimeError(
            f"to_sparse(): the layout must be sparse_coo, sparse_csr or sparse_csc, but got {layout}"
            + ("; blocks are not provided" if blocksize is not None else "")
        )
    if x._layout_number:
        if sparse_dim is not None and sparse_dim != x.sparse_dim():
            raise RuntimeError(
                f"to_sparse: conversion from {WRITTEN[x._layout_number]} to {WRITTEN[number]} with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return to_coo(x) if number == COO else to_compressed(x, number)
    if number != COO and (x.ndim != 2 or dense_dim):
        raise NotImplementedError(
            f"to_sparse(): layout {LAYOUTS[number]} is provided for matrices, and this tensor has shape {list(x.shape)}"
        )
    if dense_dim is not None and sparse_dim is None:
        sparse_dim = x.ndim - dense_dim
    sparse = x.ndim if sparse_dim is None else sparse_dim
    if not 0 <= sparse <= x.ndim or (sparse == 0 and x.ndim):
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{x.ndim}] range, but {sparse_dim} is given"
        )
    made = _from_dense(x, sparse)
    return made if number == COO else to_compressed(made, number)


def _from_dense(x, sparse):
    there = x.detach() != 0
    if x.ndim == 0:
        entries = int(there)
        values = x.reshape(1) if entries else x.reshape(1)[:0]
        return coo(values, _C._zeros((0, entries), dtype=_C.int64), (), True)
    for _ in range(x.ndim - sparse):
        there = there.any(-1)
    places = _C._nonzero(there).t().contiguous()
    return coo(_C._index(x, list(places.unbind(0))), places, x.shape, True)


def sparse_mask(x, mask) -> Tensor:
    if not mask._layout_number:
        raise RuntimeError("sparse_mask(): expected mask to have a sparse layout, but got Strided")
    if x.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but mask has size {list(mask.shape)}"
        )
    mask = mask.detach()
    if mask._layout_number == COO:
        mask = _C._sparse_coalesce(mask)
    return with_pattern(x, mask)


def with_pattern(x, pattern) -> Tensor:
    """The elements of a tensor of any layout at the positions of a sparse one, in its layout; recorded."""
    if x._layout_number:
        values = _C._sparse_lookup(x, pattern)
    elif pattern.sparse_dim() == 0:
        values = x.expand(pattern._nnz())
    else:
        values = _C._index(x, _C._sparse_positions(pattern))
    return _pattern_with(pattern, values)


def _pattern_with(pattern, values):
    """A sparse tensor with other values, whatever their dtype and their dense dimensions are as before."""
    return _C._sparse_with(pattern, values)
