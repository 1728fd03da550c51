"""Sparse gradients on their way: made by rules, added up by the engine, kept by leaves, seen by hooks. Start reading at `test_embedding`."""

import gc
import threading

import numpy as np
import pytest
from helpers import allocated, array
from sparse_reference import coo, dense, normal

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F


def table(rows=6, width=3, **options):
    return normal(rows, width).requires_grad_()


@pytest.mark.parametrize("padding", [None, 1, -2])
@pytest.mark.parametrize("shape", [(7,), (2, 3), (0,), ()])
def test_embedding(padding, shape):
    weight, other = table(), None
    other = weight.detach().clone().requires_grad_()
    index = ad.tensor(np.random.default_rng(3).integers(0, 6, shape).tolist(), dtype=ad.int64).reshape(shape)
    w = normal(*shape, 3)
    for x, sparse in ((weight, True), (other, False)):
        y = F.embedding(index, x, padding, sparse=sparse)
        (y * w).sum().backward()
    g = weight.grad
    assert g.layout is ad.sparse_coo and g.shape == weight.shape and (g.sparse_dim(), g.dense_dim()) == (1, 1)
    if padding is None:
        assert g._nnz() == index.numel()
    np.testing.assert_allclose(dense(g), array(other.grad), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags(mode, padding):
    bag = nn.EmbeddingBag(6, 3, mode=mode, sparse=True, padding_idx=padding, dtype=ad.float64)
    plain = nn.EmbeddingBag(
        6, 3, mode=mode, padding_idx=padding, dtype=ad.float64, _weight=bag.weight.detach().clone()
    )
    index, offsets = ad.tensor([1, 2, 2, 5, 0, 1]), ad.tensor([0, 2, 2])
    for b in (bag, plain):
        (b(index, offsets) * ad.arange(9.0, dtype=ad.float64).reshape(3, 3)).sum().backward()
    assert bag.weight.grad.is_sparse
    np.testing.assert_allclose(dense(bag.weight.grad), array(plain.weight.grad), rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        nn.EmbeddingBag(6, 3, mode="max", sparse=True)(index, offsets)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(dim):
    x = normal(4, 5).requires_grad_()
    index = ad.tensor([[0, 3, 1], [1, 1, 2]])
    ad.gather(x, dim, index, sparse_grad=True).square().sum().backward()
    found, x.grad = x.grad, None
    ad.gather(x, dim, index).square().sum().backward()
    assert found.is_sparse and found._nnz() == 6 and found.sparse_dim() == 2
    np.testing.assert_allclose(dense(found), array(x.grad), rtol=1e-12)


def test_gather_of_a_scalar():
    x = ad.tensor(2.0, requires_grad=True)
    ad.gather(x, 0, ad.tensor(0), sparse_grad=True).backward()
    assert x.grad.item() == 1


def test_sparse_gradients_are_put_behind_each_other():
    weight = table()
    F.embedding(ad.tensor([0, 1, 1]), weight, sparse=True).sum().backward()
    first = weight.grad
    assert first._nnz() == 3 and not first.is_coalesced()
    F.embedding(ad.tensor([4]), weight, sparse=True).sum().backward()
    assert weight.grad is first and first._nnz() == 4, "what was there takes what comes"
    np.testing.assert_array_equal(dense(first), np.outer([1, 2, 0, 0, 1, 0], [1, 1, 1]))
    # Twice in one pass, too.
    weight.grad = None
    a, b = (F.embedding(ad.tensor(i), weight, sparse=True) for i in ([0, 1], [1, 5]))
    (a + 2 * b).sum().backward()
    assert weight.grad.is_sparse and weight.grad._nnz() == 4
    np.testing.assert_array_equal(dense(weight.grad), np.outer([1, 3, 0, 0, 0, 2], [1, 1, 1]))


def test_dense_and_sparse_gradients_make_dense_ones():
    expected = np.outer([2, 3, 1, 1, 1, 1], [1, 1, 1])
    uses = (lambda w: F.embedding(ad.tensor([0, 1, 1]), w, sparse=True).sum(), lambda w: w.sum())
    for order in ((0, 1), (1, 0)):
        weight = table()
        (uses[order[0]](weight) + uses[order[1]](weight)).backward()  # in one pass
        assert weight.grad.layout is ad.strided
        np.testing.assert_array_equal(array(weight.grad), expected)
        weight.grad = None
        for k in order:  # and in two
            uses[k](weight).backward()
        assert weight.grad.layout is ad.strided
        np.testing.assert_array_equal(array(weight.grad), expected)
        # What is dense is written where entries are, and stays the tensor that it was.
        before = weight.grad
        uses[0](weight).backward()
        assert weight.grad is before


def test_the_gradient_goes_on_through_other_operations():
    """An element-wise rule, a product with numbers and a sum over a broadcast take it or refuse it; none reads what is not there."""
    weight = table()
    F.embedding(ad.tensor([0, 1, 1]), weight * 2, sparse=True).sum().backward()
    np.testing.assert_array_equal(dense(weight.grad), np.outer([2, 4, 0, 0, 0, 0], [1, 1, 1]))
    weight.grad = None
    F.embedding(ad.tensor([0, 1, 1]), weight.sin() / 2, sparse=True).sum().backward()
    found, weight.grad = dense(weight.grad), None
    F.embedding(ad.tensor([0, 1, 1]), weight.sin() / 2).sum().backward()
    np.testing.assert_allclose(found, array(weight.grad), rtol=1e-12)
    weight.grad = None
    with pytest.raises(NotImplementedError, match="SparseCPU"):
        F.embedding(ad.tensor([0, 1, 1]), weight.cumsum(0), sparse=True).sum().backward()


def test_hooks_see_sparse_gradients():
    weight, seen = table(), []
    handle = weight.register_hook(lambda g: seen.append(g.layout))
    F.embedding(ad.tensor([0, 1]), weight, sparse=True).sum().backward()
    handle.remove()
    weight.register_hook(lambda g: g * 3)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad._nnz()))
    weight.grad = None
    F.embedding(ad.tensor([2]), weight, sparse=True).sum().backward()
    assert seen == [ad.sparse_coo, 1] and dense(weight.grad)[2].tolist() == [3, 3, 3]


