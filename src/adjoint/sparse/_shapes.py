"""Forms of operators that move entries: transposes, selections, joins. Start reading at `entries_of`."""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import dimension
from adjoint._switches import switches
from adjoint.sparse._making import COO, CSC, CSR, compressed, coo
from adjoint.sparse._registry import form

__all__ = ["bare_pattern", "entries_of"]


def entries_of(x, numbers):
    """The entries of a COO tensor with these numbers, in this order; whether it is coalesced stays."""
    _, is_coalesced, indices, _, _ = _C._sparse_parts(x)
    values = _C.index_select(_C._sparse_values(x), 0, numbers)
    return coo(values, _C.index_select(indices, 1, numbers), x.shape, is_coalesced)


def bare_pattern(x):
    """A number for each entry of a COO tensor, without its dense dimensions."""
    _, is_coalesced, indices, _, values = _C._sparse_parts(x)
    return coo(
        _C._zeros((values.shape[0],), dtype=_C.float32), indices, x.shape[: indices.shape[0]], is_coalesced
    )


@form("permute")
def _permuted(x, dims):
    dims = [dimension(d, x.ndim) for d in dims]
    if len(dims) != x.ndim or len({*dims}) != x.ndim:
        raise RuntimeError(f"permute(): expected each of the {x.ndim} dimensions once, but got {tuple(dims)}")
    if dims == [*range(x.ndim)]:
        return x.clone() if x.requires_grad else x.detach()
    number, _, indices, others, _ = _C._sparse_parts(x)
    size = [x.shape[d] for d in dims]
    if number != COO - 1:
        # The same parts, read by columns where they were by rows.
        return compressed(_C._sparse_values(x), indices, others, size, CSC if number == CSR - 1 else CSR)
    sparse = indices.shape[0]
    if {*dims[:sparse]} != {*range(sparse)}:
        raise RuntimeError(
            f"permute(): sparse dimensions cannot be exchanged with dense ones: the first {sparse} are sparse, and dims are {tuple(dims)}"
        )
    values = _C._sparse_values(x)
    inner = [0, *(d - sparse + 1 for d in dims[sparse:])]
    if inner != [*range(len(inner))]:
        values = values.permute(inner)
    order = dims[:sparse]
    same = order == [*range(sparse)]
    # The order of the entries may be another now.
    return coo(
        values,
        indices if same else indices[order],
        size,
        (x.is_coalesced() and same) or values.shape[0] < 2,
    )


@form("transpose")
def _transposed(x, dim0, dim1):
    dims = [*range(x.ndim)]
    a, b = dimension(dim0, x.ndim), dimension(dim1, x.ndim)
    dims[a], dims[b] = b, a
    return _permuted(x, dims)


@form("t")
def _transposed_matrix(x):
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return _transposed(x, 0, 1) if x.ndim == 2 else _permuted(x, [*range(x.ndim)])


def _need_coo(x, op):
    if x._layout_number != COO:
        raise NotImplementedError(
            f"{op}() is not implemented for tensors of layout {x.layout}; call .to_sparse_coo() first"
        )


@form("select")
def _selected(x, dim, index):
    if x._layout_number != COO:  # a row of a matrix is no matrix
        x = x.to_sparse_coo()
    if x.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = dimension(dim, x.ndim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}"
        )
    index %= size
    _, is_coalesced, indices, _, _ = _C._sparse_parts(x)
    sparse = indices.shape[0]
    rest = [*x.shape[:dim], *x.shape[dim + 1 :]]
    if dim >= sparse:
        return coo(_C._sparse_values(x).select(dim - sparse + 1, index), indices, rest, is_coalesced)
    chosen = _C._nonzero(indices[dim] == index).reshape(-1)
    values = _C.index_select(_C._sparse_values(x), 0, chosen)
    if sparse == 1:
        return values.sum(0)
    left = [d for d in range(sparse) if d != dim]
    return coo(values, _C.index_select(indices[left], 1, chosen), rest, is_coalesced)


@form("_basic_index")
def _indexed(x, spec):
    """What an index of integers, new axes and whole slices picks."""
    entries = [tuple(spec[i : i + 4]) for i in range(0, len(spec), 4)]
    dim = 0
    for kind, start, step, length in entries:
        if kind == 0:
            if dim >= x.ndim:
                raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
            x = x.select(dim, start)
            continue
        if kind == 2:
            x = x.unsqueeze(dim)
        elif (start, step, length) != (0, 1, x.shape[dim]):
            if not x._layout_number:
                return NotImplemented
            if step != 1:
                raise NotImplementedError(
                    f"__getitem__() with steps is not implemented for tensors of layout {switches.package}.sparse_coo; use index_select()"
                )
            x = x.narrow(dim, start, length)
        dim += 1
    return x


