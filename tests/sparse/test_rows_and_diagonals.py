"""Rows and columns of compressed matrices, and matrices of given diagonals; against SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp

import adjoint as ad

DENSE = np.arange(12.0).reshape(3, 4) * (np.arange(12).reshape(3, 4) % 3 > 0)


@pytest.mark.parametrize("layout", [ad.sparse_coo, ad.sparse_csr, ad.sparse_csc])
def test_select(layout):
    x = ad.tensor(DENSE).to_sparse(layout=layout)
    for row in (0, 2, -1):
        found = x.select(0, row)
        assert found.layout is ad.sparse_coo and found.to_dense().tolist() == DENSE[row].tolist()
        assert x[row].to_dense().tolist() == DENSE[row].tolist()
    assert x[:, 1].to_dense().tolist() == DENSE[:, 1].tolist() and x[1, 1] == DENSE[1, 1]
    with pytest.raises(IndexError, match="out of range"):
        x.select(0, 3)


@pytest.mark.parametrize("layout", [None, ad.sparse_coo, ad.sparse_csr, ad.sparse_csc])
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (0, 2)])
def test_diagonals(layout, shape):
    values, offsets = np.arange(1.0, 10).reshape(3, 3), [0, -1, 2]
    found = ad.sparse.spdiags(ad.tensor(values), ad.tensor(offsets), shape, layout)
    assert found.layout is (layout or ad.sparse_coo) and found.shape == shape
    expected = sp.spdiags(values, offsets, *shape).toarray() if all(shape) else np.zeros(shape)
    assert found.to_dense().tolist() == expected.tolist()


def test_one_diagonal_and_gradients():
    d = ad.ones(3, requires_grad=True)
    ad.sparse.spdiags(d, ad.tensor(1), (3, 3)).to_dense().sum().backward()
    assert d.grad.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("words", "args"),
    [
        (r"Number of diagonals \(3\) does not match the number of offsets \(2\)", ((3, 3), [0, 1], (4, 4))),
        ("Diagonals must be vector or matrix", ((3, 3, 3), [0, 1, 2], (4, 4))),
        ("Output shape must be 2d", ((3, 3), [0, 1, 2], (4,))),
        ("Offsets must be scalar or vector", ((3, 3), [[0, 1, 2]], (4, 4))),
        ("Offset Tensor must have dtype Long but got float32", ((1, 3), [0.0], (4, 4))),
        ("Offset tensor contains duplicate values", ((2, 3), [1, 1], (4, 4))),
        (
            r"Only output layouts \(Sparse, SparseCsc, SparseCsr\) are supported",
            ((1, 3), [1], (4, 4), ad.strided),
        ),
    ],
)
def test_what_diagonals_refuse(words, args):
    sizes, offsets, *rest = args
    with pytest.raises(RuntimeError, match=words):
        ad.sparse.spdiags(ad.ones(sizes), ad.tensor(offsets), *rest)
