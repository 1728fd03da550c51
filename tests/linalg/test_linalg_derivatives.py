"""Derivatives of linear algebra, first and second, against finite differences: real and complex batches, square, wide, tall."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck

L = ad.linalg


def matrix(*shape, complex_, seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if complex_:
        x = x + 1j * rng.standard_normal(shape)
    return ad.tensor(x, requires_grad=True)


def positive(a):
    return a @ a.mH + ad.eye(a.shape[-1], dtype=a.dtype)


def hermitian(a):
    return a + a.mH


def of_svd(a):
    """What of a singular value decomposition does not depend on phases."""
    U, S, Vh = L.svd(a, full_matrices=False)
    return U.abs(), S, Vh.abs(), (U * S.sin().unsqueeze(-2)) @ Vh, U[..., :2] @ Vh[..., :2, :]


def of_eigh(a):
    values, vectors = L.eigh(hermitian(a))
    return values, vectors.abs(), (vectors * values.sin().unsqueeze(-2)) @ vectors.mH


def of_eig(a):
    values, vectors = L.eig(a)
    # The order of the eigenvalues is LAPACK's: only what does not depend on it can be compared.
    return (
        values.sum(-1),
        (values**3).sum(-1),
        vectors.abs().sum(-1).sum(-1),
        (vectors * values.sin().unsqueeze(-2)) @ L.inv(vectors),
    )


SQUARE = {
    "inv": L.inv,
    "det": L.det,
    "slogdet": lambda a: tuple(L.slogdet(a)),
    "logdet": lambda a: ad.logdet(positive(a)),
    "cholesky": lambda a: L.cholesky(positive(a)),
    "cholesky_upper": lambda a: L.cholesky(positive(a), upper=True),
    "cholesky_inverse": lambda a: ad.cholesky_inverse(L.cholesky(positive(a))),
    "eigvalsh": lambda a: L.eigvalsh(hermitian(a)),
    "eigh": of_eigh,
    "eig": of_eig,
    "eigvals": lambda a: (L.eigvals(a) ** 3).sum(-1),
    "matrix_exp": L.matrix_exp,
    "matrix_exp_of_large": lambda a: L.matrix_exp(4 * a),
    "matrix_power": lambda a: L.matrix_power(a, -2),
    "cond": L.cond,
    "cond_fro": lambda a: L.cond(a, "fro"),
    "tensorinv": lambda a: L.tensorinv(a[0].reshape(3, 3, 1), ind=1),
}
ANY_SHAPE = {
    "lu": lambda a: tuple(L.lu(a))[1:],
    "lu_without_pivots": lambda a: tuple(L.lu(a, pivot=False))[1:],
    "qr": lambda a: tuple(L.qr(a)),
    "svd": of_svd,
    "svdvals": L.svdvals,
    "pinv": L.pinv,
    "nuclear_norm": lambda a: L.matrix_norm(a, "nuc"),
    "spectral_norm": lambda a: L.matrix_norm(a, 2),
}
FIELDS = pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])


def check(f, *inputs):
    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)


@FIELDS
@pytest.mark.parametrize("name", SQUARE)
def test_of_square_matrices(name, complex_):
    check(SQUARE[name], matrix(2, 3, 3, complex_=complex_))


@FIELDS
@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 4), (2, 4, 2)], ids=["square", "wide", "tall"])
@pytest.mark.parametrize("name", ANY_SHAPE)
def test_of_any_shape(name, shape, complex_):
    check(ANY_SHAPE[name], matrix(*shape, complex_=complex_))


@FIELDS
@pytest.mark.parametrize("left", [True, False])
def test_solve(left, complex_):
    a, b = matrix(2, 3, 3, complex_=complex_), matrix(2, 3, 2, complex_=complex_)
    check(lambda a, b: L.solve(a, b if left else b.mT, left=left), a, b)


@FIELDS
def test_solve_broadcasts(complex_):
    check(L.solve, matrix(3, 3, complex_=complex_), matrix(2, 3, 2, complex_=complex_))
    check(L.solve, matrix(2, 3, 3, complex_=complex_), matrix(2, 3, complex_=complex_))


@FIELDS
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left, adjoint, complex_):
    def f(a, b):
        return L.lu_solve(*L.lu_factor(a), b if left else b.mT, left=left, adjoint=adjoint)

    check(f, matrix(2, 3, 3, complex_=complex_), matrix(2, 3, 2, complex_=complex_))


@FIELDS
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_solve_triangular(upper, left, unitriangular, complex_):
    def f(a, b):
        b = b if left else b.mT
        return L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)

    check(f, matrix(2, 3, 3, complex_=complex_), matrix(2, 3, 2, complex_=complex_))


@FIELDS
@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 4), (2, 4, 2)], ids=["square", "wide", "tall"])
def test_lstsq(shape, complex_):
    a, b = matrix(*shape, complex_=complex_), matrix(2, shape[-2], 2, complex_=complex_)
    check(lambda a, b: L.lstsq(a, b).solution, a, b)


@FIELDS
@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 3), (2, 4), (3, 1), (1, 1), (1, 3)], ids=str)
def test_geqrf(shape, complex_):
    a = matrix(*shape, complex_=complex_)
    recorded, plain = ad.geqrf(a), ad.geqrf(a.detach())
    for x, y in zip(recorded, plain, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.numpy(), atol=1e-12)
    check(ad.geqrf, a)


def test_geqrf_where_nothing_is_to_reflect():
    a = ad.tensor(
        [[[2.0, 1.0], [0.0, 3.0], [0.0, 4.0]], [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]], requires_grad=True
    )
    recorded, plain = ad.geqrf(a), ad.geqrf(a.detach())
    for x, y in zip(recorded, plain, strict=True):
        assert ad.allclose(x.detach(), y, atol=1e-6)
    (g,) = ad.autograd.grad(recorded.a.sum() + recorded.tau.sum(), a)
    assert g.isfinite().all()
    assert ad.geqrf(ad.ones(3, 0, requires_grad=True)).a.shape == (3, 0)


# Two matrices, of which LAPACK exchanges rows, and makes a block of two, in one or the other.
PIVOTED = np.array(
    [
        [[0.1, 3.0, 0.2, 1.0, 0.3], [3.0, 0.2, 0.5, -1.0, 0.7], [0.2, 0.5, 4.0, 0.3, 2.0], [1.0, -1.0, 0.3, 0.1, 5.0], [0.3, 0.7, 2.0, 5.0, 0.2]],
        [[1.0, 0.3, 2.0, 0.1, 0.2], [0.3, 5.0, 0.4, 0.6, 0.1], [2.0, 0.4, 0.5, 1.0, 3.0], [0.1, 0.6, 1.0, 9.0, 0.2], [0.2, 0.1, 3.0, 0.2, 7.0]],
    ]
)  # fmt: skip


def symmetric(complex_, hermitian_):
    """What has PIVOTED's pivots, as a function of a tensor without symmetry, and that tensor."""
    a = matrix(2, 5, 5, complex_=complex_)
    return a, lambda t: ad.tensor(PIVOTED).to(t.dtype) + 0.05 * (t + (t.mH if hermitian_ else t.mT))