def test_grad_and_create_graph():
    weight = table()
    index = ad.tensor([0, 3, 3])
    y = F.embedding(index, weight, sparse=True).pow(3).sum()
    (g,) = ad.autograd.grad(y, weight, create_graph=True)
    assert g.is_sparse and g.requires_grad and g.grad_fn is not None
    (h,) = ad.autograd.grad(g.coalesce().values().sum(), weight)
    np.testing.assert_allclose(
        dense(h), np.outer([1, 0, 0, 2, 0, 0], [1, 1, 1]) * 6 * array(weight), rtol=1e-12
    )
    weight.grad = None
    F.embedding(index, weight, sparse=True).pow(3).sum().backward(create_graph=True)
    weight.grad.to_dense().sum().backward()


def test_retained_gradients():
    weight = table()
    x = weight * 1
    x.retain_grad()
    F.embedding(ad.tensor([0, 1]), x, sparse=True).sum().backward()
    assert x.grad.is_sparse and weight.grad.is_sparse


def test_zero_grad_detach_and_clip():
    layer = nn.Embedding(6, 2, sparse=True, dtype=ad.float64)
    layer(ad.tensor([1, 2, 2])).sum().backward()
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    np.testing.assert_allclose(norm.item(), np.sqrt(2 * (1 + 4)))
    np.testing.assert_allclose(np.linalg.norm(dense(layer.weight.grad)), 1.0, rtol=1e-5)
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.is_sparse and layer.weight.grad._nnz() == 0
    layer(ad.tensor([1])).sum().backward()
    assert dense(layer.weight.grad)[1].tolist() == [1, 1]
    assert layer.weight.grad.detach()._nnz() == 1
    layer.zero_grad()
    assert layer.weight.grad is None


def test_leaves_that_are_sparse():
    x = coo((3, 4), 5).requires_grad_()
    (x @ ad.ones(4, 2, dtype=ad.float64)).sum().backward()
    assert x.grad.is_sparse and x.grad._nnz() == x._nnz()
    before = x.grad
    (x * 2).sum().backward()
    assert x.grad is before
    np.testing.assert_array_equal(array(x.grad._values()), np.full(5, 4.0))
    x.grad = None
    x.to_dense().sum().backward()
    np.testing.assert_array_equal(array(x.grad._values()), np.ones(5))
    with pytest.raises(RuntimeError, match="leaf"):
        x.mul_(2)


def test_writes_have_history():
    x = coo((3, 4), 5).requires_grad_()
    y = x * 1
    before = y._version
    y.mul_(3)
    y += x
    assert y._version > before
    y.sum().backward()
    np.testing.assert_allclose(
        array(x.grad.coalesce().values()),
        4 * array(ad._C._sparse_with(x.detach(), ad.ones(5, dtype=ad.float64)).coalesce().values()),
    )
    # What was saved of values is not what a sparse tensor has after a write: it takes others.
    x.grad = None
    z = x.coalesce() * 2
    w = z * z
    z.zero_()
    assert z._nnz() == 0
    w.sum().backward()
    at = tuple(array(i) for i in ad._C._sparse_positions(x))
    np.testing.assert_allclose(array(x.grad._values()), 8 * dense(x)[at], rtol=1e-12)
    # Values themselves are memory, and writes to them are counted.
    z = x.coalesce() * 2
    w = z * z
    z._values().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.sum().backward()


def test_copies_write_through():
    x = coo((3, 4), 5)
    other = x.detach()
    x.copy_(coo((3, 4), 2))
    assert other._nnz() == 2 and x._version == 1
    d = normal(3, 4)
    kept = array(d).copy()
    address = d.data_ptr()
    d.add_(x, alpha=2)
    d.sub_(x)
    assert d.data_ptr() == address
    np.testing.assert_allclose(array(d), kept + dense(x), rtol=1e-12)


