"""Products: matmul with all its broadcasting, its named special cases, einsum, the fused forms with
addition.
"""

import numpy as np
import pytest
from helpers import (
    ALL_DTYPES,
    TOLERANCE,
    array,
    assert_close,
    assert_same,
    check_derivatives,
    dtype_of,
    layouts,
    normal,
    tensor,
)
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((4, 0, 3), (3, 2)),
    ((0,), (0,)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("left, right", SHAPES)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_matmul(left, right, kind):
    a, b = normal(*left, kind=kind), normal(*right, seed=1, kind=kind)
    assert_close(tensor(a) @ tensor(b), a @ b)
    assert_close(ad.matmul(tensor(a), tensor(b)), a @ b)
    if a.size <= 30 and b.size <= 30:
        check_derivatives(lambda x, y: x @ y, [a, b])


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_matmul_dtypes(name):
    if name == "bool":
        pytest.skip("torch defines no product of booleans")
    a = np.arange(6).reshape(2, 3) % 5
    b = np.arange(12).reshape(3, 4) % 3
    y = ad.tensor(a.tolist(), dtype=dtype_of(name)) @ ad.tensor(b.tolist(), dtype=dtype_of(name))
    assert y.dtype == dtype_of(name)
    assert_same(y, a @ b)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_accuracy_of_a_larger_product(name):
    a, b = normal(37, 300), normal(300, 41, seed=1)
    x, y = tensor(a).to(dtype_of(name)), tensor(b).to(dtype_of(name))
    expected = array(x).astype(complex) @ array(y).astype(complex)
    found = array(x @ y)
    scale = np.abs(array(x)).astype(float) @ np.abs(array(y)).astype(float)
    assert np.all(np.abs(found - expected) <= 4 * TOLERANCE[name] * scale)


def test_layouts_of_both_operands():
    a, b = normal(5, 4), normal(4, 3, seed=1)
    for _, x in layouts(a):
        for _, y in layouts(b):
            assert_close(x @ y, a @ b)
    assert_close(tensor(a[:1]).expand(6, 4) @ tensor(b), np.repeat(a[:1], 6, 0) @ b)
    z = normal(5, 4, kind="complex")
    assert_close(tensor(z).mH @ tensor(z), z.conj().T @ z)
    assert_close(tensor(a).flip(0) @ tensor(b), a[::-1] @ b)


def test_named_products():
    a, b, v, w = normal(2, 3), normal(3, 4, seed=1), normal(3, seed=2), normal(3, seed=3)
    A, B = normal(5, 2, 3), normal(5, 3, 4, seed=1)
    assert_close(ad.mm(tensor(a), tensor(b)), a @ b)
    assert_close(ad.bmm(tensor(A), tensor(B)), A @ B)
    assert_close(ad.mv(tensor(a), tensor(v)), a @ v)
    assert_close(ad.dot(tensor(v), tensor(w)), v @ w)
    assert_close(ad.outer(tensor(v), tensor(w)), np.outer(v, w))
    assert_close(ad.inner(tensor(v), tensor(w)), v @ w)
    z = normal(3, kind="complex")
    assert_close(ad.dot(tensor(z), tensor(z)), z @ z)
    assert_close(ad.vdot(tensor(z), tensor(z)), np.vdot(z, z))
    for f, args in (
        (ad.mm, [a, b]),
        (ad.bmm, [A[:2], B[:2]]),
        (ad.mv, [a, v]),
        (ad.dot, [v, w]),
        (ad.outer, [v, w]),
        (ad.vdot, [z, z[::-1].copy()]),
        (ad.mm, [normal(2, 2, kind="complex"), normal(2, 3, kind="complex")]),
    ):
        check_derivatives(f, args)


def test_fused_with_addition():
    c, a, b = normal(2, 4), normal(2, 3), normal(3, 4, seed=1)
    assert_close(ad.addmm(*map(tensor, (c, a, b))), c + a @ b)
    assert_close(ad.addmm(*map(tensor, (c[0], a, b)), beta=0.5, alpha=2), 0.5 * c[0] + 2 * (a @ b))
    C, A, B = normal(5, 1, 4), normal(5, 2, 3), normal(5, 3, 4, seed=1)
    assert_close(ad.baddbmm(*map(tensor, (C, A, B)), beta=2, alpha=-1), 2 * C - A @ B)
    v = normal(3)
    assert_close(ad.addmv(tensor(c[:, 0].copy()), tensor(a), tensor(v)), c[:, 0] + a @ v)
    check_derivatives(lambda x, y, z: ad.addmm(x, y, z, beta=0.5, alpha=2), [c[0], a, b])
    check_derivatives(lambda x, y, z: ad.baddbmm(x, y, z, alpha=3), [C[:2], A[:2], B[:2]])
    # beta = 0 ignores what stands there, NaN included.
    assert_close(ad.addmm(tensor(np.full((2, 4), np.nan)), tensor(a), tensor(b), beta=0), a @ b)


def test_linear():
    F = ad.nn.functional
    x, w, b = normal(5, 2, 3), normal(4, 3, seed=1), normal(4, seed=2)
    assert_close(F.linear(tensor(x), tensor(w), tensor(b)), x @ w.T + b)
    assert_close(F.linear(tensor(x[0, 0]), tensor(w)), w @ x[0, 0])
    assert_close(F.linear(tensor(x[0]), tensor(w), tensor(b)), x[0] @ w.T + b)
    check_derivatives(lambda t, u, v: F.linear(t, u, v), [x[:2], w, b])
    check_derivatives(lambda t, u, v: F.linear(t, u, v), [x[0], w, b])


EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (2,)),
    ("i,i->i", (3,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 3, 2), (3, 2, 4)),
    ("...i->...", (2, 3)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("i,ij,j->", (2,), (2, 3), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    ("b i, i j -> b j", (2, 3), (3, 2)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("abc,cd->dab", (2, 2, 3), (3, 2)),
    ("ij,j->ij", (2, 3), (3,)),
    ("i,->i", (3,), ()),
]


@pytest.mark.parametrize("case", EINSUM, ids=[c[0] for c in EINSUM])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_einsum(case, kind):
    equation, *shapes = case
    operands = [normal(*s, seed=k, kind=kind) for k, s in enumerate(shapes)]
    assert_close(ad.einsum(equation, *map(tensor, operands)), np.einsum(equation, *operands))
    check_derivatives(lambda *xs: ad.einsum(equation, *xs), operands)


ERRORS = [
    (
        lambda: ad.ones(2, 3) @ ad.ones(4, 5),
        RuntimeError,
        r"(?s)mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)",
    ),
    (lambda: ad.ones(2, 3) @ ad.ones(2), RuntimeError, "(?i)size mismatch|mismatch|incompatible"),
    (lambda: ad.ones(2, 2, 3) @ ad.ones(3, 3, 4), RuntimeError, "(?i)must match|batch"),
    (lambda: ad.tensor(1.0) @ ad.ones(2), RuntimeError, "at least 1D"),
    (lambda: ad.mm(ad.ones(2), ad.ones(2)), RuntimeError, "must be a matrix|matrices expected"),
    (lambda: ad.bmm(ad.ones(2, 3), ad.ones(3, 2)), RuntimeError, "3D tensor"),
    (lambda: ad.dot(ad.ones(2, 2), ad.ones(2)), RuntimeError, "1D tensors expected"),
    (lambda: ad.dot(ad.ones(2), ad.ones(3)), RuntimeError, "(?i)inconsistent tensor size|size"),
    (
        lambda: ad.ones(2, 2) @ ad.ones(2, 2, dtype=ad.float64),
        RuntimeError,
        "(?i)same dtype|dtype|scalar type",
    ),
    (lambda: ad.ones(2, 2) @ ad.ones(2, 2, dtype=ad.int64), RuntimeError, "(?i)same dtype|dtype|scalar type"),
    (lambda: ad.einsum("ij,jk->ik", ad.ones(2, 3), ad.ones(2, 3)), RuntimeError, "einsum"),
    (lambda: ad.einsum("ij->k", ad.ones(2, 3)), RuntimeError, "einsum"),
    (lambda: ad.einsum("ij", ad.ones(2)), RuntimeError, "einsum"),
    (lambda: ad.einsum("i,j->ij", ad.ones(2)), (RuntimeError, ValueError), "einsum"),
    (lambda: ad.outer(ad.ones(2, 2), ad.ones(2)), RuntimeError, "1-D|1D"),
]


@pytest.mark.parametrize("call, kind, phrase", ERRORS)
def test_errors(call, kind, phrase):
    with pytest.raises(kind, match=phrase):
        call()


def test_operator_falls_back():
    """`@` with a stranger gives the stranger its turn."""

    class Stranger:
        def __rmatmul__(self, other):
            return "mine"

    assert ad.ones(2) @ Stranger() == "mine"
    with pytest.raises(TypeError):
        ad.ones(2) @ 3


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.booleans(), st.booleans())
def test_any_size(m, k, n, left, right):
    a, b = normal(m, k), normal(k, n, seed=1)
    x = tensor(a.T.copy()).mT if left else tensor(a)
    y = tensor(b.T.copy()).mT if right else tensor(b)
    assert_close(x @ y, a @ b, atol=1e-10)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.complex64, ad.float16, ad.int64])
