"""`lobpcg` as an iteration: eigenpairs of NumPy and SciPy, for dense, batched and sparse problems, and options that have effects."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import adjoint as ad


def definite(m, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, m))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((m, m))
    return (x @ x.conj().T / m + np.eye(m)).astype(dtype)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "dtype, tol, near", [(np.float32, 1e-5, 3e-6), (np.float64, 1e-9, 1e-12), (np.complex128, 1e-9, 1e-12)]
)
def test_pairs_of_dense_matrices(dtype, tol, near, k, largest):
    ad.manual_seed(0)
    a = definite(50, dtype)
    values, vectors = ad.lobpcg(ad.tensor(a), k=k, tol=tol, largest=largest)
    every = np.linalg.eigvalsh(a)
    expected = every[::-1][:k] if largest else every[:k]
    np.testing.assert_allclose(values.numpy(), expected, rtol=near)
    x = vectors.numpy()
    np.testing.assert_allclose(x.conj().T @ x, np.eye(k), atol=near)
    assert np.abs(a @ x - x * values.numpy()).max() < 20 * tol


def test_generalised_problems_and_more_vectors_than_pairs():
    ad.manual_seed(0)
    a, b = definite(40, seed=1), definite(40, seed=2)
    values, vectors = ad.lobpcg(ad.tensor(a), k=2, n=5, B=ad.tensor(b), tol=1e-10)
    np.testing.assert_allclose(values.numpy(), scipy.linalg.eigh(a, b)[0][::-1][:2], rtol=1e-12)
    x = vectors.numpy()
    assert x.shape == (40, 2)
    np.testing.assert_allclose(x.T @ b @ x, np.eye(2), atol=1e-12)


def test_batches():
    ad.manual_seed(0)
    a = np.stack([definite(30, seed=s) for s in range(4)]).reshape(2, 2, 30, 30)
    values, vectors = ad.lobpcg(ad.tensor(a), k=2, tol=1e-9)
    assert values.shape == (2, 2, 2) and vectors.shape == (2, 2, 30, 2)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(a)[..., ::-1][..., :2], rtol=1e-12)


def test_sparse_matrices_are_never_made_dense():
    """The Laplacian of a path of 1,000 points, whose largest eigenvalues are 2 - 2 cos(jπ / 1001)."""
    ad.manual_seed(0)
    n = 1000
    s = scipy.sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1]).tocoo()
    sparse = ad.sparse_coo_tensor(ad.tensor(np.stack([s.row, s.col])), ad.tensor(s.data), (n, n))
    values, _ = ad.lobpcg(sparse, k=2, n=4, tol=1e-7)
    expected = 2 - 2 * np.cos(np.pi * np.array([n, n - 1]) / (n + 1))
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-6)


def test_each_option_has_an_effect():
    a = ad.tensor(definite(60))
    x = ad.ones(60, 1, dtype=ad.float64)
    exact = ad.lobpcg(a, k=1)[0]
    # The Rayleigh quotient of where it begins; then nearer with each step.
    start = ad.lobpcg(a, X=x, niter=0)[0]
    np.testing.assert_allclose(start.numpy(), (x.mT @ a @ x).item() / 60, rtol=1e-12)
    errors = [(ad.lobpcg(a, X=x, niter=n, tol=0.0)[0] - exact).abs().item() for n in (0, 2, 8, 200)]
    assert errors == sorted(errors, reverse=True) and errors[0] > 1e-3 and errors[-1] < 1e-12
    loose = (ad.lobpcg(a, X=x, tol=0.1)[0] - exact).abs().item()
    assert loose > 1e-6
    # With the inverse as preconditioner the smallest pair takes fewer steps.
    d = ad.arange(1.0, 201.0, dtype=ad.float64)
    wide, inverse = ad.diag(d * d), ad.diag(1 / (d * d))
    begin = ad.ones(200, 1, dtype=ad.float64)
    plain, helped = (
        (ad.lobpcg(wide, X=begin, niter=6, largest=False, **more)[0] - 1).abs().item()
        for more in ({}, {"iK": inverse})
    )
    assert helped < plain / 100


def test_what_requires_gradients_and_small_problems_are_solved_densely():
    a = ad.tensor(definite(12), requires_grad=True)
    values, vectors = ad.lobpcg(a, k=1, niter=1)
    np.testing.assert_allclose(values.detach().numpy(), np.linalg.eigvalsh(definite(12))[-1:], rtol=1e-12)
    values.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), (vectors @ vectors.mT).detach().numpy(), atol=1e-12)
    few = ad.lobpcg(ad.tensor(definite(4)), k=2, niter=0)[0]
    np.testing.assert_allclose(few.numpy(), np.linalg.eigvalsh(definite(4))[::-1][:2], rtol=1e-12)
