"""Products of matrices of all sizes and layouts against NumPy: below, at and beyond the edges of the tiles, panels and
blocks that the loops work in, with and without something to start from, on one thread and more.
"""

import numpy as np
import pytest

import adjoint as ad

ROWS = [1, 3, 4, 6, 13, 14, 15, 29, 84, 85, 337]
COLUMNS = [1, 8, 15, 16, 17, 31, 32, 33, 63, 65, 200]
DEPTHS = [1, 2, 5, 16, 17, 64, 255, 257, 600]

#: name → how a matrix is laid out
LAYOUTS = {
    "rows": lambda a: ad.tensor(a),
    "columns": lambda a: ad.tensor(np.ascontiguousarray(a.T)).T,
    "part of rows": lambda a: ad.tensor(np.pad(a, ((1, 2), (3, 5))))[1:-2, 3:-5],
    "part of columns": lambda a: ad.tensor(np.pad(a.T, ((1, 2), (3, 5))))[1:-2, 3:-5].T,
    "every second": lambda a: ad.tensor(np.repeat(np.repeat(a, 2, 0), 2, 1))[::2, ::2],
    "rows 4 KiB apart": lambda a: ad.tensor(np.pad(a, ((0, 0), (0, -a.shape[1] % 1024))))[:, : a.shape[1]],
}


def sizes(count, seed):
    """Random sizes from the edges above."""
    generator = np.random.default_rng(seed)
    return [tuple(int(generator.choice(s)) for s in (ROWS, COLUMNS, DEPTHS)) for _ in range(count)]


def normal(generator, dtype, *shape):
    return generator.standard_normal(shape).astype(dtype)