def test_dense_write_of_a_sparse_tensor_is_recorded():
    d, x = normal(3, 4, requires_grad=True), coo((3, 4), 5, requires_grad=True)
    y = d * 2
    y.add_(x, alpha=3)
    w = normal(3, 4)
    (y * w).sum().backward()
    np.testing.assert_allclose(array(d.grad), 2 * array(w), rtol=1e-12)
    at = tuple(array(i) for i in ad._C._sparse_positions(x))
    np.testing.assert_allclose(array(x.grad._values()), 3 * array(w)[at], rtol=1e-12)


def test_forward_mode():
    from adjoint.autograd import forward_ad

    values, d = normal(5), normal(4, 2)
    indices = coo((3, 4), 5)._indices()
    t = normal(5)
    with forward_ad.dual_level():
        v = forward_ad.make_dual(values, t)
        x = ad.sparse_coo_tensor(indices, v, (3, 4))
        y = forward_ad.unpack_dual(x @ d)
    expected = ad.sparse_coo_tensor(indices, t, (3, 4)) @ d
    np.testing.assert_allclose(array(y.tangent), array(expected), rtol=1e-12)


def test_nothing_is_kept_alive():
    def step():
        weight = table(50, 4)
        x = coo((6, 6), 9, requires_grad=True)
        for _ in range(3):
            F.embedding(ad.tensor([1, 2, 2]), weight, sparse=True).pow(2).sum().backward()
            ((x @ x.t()).to_dense().sum() + (x * x).sum()).backward()
        y = x * 2
        y.mul_(x)
        weight.grad.coalesce()

    step()
    gc.collect()
    gc.disable()
    try:
        before = allocated()
        for _ in range(5):
            step()
        assert allocated() <= before, "tensors, indices and values go without the collector"
    finally:
        gc.enable()


def test_passes_in_several_threads_lose_nothing():
    weight, errors = table(20, 4), []

    def work():
        try:
            for i in range(30):
                F.embedding(ad.tensor([i % 20, 3]), weight, sparse=True).sum().backward()
        except Exception as error:  # noqa: BLE001 - it is raised below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]
    # Two gradients of the same rows are one of twice the numbers: how often they follow each other is chance.
    assert dense(weight.grad)[:, 0].sum() == 4 * 30 * 2
    assert dense(weight.grad)[3, 0] == 4 * 30 + 4 * sum(i % 20 == 3 for i in range(30))


def test_parallel_branches():
    ad.set_num_threads(4)
    for _ in range(20):
        weight = table()
        parts = [F.embedding(ad.tensor([i % 6]), weight, sparse=True).sum() for i in range(12)]
        with ad.autograd.set_parallel_backward(True):
            sum(parts).backward()
        np.testing.assert_array_equal(dense(weight.grad), np.full((6, 3), 2.0))


def test_anomalies_are_found_in_values():
    weight = table()
    with pytest.raises(RuntimeError, match="nan"), ad.autograd.detect_anomaly():
        (F.embedding(ad.tensor([0]), weight, sparse=True) * float("nan")).sum().backward()


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "max", "min"])
def test_products_that_are_reduced_otherwise(layout, reduce):
    """The products of a row's entries with what they meet; 0 for a row without entries."""
    a = np.array([[1.0, 0, 2], [0, 0, 0], [0, -3, 4]])
    b = np.array([[1.0, -2], [3, 4], [-5, 6]])
    g = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    how = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "max": np.max, "min": np.min}[
        reduce
    ]
    expected, to_b, to_a = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 3))
    for i in range(3):
        there = np.flatnonzero(a[i])
        for k in range(2):
            products = a[i, there] * b[there, k]
            if not len(there):
                continue
            expected[i, k] = how(products)
            shares = {"sum": np.ones(len(there)), "mean": np.full(len(there), 1 / len(there))}.get(
                reduce, (products == expected[i, k]).astype(float)
            )
            to_b[there, k] += g[i, k] * shares * a[i, there]
            to_a[i, there] += g[i, k] * shares * b[there, k]
    sparse = getattr(ad.tensor(a), layout)().requires_grad_()
    right = ad.tensor(b, requires_grad=True)
    y = ad.sparse.mm(sparse, right, reduce)
    y.backward(ad.tensor(g))
    np.testing.assert_allclose(y.detach().numpy(), expected)
    np.testing.assert_allclose(right.grad.numpy(), to_b)
    np.testing.assert_allclose(sparse.grad.to_dense().numpy(), to_a)


def test_refusals_of_reduced_products():
    a = ad.eye(2).to_sparse_csr()
    with pytest.raises(RuntimeError, match="reduce type of prod has not been enabled"):
        ad.sparse.mm(a, ad.ones(2, 2), "prod")
    with pytest.raises(RuntimeError, match="expected a sparse matrix and a dense one that fits it"):
        ad.sparse.mm(a, ad.ones(3, 2), "mean")
