"""Batches of small matrices, which are worked on side by side, against NumPy and against the matrices one by one (LAPACK's way,
which a batch of fewer than four takes)."""

import numpy as np
import pytest
from helpers import array, tensor

import adjoint as ad

RNG = np.random.default_rng(31)
SIZES = [*range(10), 15, 16, 17, 31, 32, 33]
TOLERANCE = {ad.float32: 2e-3, ad.float64: 1e-9}
both_types = pytest.mark.parametrize("dtype", TOLERANCE)


def normal(*shape):
    return RNG.standard_normal(shape)


def definite(count, n):
    a = normal(count, n, n)
    return a @ np.swapaxes(a, -1, -2) / max(n, 1) + 0.5 * np.eye(n)


def well_conditioned(count, n):
    return normal(count, n, n) + np.sqrt(n + 1) * np.eye(n)[RNG.permutation(n)]


def layouts(values, dtype):
    """The same batch as it may lie: row-major, transposed, with gaps, by a strange stride."""
    t = tensor(values, dtype)
    yield t
    yield t.mT.contiguous().mT
    wide = ad.zeros(*t.shape[:-1], 2 * t.shape[-1] + 1, dtype=dtype)
    wide[..., 1::2] = t
    yield wide[..., 1::2]
    yield t.flip(0).contiguous().movedim(0, -1).contiguous().movedim(-1, 0).flip(0)


def close(found, wanted, dtype, scale=1.0):
    tolerance = TOLERANCE[dtype] * scale
    np.testing.assert_allclose(array(found), wanted, rtol=tolerance, atol=tolerance)


@both_types
@pytest.mark.parametrize("n", SIZES)
def test_solutions_and_factors(n, dtype):
    for count in (4, 5, 16, 33):
        a, s, b = well_conditioned(count, n), definite(count, n), normal(count, n, 3)
        a = array(tensor(a, dtype)).astype(np.float64)
        for x, y in zip(layouts(a, dtype), layouts(b, dtype)):
            close(ad.linalg.solve(x, y), np.linalg.solve(a, b), dtype)
            close(ad.linalg.inv(x), np.linalg.inv(a), dtype)
            close(ad.linalg.det(x) / np.abs(np.linalg.det(a)), np.sign(np.linalg.det(a)), dtype)
            lu, pivots = ad.linalg.lu_factor(x)
            p, lower, upper = ad.lu_unpack(lu, pivots)
            close(p @ lower @ upper, a, dtype)
            close(
                ad.linalg.lu_solve(lu, pivots, y, adjoint=True),
                np.linalg.solve(np.swapaxes(a, 1, 2), b),
                dtype,
            )
            close(
                ad.linalg.lu_solve(lu, pivots, y.mT, left=False),
                np.swapaxes(np.linalg.solve(np.swapaxes(a, 1, 2), b), 1, 2),
                dtype,
            )
        for x in layouts(s, dtype):
            close(ad.linalg.cholesky(x), np.linalg.cholesky(s), dtype)
            close(ad.linalg.cholesky(x, upper=True).mT, np.linalg.cholesky(s), dtype)


@both_types
@pytest.mark.parametrize("columns", [0, 1, 3, 4, 33, 70])
def test_many_right_hand_sides(columns, dtype):
    a, b = well_conditioned(6, 7), normal(6, 7, columns)
    close(ad.linalg.solve(tensor(a, dtype), tensor(b, dtype)), np.linalg.solve(a, b), dtype)
    lower = np.tril(a) + 7 * np.eye(7)
    close(
        ad.linalg.solve_triangular(tensor(lower, dtype), tensor(b, dtype), upper=False),
        np.linalg.solve(lower, b),
        dtype,
    )


@both_types
@pytest.mark.parametrize("n", SIZES)
def test_triangles(n, dtype):
    for count in (4, 17):
        a, b = normal(count, n, n) / max(n, 1) + np.eye(n), normal(count, n, 2)
        for x, y in zip(layouts(a, dtype), layouts(b, dtype)):
            for upper in (False, True):
                for unit in (False, True):
                    t = np.triu(a) if upper else np.tril(a)
                    if unit:
                        t = t - t * np.eye(n) + np.eye(n)
                    wanted = np.linalg.solve(t, b)
                    options = {"upper": upper, "unitriangular": unit}
                    close(ad.linalg.solve_triangular(x, y, **options), wanted, dtype)
                    wanted = np.swapaxes(np.linalg.solve(np.swapaxes(t, 1, 2), b), 1, 2)
                    close(ad.linalg.solve_triangular(x, y.mT, left=False, **options), wanted, dtype)