def check(found, a, b, start, dtype):
    exact = a.astype(np.float64) @ b.astype(np.float64) + (0 if start is None else start)
    # The error of a sum of k products grows with the sum of their absolute values.
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + (
        0 if start is None else np.abs(start)
    )
    error = np.abs(found.numpy() - exact) / np.maximum(bound, 1e-300)
    assert found.is_contiguous()
    assert error.max(initial=0) <= 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_sizes_and_layouts(left, right, dtype):
    generator = np.random.default_rng(len(left) * 31 + len(right))
    for m, n, k in sizes(12, len(left) + 7 * len(right)):
        a, b = normal(generator, dtype, m, k), normal(generator, dtype, k, n)
        check(LAYOUTS[left](a) @ LAYOUTS[right](b), a, b, None, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_start(dtype):
    generator = np.random.default_rng(3)
    for m, n, k in sizes(60, 5):
        a, b = normal(generator, dtype, m, k), normal(generator, dtype, k, n)
        x, y = ad.tensor(a), ad.tensor(b)
        for shape in ((n,), (m, n), (1, n), (m, 1), (1,)):
            start = normal(generator, dtype, *shape)
            check(ad.addmm(ad.tensor(start), x, y), a, b, start, dtype)
        start = normal(generator, dtype, n)
        check(ad.nn.functional.linear(x, ad.tensor(b.T.copy()), ad.tensor(start)), a, b, start, dtype)
        wide = normal(generator, dtype, m, 2 * n)
        check(ad.addmm(ad.tensor(wide)[:, ::2], x, y), a, b, wide[:, ::2], dtype)
        check(ad.addmm(ad.tensor(wide)[:, :n], x, y), a, b, wide[:, :n], dtype)


def test_a_start_in_short_types():
    a, b, start = (normal(np.random.default_rng(4), "float32", *s) for s in ((20, 30), (30, 40), (40,)))
    for dtype, eps in ((ad.float16, 2**-10), (ad.bfloat16, 2**-7)):
        x, y, s = (ad.tensor(t).to(dtype) for t in (a, b, start))
        exact = x.double() @ y.double() + s.double()
        error = (ad.addmm(s, x, y).double() - exact).abs() / (exact.abs() + 0.1)
        assert error.max() <= 2 * eps
    i = ad.arange(12).reshape(3, 4)
    assert ad.addmm(ad.tensor([1, 2, 3]), i, i.T).tolist() == ((i @ i.T) + ad.tensor([1, 2, 3])).tolist()


def test_values_that_are_not_finite_stay_where_they_are():
    a, b = np.ones((20, 40), "float32"), np.ones((40, 50), "float32")
    a[3, 7], b[5, 49] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    for left in LAYOUTS.values():
        for right in LAYOUTS.values():
            np.testing.assert_array_equal((left(a) @ right(b)).numpy(), expected)


@pytest.mark.parametrize(
    "shape", [(300, 500, 200), (64, 2000, 300), (2000, 40, 300), (4, 5000, 400), (3, 200, 200, 200)]
)
def test_the_same_for_any_number_of_threads(shape):
    *batch, m, n, k = shape
    ad.manual_seed(1)
    a, b, bias = ad.randn(*batch, m, k), ad.randn(*batch, k, n), ad.randn(n)
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(1)
        expected = a @ b
        linear = None if batch else ad.nn.functional.linear(a, b.T.contiguous(), bias)
        for threads in (2, 3, 7):
            ad.set_num_threads(threads)
            assert ad.equal(a @ b, expected)
            assert batch or ad.equal(ad.nn.functional.linear(a, b.T.contiguous(), bias), linear)
    finally:
        ad.set_num_threads(before)


def test_batches_of_strided_matrices():
    generator = np.random.default_rng(6)
    x = normal(generator, "float32", 3, 20, 3 * 4 * 24)
    q, k, v = (t.reshape(3, 20, 4, 24).transpose(0, 2, 1, 3) for t in np.split(x, 3, -1))
    a, b, c = (t.reshape(3, 20, 4, 24).transpose(1, 2) for t in ad.tensor(x).split(96, -1))
    scores = a @ b.transpose(-2, -1)
    check(scores, q, np.swapaxes(k, -1, -2), None, "float32")
    check(scores.transpose(-2, -1) @ c, np.swapaxes(scores.numpy(), -1, -2), v, None, "float32")
    check(a[:1] @ b[:, :1].transpose(-2, -1), q[:1], np.swapaxes(k[:, :1], -1, -2), None, "float32")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("m, n, k", [(1, 64, 64), (1, 10, 33), (5, 1, 40), (3, 7, 4), (40, 33, 17)])
def test_batches_that_share_a_right_factor(dtype, m, n, k):
    """One product of all rows, where those lie one after the other."""
    generator = np.random.default_rng(m * n * k)
    a, b = normal(generator, dtype, 6, m, k), normal(generator, dtype, k, n)
    starts = normal(generator, dtype, n), normal(generator, dtype, m, n), normal(generator, dtype, 6, m, n)
    batches = {
        "dense": ad.tensor(a),
        "every second": ad.tensor(np.repeat(a, 2, 0))[::2],
        "backwards": ad.tensor(a[::-1].copy()).flip(0),
        "columns": ad.tensor(np.ascontiguousarray(a.swapaxes(1, 2))).mT,
        "two dimensions": ad.tensor(a).reshape(2, 3, m, k),
        "two that change places": ad.tensor(a.reshape(3, 2, m, k).swapaxes(0, 1).copy()).transpose(0, 1),
        "repeated": ad.tensor(a[0]).expand(6, m, k),
    }
    for name, x in batches.items():
        lead = x.shape[:-2]
        y = ad.tensor(b).expand(*lead, k, n)
        expected = (a[:1].repeat(6, 0) if name == "repeated" else a) @ b
        np.testing.assert_allclose(
            (x @ y).reshape(6, m, n).numpy(), expected, rtol=0, atol=2e-4, err_msg=name
        )
        np.testing.assert_allclose(
            (x @ ad.tensor(np.ascontiguousarray(b.T)).T.expand(*lead, k, n)).reshape(6, m, n).numpy(),
            expected,
            rtol=0,
            atol=2e-4,
            err_msg=name,
        )
        if len(lead) == 1:
            for start in starts:
                found = ad.baddbmm(ad.tensor(start), x, y)
                np.testing.assert_allclose(found.numpy(), expected + start, rtol=0, atol=2e-4, err_msg=name)
