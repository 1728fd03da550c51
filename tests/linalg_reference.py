"""What the rows of linear algebra compute, in NumPy: see structured_reference.py, which gathers these."""

import numpy as np
import scipy.linalg.lapack as lapack


def mH(a):
    return np.conj(np.swapaxes(a, -1, -2))


def each(f):
    """`f` of single matrices, applied to a batch of them."""

    def over(*arrays):
        batch = arrays[0].shape[:-2]
        flat = [a.reshape((int(np.prod(batch)), *a.shape[len(batch) :])) for a in arrays]
        results = [f(*one) for one in zip(*flat, strict=True)]
        if not isinstance(results[0], tuple):
            return np.reshape(results, batch + np.shape(results[0]))
        return tuple(np.reshape(r, batch + np.shape(r[0])) for r in zip(*results, strict=True))

    return over


def permutation(pivots, rows):
    """Where each row comes from after the exchanges that LAPACK's pivots name."""
    order = np.arange(rows)
    for i, p in enumerate(pivots):
        order[[i, p - 1]] = order[[p - 1, i]]
    return order


def lower(lu):
    k = min(lu.shape)
    return np.tril(lu, -1)[:, :k] + np.eye(lu.shape[0], k)


def product_of(lu, pivots):
    """The matrix that was factored into these."""
    a = np.empty_like(lu)
    a[permutation(pivots, lu.shape[0])] = lower(lu) @ np.triu(lu)[: min(lu.shape)]
    return a


def solve_triangular(a, b, upper, left, unit):
    a = np.triu(a) if upper else np.tril(a)
    if unit:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def lu_solve(lu, pivots, b, adjoint):
    a = each(product_of)(lu, pivots)
    return np.linalg.solve(mH(a) if adjoint else a, b)


def geqrf(a):
    h, tau = np.linalg.qr(a, mode="raw")
    return np.swapaxes(h, -1, -2), tau


@each
def householder_product(a, tau):
    q = np.eye(a.shape[0], dtype=a.dtype)
    for i, t in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
        q = q @ (np.eye(len(v)) - t * np.outer(v, v.conj()))
    return q[:, : a.shape[1]]


def ldl_factor(a, hermitian):
    prefix = "zhe" if hermitian and np.iscomplexobj(a) else "zsy" if np.iscomplexobj(a) else "dsy"
    ld, pivots = each(lambda m: getattr(lapack, prefix + "trf")(m, lower=1)[:2])(a)
    return np.tril(ld), pivots, None


def ldl_order(pivots):
    """By exchanging the rows of numbered matrices, as LAPACK's documentation of sytrf says."""
    batch, n = pivots.shape[:-1], pivots.shape[-1]
    order, rows, blocks = (
        np.empty((*batch, n), int),
        np.empty((*batch, n, n), int),
        np.zeros((*batch, n, n), bool),
    )
    for index in np.ndindex(*batch):
        numbered, whole, k = np.repeat(np.arange(n)[:, None], n, 1), np.arange(n), 0
        while k < n:
            p = pivots[index][k]
            end, swapped = (k + 1, [k, p - 1]) if p > 0 else (k + 2, [k + 1, -p - 1])
            numbered[swapped, :k] = numbered[swapped[::-1], :k]
            whole[swapped] = whole[swapped[::-1]]
            blocks[index][k:end, k:end] = np.tri(end - k)
            k = end
        order[index], rows[index] = whole, numbered
    return order, rows, blocks


def ldl_solve(ld, pivots, b, hermitian):
    # The samples have no blocks of two and exchange no rows.
    low = np.tril(ld, -1) + np.eye(ld.shape[-1])
    d = np.diagonal(ld).real if hermitian else np.diagonal(ld)
    return np.linalg.solve(low * d @ (mH(low) if hermitian else low.T), b)


def least_squares(a, b, rcond, values=True):
    x, _, rank, s = np.linalg.lstsq(a, b, rcond)
    return x, s if values else s[:0], np.array(rank), np.array(0)


def slogdet(a):
    return (*np.linalg.slogdet(a), None, None)


REFERENCES = {
    "_cholesky": lambda a: (np.linalg.cholesky(a), np.zeros(a.shape[:-2])),
    "_solve_triangular": solve_triangular,
    "_lu_permutation": lambda p, rows: np.apply_along_axis(permutation, -1, p, rows),
    "_lu_solve": lu_solve,
    "_solve": lambda a, b: (np.linalg.solve(a, b), None, None, np.zeros(a.shape[:-2])),
    "_inverse": lambda a: (np.linalg.inv(a), np.zeros(a.shape[:-2])),
    "_det": lambda a: (np.linalg.det(a), None, None),
    "_slogdet": slogdet,
    "_geqrf": geqrf,
    "_householder_product": householder_product,
    "_pinv": lambda a, atol, rtol, hermitian: np.linalg.pinv(a),
    "_ldl_factor": ldl_factor,
    "_ldl_order": ldl_order,
    "_ldl_solve": ldl_solve,
    "_least_squares": least_squares,
}


def lu_factor(results, a, pivot):
    lu, pivots, info = results
    assert not info.any()
    close(each(product_of)(lu, pivots), a)
    if not pivot:
        assert (pivots == np.arange(1, a.shape[-1] + 1)).all()


def close(found, expected):
    scale = 1 + np.abs(expected).max(initial=0)
    tolerance = 1e-12 if np.finfo(found.dtype).eps < 1e-12 else 1e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def orthonormal(q):
    close(mH(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), q.shape[:-2] + (q.shape[-1],) * 2))


def qr(results, a, complete):
    q, r = results
    n = a.shape[-2]
    assert q.shape[-1] == (n if complete else min(a.shape[-2:]))
    close(q @ r, a)
    close(np.triu(r), r)
    orthonormal(q)


def eigh(results, a, upper, vectors):
    values, v, info = results
    assert not info.any()
    close(values, np.linalg.eigvalsh(a, "U" if upper else "L"))
    if vectors:
        close(v * values[..., None, :], a @ v)
        orthonormal(v)


def eig(results, a, vectors):
    values, v, info = results
    assert not info.any()
    ordered = lambda w: np.take_along_axis(w, np.lexsort((w.imag.round(4), w.real.round(4)), -1), -1)  # noqa: E731
    close(ordered(values), ordered(np.linalg.eigvals(a).astype(values.dtype)))
    if vectors:
        close(a.astype(v.dtype) @ v, v * values[..., None, :])
        close(np.linalg.norm(v, axis=-2), np.ones(values.shape))


def svd(results, a, full_matrices, vectors):
    u, s, vh, info = results
    assert not info.any()
    close(s, np.linalg.svd(a, compute_uv=False))
    if vectors:
        k = s.shape[-1]
        assert (u.shape, vh.shape) == tuple(x.shape for x in np.linalg.svd(a, full_matrices)[::2])
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
        orthonormal(u)
        orthonormal(mH(vh))


CHECKS = {"_lu_factor": lu_factor, "_qr": qr, "_eigh": eigh, "_eig": eig, "_svd": svd}