@form("narrow")
def _narrowed(x, dim, start, length):
    _need_coo(x, "narrow")
    dim = dimension(dim, x.ndim)
    size = x.shape[dim]
    start = start + size if start < 0 else start
    if not (0 <= start <= size and length >= 0 and start + length <= size):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    _, is_coalesced, indices, _, _ = _C._sparse_parts(x)
    sparse = indices.shape[0]
    rest = [*x.shape]
    rest[dim] = length
    if dim >= sparse:
        return coo(_C._sparse_values(x).narrow(dim - sparse + 1, start, length), indices, rest, is_coalesced)
    along = indices[dim]
    chosen = _C._nonzero((along >= start) & (along < start + length)).reshape(-1)
    moved = _C.index_select(indices, 1, chosen)
    moved[dim] -= start
    return coo(_C.index_select(_C._sparse_values(x), 0, chosen), moved, rest, is_coalesced)


@form("index_select")
def _index_selected(x, dim, index):
    from adjoint import arange, repeat_interleave, searchsorted

    if not x._layout_number:
        return NotImplemented
    _need_coo(x, "index_select")
    dim = dimension(dim, x.ndim)
    if index.ndim > 1 or index.dtype not in (_C.int64, _C.int32):
        raise RuntimeError("index_select() argument index must be 1-D long-tensor.")
    index = index.reshape(-1).to(_C.int64)
    size, count = x.shape[dim], index.shape[0]
    wrong = index[(index < -size) | (index >= size)]
    if wrong.shape[0]:
        raise IndexError(
            f"index_select(): index contains {int(wrong[0])} that is out of range for tensor of size {list(x.shape)} at dimension {dim}"
        )
    index = _C.where(index < 0, index + size, index)
    _, _, indices, _, _ = _C._sparse_parts(x)
    sparse = indices.shape[0]
    rest = [*x.shape]
    rest[dim] = count
    if dim >= sparse:
        values = _C.index_select(_C._sparse_values(x), dim - sparse + 1, index)
        return coo(values, indices, rest, x.is_coalesced())
    # For each index the entries that it names, which are neighbours once entries are sorted along the dimension.
    along, order = _C.sort(indices[dim], stable=True)
    first, last = searchsorted(along, index), searchsorted(along, index, right=True)
    found = last - first
    to = repeat_interleave(arange(count), found)
    within = arange(to.shape[0]) - repeat_interleave(found.cumsum(0) - found, found)
    entries = order[first[to] + within]
    moved = _C.index_select(indices, 1, entries)
    moved[dim] = to
    return coo(_C.index_select(_C._sparse_values(x), 0, entries), moved, rest)


@form("unsqueeze")
def _unsqueezed(x, dim):
    _need_coo(x, "unsqueeze")
    dim = dimension(dim, x.ndim + 1)
    _, is_coalesced, indices, _, _ = _C._sparse_parts(x)
    sparse = indices.shape[0]
    size = [*x.shape[:dim], 1, *x.shape[dim:]]
    if dim > sparse:
        return coo(_C._sparse_values(x).unsqueeze(dim - sparse + 1), indices, size, is_coalesced)
    row = _C._zeros((1, indices.shape[1]), dtype=_C.int64)
    return coo(_C._sparse_values(x), _C.cat((indices[:dim], row, indices[dim:])), size, is_coalesced)


@form("unbind")
def _unbound(x, dim=0):
    dim = dimension(dim, x.ndim)
    return tuple(_selected(x, dim, i) for i in range(x.shape[dim]))


@form("cat")
def _joined(tensors, dim=0):
    for i, x in enumerate(tensors):
        if not x._layout_number:
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {i}.")
        _need_coo(x, "cat")
    first = tensors[0]
    dim = dimension(dim, first.ndim)
    sparse = first.sparse_dim()
    for i, x in enumerate(tensors):
        if x.sparse_dim() != sparse or x.ndim != first.ndim:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim, but tensor at position {i} has "
                f"{x.sparse_dim()} and {x.dense_dim()}"
            )
        if any(a != b for d, (a, b) in enumerate(zip(first.shape, x.shape)) if d != dim):
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}: {list(first.shape)} and {list(x.shape)} at position {i}"
            )
    size = [*first.shape]
    size[dim] = sum(x.shape[dim] for x in tensors)
    indices, values, before = [], [], 0
    for x in tensors:
        mine, its = x._indices(), _C._sparse_values(x)
        if dim < sparse:
            mine = mine.clone()
            mine[dim] += before
        else:
            # Zeros where the others are.
            after = size[dim] - before - x.shape[dim]
            behind = its.ndim - 1 - (dim - sparse + 1)
            its = _C.constant_pad_nd(its, [0, 0] * behind + [before, after])
        before += x.shape[dim]
        indices.append(mine)
        values.append(its)
    in_order = dim == 0 and sparse > 0 and all(x.is_coalesced() for x in tensors)
    return coo(_C.cat(values), _C.cat(indices, 1), size, in_order)


@form("stack")
def _stacked(tensors, dim=0):
    if any(not x._layout_number for x in tensors):
        return NotImplemented
    return _joined([x.unsqueeze(dimension(dim, x.ndim + 1)) for x in tensors], dim)
