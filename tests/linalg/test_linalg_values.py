"""Values of linear algebra against NumPy and SciPy: four dtypes, batches, empty matrices, every shape."""

import numpy as np
import pytest
import scipy.linalg

import adjoint as ad

L = ad.linalg
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(3, 3), (2, 4, 4), (2, 1, 5, 5), (1, 1)]
RECTANGLES = [(3, 5), (5, 3), (2, 4, 2), (2, 2, 4), (0, 3, 2)]


def matrix(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def close(ours, theirs, dtype=None):
    ours = ours.numpy()
    single = ours.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3 if single else 1e-9, atol=2e-4 if single else 1e-10)


def hermitian(x):
    return x + np.conj(np.swapaxes(x, -1, -2))


def positive(x):
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1], dtype=x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_square(shape, dtype):
    x = matrix(shape, dtype)
    a = ad.tensor(x)
    close(L.inv(a), np.linalg.inv(x))
    close(L.det(a), np.linalg.det(x))
    for ours, theirs in zip(L.slogdet(a), np.linalg.slogdet(x)):
        close(ours, theirs)
    h = hermitian(x)
    close(L.eigvalsh(ad.tensor(h)), np.linalg.eigvalsh(h))
    values, vectors = L.eigh(ad.tensor(h))
    close((vectors * values.unsqueeze(-2)) @ vectors.mH, h)
    close(L.eigh(ad.tensor(np.tril(h))).eigenvalues, np.linalg.eigvalsh(h))
    close(L.eigh(ad.tensor(np.triu(h)), UPLO="U").eigenvalues, np.linalg.eigvalsh(h))
    p = positive(x)
    close(L.cholesky(ad.tensor(p)), np.linalg.cholesky(p))
    close(L.cholesky(ad.tensor(np.triu(p)), upper=True).mH, np.linalg.cholesky(p))
    values, vectors = L.eig(a)
    close(a.to(values.dtype) @ vectors, (vectors * values.unsqueeze(-2)).numpy())
    close(L.eigvals(a).sum(-1), np.trace(x, axis1=-2, axis2=-1))
    close(L.matrix_exp(a), scipy.linalg.expm(x))
    close(L.matrix_power(a, 3), np.linalg.matrix_power(x, 3))
    LD, pivots = L.ldl_factor(ad.tensor(h), hermitian=True)
    close(ad.tensor(h) @ L.ldl_solve(LD, pivots, a, hermitian=True), x)
    for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(L.cond(a, p), np.linalg.cond(x, p))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES + SHAPES)