@FIELDS
@pytest.mark.parametrize("hermitian_", [False, True])
def test_ldl(hermitian_, complex_):
    a, whole = symmetric(complex_, hermitian_)
    b = matrix(2, 5, 2, complex_=complex_)
    pivots = L.ldl_factor(whole(a.detach()), hermitian=hermitian_).pivots
    assert (pivots < 0).any() and (pivots.abs() != ad.arange(1, 6)).any() and (pivots > 0).any()
    check(lambda t: L.ldl_factor(whole(t), hermitian=hermitian_).LD, a)

    def solution(t, b):
        return L.ldl_solve(*L.ldl_factor(whole(t), hermitian=hermitian_), b, hermitian=hermitian_)

    np.testing.assert_allclose(
        solution(a, b).detach().numpy(), L.solve(whole(a), b).detach().numpy(), rtol=1e-10
    )
    check(solution, a, b)
    for found, true in zip(
        ad.autograd.grad(solution(a, b).abs().sum(), (a, b)),
        ad.autograd.grad(L.solve(whole(a), b).abs().sum(), (a, b)),
    ):
        np.testing.assert_allclose(found.numpy(), true.numpy(), rtol=1e-9, atol=1e-12)


@FIELDS
@pytest.mark.parametrize("hermitian_", [False, True])
def test_ldl_solve_by_the_factors(hermitian_, complex_):
    a, whole = symmetric(complex_, hermitian_)
    factors = L.ldl_factor(whole(a.detach()), hermitian=hermitian_)
    b = matrix(2, 5, 2, complex_=complex_)

    def moved(d):
        """The upper triangle is not read, and of a Hermitian matrix the diagonal is real."""
        diagonal = d.diagonal(dim1=-2, dim2=-1)
        return factors.LD + 0.1 * (
            d.tril(-1) + ((diagonal + diagonal.conj()) / 2 if hermitian_ else diagonal).diag_embed()
        )

    check(
        lambda d, b: L.ldl_solve(moved(d), factors.pivots, b, hermitian=hermitian_),
        matrix(2, 5, 5, complex_=complex_),
        b,
    )