@pytest.mark.parametrize("m, n", [(4, 16), (8, 64), (3, 40), (9, 10), (5, 33)])
def test_what_is_added_to_products_of_a_batch(m, n, dtype):
    """As the sums' start where it lies in rows; of each shape that broadcasts."""
    a, b = (
        (ad.arange(3.0 * m * 7) % 5 - 2).reshape(3, m, 7),
        (ad.arange(3.0 * 7 * n) % 7 - 3).reshape(3, n, 7).transpose(1, 2),
    )
    for shape in [(n,), (1,), (m, n), (1, n), (m, 1), (3, m, n), (3, 1, n), (1, m, n), (1, 1, 1), (3, m, 1)]:
        t = (ad.arange(float(np.prod(shape))) % 11 - 5).reshape(shape)
        found = ad.baddbmm(t.to(dtype), a.to(dtype), b.to(dtype))
        expected = array(t) + array(a) @ array(b)
        assert found.dtype == dtype and np.array_equal(array(found), expected.astype(array(found).dtype)), (
            shape
        )
        strided = ad.stack([t, t], -1).to(dtype)[..., 0]
        assert ad.equal(ad.baddbmm(strided, a.to(dtype), b.to(dtype)), found), shape
    with pytest.raises(RuntimeError, match="must match the (size of tensor b|existing size)"):
        ad.baddbmm(ad.ones(2, n, dtype=dtype), a.to(dtype), b.to(dtype))


def test_addmm_with_one_row():
    a, b, t = normal(5, 7), normal(7, 20), normal(1, 20)
    check_derivatives(ad.addmm, [t, a, b])
    assert_close(ad.addmm(tensor(t), tensor(a), tensor(b)), t + a @ b)
    check_derivatives(ad.baddbmm, [normal(2, 1, 16), normal(2, 4, 3), normal(2, 3, 16)])
