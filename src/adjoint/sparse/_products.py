"""Forms of products of sparse matrices, with dense ones and with each other. Start reading at `product`."""

from __future__ import annotations

from adjoint import _C
from adjoint.sparse._converting import to_compressed, to_coo
from adjoint.sparse._making import COO, coo
from adjoint.sparse._registry import form

__all__ = ["entries", "product", "reduced"]


def entries(x, op):
    """Values, rows and columns of a sparse matrix."""
    if x.ndim != 2 or x.dense_dim() != 0 or (x.is_sparse and x.sparse_dim() != 2):
        raise RuntimeError(
            f"{op}(): expected a sparse matrix without dense dimensions, but got shape {list(x.shape)} with "
            f"{x.sparse_dim()} sparse and {x.dense_dim()} dense dimensions"
        )
    return (_C._sparse_values(x), *_C._sparse_positions(x))


def _need(ok, op, a, b):
    if not ok:
        raise RuntimeError(
            f"{op}(): mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and {'x'.join(map(str, b.shape))})"
        )


def product(a, b, op="mm"):
    """The product of two matrices of which one at least is sparse: sparse where both are."""
    _need(a.ndim == 2 and b.ndim == 2 and a.shape[1] == b.shape[0], op, a, b)
    if a._layout_number and b._layout_number:
        return _of_both(a, b, op)
    if a._layout_number:
        values, rows, columns = entries(a, op)
        return _C._entries_times(values, rows, columns, b, a.shape[0])
    values, rows, columns = entries(b, op)
    return _C._entries_times(values, columns, rows, a.t(), b.shape[1]).t()


def _of_both(a, b, op):
    """Each entry of `a` meets all those of the row of `b` that its column names."""
    from adjoint import arange, repeat_interleave, searchsorted

    number = a._layout_number
    x, rows, columns = entries(to_coo(a), op)
    sorted_b = _C._sparse_coalesce(to_coo(b))
    y, firsts, seconds = entries(sorted_b, op)
    begins = searchsorted(firsts.contiguous(), arange(b.shape[0] + 1))
    first, count = begins[columns], begins[columns + 1] - begins[columns]
    mine = repeat_interleave(arange(columns.shape[0]), count)
    within = arange(mine.shape[0]) - repeat_interleave(count.cumsum(0) - count, count)
    theirs = first[mine] + within
    values = _C.mul(_C.index_select(x, 0, mine), _C.index_select(y, 0, theirs))
    made = coo(values, _C.stack((rows[mine], seconds[theirs])), (a.shape[0], b.shape[1]))
    made = _C._sparse_coalesce(made)
    return made if number == COO else to_compressed(made, number)


def reduced(a, b, reduce):
    """Of a sparse `a` and a dense `b`: the products of each row's entries with what they meet, reduced."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"sparse_mm_reduce: reduce type of {reduce} has not been enabled.")
    if not a._layout_number or b._layout_number or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(
            "sparse.mm() with reduce: expected a sparse matrix and a dense one that fits it, but got shapes "
            f"{tuple(a.shape)} ({a.layout}) and {tuple(b.shape)} ({b.layout})"
        )
    if reduce == "sum":
        return product(a, b)
    values, rows, columns = entries(a.coalesce() if a.is_sparse else a, "mm")
    if reduce == "mean":
        counts = rows.bincount(minlength=a.shape[0])
        return product(a, b) / counts.clamp(min=1).unsqueeze(-1)
    products = values.unsqueeze(-1) * b[columns]
    into = products.new_zeros((a.shape[0], b.shape[1]))
    return into.scatter_reduce(
        0, rows.unsqueeze(-1).expand(products.shape), products, reduce, include_self=False
    )


@form("mm")
def _mm(a, b):
    return product(a, b)


@form("mv")
def _mv(a, b):
    if b._layout_number:
        raise NotImplementedError("mv() is not implemented for a sparse vector; call .to_dense() on it first")
    _need(a.ndim == 2 and b.ndim == 1 and a.shape[1] == b.shape[0], "mv", a, b)
    return product(a, b.unsqueeze(1), "mv").squeeze(1)


@form("bmm")
def _bmm(a, b):
    """A COO tensor of matrices and a dense one: one product of all their rows."""
    if not a.is_sparse or b._layout_number or a.sparse_dim() != 3:
        return NotImplemented
    _need(b.ndim == 3 and a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1], "bmm", a, b)
    batch, rows, columns = _C._sparse_positions(a)
    n, m, k = a.shape
    made = _C._entries_times(
        _C._sparse_values(a), batch * m + rows, batch * k + columns, b.reshape(n * k, b.shape[2]), n * m
    )
    return made.reshape(n, m, b.shape[2])


@form("_matmul", "matmul")
def _matmul(a, b):
    if a.ndim == 2 and b.ndim == 2:
        return product(a, b, "matmul")
    if a.ndim == 2 and b.ndim == 1:
        return _mv(a, b)
    if a.ndim == 3 and b.ndim == 3:
        return _bmm(a, b)
    if a.ndim == 1 and b.ndim == 2 and not a._layout_number:
        return product(a.unsqueeze(0), b, "matmul").squeeze(0)
    return NotImplemented


@form("addmm")
def _addmm(x, a, b, beta=1, alpha=1):
    if not (a._layout_number or b._layout_number):
        return NotImplemented
    made = product(a, b, "addmm")
    if made._layout_number and not x._layout_number:
        made = made.to_dense()
    if alpha != 1:
        made = made * alpha
    if beta == 0:
        return made
    if not made._layout_number and x._layout_number:
        return NotImplemented
    if not x._layout_number:
        x = x.expand(made.shape)
    return _C.add(made, x if beta == 1 else x * beta)


@form("addmv")
def _addmv(x, a, b, beta=1, alpha=1):
    if x._layout_number:
        return NotImplemented
    made = _mv(a, b)
    made = made if alpha == 1 else made * alpha
    return made if beta == 0 else made + (x if beta == 1 else x * beta)


@form("linear")
def _linear(x, weight, bias=None):
    if weight._layout_number and not x._layout_number and weight.ndim == 2 and x.ndim:
        columns = x.reshape(-1, x.shape[-1]).t()
        made = product(weight, columns, "linear").t().reshape(*x.shape[:-1], weight.shape[0])
        return made if bias is None else made + bias
    if x.ndim != 2 or not x._layout_number or weight._layout_number:
        return NotImplemented
    made = product(x, weight.t(), "linear")
    return made if bias is None else made + bias
