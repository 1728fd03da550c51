"""Sparse tensors: layouts by coordinates (COO) and by compressed rows or columns (CSR, CSC), products and sums of them.

A sparse tensor is a Tensor that has indices and values in place of elements. Operators that have no form for it refuse it in
torch's words. Start reading at `mm`; how tensors are made is in `_making`, the forms of operators are listed in `_forms`.

    >>> import adjoint as ad
    >>> a = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> ad.sparse.mm(a, ad.ones(3, 1))
    tensor([[3.],
            [9.]])
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import listing, publish
from adjoint._switches import switches
from adjoint._tensor.device import LAYOUTS
from adjoint._types import Any, Dims, DType, F, Number
from adjoint.sparse import _products, _reductions
from adjoint.sparse._invariants import check_sparse_tensor_invariants

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
__dir__ = listing(__name__)


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix and a dense or sparse one; gradients of the sparse one have its pattern.

    Parameters
    ----------
    mat1, mat2 : Tensor
    reduce : {"sum", "mean", "amax", "amin"}, optional
        How the products that belong to one element of the result become it: those of the entries of a row of `mat1` with what
        they meet in a dense `mat2`. Where the row is empty, the result is 0. Of equal extremes each gets its share of a gradient.

    Returns
    -------
    Tensor, shape (n, m)
        Dense, or sparse where both are.

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.eye(2).to_sparse().requires_grad_()
    >>> ad.sparse.mm(w, ad.ones(2, 3)).sum().backward()
    >>> w.grad.coalesce().values()
    tensor([3., 3.])
    """
    if reduce is not None:
        return _products.reduced(mat1, mat2, reduce)
    if not (mat1._layout_number or mat2._layout_number):
        return _C.mm(mat1, mat2)
    return _products.product(mat1, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1.0, alpha: Number = 1.0) -> Tensor:
    """``beta mat + alpha mat1 mat2`` with a sparse `mat1`."""
    return _C.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1.0,
    alpha: Number = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """``beta input + alpha mat1 mat2`` at the positions of `input`, a CSR matrix, alone; `mat1` and `mat2` are dense.

    Examples
    --------
    >>> import adjoint as ad
    >>> pattern = ad.eye(2).to_sparse_csr()
    >>> ad.sparse.sampled_addmm(pattern, ad.ones(2, 3), ad.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not input._layout_number:
        raise RuntimeError("sampled_addmm(): expected input to have a sparse layout, but got Strided")
    values, rows, columns = _products.entries(input, "sampled_addmm")
    products = _C._rows_dot(mat1, mat2.t(), rows, columns)
    result = _C._sparse_with(input.detach(), values * beta + products * alpha)
    return result if out is None else out.copy_(result)


def softmax(input: Tensor, dim: Dims, *, dtype: DType | None = None) -> Tensor:
    """Softmax of the entries along a dimension, where those that are not there count as -inf.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
    >>> ad.sparse.softmax(x, 1).to_dense().tolist()
    [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    return _reductions.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: Dims, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _reductions.softmax(input if dtype is None else input.to(dtype), dim, log=True)


def sum(input: Tensor, dim: Dims = None, dtype: DType | None = None) -> Tensor:
    """The sum over dimensions: dense where no sparse dimension is left, else sparse.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse.sum(ad.eye(3).to_sparse(), dim=0).to_dense()
    tensor([1., 1., 1.])
    """
    if not input._layout_number:
        raise RuntimeError(
            f"sparse.sum(): expected a sparse tensor, but got a dense one; use {switches.package}.sum"
        )
    return _reductions.summed(input, dim, False, dtype)


def spdiags(diagonals, offsets, shape, layout=None) -> Tensor:
    """The matrix of given diagonals: ``diagonals[i, j]`` stands in column j of the diagonal `offsets[i]`, above the main one
    where that is positive. What lies outside of the matrix is left out.

    Parameters
    ----------
    diagonals : Tensor, shape (n, m) or (m)
    offsets : Tensor of int64, shape (n) or ()
        All different.
    shape : (rows, columns)
    layout : layout, optional
        COO by default, CSR or CSC.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse.spdiags(ad.tensor([[1.0, 2.0, 3.0]]), ad.tensor([1]), (3, 3)).to_dense().tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
    """
    layouts = LAYOUTS[1:]
    found = None
    if diagonals.ndim not in (1, 2):
        found = f"Diagonals must be vector or matrix, but they have {diagonals.ndim} dimensions"
    elif len(shape) != 2:
        found = f"Output shape must be 2d, got {tuple(shape)}"
    elif offsets.ndim > 1:
        found = f"Offsets must be scalar or vector, but they have {offsets.ndim} dimensions"
    elif offsets.dtype is not _C.int64:
        found = f"Offset Tensor must have dtype Long but got {offsets.dtype.name}; convert it by .long()"
    elif layout not in (None, *layouts):
        found = f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
    else:
        (count, width), places = diagonals.reshape(-1, diagonals.shape[-1]).shape, offsets.reshape(-1)
        if count != places.numel():
            found = f"Number of diagonals ({count}) does not match the number of offsets ({places.numel()})"
        elif places.unique().numel() != count:
            found = "Offset tensor contains duplicate values"
    if found:
        raise RuntimeError(f"spdiags(): {found}")
    rows, columns = shape
    column = _C._arange(0, width, 1, dtype=_C.int64).expand(count, width)
    row = column - places.unsqueeze(1)
    inside = (column < columns) & (row >= 0) & (row < rows)
    indices = _C.stack([row[inside], column[inside]])
    made = _C._sparse_tensor(
        diagonals.reshape(count, width)[inside], indices, None, [rows, columns], 0, False
    )
    return made if layout in (None, layouts[0]) else made.to_sparse(layout=layout)


def smm(input, mat) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse matrix."""
    return mm(input, mat).to_sparse()


def hspmm(mat1, mat2) -> Tensor:
    """The product of a sparse matrix and a dense one, with a dense row for each row that has entries."""
    return mm(mat1, mat2).to_sparse(1)


def spmm(input, mat2) -> Tensor:
    """The product of a sparse matrix and a dense one."""
    return mm(input, mat2)


dsmm = hsmm = spmm


def as_sparse_gradcheck(gradcheck: F) -> Any:
    """`gradcheck` itself: it takes sparse inputs as they are, entry by entry (``masked=True``).

    Parameters
    ----------
    gradcheck : function
        `autograd.gradcheck`.

    Returns
    -------
    function
        `gradcheck`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.sparse.as_sparse_gradcheck(ad.autograd.gradcheck) is ad.autograd.gradcheck
    True
    """
    return gradcheck


def __getattr__(name):
    if name.endswith("Tensor"):
        from adjoint.as_torch._legacy import SPARSE_TYPES

        if name in SPARSE_TYPES:
            return SPARSE_TYPES[name]
    raise AttributeError(f"module 'adjoint.sparse' has no attribute {name!r}")


publish(globals())
