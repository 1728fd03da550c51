"""Reductions and normalisations of rows of every length around the widths of vectors: each element counts once, against NumPy.

Rows end within a vector, whose last elements are taken by one that overlaps what is done already.
"""

import numpy as np
import pytest
from helpers import array

import adjoint as ad

F = ad.nn.functional
LENGTHS = [*range(1, 71), 95, 127, 128, 129, 143, 144, 200, *range(253, 262), 300, 511, 512, 513, 1030]
ROWS = 5


def rows(n, dtype, seed=0):
    """Rows of small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(seed + n).integers(-9, 10, (ROWS, n)).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int64", "int32", "complex64", "complex128", "uint8"]
)
def test_sums_are_exact(dtype):
    for n in LENGTHS:
        a = np.abs(rows(n, "float64")).astype(dtype) if dtype == "uint8" else rows(n, dtype)
        x = ad.tensor(a)
        np.testing.assert_array_equal(array(x.sum(-1)), a.sum(-1), err_msg=str(n))
        np.testing.assert_array_equal(array(x.count_nonzero(-1)), np.count_nonzero(a, -1), err_msg=str(n))
        np.testing.assert_array_equal(array((x != 0).all(-1)), (a != 0).all(-1), err_msg=str(n))
        if dtype.startswith(("float", "complex")):
            np.testing.assert_allclose(array(x.mean(-1)), a.mean(-1), rtol=1e-6, atol=1e-7, err_msg=str(n))
            squares = np.sqrt((np.abs(a) ** 2).sum(-1))
            np.testing.assert_allclose(array(x.norm(dim=-1)), squares, rtol=1e-6, err_msg=str(n))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_extremes_wherever_they_stand(dtype):
    for n in LENGTHS:
        a = np.ones((n, n) if n < 80 else (7, n), dtype)
        places = np.arange(n) if n < 80 else np.array([0, 1, n // 2, n - 17, n - 16, n - 2, n - 1])
        a[np.arange(len(a)), places] = 3
        x = ad.tensor(a)
        assert (array(x.amax(-1)) == 3).all() and (array(x.argmax(-1)) == places).all(), n
        assert (array(x.max(-1).indices) == places).all(), n
        low = ad.tensor(np.where(a == 3, 0, a).astype(dtype))
        assert (array(low.amin(-1)) == 0).all() and (array(low.argmin(-1)) == places).all(), n
        if dtype.startswith("float"):
            assert (array(x.prod(-1)) == 3).all() and (array(x.nansum(-1)) == n + 2).all(), n
            a[np.arange(len(a)), places] = np.nan
            x = ad.tensor(a)
            assert np.isnan(array(x.amax(-1))).all() and np.isnan(array(x.sum(-1))).all(), n
            assert (array(x.argmax(-1)) == places).all() and (array(x.nansum(-1)) == n - 1).all(), n


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-13)])
def test_normalised_rows(dtype, tolerance):
    for n in LENGTHS:
        a = rows(n, dtype)
        b = rows(n, "float64", seed=7)
        x, g = ad.tensor(a, requires_grad=True), ad.tensor(b.astype(dtype))
        a = a.astype("float64")
        e = np.exp(a - a.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        close = {"rtol": 20 * tolerance, "atol": 20 * tolerance, "err_msg": str(n)}
        np.testing.assert_allclose(array(x.softmax(-1)), p, **close)
        np.testing.assert_allclose(array(x.log_softmax(-1)), np.log(p), **close)
        np.testing.assert_allclose(array(x.logsumexp(-1)), a.max(-1) + np.log(e.sum(-1)), **close)
        np.testing.assert_allclose(
            array(ad.autograd.grad(x.softmax(-1), x, g)[0]), p * (b - (p * b).sum(-1, keepdims=True)), **close
        )
        np.testing.assert_allclose(
            array(ad.autograd.grad(x.log_softmax(-1), x, g)[0]), b - p * b.sum(-1, keepdims=True), **close
        )
        if n == 1:
            continue
        np.testing.assert_allclose(array(x.var(-1)), a.var(-1, ddof=1), **close)
        centred, r = a - a.mean(-1, keepdims=True), 1 / np.sqrt(a.var(-1, keepdims=True) + 1e-3)
        hat = centred * r
        np.testing.assert_allclose(array(F.layer_norm(x, (n,), eps=1e-3)), hat, **close)
        back = r * (b - b.mean(-1, keepdims=True) - hat * (b * hat).mean(-1, keepdims=True))
        found = array(ad.autograd.grad(F.layer_norm(x, (n,), eps=1e-3), x, g)[0])
        np.testing.assert_allclose(
            found, back, rtol=1e-4, atol=200 * tolerance * np.abs(back).max(), err_msg=str(n)
        )
        # Each row a channel: its moments, and the gradients through them.
        images = x.reshape(1, ROWS, n)
        found = F.batch_norm(images, None, None, training=True, eps=1e-3)
        np.testing.assert_allclose(array(found)[0], hat, **close)
        found = array(ad.autograd.grad(found, x, g.reshape(1, ROWS, n))[0])
        np.testing.assert_allclose(
            found, back, rtol=1e-4, atol=200 * tolerance * np.abs(back).max(), err_msg=str(n)
        )
