"""Ways that serve the usual case apart from others give what those give: limits that are numbers, rows by a vector, modes by counting,
short rows together, transforms of few points, triangles of small matrices."""

import itertools

import numpy as np
import pytest
import scipy.fft
from helpers import array, assert_same

import adjoint as ad
from adjoint.fft import _transforms

inf, nan = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_limits_that_are_numbers(dtype):
    values = [-3.0, -0.0, 0.0, 1.0, 2.0, 7.0] + ([-inf, inf, nan] if dtype[0] == "f" else [])
    x = ad.tensor((values * 12)[:100]).to(getattr(ad, dtype))
    limits = [0.0, 1.0, -2.0, *([inf, -inf, nan] if dtype[0] == "f" else [])]
    for low, high in itertools.product(limits, limits):
        found = x.clamp(low, high) if dtype[0] == "f" else x.clamp(int(low), int(high))
        assert_same(found, array(x.clamp(ad.full_like(x, low), ad.full_like(x, high))))
        assert_same(found, np.minimum(np.maximum(array(x), low), high).astype(dtype))
    assert x[:0].clamp(0, 1).shape == (0,) and ad.tensor(nan).clamp(0, 1).isnan()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_by_a_vector(dtype):
    rng = np.random.default_rng(0)
    for m, k in [(1, 40), (3, 32), (5, 33), (4, 100), (7, 260), (2, 5000), (300, 300), (0, 64), (64, 0)]:
        a, v = rng.integers(-9, 10, (m, k)).astype(dtype), rng.integers(-9, 10, k).astype(dtype)
        x, y = ad.tensor(a, requires_grad=True), ad.tensor(v, requires_grad=True)
        assert_same(x @ y, a @ v)
        assert_same(y @ x.T, a @ v)
        assert_same(x @ y.unsqueeze(1), (a @ v)[:, None])
        assert_same(y.unsqueeze(0) @ x.T, (a @ v)[None])
        assert_same(ad.tensor(np.repeat(a, 2, 1))[:, ::2] @ y, a @ v)
        assert_same(ad.tensor(np.repeat(a, 2, 0))[::2] @ y, a @ v)
        assert_same(x @ ad.tensor(np.repeat(v, 2))[::2], a @ v)
        g = rng.integers(-9, 10, m).astype(dtype)
        (x @ y).backward(ad.tensor(g))
        assert_same(x.grad, np.outer(g, v))
        assert_same(y.grad, a.T @ g)
    assert (ad.full((5, 64), inf) @ ad.zeros(64)).isnan().all()


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "uint8", "bool", "float16"])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000, 1025])
def test_modes(dtype, n):
    a = np.random.default_rng(n).integers(0, 2 if dtype == "bool" else max(2, n // 4), (6, n)).astype(dtype)
    if dtype.startswith("float"):
        a[0, : n // 2] = nan
        a[1] = nan
        a[2, ::2] *= -0.0
    found = ad.tensor(a).mode(1)
    for row, value, index in zip(a, array(found.values), array(found.indices), strict=True):
        numbers, counts = np.unique(row[row == row], return_counts=True)
        if not len(numbers):
            assert np.isnan(value) and index == 0
            continue
        assert value == numbers[np.argmax(counts)]
        assert index == np.flatnonzero(row == value)[-1]
    turned = ad.tensor(np.ascontiguousarray(a.T)).mode(0)
    assert_same(turned.indices, array(found.indices))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_long_rows_of_few_digits_are_sorted(dtype):
    rng = np.random.default_rng(0)
    for low, high in [(0, 3), (0, 50), (-5, 5), (-(2**20), 2**20), (7, 8)]:
        a = rng.integers(low, high, (2, 700)).astype(dtype)
        found = ad.tensor(a).sort(1, stable=True)
        assert_same(found.indices, np.argsort(a, 1, kind="stable"))
        values, inverse, counts = ad.tensor(a).unique(return_inverse=True, return_counts=True)
        for x, y in zip((values, inverse, counts), np.unique(a, return_inverse=True, return_counts=True)):
            assert_same(x, y.reshape(x.shape))


def test_extremes_so_far_along_rows_are_those_along_columns():
    a = np.random.default_rng(0).integers(-9, 10, (40, 60)).astype("float32")
    a[::3, 20:22], a[5, 40], a[6, 0] = nan, nan, nan
    a[7] = -0.0
    for name in ("cummax", "cummin"):
        rows = getattr(ad.tensor(a), name)(1)
        columns = getattr(ad.tensor(np.ascontiguousarray(a.T)), name)(0)
        assert_same(rows.values, array(columns.values.T))
        assert_same(rows.indices, array(columns.indices.T))
        best = np.maximum if name == "cummax" else np.minimum
        assert_same(rows.values, best.accumulate(a, 1))
    assert ad.zeros(3, 0).cummax(1).values.shape == (3, 0)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 19])
@pytest.mark.parametrize("n", [1, 3, 17, 64, 513])
def test_short_rows_together_are_those_alone(rows, n):
    x = ad.randn(rows, n)
    x[0, 0] = inf if n > 2 else 0.0
    for f in (ad.softmax, ad.log_softmax):
        alone = ad.stack([f(row, 0) for row in x])
        assert_same(f(x, 1), array(alone))


def test_equality_ends_at_the_first_difference():
    x = ad.randn(3, 100_000)
    for dtype in (ad.float32, ad.float16, ad.bfloat16, ad.complex64, ad.int64, ad.bool):
        a = x.to(dtype)
        assert ad.equal(a, a.clone())
        for place in (0, 63, 64, 5000, 299_999):
            b = a.clone()
            b.view(-1)[place] = ~b.view(-1)[place] if dtype is ad.bool else b.view(-1)[place] + 1
            assert not ad.equal(a, b)
    assert ad.equal(ad.zeros(9), -ad.zeros(9)) and not ad.equal(ad.full((9,), nan), ad.full((9,), nan))
    assert ad.equal(ad.zeros(0, 3), ad.zeros(0, 3)) and not ad.equal(ad.zeros(3), ad.zeros(3, 1))
    assert ad.equal(x.T, x.T.contiguous()) and ad.equal(ad.ones(3), ad.ones(3, dtype=ad.int64))


def test_indices_of_triangles():
    for n, m in itertools.product(range(5), range(5)):
        for offset in range(-6, 7):
            assert_same(ad.tril_indices(n, m, offset), np.stack(np.tril_indices(n, offset, m)))
            assert_same(ad.triu_indices(n, m, offset), np.stack(np.triu_indices(n, offset, m)))
    assert ad.tril_indices(2**60, 0).shape == (2, 0) and ad.triu_indices(2**60, 3, 2**62).shape == (2, 0)
    assert ad.tril_indices(2, 2, dtype=ad.int32).dtype is ad.int32
    assert ad.tril_indices(2, 2, -(2**63)).shape == (2, 0) and ad.tril_indices(2, 2, 2**63 - 1).shape == (
        2,
        4,
    )
    for n in (-1, 2**62):
        with pytest.raises(RuntimeError, match="expected sizes from 0"):
            ad.tril_indices(n, 3)
    with pytest.raises((RuntimeError, MemoryError)):
        ad.tril_indices(2**40, 2**40)
    assert ad.triu_indices(3, 3, device="meta").shape == (2, 6)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_of_few_points_are_those_of_many(norm, monkeypatch):
    rng = np.random.default_rng(0)
    real = rng.standard_normal((4, 6, 8))
    numbers = real + 1j * rng.standard_normal(real.shape)
    calls = [
        (name, a, axes)
        for name, a in [("fftn", real), ("fftn", numbers), ("ifftn", numbers), ("ifftn", real)]
        + [("rfftn", real), ("irfftn", numbers), ("hfftn", numbers), ("ihfftn", real)]
        for axes in ([0], [2], [1, 2], [2, 0])
    ]

    def results():
        return [getattr(ad.fft, name)(ad.tensor(a), dim=axes, norm=norm) for name, a, axes in calls]

    few = results()
    monkeypatch.setattr(_transforms, "FEW", 0)
    for (name, a, axes), x, y in zip(calls, few, results(), strict=True):
        assert_same(x, array(y))
        if hasattr(scipy.fft, name):
            np.testing.assert_allclose(
                array(x), getattr(scipy.fft, name)(a, axes=axes, norm=norm), atol=1e-12
            )
    assert _transforms._loops, "SciPy has moved its loops: small transforms take the long way"


def test_normal_numbers_around_a_tensor():
    mean = ad.linspace(-5, 5, 20_000)
    x = ad.normal(mean, 0.5)
    assert abs((x - mean).std().item() - 0.5) < 0.02 and abs((x - mean).mean().item()) < 0.02
    ad.manual_seed(3)
    one = ad.normal(mean, 0.5)
    ad.manual_seed(3)
    assert_same(one, array(ad.normal(mean, ad.full_like(mean, 0.5))))
    leaf = ad.zeros(3, requires_grad=True)
    ad.normal(leaf, 1.0).sum().backward()
    assert leaf.grad.tolist() == [0, 0, 0]
    assert (
        ad.normal(leaf.half(), 1).dtype is ad.float16 and ad.normal(mean.view(2, -1).T, 1.0).is_contiguous()
    )
    with pytest.raises(RuntimeError, match="std >= 0"):
        ad.normal(mean, -1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int16", "bool"])
@pytest.mark.parametrize(
    "shape",
    [
        (4096, 1, 1),
        (1000, 2, 5),
        (999, 5, 2),
        (600, 7, 3),
        (201, 16, 16),
        (33, 1, 3),
        (9, 1, 40),
        (3, 4, 4),
        (40, 45, 45),
        (2, 70, 70),
    ],
)
def test_triangles_of_many_small_matrices(dtype, shape):
    x = (np.arange(np.prod(shape)) % 251 - 3).reshape(shape).astype(dtype)
    if dtype[0] in "fc":
        x.flat[:: max(1, x.size // 40)] = nan
        x.flat[1 :: max(2, x.size // 40)] = -inf
    for k in (-100, -3, -1, 0, 1, 2, 50):
        assert_same(ad.tensor(x).tril(k), np.tril(x, k))
        assert_same(ad.tensor(x).triu(k), np.triu(x, k))
