"""Functions of sparse tensors that are published at the top: ``adjoint.sparse_coo_tensor``."""

from adjoint.sparse import dsmm, hsmm, hspmm, smm, spmm
from adjoint.sparse._making import (
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)

__all__ = [
    "dsmm",
    "hsmm",
    "hspmm",
    "smm",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spmm",
]