@FIELDS
def test_householder_product(complex_):
    a, tau = matrix(2, 4, 3, complex_=complex_), matrix(2, 2, complex_=complex_)
    check(L.householder_product, a, tau)
    other = matrix(2, 4, 2, complex_=complex_)
    check(lambda a, t, o: ad.ormqr(a[..., :2], t, o, transpose=True), a, tau, other)


@FIELDS
def test_a_projection_by_pinv_of_lower_rank(complex_):
    """At constant rank the pseudoinverse is smooth, with singular values at zero."""
    a, b = matrix(4, 2, complex_=complex_), matrix(2, 3, complex_=complex_)
    assert gradcheck(lambda a, b: L.pinv(a @ b, rtol=1e-9), (a, b))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_det_of_singular_matrices(rank):
    """The gradient of the determinant is the matrix of cofactors, whatever the rank."""
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((3, rank)) @ rng.standard_normal((rank, 3)) if rank else np.zeros((3, 3))
    a = ad.tensor(x, requires_grad=True)
    L.det(a).backward()
    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(a.grad.numpy(), cofactors, atol=1e-12)


@pytest.mark.parametrize("f", [L.svdvals, L.eigvalsh], ids=["svdvals", "eigvalsh"])
def test_repeated_values_have_finite_gradients(f):
    """Of a smooth function of the values: here the sum of squares, whose gradient is 2 A."""
    a = ad.tensor(np.diag([2.0, 2.0, 1.0]), requires_grad=True)
    (g,) = ad.autograd.grad((f(a) ** 2).sum(), a, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 2 * a.detach().numpy(), atol=1e-12)
    (h,) = ad.autograd.grad(g.sum(), a)
    assert h.isfinite().all()


def test_repeated_values_with_vectors_are_finite():
    a = ad.tensor(np.eye(3), requires_grad=True)
    U, S, Vh = L.svd(a)
    ((U * S.unsqueeze(-2)) @ Vh).sum().backward()
    assert a.grad.isfinite().all()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape, k", [((4, 4), 1), ((2, 5, 5), 2)])
