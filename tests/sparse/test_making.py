"""Sparse tensors are made of parts that fit each other, and go from layout to layout; start at `test_parts`."""

import copy
import io
import pickle

import numpy as np
import pytest
import scipy.sparse
from helpers import array
from sparse_reference import coo, dense, normal

import adjoint as ad

I, V = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]


def test_parts():
    x = ad.sparse_coo_tensor(I, V, (2, 3))
    assert isinstance(x, ad.Tensor) and x.is_sparse and not x.is_sparse_csr and x.layout is ad.sparse_coo
    assert x.shape == (2, 3) and x.dtype is ad.float32 and x.device.type == "cpu" and x.numel() == 6
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced()) == (2, 0, 3, False)
    assert x._indices().tolist() == I and x._values().tolist() == V
    assert x.stride() == (0, 0) and not x.is_contiguous()
    assert x.type().endswith(".sparse.FloatTensor")
    with pytest.raises(
        RuntimeError, match="Cannot get values on an uncoalesced tensor, please call .coalesce"
    ):
        x.values()
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()
    assert x.coalesce().values().tolist() == V
    assert x.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]


def test_values_are_shared():
    values = ad.ones(2)
    x = ad.sparse_coo_tensor([[0, 1]], values, (2,))
    assert x._values().data_ptr() == values.data_ptr()


@pytest.mark.parametrize("number", [ad.int64, ad.float32, ad.complex64, ad.bool])
def test_dtypes(number):
    x = ad.sparse_coo_tensor([[0, 2]], [1, 1], (3,), dtype=number)
    assert x.dtype is number and x.to_dense().dtype is number
    assert [complex(v) for v in x.to_dense().tolist()] == [1, 0, 1]


def test_sizes_are_inferred():
    assert ad.sparse_coo_tensor(I, V).shape == (2, 3)
    assert ad.sparse_coo_tensor([[0, 4]], ad.ones(2, 3)).shape == (5, 3)
    assert ad.sparse_csr_tensor([0, 2, 3], [0, 1, 4], [1, 2, 3]).shape == (2, 5)
    assert ad.sparse_csc_tensor([0, 2, 3], [0, 1, 4], [1, 2, 3]).shape == (5, 2)