@both_types
@pytest.mark.parametrize("n", SIZES)
def test_pivots_and_signs_are_those_of_lapack(n, dtype):
    a = normal(19, n, n)
    a[3] = np.round(a[3])  # with ties
    a[4] = 0
    found = ad.linalg.lu_factor_ex(tensor(a, dtype))
    for i in range(len(a)):
        if i == 3:  # ties, and perhaps singular: rounding decides
            p, lower, upper = ad.lu_unpack(found.LU[i], found.pivots[i])
            close(p @ lower @ upper, a[i], dtype)
            continue
        lu, pivots, info = ad.linalg.lu_factor_ex(tensor(a[i], dtype))
        assert found.pivots[i].tolist() == pivots.tolist()
        close(found.LU[i], array(lu), dtype)
        assert bool(found.info[i] == info)


@both_types
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16, 32])
def test_singular_matrices_in_the_middle(n, dtype):
    a, s = well_conditioned(21, n), definite(21, n)
    a[7] = 0
    a[12, :, n // 2] = 0
    s[5] = -np.eye(n)
    s[11, n // 2, n // 2] = -1
    found = ad.linalg.inv_ex(tensor(a, dtype))
    wanted = [0] * 21
    wanted[7], wanted[12] = 1, n // 2 + 1
    assert found.info.tolist() == wanted
    good = [i for i in range(21) if wanted[i] == 0]
    close(found.inverse[good], np.linalg.inv(a[good]), dtype)
    for f in (ad.linalg.inv, lambda x: ad.linalg.solve(x, x)):
        with pytest.raises(ad.linalg.LinAlgError, match=r"\(Batch element 7\).*singular"):
            f(tensor(a, dtype))
    assert array(ad.linalg.det(tensor(a, dtype)))[[7, 12]].tolist() == [0, 0]
    for values, info in ((a, None), (s, [5, 11])):
        x = tensor(values, dtype)
        found = ad.linalg.cholesky_ex(x)
        for i in range(21):
            alone = ad.linalg.cholesky_ex(x[i])
            assert bool(found.info[i] == alone.info)
            np.testing.assert_allclose(
                array(found.L[i]), array(alone.L), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
            )
        if info:
            assert np.flatnonzero(array(found.info)).tolist() == info
            with pytest.raises(ad.linalg.LinAlgError, match=r"\(Batch element 5\).*leading minor of order 1"):
                ad.linalg.cholesky(x)


def eigen_cases(n):
    """Symmetric matrices of which some are hard."""
    eye, some = np.eye(n), normal(n, n)
    q = np.linalg.qr(some)[0] if n else some
    values = [
        np.zeros(n),
        np.ones(n),
        np.arange(n),
        np.where(np.arange(n) % 2, 1.0, -1.0),
        10.0 ** -np.arange(n),
        np.r_[np.zeros(n - n // 2), np.ones(n // 2)],
    ]
    for v in values:
        yield (q * v) @ q.T
        yield eye * v
    yield eye * 2 + np.eye(n, k=1) + np.eye(n, k=-1)
    yield np.ones((n, n))
    for scale in (1e-30, 1.0, 1e30):
        yield (some + some.T) * scale


@both_types
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("upper", [False, True])
def test_eigenvalues(n, dtype, upper):
    a = np.array(list(eigen_cases(n)))
    a = (a + np.swapaxes(a, 1, 2)) / 2
    t = tensor(a, dtype)
    a = array(t).astype(np.float64)
    size = np.abs(a).max(initial=0, axis=(1, 2)) + 1e-300
    one_triangle = (ad.triu if upper else ad.tril)(t)
    tolerance = (8 + 4 * n) * float(ad.finfo(dtype).eps)
    values, vectors = ad.linalg.eigh(one_triangle, UPLO="U" if upper else "L")
    w, v = array(values).astype(np.float64), array(vectors).astype(np.float64)
    assert (np.diff(w, axis=1) >= 0).all()
    # NumPy's are off by units of the largest of them: on aarch64 by 4 for a matrix of ones, whose size is 1.
    of_numpy = np.linalg.eigvalsh(a)
    largest = np.abs(of_numpy).max(initial=0, axis=1) + 1e-300
    assert (np.abs(w - of_numpy).max(initial=0, axis=1) <= tolerance * largest).all()
    residual = np.abs(a @ v - v * w[:, None, :]).max(initial=0, axis=(1, 2))
    assert (residual <= tolerance * size).all()
    assert np.abs(np.swapaxes(v, 1, 2) @ v - np.eye(n)).max(initial=0) <= tolerance
    alone = array(ad.linalg.eigvalsh(one_triangle, UPLO="U" if upper else "L")).astype(np.float64)
    assert (np.abs(alone - w).max(initial=0, axis=1) <= tolerance * size).all()


@both_types
def test_what_is_not_finite_harms_no_neighbour(dtype):
    s = definite(20, 5)
    a = s.copy()
    a[3, 2, 1] = a[3, 1, 2] = np.nan
    a[9, 4, 4] = np.inf
    x = tensor(a, dtype)
    good = [i for i in range(20) if i not in (3, 9)]
    for f in (ad.linalg.inv, ad.linalg.det, lambda x: ad.linalg.cholesky_ex(x).L):
        close(f(x)[good], array(f(tensor(s, dtype)))[good], dtype)
    for f in (ad.linalg.inv, ad.linalg.det):
        assert np.isnan(array(f(x)[3])).any()
    found = ad._C._eigh(x)
    close(found[0][good], np.linalg.eigvalsh(s[good]), dtype)
    for i in (3, 9):
        assert bool(found[2][i] == ad._C._eigh(x[i])[2])


@both_types
def test_expanded_batches(dtype):
    a, b = well_conditioned(1, 6), normal(1, 6, 2)
    x, y = tensor(a, dtype), tensor(b, dtype)
    close(ad.linalg.solve(x.expand(9, 6, 6), y.expand(9, 6, 2)), np.linalg.solve(a, b).repeat(9, 0), dtype)
    close(ad.linalg.inv(x.expand(2, 9, 6, 6)), np.broadcast_to(np.linalg.inv(a), (2, 9, 6, 6)), dtype)
    several = tensor(well_conditioned(6, 6), dtype).reshape(2, 3, 6, 6)
    close(ad.linalg.inv(several[:, :2]), np.linalg.inv(array(several[:, :2])), dtype)
    close(ad.linalg.inv(several.transpose(0, 1)), np.linalg.inv(array(several.transpose(0, 1))), dtype)
    close(
        ad.linalg.inv(several[:, :1].expand(2, 4, 6, 6)),
        np.linalg.inv(array(several[:, :1])).repeat(4, 1),
        dtype,
    )


@pytest.mark.parametrize("n", [1, 3, 5, 16])
def test_derivatives_are_those_of_single_matrices(n):
    a, s, b = well_conditioned(6, n), definite(6, n), normal(6, n, 2)
    lower = np.tril(a) + n * np.eye(n)

    def spectrum(x):
        values, vectors = ad.linalg.eigh((x + x.mT) / 2)
        return (vectors * (1 + values).unsqueeze(-2).exp()) @ vectors.mT

    for f, *inputs in [
        (ad.linalg.solve, a, b),
        (ad.linalg.inv, a),
        (ad.linalg.det, a),
        (lambda x: ad.linalg.slogdet(x)[1], a),
        (lambda x: ad.linalg.cholesky((x + x.mT) / 2), s),
        (lambda x, y: ad.linalg.solve_triangular(x, y, upper=False), lower, b),
        (lambda x, y: ad.linalg.solve_triangular(x, y.mT, upper=False, left=False), lower, b),
        (spectrum, s),
    ]:
        together = [tensor(x, requires_grad=True) for x in inputs]
        result = f(*together)
        g = tensor(normal(*result.shape))
        for create_graph in (False, True):
            found = ad.autograd.grad(result, together, g, retain_graph=True, create_graph=create_graph)
            for i in range(6):
                alone = [tensor(x[i], requires_grad=True) for x in inputs]
                wanted = ad.autograd.grad(f(*alone), alone, g[i])
                for x, y in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(array(x[i].detach()), array(y), rtol=1e-8, atol=1e-9)


@both_types
@pytest.mark.parametrize("count", [7, 8, 16, 33])
def test_products_of_small_matrices(count, dtype):
    for m in (1, 2, 3, 6, 7):
        for k in (1, 3, 6, 7):
            for n in (1, 2, 5, 6, 7):
                a, b = normal(count, m, k), normal(count, k, n)
                for x, y in zip(layouts(a, dtype), layouts(b, dtype)):
                    close(x @ y, a @ b, dtype)
                x, y = tensor(a, dtype), tensor(b, dtype)
                close(x[:1] @ y, a[:1] @ b, dtype)
                close(x @ y[0], a @ b[0], dtype)
                close(x[:1].expand(count, m, k) @ y, a[:1] @ b, dtype)


SHAPES = [(1, 1), (2, 2), (3, 3), (5, 3), (3, 5), (9, 8), (16, 16), (17, 4), (4, 31), (32, 32), (32, 7)]


def awkward(kind, *shape):
    """Matrices on which factors go wrong: of low rank, of columns of all sizes, of zeros."""
    a = normal(*shape)
    if kind == "rank one":
        a = a[..., :1] * a[..., :1, :]
    elif kind == "graded":
        a = a * 10.0 ** np.linspace(0, -12, shape[-1])
    elif kind == "zeros":
        a = a * (RNG.random(shape) < 0.3)
        a[1] = 0
    elif kind == "repeated":
        a = np.broadcast_to(np.eye(*shape[-2:]), shape).copy()
    return a


@both_types
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["plain", "rank one", "graded", "zeros", "repeated"])
def test_orthogonal_factors(kind, shape, dtype):
    epsilon = np.finfo(str(dtype).rpartition(".")[2]).eps * 8 * max(shape)
    for count, scale in ((4, 1.0), (17, 1e-25), (33, 1e25)):
        a = array(tensor(awkward(kind, count, *shape) * scale, dtype)).astype(np.float64)
        for x in layouts(a, dtype):
            for mode in ("reduced", "complete"):
                q, r = (array(t).astype(np.float64) for t in ad.linalg.qr(x, mode))
                assert (np.abs(q @ r - a).max((1, 2)) <= epsilon * np.abs(a).max((1, 2))).all()
                assert np.abs(np.swapaxes(q, 1, 2) @ q - np.eye(q.shape[2])).max() <= epsilon
                assert (np.tril(r, -1) == 0).all()
            u, s, vh = (array(t).astype(np.float64) for t in ad.linalg.svd(x, full_matrices=False))
            wanted = np.linalg.svd(a, compute_uv=False)
            assert (np.abs(s - wanted).max(1) <= epsilon * wanted[:, 0]).all() and (np.diff(s) <= 0).all()
            assert (np.abs((u * s[:, None]) @ vh - a).max((1, 2)) <= epsilon * np.abs(a).max((1, 2))).all()
            assert np.abs(np.swapaxes(u, 1, 2) @ u - np.eye(u.shape[2])).max() <= epsilon
            assert np.abs(vh @ np.swapaxes(vh, 1, 2) - np.eye(u.shape[2])).max() <= epsilon
            alone = array(ad.linalg.svdvals(x)).astype(np.float64)
            assert (np.abs(alone - wanted).max(1) <= epsilon * wanted[:, 0]).all()


def test_columns_of_all_sizes_have_their_own_directions():
    """The factors of one by one, to the precision of each column."""
    a = awkward("graded", 6, 7, 5)
    for found, wanted in zip(ad.linalg.qr(ad.tensor(a)), np.linalg.qr(a)):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-20)


@both_types
def test_orthogonal_factors_of_what_is_not_finite(dtype):
    a = normal(5, 4, 3)
    a[2, 1, 1] = np.nan
    x = tensor(a, dtype)
    assert array(ad.linalg.qr(x).Q.isnan()).any((1, 2)).tolist() == [False, False, True, False, False]
    with pytest.raises(ad.linalg.LinAlgError, match=r"Batch element 2"):
        ad.linalg.svd(x)


def test_derivatives_of_orthogonal_factors():
    a = ad.tensor(normal(5, 4, 3), requires_grad=True)
    assert ad.autograd.gradcheck(lambda x: ad.linalg.qr(x), (a,))
    assert ad.autograd.gradcheck(lambda x: ad.linalg.qr(x.mT), (a,))
    assert ad.autograd.gradcheck(lambda x: ad.linalg.svdvals(x), (a,))
    assert ad.autograd.gradcheck(
        lambda x: (lambda u, s, vh: (u.abs(), s, vh.abs()))(*ad.linalg.svd(x, False)), (a,)
    )


@both_types
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_pivots_of_any_order(n, dtype):
    """What changes places follows LAPACK's rule for any pivots, not only those that a factorisation gives."""
    lu, b = tensor(well_conditioned(9, n), dtype), tensor(normal(9, n, 3), dtype)
    pivots = ad.tensor(RNG.integers(1, n + 1, (9, n)), dtype=ad.int32)
    for adjoint in (False, True):
        found = ad.linalg.lu_solve(lu, pivots, b, adjoint=adjoint)
        for i in range(9):
            close(found[i], array(ad.linalg.lu_solve(lu[i], pivots[i], b[i], adjoint=adjoint)), dtype, 10)