def test_any_shape(shape, dtype):
    x = matrix(shape, dtype)
    a = ad.tensor(x)
    for full in (True, False):
        U, S, Vh = L.svd(a, full_matrices=full)
        theirs = np.linalg.svd(x, full_matrices=full)
        assert U.shape == theirs[0].shape and Vh.shape == theirs[2].shape
        close(S, theirs[1])
        k = S.shape[-1]
        close((U[..., :k] * S.unsqueeze(-2)) @ Vh[..., :k, :], x)
    close(L.svdvals(a), np.linalg.svd(x, compute_uv=False))
    for mode in ("reduced", "complete"):
        Q, R = L.qr(a, mode)
        theirs = np.linalg.qr(x, mode)
        assert Q.shape == theirs[0].shape and R.shape == theirs[1].shape
        close(Q @ R, x)
        close(Q.mH @ Q, np.broadcast_to(np.eye(Q.shape[-1]), (*x.shape[:-2], Q.shape[-1], Q.shape[-1])))
        close(R.tril(-1), np.zeros(R.shape))
    close(L.qr(a, "r").R.abs(), np.abs(np.linalg.qr(x, "r")))
    close(L.pinv(a), np.linalg.pinv(x))
    for pivot in (True, False):
        P, lower, upper = L.lu(a, pivot=pivot)
        close((P @ lower if pivot else lower) @ upper, x)
    assert (L.matrix_rank(a).numpy() == np.linalg.matrix_rank(x)).all()
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for keepdim in (False, True):
            theirs = np.linalg.norm(x, order, axis=(-2, -1), keepdims=keepdim)
            close(L.matrix_norm(a, order, keepdim=keepdim), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solve(dtype):
    x, b = matrix((2, 3, 3), dtype), matrix((2, 3, 4), dtype, seed=1)
    a = ad.tensor(x)
    close(L.solve(a, ad.tensor(b)), np.linalg.solve(x, b))
    close(L.solve(a, ad.tensor(b[..., 0])), np.linalg.solve(x, b[..., :1])[..., 0])
    close(L.solve(a[0], ad.tensor(b)), np.linalg.solve(np.broadcast_to(x[0], x.shape), b))
    close(L.solve(a, ad.tensor(np.swapaxes(b, 1, 2)), left=False) @ a, np.swapaxes(b, 1, 2))
    LU, pivots = L.lu_factor(a)
    close(L.lu_solve(LU, pivots, ad.tensor(b)), np.linalg.solve(x, b))
    close(a.mH @ L.lu_solve(LU, pivots, ad.tensor(b), adjoint=True), b)
    close(L.tensorsolve(a[0].reshape(3, 3), ad.tensor(b[0, :, 0])), np.linalg.tensorsolve(x[0], b[0, :, 0]))
    t = matrix((2, 3, 6), dtype)
    close(L.tensorinv(ad.tensor(t)), np.linalg.tensorinv(t))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_lstsq(shape, driver):
    x, b = matrix(shape, np.float64), matrix((shape[0], 2), np.float64, seed=1)
    ours = L.lstsq(ad.tensor(x), ad.tensor(b), driver=driver)
    solution, residuals, rank, values = np.linalg.lstsq(x, b, rcond=None)
    close(ours.solution, solution)
    if shape[0] > shape[1] and driver != "gelsy":
        close(ours.residuals, residuals)
    else:
        assert ours.residuals.shape == (0,)
    assert ours.rank.shape == (0,) if driver == "gels" else ours.rank.item() == rank
    if driver in ("gelsd", "gelss"):
        close(ours.singular_values, values)
    out = tuple(ad.empty(0, dtype=part.dtype) for part in ours)
    written = L.lstsq(ad.tensor(x), ad.tensor(b), driver=driver, out=out)
    for given, part, again in zip(out, ours, written, strict=True):
        assert given is again and given.shape == part.shape and ad.equal(given, part)
    # One matrix for several right-hand sides has one rank, and one list of singular values.
    several = L.lstsq(ad.tensor(x)[None], ad.tensor(np.stack([b, 2 * b])), driver=driver)
    assert several.solution.shape == (2, *ours.solution.shape)
    assert driver == "gels" or several.rank.tolist() == [rank]
    assert driver not in ("gelsd", "gelss") or several.singular_values.shape == (1, len(values))
    tracked = L.lstsq(ad.tensor(x, requires_grad=True), ad.tensor(b), driver=driver)
    assert [part.requires_grad for part in tracked] == [True, True, False, False]


def test_norms_of_no_numbers_and_powers_of_one_number():
    for shape in ((0, 0), (5, 0), (0, 5)):
        for order in (2, "nuc", "fro"):
            assert L.norm(ad.empty(shape), order, keepdim=True).tolist() == [[0.0]]
        with pytest.raises(IndexError, match="non-zero size"):
            L.norm(ad.empty(shape), -2)
    assert L.vander(ad.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]
    with pytest.raises(RuntimeError, match="N must be greater than 1"):
        L.vander(ad.tensor(2.0))


def test_cross_products_have_three_components_before_they_broadcast():
    with pytest.raises(RuntimeError, match=r"inputs dimension -1 must have length 3. Got 3 and 1"):
        L.cross(ad.ones(5, 3), ad.ones(5, 1))
    with pytest.raises(
        IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"
    ):
        L.cross(ad.ones(5, 3), ad.ones(5, 3), dim=2)


def test_old_names():
    x = matrix((3, 3), np.float64)
    a, p = ad.tensor(x), ad.tensor(positive(x))
    lower = p.cholesky()
    b = ad.tensor(matrix((3, 2), np.float64, seed=2))
    close(b.cholesky_solve(lower), np.linalg.solve(positive(x), b.numpy()))
    close(ad.cholesky_solve(b, lower.mH, upper=True), np.linalg.solve(positive(x), b.numpy()))
    close(ad.cholesky_inverse(lower), np.linalg.inv(positive(x)))
    close(a.inverse() @ a, np.eye(3))
    close(a.pinverse(), np.linalg.pinv(x))
    close(p.logdet(), np.linalg.slogdet(positive(x))[1])
    assert ad.logdet(-ad.eye(3)).isnan()
    U, S, V = a.svd()
    close((U * S) @ V.mH, x)
    Q, R = a.qr()
    close(Q @ R, x)
    close(b.lu_solve(*L.lu_factor(a)), np.linalg.solve(x, b.numpy()))
    P, lower, upper = ad.lu_unpack(*L.lu_factor(a))
    close(P @ lower @ upper, x)
    solved = ad.triangular_solve(b, a)
    close(solved.solution, scipy.linalg.solve_triangular(x, b.numpy()))
    close(
        ad.triangular_solve(b, a, transpose=True).solution,
        scipy.linalg.solve_triangular(x, b.numpy(), trans=1),
    )
    reflectors, tau = ad.geqrf(a[:, :2])
    close(ad.orgqr(reflectors, tau).abs(), np.abs(np.linalg.qr(x[:, :2])[0]))
    full = ad.ormqr(reflectors, tau, ad.eye(3, dtype=ad.float64))
    close(full.mH @ full, np.eye(3))
    close(ad.lobpcg(p, k=2)[0], np.linalg.eigvalsh(positive(x))[::-1][:2])
    assert a.det().item() == pytest.approx(np.linalg.det(x))
    close(a.matrix_exp(), scipy.linalg.expm(x))
    close(ad.matrix_power(a, -1), np.linalg.inv(x))


def test_vander():
    x = np.array([1.0, 2.0, 3.0])
    close(L.vander(ad.tensor(x)), np.vander(x, increasing=True))
    close(L.vander(ad.tensor(x), N=5), np.vander(x, 5, increasing=True))


def test_empty():
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        a = ad.zeros(shape, dtype=ad.float64)
        x = a.numpy()
        assert L.inv(a).shape == shape and L.matrix_exp(a).shape == shape
        assert L.solve(a, a).shape == shape
        close(L.det(a), np.linalg.det(x))
        assert L.eigh(a).eigenvalues.shape == shape[:-1] and L.eig(a).eigenvalues.shape == shape[:-1]
    U, S, Vh = L.svd(ad.zeros(3, 0))
    close(U, np.eye(3))
    assert S.shape == (0,) and Vh.shape == (0, 0)


def test_out():
    a = ad.tensor(matrix((3, 3), np.float64))
    out = ad.empty(0, dtype=ad.float64)
    assert L.inv(a, out=out) is out
    close(out @ a, np.eye(3))
    Q, R = ad.empty(0, dtype=ad.float64), ad.empty(0, dtype=ad.float64)
    L.qr(a, out=(Q, R))
    close(Q @ R, a.numpy())
    with pytest.raises(TypeError, match="tuple of 2 Tensors"):
        L.qr(a, out=Q)


@pytest.mark.parametrize(
    "name",
    "cholesky det eig eigh eigvals eigvalsh inv lu lu_factor matrix_exp matrix_rank pinv qr slogdet svd svdvals".split(),
)
def test_samples_of_a_vmap_are_matrices_of_a_batch(name):
    a = np.random.default_rng(0).normal(size=(3, 4, 4))
    a = ad.tensor(a @ a.swapaxes(1, 2) + np.eye(4))
    call = getattr(ad.linalg, name)
    together, batched = ad.vmap(call)(a), call(a)
    assert type(together) is type(batched)
    together, batched = (r if isinstance(r, tuple) else (r,) for r in (together, batched))
    for found, wanted in zip(together, batched, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.abs().numpy(), wanted.abs().numpy(), rtol=1e-9, atol=1e-12)
