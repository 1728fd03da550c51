"""Sparse tensors from indices and values, and from tensors of other layouts. Start reading at `sparse_coo_tensor`.

What is written with the rows `_sparse_tensor`, `_sparse_values` and operators on values has its derivatives from them.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import refuse_pinned
from adjoint._tensor.device import LAYOUTS, device_number
from adjoint._types import Any, Device, DType, Layout, Shape
from adjoint.sparse._invariants import check_sparse_tensor_invariants

__all__ = ["sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor"]

COO, CSR, CSC = 1, 2, 3


# --- the parts of a call -------------------------------------------------------------------------------------------------


def coo(values, indices, size, coalesced=False) -> Tensor:
    """The COO tensor of checked parts; recorded."""
    return _C._sparse_tensor(values, indices, None, list(size), 0, coalesced)


def compressed(values, begins, others, size, number) -> Tensor:
    """The CSR or CSC tensor of checked parts; recorded."""
    return _C._sparse_tensor(values, begins, others, list(size), number - 1, False)


def _values_of(values, dtype, name):
    values = values if isinstance(values, Tensor) else _C.tensor(values, dtype)
    if values._layout_number:
        raise TypeError(f"{name}(): values must be a dense tensor, but the layout is {values.layout}")
    if dtype is not None and values.dtype is not _C._dtype(dtype):
        values = values.to(dtype)
    return values.reshape(1) if values.ndim == 0 else values


def _indices_of(indices, what, name, keeps=False):
    if not isinstance(indices, Tensor):
        # Of an empty list the type is said; an array has one of its own.
        indices = _C.tensor(indices, _C.int64 if hasattr(indices, "__len__") and not len(indices) else None)
    if indices._layout_number:
        raise TypeError(f"{name}(): {what} must be a dense tensor, but the layout is {indices.layout}")
    indices = indices.detach()
    kept = (_C.int64, _C.int32) if keeps else (_C.int64,)
    return indices if indices.dtype in kept else indices.to(_C.int64)


def _checks(check_invariants):
    return check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants


def _finish(made, values, requires_grad, device, name):
    if device is not None and device_number(device):
        raise NotImplementedError(f"{name}(): sparse tensors are on the CPU alone, not on {device}")
    if requires_grad and made.grad_fn is None:
        made.requires_grad_()
    return made


def _size_of(size):
    return tuple(int(n) for n in size)


# --- COO -------------------------------------------------------------------------------------------------------------------


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor by coordinates: of each entry the position and the value; entries of one position add up.

    Parameters
    ----------
    indices : Tensor or nested sequence of int, shape (sparse_dim, entries)
        A column for each entry. Alone, it is the size of a tensor without entries.
    values : Tensor or sequence, shape (entries, ...)
        Numbers, or for the last dimensions of `size` a tensor for each entry. Gradients go through it.
    size : sequence of int, optional
        By default the smallest that holds the indices.
    dtype : dtype, optional
        That of `values` if left out.
    device : device or str, optional
        That of `values` if left out.
    pin_memory : bool
        Only False: there is no pinned memory.
    requires_grad : bool
        Make a leaf.
    check_invariants : bool, optional
        Whether indices are compared with the size, and with `is_coalesced`; by default they are
        (`sparse.check_sparse_tensor_invariants` says).
    is_coalesced : bool, optional
        Say that each position is named once, in row-major order.

    Returns
    -------
    Tensor
        In the layout sparse_coo.

    Raises
    ------
    RuntimeError
        The parts do not fit each other.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> x.to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    refuse_pinned("sparse_coo_tensor", pin_memory)
    name = "sparse_coo_tensor"
    if indices is None and size is None:
        raise TypeError(
            "sparse_coo_tensor(): expected indices and values, or the size of a tensor without entries"
        )
    if values is None or (size is None and _is_size(indices, values)):
        shape = _size_of(indices if size is None else size)
        made = _empty(shape, len(shape), _C.get_default_dtype() if dtype is None else _C._dtype(dtype))
        return _finish(made, None, requires_grad, device, name)
    plain = values
    values, indices = _values_of(values, dtype, name), _indices_of(indices, "indices", name)
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    sparse, entries = indices.shape
    if entries != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {entries}, nnz from values: {values.shape[0]}"
        )
    if size is None:
        lowest = indices.amin(1).tolist() if entries and sparse else []
        for d, low in enumerate(lowest):
            if low < 0:
                raise RuntimeError(f"found negative index {low} for dim {d}")
        top = (indices.amax(1) + 1).tolist() if entries and sparse else [0] * sparse
        size = (*top, *values.shape[1:])
    else:
        size = _size_of(size)
        if len(size) != sparse + values.ndim - 1:
            raise RuntimeError(
                f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse}, "
                f"dense_dim = {values.ndim - 1}"
            )
        if tuple(values.shape[1:]) != size[sparse:]:
            raise RuntimeError(
                f"values has incorrect size, expected {[entries, *size[sparse:]]}, got {list(values.shape)}"
            )
        if any(n < 0 for n in size):
            raise RuntimeError(f"Trying to create tensor with negative dimension in {name}(): {list(size)}")
        if _checks(check_invariants):
            check_coo(indices, size, bool(is_coalesced))
    made = coo(_leaf(values, plain, requires_grad), indices, size, bool(is_coalesced))
    return _finish(made, values, requires_grad, device, name)


def _is_size(indices, values):
    return isinstance(indices, (tuple, _C.Size)) and isinstance(values, int)


def _leaf(values, given, requires_grad):
    """With `requires_grad`, the tensor made is a leaf, whatever the values are."""
    return values.detach() if requires_grad else values


def check_coo(indices, size, coalesced):
    """Refuse indices outside of a size, or that are not coalesced where that is said."""
    sparse = indices.shape[0]
    if indices.shape[1] == 0:
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for d in range(sparse):
        if low[d] < 0:
            raise RuntimeError(f"found negative index {low[d]} for dim {d}")
        if high[d] >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {high[d]}"
            )
    if coalesced and indices.shape[1] > 1:
        flat = flat_of(indices, size)
        if not bool((flat[1:] > flat[:-1]).all()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


def flat_of(indices, size):
    """The number of each position in row-major order."""
    flat = indices.new_zeros(indices.shape[1])
    for d in range(indices.shape[0]):
        flat = flat * size[d] + indices[d]
    return flat


def _empty(size, sparse, dtype):
    if any(n < 0 for n in size):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension: a sparse tensor of the size {list(size)} was asked for"
        )
    values = _C._zeros((0, *size[sparse:]), dtype=dtype)
    return coo(values, _C._zeros((sparse, 0), dtype=_C.int64), size, True)


def empty_like(x, dtype=None) -> Tensor:
    """A tensor of the same shape, layout and sparse dimensions without entries."""
    number, _, indices, others, values = _C._sparse_parts(x)
    dtype = values.dtype if dtype is None else _C._dtype(dtype)
    if number == 0:
        return _empty(tuple(x.shape), indices.shape[0], dtype)
    begins = indices.new_zeros(indices.shape)
    return compressed(_C._zeros((0,), dtype=dtype), begins, others[:0], x.shape, number + 1)


# --- CSR and CSC -----------------------------------------------------------------------------------------------------------


def _make_compressed(
    number, begins, others, values, size, dtype, device, requires_grad, check_invariants, names
):
    name = f"sparse_{'csr' if number == CSR else 'csc'}_tensor"
    values = _values_of(values, dtype, name)
    begins, others = (
        _indices_of(x, n, name, keeps=True) for x, n in zip((begins, others), names, strict=True)
    )
    if begins.ndim != 1 or others.ndim != 1:
        raise NotImplementedError(
            f"{name}(): batches of sparse matrices are not provided: {names[0]} and {names[1]} must be vectors"
        )
    if values.ndim != 1:
        raise NotImplementedError(
            f"{name}(): dense dimensions are not provided in this layout: values must be a vector; use sparse_coo_tensor"
        )
    if begins.dtype is not others.dtype:
        raise RuntimeError(
            f"{names[0]} and {names[1]} dtype must match, but got {begins.dtype} and {others.dtype}"
        )
    if begins.shape[0] < 1:
        raise RuntimeError(f"expected {names[0]}.numel() >= 1, but got 0")
    if others.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"`{names[1]}.shape[-1] must be equal to nnz (={values.shape[0]}) but got {others.shape[0]}"
        )
    if size is None:
        pair = (begins.shape[0] - 1, int(others.amax()) + 1 if others.shape[0] else 0)
        size = pair if number == CSR else pair[::-1]
    size = _size_of(size)
    if len(size) != 2:
        raise NotImplementedError(f"{name}(): the size must be that of a matrix, but it is {list(size)}")
    rows, columns = size if number == CSR else size[::-1]
    if begins.shape[0] != rows + 1:
        which = "nrows" if number == CSR else "ncols"
        raise RuntimeError(
            f"{names[0]}.shape[-1] must be equal to the number of {which[1:]} + 1 (={rows + 1}), but got {begins.shape[0]}"
        )
    if _checks(check_invariants):
        check_compressed(
            begins, others, columns, values.shape[0], names, "ncols" if number == CSR else "nrows"
        )
    made = compressed(_leaf(values, values, requires_grad), begins, others, size, number)
    return _finish(made, values, requires_grad, device, name)


def check_compressed(begins, others, columns, entries, names, other):
    """Refuse begins that do not ascend from 0 to the number of entries, and other indices that are outside or out of order."""
    if int(begins[0]) != 0:
        raise RuntimeError(f"`{names[0]}[..., 0] == 0` is not satisfied.")
    if int(begins[-1]) != entries:
        raise RuntimeError(f"`{names[0]}[..., -1] == nnz` is not satisfied.")
    steps = begins[1:] - begins[:-1]
    if begins.shape[0] > 1 and not bool(((steps >= 0) & (steps <= columns)).all()):
        raise RuntimeError(f"`0 <= {names[0]}[..., 1:] - {names[0]}[..., :-1] <= {other}` is not satisfied.")
    if entries and not bool(((others >= 0) & (others < columns)).all()):
        raise RuntimeError(f"`0 <= {names[1]} < {other}` is not satisfied.")
    if entries > 1:
        # In each row they ascend: a step back, or none, is the first entry of a row.
        back = (others[1:] <= others[:-1]).nonzero().reshape(-1) + 1
        if back.numel() and not bool(_in(back, begins)):
            raise RuntimeError(
                f"`{names[1]}[..., {names[0]}[..., i - 1]:{names[0]}[..., i]] for all i = 1, ..., {'nrows' if other == 'ncols' else 'ncols'} "
                "are sorted and distinct along the last dimension values` is not satisfied."
            )


def _in(wanted, ascending):
    from adjoint import searchsorted

    wanted = wanted.to(ascending.dtype)
    at = searchsorted(ascending, wanted).clamp(max=ascending.shape[0] - 1)
    return (ascending[at] == wanted).all()


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix by compressed rows: where each row begins among the entries, and their columns and values.

    Parameters
    ----------
    crow_indices : Tensor or sequence of int, shape (rows + 1,)
    col_indices : Tensor or sequence of int, shape (entries,)
        In each row they ascend.
    values : Tensor or sequence, shape (entries,)
    size : pair of int, optional
    dtype : dtype, optional
        That of `values` if left out.
    device : device or str, optional
        That of `values` if left out.
    pin_memory : bool
        Only False: there is no pinned memory.
    requires_grad : bool
        Make a leaf.
    check_invariants : bool, optional
        Whether the indices are checked; they are by default.

    Returns
    -------
    Tensor
        In the layout sparse_csr.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0]).to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    refuse_pinned("sparse_csr_tensor", pin_memory)
    names = ("crow_indices", "col_indices")
    return _make_compressed(
        CSR, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants, names
    )


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix by compressed columns: `sparse_csr_tensor` with rows and columns exchanged.

    Parameters
    ----------
    ccol_indices : Tensor or sequence of int, shape (columns + 1,)
        Where each column begins among the entries, and how many entries there are.
    row_indices : Tensor or sequence of int, shape (entries,)
        In each column they ascend.
    values : Tensor or sequence, shape (entries,)
    size : pair of int, optional
        The smallest that holds the entries if left out.
    dtype : dtype, optional
        That of `values` if left out.
    device : device or str, optional
        That of `values` if left out.
    pin_memory : bool
        Only False: there is no pinned memory.
    requires_grad : bool
        Make a leaf.
    check_invariants : bool, optional
        Whether the indices are checked; they are by default.

    Returns
    -------
    Tensor
        In the layout sparse_csc.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3.0, 5.0]).to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    refuse_pinned("sparse_csc_tensor", pin_memory)
    names = ("ccol_indices", "row_indices")
    return _make_compressed(
        CSC, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants, names
    )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Shape | None = None,
    *,
    layout: Layout | None = None,
    **keywords,
) -> Tensor:
    """A sparse matrix by compressed rows or columns: `sparse_csr_tensor` or `sparse_csc_tensor`, as `layout` says.

    Parameters
    ----------
    compressed_indices : Tensor or sequence of int
        Where each row or column begins among the entries, and how many entries there are.
    plain_indices : Tensor or sequence of int
        The column or row of each entry.
    values : Tensor or sequence, shape (entries,)
    size : pair of int, optional
        The smallest that holds the entries if left out.
    layout : layout
        `sparse_csr` or `sparse_csc`.
    **keywords : | Further keywords of these functions.

    Returns
    -------
    Tensor
        In that layout.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=ad.sparse_csr).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    if layout is LAYOUTS[CSR]:
        return sparse_csr_tensor(compressed_indices, plain_indices, values, size, **keywords)
    if layout is LAYOUTS[CSC]:
        return sparse_csc_tensor(compressed_indices, plain_indices, values, size, **keywords)
    raise RuntimeError(
        f"sparse_compressed_tensor(): layout must be sparse_csr or sparse_csc, but it is {layout}; layouts by blocks are not provided"
    )


def checked_parts(layout, coalesced, indices, others, values, size) -> Tensor:
    """A sparse tensor as a file describes it, whose parts may be anything."""
    if layout == 0:
        return sparse_coo_tensor(
            indices, values, tuple(size), is_coalesced=bool(coalesced), check_invariants=True
        )
    if layout not in (1, 2):
        raise ValueError(f"there is no sparse layout number {layout}")
    make = sparse_csr_tensor if layout == 1 else sparse_csc_tensor
    return make(indices, others, values, tuple(size), check_invariants=True)
