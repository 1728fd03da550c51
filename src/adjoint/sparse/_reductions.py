"""Forms of sums, norms and softmax over sparse tensors. Start reading at `summed`."""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import dimension
from adjoint._types import Any, Dims, Tensor
from adjoint.sparse._converting import to_coo
from adjoint.sparse._making import coo, flat_of
from adjoint.sparse._registry import form, with_values

__all__ = ["softmax", "summed"]


def _dims(dim, rank, op):
    if dim is None:
        return [*range(rank)]
    dims = [dimension(d, rank) for d in ([dim] if isinstance(dim, int) else dim)] or [*range(rank)]
    if len({*dims}) != len(dims):
        raise RuntimeError(f"{op}(): dim {tuple(dims)} names one dimension twice")
    return sorted(dims)


@form("sum")
def summed(x, dim=None, keepdim=False, dtype=None):
    """The sum over dimensions: dense where no sparse one is left."""
    dims = _dims(dim, x.ndim, "sum")
    if len(dims) == x.ndim:
        total = _C.sum(_C._sparse_values(x), None, False, dtype=dtype)
        return total.reshape([1] * x.ndim) if keepdim else total
    x = to_coo(x)
    _, _, indices, _, _ = _C._sparse_parts(x)
    sparse = indices.shape[0]
    values = _C._sparse_values(x)
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    if inner:
        values = _C.sum(values, inner, keepdim, dtype=dtype)
    elif dtype is not None:
        values = values.to(dtype)
    elif not (values.is_floating_point() or values.is_complex()):
        values = values.to(_C.int64)
    gone = [d for d in dims if d < sparse]
    if len(gone) == sparse:
        total = values.sum(0)
        return total.reshape([1] * sparse + [*total.shape]) if keepdim else total
    left = [d for d in range(sparse) if d not in gone]
    size = [n for d, n in enumerate(x.shape) if d not in dims]
    made = _C._sparse_coalesce(
        coo(values, indices[left], size if not keepdim or not inner else _kept(x, left, values), False)
    )
    if keepdim:
        for d in gone:
            made = made.unsqueeze(d)
    return made


def _kept(x, left, values):
    return [*(x.shape[d] for d in left), *values.shape[1:]]


@form("_vector_norm")
def _norm(x, ord=2.0, dim=None, keepdim=False, dtype=None):
    if len(_dims(dim, x.ndim, "norm")) != x.ndim:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
        )
    if ord == float("-inf"):
        raise NotImplementedError(
            "norm(): p=-inf is not implemented for sparse tensors; call .to_dense() first"
        )
    x = _C._sparse_coalesce(x) if x.is_sparse else x
    values = _C._sparse_values(x).reshape(-1)
    if values.shape[0] == 0:
        values = _C.cat((values, values.new_zeros(1)))
    total = _C._vector_norm(values, ord, None, False, dtype=dtype)
    return total.reshape([1] * x.ndim) if keepdim else total


@form("any")
def _any(x, dim=None, keepdim=False):
    if dim is not None:
        return NotImplemented
    return _C.any(_C._sparse_values(_C._sparse_coalesce(x) if x.is_sparse else x))


def softmax(x: Tensor, dim: Dims, log=False) -> Any:
    """Softmax of the entries along a dimension, those that are not there being -inf: of a COO tensor, coalesced."""
    name = "log_softmax" if log else "softmax"
    if not x._layout_number:
        raise RuntimeError(
            f"sparse.{name}(): expected a sparse tensor, but got a dense one; use adjoint.{name}"
        )
    x = _C._sparse_coalesce(to_coo(x))
    dim = dimension(dim, x.ndim)
    _, _, indices, _, _ = _C._sparse_parts(x)
    sparse, values = indices.shape[0], _C._sparse_values(x)
    if dim >= sparse:
        function = _C.log_softmax if log else _C.softmax
        return with_values(x, function(values, dim - sparse + 1))
    if values.shape[0] == 0:
        return x
    left = [d for d in range(sparse) if d != dim]
    # Entries of one group differ in this dimension alone.
    flat = flat_of(indices[left], [x.shape[d] for d in left])
    _, group = _C._unique(flat, True)[:2]
    groups = int(group.amax()) + 1
    largest = values.detach().new_full((groups, *values.shape[1:]), float("-inf"))
    at = group.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
    largest = largest.scatter_reduce(0, at, values.detach(), "amax")
    shifted = values - largest[group]
    total = _C._put_slices(_C.exp(shifted), [groups, *values.shape[1:]], 0, group)[group]
    made = with_values(x, shifted - total.log() if log else _C.exp(shifted) / total)
    return made