def test_empty_ones():
    x = ad.sparse_coo_tensor((2, 3), dtype=ad.float64)
    assert x._nnz() == 0 and x.is_coalesced() and x.to_dense().tolist() == [[0.0] * 3] * 2
    assert (x + x)._nnz() == 0 and (x @ ad.ones(3, 1, dtype=ad.float64)).tolist() == [[0.0], [0.0]]
    assert x.coalesce()._nnz() == 0 and x.sum().item() == 0 and x.norm().item() == 0
    assert ad.zeros(2, 3, layout=ad.sparse_coo)._nnz() == 0
    assert ad.zeros(2, 3, layout=ad.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert ad.zeros_like(coo((3, 2), 4))._nnz() == 0
    scalar = ad.sparse_coo_tensor(ad.zeros(0, 2, dtype=ad.int64), ad.ones(2), ())
    assert scalar.to_dense().item() == 2 and scalar.coalesce()._nnz() == 1


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (RuntimeError, "size is inconsistent with indices: for dim 0, size is 2 but found index 5", lambda: ad.sparse_coo_tensor([[0, 5], [1, 1]], ad.ones(2), (2, 3))),
        (RuntimeError, "negative dimension.*\\[-1, 2\\]", lambda: ad.sparse_coo_tensor([-1, 2])),
        (RuntimeError, "negative dimension.*\\[2, -3\\]", lambda: ad.sparse_coo_tensor(size=(2, -3))),
        (RuntimeError, "found negative index -1 for dim 0", lambda: ad.sparse_coo_tensor([[0, -1], [1, 1]], ad.ones(2))),
        (RuntimeError, "found negative index -1 for dim 1", lambda: ad.sparse_coo_tensor([[0, 1], [1, -1]], ad.ones(2), (2, 3))),
        (RuntimeError, "indices and values must have same nnz, but got nnz from indices: 3, nnz from values: 2", lambda: ad.sparse_coo_tensor(I, ad.ones(2), (2, 3))),
        (RuntimeError, r"'len\(size\) == sparse_dim \+ dense_dim' is not satisfied: len\(size\) = 3", lambda: ad.sparse_coo_tensor(I, V, (2, 3, 4))),
        (RuntimeError, r"indices must be sparse_dim x nnz, but got: \[2\]", lambda: ad.sparse_coo_tensor([0, 1], ad.ones(2))),
        (RuntimeError, "values has incorrect size", lambda: ad.sparse_coo_tensor([[0, 1]], ad.ones(2, 2), (2, 3))),
        (RuntimeError, "cannot set is_coalesced to true", lambda: ad.sparse_coo_tensor([[1, 0]], ad.ones(2), (2,), is_coalesced=True)),
        (RuntimeError, r"`crow_indices\[..., -1\] == nnz` is not satisfied", lambda: ad.sparse_csr_tensor([0, 2, 1], [0, 1, 0], ad.ones(3), (2, 3))),
        (RuntimeError, "`0 <= col_indices < ncols` is not satisfied", lambda: ad.sparse_csr_tensor([0, 2, 3], [0, 7, 0], ad.ones(3), (2, 3))),
        (RuntimeError, r"`crow_indices\[..., 0\] == 0` is not satisfied", lambda: ad.sparse_csr_tensor([1, 2, 3], [0, 1, 0], ad.ones(3), (2, 3))),
        (RuntimeError, r"col_indices.*sorted and distinct", lambda: ad.sparse_csr_tensor([0, 2, 3], [1, 0, 0], ad.ones(3), (2, 3))),
        (RuntimeError, "crow_indices.shape", lambda: ad.sparse_csr_tensor([0, 2], [0, 1], ad.ones(2), (2, 3))),
        (NotImplementedError, "batches", lambda: ad.sparse_csr_tensor([[0, 1]], [[0]], ad.ones(1, 1), (1, 1, 1))),
        (NotImplementedError, "on the CPU alone", lambda: ad.sparse_coo_tensor([[0]], [1.0], (1,), device="meta")),
        (RuntimeError, "values expected sparse tensor layout but got Strided", lambda: ad.ones(2).values()),
        (RuntimeError, "coalesce expected sparse coordinate tensor layout but got SparseCsr", lambda: ad.eye(2).to_sparse_csr().coalesce()),
        (RuntimeError, "crow_indices expected sparse row compressed tensor layout but got Sparse", lambda: ad.eye(2).to_sparse().crow_indices()),
        (RuntimeError, r"sparse_dim argument must be in \[0,2\] range, but 3 is given", lambda: ad.ones(2, 2).to_sparse(3)),
        (RuntimeError, "operands have incompatible sizes", lambda: ad.ones(2, 3).sparse_mask(ad.eye(2).to_sparse())),
        (RuntimeError, "sparse_bsr|must be sparse_coo", lambda: ad.ones(2, 2).to_sparse(layout=ad.strided)),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(error, text, call):
    with pytest.raises(error, match=text):
        call()


def test_unchecked_indices_reach_no_memory():
    with ad.sparse.check_sparse_tensor_invariants(False):
        x = ad.sparse_coo_tensor([[0, 9], [1, 1]], ad.ones(2), (2, 3))
        y = ad.sparse_csr_tensor([0, 7, 2], [0, 9], ad.ones(2), (2, 3))
    assert ad.sparse.check_sparse_tensor_invariants.is_enabled()
    for call in (
        lambda x: x.to_dense(),
        lambda x: x @ ad.ones(3, 2),
        lambda x: x * ad.ones(2, 3),
        lambda x: ad.ones(2, 3).add_(x),
        lambda x: x.to_sparse_csr().t().to_dense() if x.is_sparse else x.to_sparse_coo().coalesce(),
        lambda x: x.sum(1),
    ):
        for bad in (x, y):
            with pytest.raises((RuntimeError, IndexError)):
                call(bad)


@pytest.mark.parametrize("sparse_dim", [1, 2, 3])
def test_to_sparse_and_back(sparse_dim):
    values = array(normal(3, 4, 2)) * (np.random.default_rng(0).random((3, 4, 1)) < 0.5)
    x = ad.tensor(values.tolist(), dtype=ad.float64).to_sparse(sparse_dim)
    assert x.is_coalesced() and (x.sparse_dim(), x.dense_dim()) == (sparse_dim, 3 - sparse_dim)
    np.testing.assert_array_equal(array(x.to_dense()), values)


def test_matrices_in_scipys_layouts():
    m = scipy.sparse.random(6, 5, density=0.4, format="coo", random_state=1)
    x = ad.tensor(m.toarray().tolist(), dtype=ad.float64)
    csr, csc = m.tocsr(), m.tocsc()
    a, b = x.to_sparse_csr(), x.to_sparse_csc()
    assert a.is_sparse_csr and not a.is_sparse and a.layout is ad.sparse_csr and b.layout is ad.sparse_csc
    for found, expected in (
        (a.crow_indices(), csr.indptr), (a.col_indices(), csr.indices), (a.values(), csr.data),
        (b.ccol_indices(), csc.indptr), (b.row_indices(), csc.indices), (b.values(), csc.data),
    ):  # fmt: skip
        np.testing.assert_array_equal(array(found), expected)
    for y in (a, b, a.to_sparse_coo(), b.to_sparse_coo(), a.to_sparse_csc(), b.to_sparse_csr(), a.t().t()):
        np.testing.assert_array_equal(array(y.to_dense()), m.toarray())
    back = ad.sparse_csr_tensor(
        ad.from_numpy(csr.indptr), ad.from_numpy(csr.indices), ad.from_numpy(csr.data), m.shape
    )
    assert back.crow_indices().dtype is ad.int32
    np.testing.assert_array_equal(array(back.to_dense()), m.toarray())


def test_coalesce_adds_and_sorts():
    for size, entries in (((4, 5), 30), ((3, 2, 4), 50), ((1000,), 3000), ((50, 60), 2000)):
        x = coo(size, entries)
        y = x.coalesce()
        assert y.is_coalesced() and y.coalesce() is y
        flat = np.ravel_multi_index(array(y.indices()), size)
        assert (np.diff(flat) > 0).all()
        np.testing.assert_allclose(dense(y), dense(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(array(x.to_dense()), dense(x), rtol=1e-12, atol=1e-12)


def test_sparse_mask():
    x, mask = normal(4, 5), coo((4, 5), 8)
    for m in (mask, mask.to_sparse_csr()):
        y = x.sparse_mask(m)
        there = dense(m) != 0
        assert y.layout is m.layout
        np.testing.assert_array_equal(dense(y), np.where(there, array(x), 0))
    z = coo((4, 5), 9)
    np.testing.assert_allclose(
        dense(z.sparse_mask(mask)), np.where(dense(mask) != 0, dense(z), 0), atol=1e-12
    )


def test_text():
    x = ad.sparse_coo_tensor(I, V, (2, 3))
    assert repr(x).replace("adjoint.", "torch.") == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(x.to_sparse_csr()).replace("adjoint.", "torch.") == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,\n       layout=torch.sparse_csr)"
    )
    h = ad.sparse_coo_tensor([[0, 1]], ad.ones(2, 2), (3, 2), dtype=ad.float64, requires_grad=True)
    assert repr(h).replace("adjoint.", "torch.") == (
        "tensor(indices=tensor([[0, 1]]),\n       values=tensor([[1., 1.],\n                      [1., 1.]]),\n"
        "       size=(3, 2), nnz=2, dtype=torch.float64, layout=torch.sparse_coo,\n       requires_grad=True)"
    )
    assert "grad_fn=<MulBackward0>" in repr(h * 2) or "grad_fn=" in repr(h * 2)
    assert "tensor([], size=(2, 0))" in repr(ad.sparse_coo_tensor((2, 3)))


@pytest.mark.parametrize(
    "make", [lambda x: x, lambda x: x.coalesce(), lambda x: x.to_sparse_csr(), lambda x: x.to_sparse_csc()]
)
def test_copies_and_files(make, tmp_path):
    x = make(coo((4, 5), 7)).requires_grad_()
    x.mark = "kept"
    ways = [copy.deepcopy(x), *(pickle.loads(pickle.dumps(x, p)) for p in range(2, 6))]
    for file in (io.BytesIO(), tmp_path / "x.pt"):
        ad.save({"x": x, "layout": x.layout}, file)
        if hasattr(file, "seek"):
            file.seek(0)
        loaded = ad.load(file)
        assert loaded["layout"] is x.layout
        ways.append(loaded["x"])
    for i, y in enumerate(ways):
        assert y.layout is x.layout and y._nnz() == x._nnz() and y.shape == x.shape and y.mark == "kept"
        assert i >= 5 or y.requires_grad  # torch's format does not say it of sparse tensors
        if x.is_sparse:
            assert y.is_coalesced() == x.is_coalesced()
        np.testing.assert_array_equal(dense(y), dense(x))
    with ad.no_grad():
        ways[0].mul_(2)
    assert not np.array_equal(dense(ways[0]), dense(x))
    shared = copy.copy(x)
    assert shared._values().data_ptr() == x._values().data_ptr() if x.is_sparse else True


def test_damaged_files_are_refused():
    x = ad.sparse_coo_tensor(I, V, (2, 3))
    with ad.no_grad():
        x._indices()[0, 0] = 100
    file = io.BytesIO()
    ad.save(x, file)
    file.seek(0)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="size is inconsistent with indices"):
        ad.load(file)


@pytest.mark.parametrize(
    "indices", [np.array(I), np.array(I, np.int32), [[], []], np.zeros((2, 0), np.int64), ad.tensor(I)]
)
def test_indices_of_any_kind(indices):
    count = len(indices[0])
    x = ad.sparse_coo_tensor(indices, V[:count], (2, 3))
    assert x._indices().dtype is ad.int64 and x._nnz() == count
    assert (
        x.to_dense().tolist()
        == dense(x).tolist()
        == ([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]] if count else [[0.0] * 3] * 2)
    )
