"""What a Tensor has for sparse layouts; see Note: sparse tensors. All is in `adjoint.sparse`, imported when it is first used."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, extend
from adjoint._tensor.device import LAYOUTS, WRITTEN
from adjoint._types import Any, DType, Layout, Shape


def parts(x, asked=None, expected="", numbers=(1,)):
    """Layout, whether it is coalesced, indices, other indices and values of a sparse tensor, without history.

    `asked` is what a tensor of other layouts than those of the `numbers` is refused for.
    """
    number = x._layout_number
    if asked is not None and number not in numbers:
        raise RuntimeError(f"{asked} expected {expected} layout but got {WRITTEN[number]}")
    return _C._sparse_parts(x)


def _converting():
    from adjoint.sparse import _converting

    return _converting


_COO, _ROWS, _COLUMNS = (
    "sparse coordinate tensor",
    "sparse row compressed tensor",
    "sparse column compressed tensor",
)


@extend
class Sparse(Members):
    """Parts of sparse tensors, and ways between the layouts."""

    layout = property(lambda self: LAYOUTS[self._layout_number], doc="How the elements are stored.")

    def to_dense(self, dtype: DType | None = None, masked_grad: Any = None) -> Tensor:
        """The tensor in the dense layout; itself if it is dense already.

        Parameters
        ----------
        masked_grad : bool, optional
            The gradient is that of the stored elements: False is refused where one is wanted.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.sparse_coo_tensor([[0, 1]], [3.0, 4.0], (3,)).to_dense()
        tensor([3., 4., 0.])
        """
        if self._layout_number:
            if masked_grad is False and self.requires_grad:
                raise NotImplementedError(
                    "to_dense(masked_grad=False): the gradient is that of the stored elements, as with masked_grad=True; make "
                    "the dense tensor the leaf where the others are wanted"
                )
            self = _converting().dense(self)
        return self if dtype is None else self.to(dtype)

    def sparse_resize_(self, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
        """Give this COO tensor another shape with as many indexed dimensions; it keeps its values, which must fit."""
        if (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()) and self._nnz():
            raise RuntimeError(
                f"sparse_resize_(): changing the number of sparse dimensions from {self.sparse_dim()} to {sparse_dim}, or of dense "
                f"ones from {self.dense_dim()} to {dense_dim}, on a non-empty sparse tensor is not supported"
            )
        return self._have(self._indices(), self._values(), size)

    def sparse_resize_and_clear_(self, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
        """Give this COO tensor another shape, and no values."""
        values = self._values().new_empty((0, *tuple(size)[sparse_dim:]))
        if sparse_dim + dense_dim != len(size):
            raise RuntimeError(
                f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
            )
        return self._have(self._indices().new_empty((sparse_dim, 0)), values, size)

    def _have(self, indices, values, size):
        from adjoint import sparse_coo_tensor

        self.data = sparse_coo_tensor(indices, values, tuple(size), check_invariants=True)
        return self

    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: Layout | None = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Tensor:
        """The tensor in a sparse layout, by default COO: its non-zero elements and their indices.

        Parameters
        ----------
        sparse_dim : int, optional
            The first so many dimensions are indexed, all by default; of the others there are values for each index.
        layout : layout, optional
            sparse_coo, sparse_csr or sparse_csc.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.eye(2).to_sparse().values()
        tensor([1., 1.])
        """
        return _converting().to_sparse(self, sparse_dim, layout, blocksize, dense_dim)

    def to_sparse_coo(self) -> Tensor:
        """The tensor in the layout sparse_coo."""
        return _converting().to_sparse(self, layout=LAYOUTS[1])

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """A matrix in the layout sparse_csr."""
        return _converting().to_sparse(self, layout=LAYOUTS[2], dense_dim=dense_dim)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Tensor:
        """A matrix in the layout sparse_csc."""
        return _converting().to_sparse(self, layout=LAYOUTS[3], dense_dim=dense_dim)

    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The elements at the positions of a sparse tensor, in its layout.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2, 2).sparse_mask(ad.eye(2).to_sparse()).values()
        tensor([1., 1.])
        """
        return _converting().sparse_mask(self, mask)

    def coalesce(self) -> Tensor:
        """Sort the indices and add up the values of duplicates; the tensor itself if it is coalesced already."""
        parts(self, "coalesce", _COO)
        return _C._sparse_coalesce(self)

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be sorted and unique."""
        return parts(self, "is_coalesced", _COO)[1]

    def _coalesced_(self, coalesced) -> Tensor:
        parts(self, "_coalesced_", _COO)
        _C._sparse_set_coalesced(self, coalesced)
        return self

    def indices(self) -> Tensor:
        """The indices of a coalesced tensor: a row for each sparse dimension."""
        _, coalesced, indices, _, _ = parts(self, "indices", _COO)
        if not coalesced:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return indices

    def values(self) -> Tensor:
        """The values, recorded; of a COO tensor that is coalesced."""
        coalesced = parts(self, "values", "sparse tensor", (1, 2, 3))[1]
        if self._layout_number == 1 and not coalesced:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return _C._sparse_values(self)

    def _indices(self) -> Tensor:
        return parts(self, "_indices", _COO)[2]

    def _values(self) -> Tensor:
        return parts(self, "_values", _COO)[4]

    def _nnz(self) -> int:
        """The number of entries."""
        return parts(self, "_nnz", "sparse tensor", (1, 2, 3))[4].shape[0]

    def sparse_dim(self) -> int:
        """How many dimensions are indexed; 0 for a dense tensor."""
        number = self._layout_number
        return 0 if not number else 2 if number > 1 else _C._sparse_parts(self)[2].shape[0]

    def dense_dim(self) -> int:
        """How many dimensions each value has; all, for a dense tensor."""
        return self.ndim - self.sparse_dim()

    def _dimI(self) -> int:
        return self.sparse_dim()

    def _dimV(self) -> int:
        return self.dense_dim()

    def crow_indices(self) -> Tensor:
        """Where the entries of each row begin; of a tensor in sparse_csr."""
        return parts(self, "crow_indices", _ROWS, (2,))[2]

    def col_indices(self) -> Tensor:
        """The column of each entry; of a tensor in sparse_csr."""
        return parts(self, "col_indices", _ROWS, (2,))[3]

    def ccol_indices(self) -> Tensor:
        """Where the entries of each column begin; of a tensor in sparse_csc."""
        return parts(self, "ccol_indices", _COLUMNS, (3,))[2]

    def row_indices(self) -> Tensor:
        """The row of each entry; of a tensor in sparse_csc."""
        return parts(self, "row_indices", _COLUMNS, (3,))[3]

    def smm(self, mat: Tensor) -> Tensor:
        """The product of a sparse matrix and a dense one, as a sparse matrix."""
        from adjoint import sparse

        return sparse.smm(self, mat)
