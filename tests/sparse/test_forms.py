"""Every form of an operator on sparse tensors equals the operator on the dense ones: values, gradients, second derivatives.

A case is a function and its inputs. Gradients of sparse inputs are compared with those of dense ones at the entries. Start
reading at `test_case`.
"""

import numpy as np
import pytest
from helpers import array
from sparse_reference import RNG, coo, dense, normal

import adjoint as ad
from adjoint.autograd import grad
from adjoint.sparse._forms import KEEP_ZERO, LINEAR

S, T = (lambda: coo((4, 5), 9)), (lambda: coo((4, 5), 7))
C = lambda: coo((4, 5), 9).to_sparse_csr()  # noqa: E731
H = lambda: coo((4, 3, 2), 6, 2)  # noqa: E731
Z = lambda: coo((4, 5), 9, dtype=ad.complex128)  # noqa: E731
co = lambda x: x.coalesce() if x.is_sparse else x  # noqa: E731
INDEX = ad.tensor([3, 0, 0, -1])

CASES = {
    "add": (lambda x, y: x + y, S, T),
    "add coalesced": (lambda x, y: co(x) + co(y), S, T),
    "add hybrid": (lambda x, y: x + y, H, H),
    "add scaled": (lambda x, y: ad.add(x, y, alpha=3), S, T),
    "add csr": (lambda x, y: x + y, C, C),
    "add dense": (lambda x, y: x + y, S, lambda: normal(4, 5)),
    "dense add": (lambda x, y: x + y, lambda: normal(4, 5), S),
    "dense add csr": (lambda x, y: x + y, lambda: normal(4, 5), C),
    "dense add hybrid": (lambda x, y: x + y, lambda: normal(4, 3, 2), H),
    "sub": (lambda x, y: x - y, S, T),
    "dense sub": (lambda x, y: ad.sub(x, y, alpha=2), lambda: normal(4, 5), S),
    "itself": (lambda x: x + x * x, S),
    "neg": (lambda x: -x, S),
    "times number": (lambda x: x * 3 + 0.5 * x, S),
    "times scalar": (lambda x, y: x * y, S, lambda: normal()),
    "times complex": (lambda x: x * (2 - 1j), Z),
    "over number": (lambda x: x / 3, S),
    "over scalar": (lambda x, y: x / y, C, lambda: normal()),
    "times dense": (lambda x, y: x * y, S, lambda: normal(4, 5)),
    "times row": (lambda x, y: y * x, S, lambda: normal(5)),
    "times dense csr": (lambda x, y: x * y, C, lambda: normal(4, 5)),
    "times dense hybrid": (lambda x, y: x * y, H, lambda: normal(4, 3, 2)),
    "times sparse": (lambda x, y: x * y, S, T),
    "times csr": (lambda x, y: x * y, C, C),
    "times hybrid": (lambda x, y: x * y, H, H),
    "times complex sparse": (lambda x, y: x * y, Z, Z),
    "square": (lambda x: x**2, S),
    "cube": (lambda x: x.pow(3), C),
    "t": (lambda x: x.t(), S),
    "t csr": (lambda x: x.t(), C),
    "transpose": (lambda x: x.transpose(0, 1), H),
    "transpose dense dims": (lambda x: x.transpose(2, 3), lambda: coo((4, 3, 2, 5), 6, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda: coo((4, 3, 2), 9)),
    "row": (lambda x: x[1], S),
    "element": (lambda x: x[1][-1], S),
    "column": (lambda x: x[:, -1], S),
    "part": (lambda x: x[1:3, None], S),
    "row of hybrid": (lambda x: x[1], lambda: coo((4, 3), 6, 1)),
    "select in dense": (lambda x: x.select(2, 1), H),
    "narrow": (lambda x: x.narrow(1, 1, 2), H),
    "narrow in dense": (lambda x: x.narrow(2, 1, 1), H),
    "index_select": (lambda x: x.index_select(0, INDEX), S),
    "index_select 1": (lambda x: ad.index_select(x, 1, INDEX), S),
    "index_select in dense": (lambda x: x.index_select(2, ad.tensor([1, 0, 1])), H),
    "unsqueeze": (lambda x: x.unsqueeze(1).unsqueeze(-1), S),
    "unsqueeze in dense": (lambda x: x.unsqueeze(-2), H),
    "unbind": (lambda x: x.unbind(1)[2], S),
    "cat": (lambda x, y: ad.cat((x, y, x)), S, T),
    "cat 1": (lambda x, y: ad.cat((x, y), 1), S, lambda: coo((4, 2), 3)),
    "cat in dense": (lambda x, y: ad.cat((x, y), 2), H, lambda: coo((4, 3, 3), 5, 2)),
    "stack": (lambda x, y: ad.stack((x, y), 1), S, T),
    "sum": (lambda x: x.sum(), S),
    "sum 0": (lambda x: x.sum(0), S),
    "sum 1 kept": (lambda x: x.sum(1, keepdim=True), S),
    "sum of both": (lambda x: ad.sparse.sum(x, (0, 1)), S),
    "sum in dense": (lambda x: x.sum(2), H),
    "sum in dense kept": (lambda x: x.sum((1, 2), keepdim=True), H),
    "sum of sparse": (lambda x: x.sum((0, 1)), H),
    "sum csr": (lambda x: x.sum(1), C),
    "norm": (lambda x: x.norm(), S),
    "norm 1": (lambda x: x.norm(1), S),
    "mm": (lambda x, y: ad.mm(x, y), S, lambda: normal(5, 3)),
    "matmul": (lambda x, y: x @ y, S, lambda: normal(5, 3)),
    "mm csr": (lambda x, y: x @ y, C, lambda: normal(5, 3)),
    "mm csc": (lambda x, y: x.to_sparse_csc() @ y, C, lambda: normal(5, 3)),
    "mm transposed": (lambda x, y: x.t() @ y, S, lambda: normal(4, 3)),
    "mm transposed csr": (lambda x, y: x.t() @ y, C, lambda: normal(4, 3)),
    "mm of a transpose": (lambda x, y: x @ y.t(), S, lambda: normal(3, 5)),
    "mm complex": (lambda x, y: x @ y, Z, lambda: normal(5, 3, dtype=ad.complex128)),
    "dense mm": (lambda x, y: x @ y, lambda: normal(3, 4), S),
    "dense mm csr": (lambda x, y: x @ y, lambda: normal(3, 4), C),
    "mm sparse": (lambda x, y: x @ y, S, lambda: coo((5, 3), 6)),
    "mm sparse csr": (lambda x, y: ad.sparse.mm(x, y), C, lambda: coo((5, 3), 6).to_sparse_csr()),
    "mv": (lambda x, y: x @ y, S, lambda: normal(5)),
    "mv csr": (lambda x, y: ad.mv(x, y), C, lambda: normal(5)),
    "vector mm": (lambda x, y: x @ y, lambda: normal(4), S),
    "bmm": (lambda x, y: ad.bmm(x, y), lambda: coo((2, 4, 5), 12), lambda: normal(2, 5, 3)),
    "addmm": (lambda z, x, y: ad.addmm(z, x, y, beta=2, alpha=3), lambda: normal(4, 3), S, lambda: normal(5, 3)),
    "addmm row": (lambda z, x, y: ad.sparse.addmm(z, x, y), lambda: normal(3), C, lambda: normal(5, 3)),
    "addmv": (lambda z, x, y: ad.addmv(z, x, y), lambda: normal(4), S, lambda: normal(5)),
    "linear": (lambda x, w, b: ad.nn.functional.linear(x, w, b), S, lambda: normal(3, 5), lambda: normal(3)),
    "smm": (lambda x, y: ad.smm(x, y), S, lambda: normal(5, 3)),
    "hspmm": (lambda x, y: ad.hspmm(x, y), S, lambda: normal(5, 3)),
    "clone": (lambda x: x.clone(), C),
    "to": (lambda x: x.to(ad.complex128), S),
    "coalesce": (lambda x: x.coalesce(), H),
    "values": (lambda x: ad.sparse_coo_tensor(x.coalesce().indices(), x.coalesce().values() ** 2, x.shape), S),
    "csr values": (lambda x: ad.sparse_csr_tensor(x.crow_indices(), x.col_indices(), x.values() ** 2, x.shape), C),
    "to csr and back": (lambda x: x.to_sparse_csr().to_sparse_csc().to_sparse_coo() * 2, S),
    "to_sparse": (lambda x: x.to_sparse() * 2, lambda: normal(4, 5)),
    "to_sparse csr": (lambda x: x.to_sparse_csr() * 2, lambda: normal(4, 5)),
}  # fmt: skip
#: The same functions of dense tensors where they are written otherwise.
ON_DENSE = {
    "mm csc": lambda x, y: x @ y,
    "bmm": lambda x, y: x @ y,
    "smm": lambda x, y: x @ y,
    "hspmm": lambda x, y: x @ y,
    "index_select": lambda x: x[INDEX],
    "index_select 1": lambda x: x[:, INDEX],
    "sum of both": lambda x: x.sum((0, 1)),
    "coalesce": lambda x: x * 1,
    "values": lambda x: x**2,
    "csr values": lambda x: x**2,
    "to csr and back": lambda x: x * 2,
    "to_sparse": lambda x: x * 2,
    "to_sparse csr": lambda x: x * 2,
    "addmm row": lambda z, x, y: ad.addmm(z, x, y),
    "mm sparse csr": lambda x, y: x @ y,
}


def dense_leaf(x):
    d = dense(x)
    return ad.tensor(d.tolist(), dtype=x.dtype).reshape(d.shape).requires_grad_()


def plain(y):
    return y.to_dense()


def weighted(y, w):
    y = plain(y)
    return (y * w).real.sum() if y.is_complex() else (y * w).sum()


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, *makers = CASES[name]
    on_dense = ON_DENSE.get(name, f)
    sparse = [make().requires_grad_() for make in makers]
    full = [dense_leaf(x) for x in sparse]
    y, z = f(*sparse), on_dense(*full)
    assert y.shape == z.shape and y.dtype is z.dtype
    np.testing.assert_allclose(dense(y.detach()), array(z), rtol=1e-10, atol=1e-12)
    w = normal(*z.shape, dtype=z.dtype)
    found = grad(weighted(y, w), sparse, create_graph=True)
    wanted = grad(weighted(z, w), full, create_graph=True)
    second, expected = 0, 0
    for x, g, h in zip(sparse, found, wanted):
        if x._layout_number:
            assert g.layout is x.layout, "the gradient of a sparse tensor has its layout"
            there = (
                dense(
                    ad._C._sparse_with(
                        x.detach(),
                        ad.ones(x._values().shape if x.is_sparse else x.values().shape, dtype=ad.float64),
                    )
                )
                != 0
            )
            # A number for each entry: those of one position have the same.
            entries = array(g._values() if g.is_sparse else g.values())
            at = tuple(array(i) for i in ad._C._sparse_positions(x))
            np.testing.assert_allclose(entries, array(h)[at], rtol=1e-9, atol=1e-10)
            if h.requires_grad:
                mask = ad.tensor(there.tolist()).reshape(x.shape)
                expected = expected + ad.where(mask, h, 0).abs().square().sum()
                second = None if _doubled(x) else second + g.to_dense().abs().square().sum()
        else:
            np.testing.assert_allclose(array(plain(g)), array(h), rtol=1e-9, atol=1e-10)
            if h.requires_grad:
                expected, second = expected + h.abs().square().sum(), second + plain(g).abs().square().sum()
        if second is None:
            return
    if isinstance(expected, ad.Tensor) and expected.requires_grad:
        for x, g, h in zip(
            sparse, grad(second, sparse, allow_unused=True), grad(expected, full, allow_unused=True)
        ):
            if g is None or h is None:
                assert g is h or not np.abs(dense(g) if g is not None else array(h)).max(initial=0) > 1e-12
                continue
            at = tuple(array(i) for i in ad._C._sparse_positions(x)) if x._layout_number else ...
            mine = array(g._values() if g.is_sparse else g.values()) if g._layout_number else array(g)
            np.testing.assert_allclose(mine, array(h)[at], rtol=1e-8, atol=1e-9)


def _doubled(x):
    return x.is_sparse and x.coalesce()._nnz() != x._nnz()


@pytest.mark.parametrize("name", [*LINEAR, *KEEP_ZERO])
@pytest.mark.parametrize("layout", [ad.sparse_coo, ad.sparse_csr])
def test_functions_of_elements(name, layout):
    if name in ("real", "imag", "_round_decimals", "positive"):
        pytest.skip("has a case of its own or none on real numbers")
    function = getattr(ad, name, None) or getattr(ad.special, name, None) or getattr(ad.nn.functional, name)
    x = (coo((4, 5), 9) * 0.3).to_sparse(layout=layout)
    if name in ("sqrt", "log1p"):
        x = x.coalesce().abs() if x.is_sparse else x.abs()
    full = ad.tensor(dense(x).tolist(), dtype=ad.float64)
    np.testing.assert_allclose(dense(function(x)), array(function(full)), rtol=1e-12)
    if hasattr(ad.Tensor, name + "_") and function(x).dtype is x.dtype:
        y = x.clone()
        assert getattr(y, name + "_")() is y
        np.testing.assert_allclose(dense(y), array(function(full)), rtol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("log", [False, True])
def test_softmax(dim, log):
    x = coo((4, 3, 2), 8, 2).coalesce().requires_grad_()
    there = dense(x) != 0
    full = ad.tensor(np.where(there, dense(x), -np.inf).tolist(), dtype=ad.float64, requires_grad=True)
    f = ad.sparse.log_softmax if log else ad.sparse.softmax
    y = f(x, dim)
    z = ad.softmax(full, dim)
    wanted = np.where(there, array(z), 0)
    np.testing.assert_allclose(
        np.where(there, np.exp(dense(y)), 0) if log else dense(y), wanted, rtol=1e-10, atol=1e-12
    )
    assert ad.autograd.gradcheck(lambda v: f(v, dim), x)


def test_sampled_addmm():
    x = coo((4, 5), 8).to_sparse_csr().requires_grad_()
    a, b = normal(4, 3, requires_grad=True), normal(3, 5, requires_grad=True)
    y = ad.sparse.sampled_addmm(x, a, b, beta=2, alpha=3)
    there = dense(ad._C._sparse_with(x.detach(), ad.ones(x._nnz(), dtype=ad.float64))) != 0
    np.testing.assert_allclose(
        dense(y.detach()), np.where(there, 2 * dense(x.detach()) + 3 * array(a) @ array(b), 0), atol=1e-12
    )
    assert ad.autograd.gradcheck(lambda x, a, b: ad.sparse.sampled_addmm(x, a, b, beta=2, alpha=3), (x, a, b))


def test_gradcheck_takes_sparse_tensors():
    x, d = coo((3, 4), 5, requires_grad=True), normal(4, 2, requires_grad=True)
    assert ad.autograd.gradcheck(lambda x, d: x @ d, (x, d))
    assert ad.autograd.gradcheck(lambda x: x.coalesce() * 2, x, masked=True)
    assert ad.autograd.gradgradcheck(
        lambda x, d: (x.coalesce() ** 2) @ d, (x.coalesce().detach().requires_grad_(), d)
    )


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Sparse division requires a scalar", lambda s, d: s / d),
        ("Sparse division requires a scalar", lambda s, d: d / s),
        ("cannot raise to zeroth power", lambda s, d: s.pow(0)),
        ("op\\(dense, sparse\\) operation does not support broadcasting", lambda s, d: d[0] + s),
        ("expected sizes of 'self' and 'other' to match", lambda s, d: s + s.t()),
        ("a dense tensor was found at position 1", lambda s, d: ad.cat((s, d))),
        ("copy_\\(\\) between dense and sparse Tensors is not implemented", lambda s, d: d.copy_(s)),
        ("copy_\\(\\) between dense and sparse Tensors is not implemented", lambda s, d: s.copy_(d)),
        ("shapes cannot be multiplied \\(4x5 and 4x5\\)", lambda s, d: s @ d),
        ("index 7 out of range|out of bounds", lambda s, d: s[7]),
        ("names one dimension twice", lambda s, d: s.sum((0, 0))),
        ("norm_sparse currently only supports full reductions", lambda s, d: s.norm(2, 0)),
        ("Could not run 'aten::ones_like|_full_like|full_like", lambda s, d: ad.ones_like(s)),
        ("expected both tensors in one layout", lambda s, d: s + s.to_sparse_csr()),
        ("requires a sparse|expected a sparse tensor, but got a dense", lambda s, d: ad.sparse.sum(d)),
        ("sparse dimensions cannot be exchanged", lambda s, d: coo((4, 3, 2), 5, 2).transpose(1, 2)),
    ],
)  # fmt: skip
def test_what_is_refused(text, call):
    with pytest.raises((RuntimeError, IndexError, NotImplementedError), match=text):
        call(S(), normal(4, 5))