def test_lobpcg_differentiates_by_both_triangles(shape, k, largest):
    """Of a perturbation that is not symmetric, its symmetric part counts."""
    a = matrix(*shape, complex_=False)
    p = (a.detach() @ a.detach().mT / 10).requires_grad_()

    def spectrum(p):
        values, vectors = ad.lobpcg(p, k=k, largest=largest)
        return values, vectors.abs()

    assert gradcheck(spectrum, p, check_batched_grad=False)
    values, vectors = ad.lobpcg(p, k=k, largest=largest)
    (values.sum() + (vectors * vectors[..., :1, :].sign()).sum()).backward()
    assert ad.allclose(p.grad, p.grad.mT)


# --- Determinants of singular matrices --------------------------------------------------------------------------------------


def determinant(a):
    """The determinant as a polynomial in the elements."""
    if a.shape[-1] == 1:
        return a[0, 0]
    minors = (ad.cat([a[1:, :j], a[1:, j + 1 :]], 1) for j in range(a.shape[-1]))
    return sum((-1) ** j * a[0, j] * determinant(minor) for j, minor in enumerate(minors))


SINGULAR = {
    "zero": ad.zeros(2, 2),
    "one zero": ad.zeros(1, 1),
    "zeros": ad.zeros(3, 3),
    "ones": ad.ones(3, 3),
    "rows": ad.tensor([[1.0, 2, 3], [4, 5, 6], [5, 7, 9]]),
    "rank 2": ad.tensor([[1.0, 2, 0, 3], [2, 0, 1, 1], [3, 2, 1, 4], [5, 2, 2, 5]]),
    "nearly": ad.tensor([[1.0, 2, 3], [4, 5, 6], [5, 7, 9.0000001]]),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("orders", ["rr", "fr", "rf", "ff", "rrr"])
def test_higher_derivatives_of_the_determinant_of_singular_matrices(name, orders):
    a = SINGULAR[name].double()
    found, wanted = ad.linalg.det, determinant
    for order in orders:
        derivative = ad.func.jacrev if order == "r" else ad.func.jacfwd
        found, wanted = derivative(found), derivative(wanted)
    ad.testing.assert_close(found(a), wanted(a), rtol=0, atol=1e-11)


def test_higher_derivatives_of_determinants_of_a_batch_of_which_some_are_singular():
    a = ad.stack([*(m.double() for m in SINGULAR.values() if m.shape == (3, 3)), ad.eye(3).double() + 0.5])
    found = ad.func.jacrev(ad.func.jacrev(lambda a: ad.linalg.det(a).sum()))(a)
    for i, m in enumerate(a):
        ad.testing.assert_close(found[i, ..., i, :, :], ad.func.hessian(determinant)(m), rtol=0, atol=1e-12)
    turned = ad.tensor([[1.0, 1j], [1j, -1.0]], dtype=ad.complex128, requires_grad=True)
    assert ad.autograd.gradcheck(ad.linalg.det, (turned,)) and ad.autograd.gradgradcheck(
        ad.linalg.det, (turned,)
    )


@pytest.mark.parametrize(
    "f",
    [
        L.svdvals,
        L.eigvalsh,
        L.cond,
        lambda a: L.eigvals(a).real,
        lambda a: L.matrix_norm(a, 2),
        lambda a: L.matrix_norm(a, "nuc"),
    ],
)
def test_reverse_over_vmap_of_spectra(f):
    a = ad.tensor([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 4.0]]])
    found = ad.func.grad(lambda a: ad.func.vmap(f)(a).sum())(a)
    ad.testing.assert_close(found, ad.stack([ad.func.grad(lambda m: f(m).sum())(m) for m in a]))


def test_qr_refuses_derivatives_when_they_are_asked_for():
    a = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], requires_grad=True, dtype=ad.float64)
    r, same = L.qr(a, mode="r").R, L.qr(a).R
    assert ad.equal(*(ad.autograd.grad(x.sin().sum(), a)[0] for x in (r, same)))
    r = L.qr(a, mode="complete").R
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows > ncols"):
        r.sum().backward()