def test_larger_ones_in_several_threads():
    """Sums do not depend on the number of threads."""
    rows, columns = RNG.integers(0, 300, 20000), RNG.integers(0, 400, 20000)
    x = ad.sparse_coo_tensor(
        ad.tensor(np.stack([rows, columns]).tolist()),
        ad.tensor(RNG.standard_normal(20000).tolist()),
        (300, 400),
    )
    d = ad.tensor(RNG.standard_normal((400, 33)).tolist())
    before = ad.get_num_threads()
    results = []
    try:
        for n in (1, 4):
            ad.set_num_threads(n)
            results.append([array(x @ d), array(x.t() @ d[:300]), array(x.coalesce().values())])
    finally:
        ad.set_num_threads(before)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(
        results[0][0], dense(x).astype(float) @ array(d).astype(float), rtol=1e-3, atol=1e-3
    )


def test_shapes_that_change_in_place():
    for x in (S(), C()):
        expected = dense(x).T
        other, y = x.detach(), x.t_()
        assert y is x and x.shape == (5, 4)
        np.testing.assert_array_equal(dense(x), expected)
        np.testing.assert_array_equal(dense(other), expected.T)
    leaf = S().requires_grad_()
    y = leaf * 2
    y.transpose_(0, 1)
    w = normal(5, 4)
    (y.to_dense() * w).sum().backward()
    at = tuple(array(i) for i in ad._C._sparse_positions(leaf))
    np.testing.assert_allclose(array(leaf.grad._values()), 2 * array(w).T[at], rtol=1e-12)
