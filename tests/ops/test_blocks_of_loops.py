"""Loops that look at a whole block first (rare elements, one number throughout, nothing to do) give each element the value it has alone."""

import math

import numpy as np
import pytest
from helpers import array

import adjoint as ad

WIDE = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    3.0,
    1e-45,
    1e-30,
    3e38,
    -7.5,
    2.0**22,
    2.0**23 + 1,
    math.inf,
    -math.inf,
    math.nan,
]


def wide_numbers(dtype, seed):
    """Of all magnitudes, so that quotients are beyond what a fraction holds for some."""
    generator = np.random.default_rng(seed)
    size = 700
    x = generator.normal(size=size) * 2.0 ** generator.integers(-40, 40, size=size)
    x[: len(WIDE)] = generator.permutation(WIDE)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_of_any_magnitude(name, dtype):
    for seed in range(4):
        a, b = wide_numbers(dtype, seed), wide_numbers(dtype, seed + 10)
        x, y = ad.tensor(a), ad.tensor(b)
        found = getattr(ad, name)(x, y)
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a, b)
        if name == "fmod":  # exact, the sign of zeros too
            assert np.array_equal(array(found), expected, equal_nan=True)
            assert np.array_equal(np.signbit(array(found))[expected == 0], np.signbit(a)[expected == 0])
        elif name == "remainder":
            finite = np.isfinite(b)
            assert np.array_equal(array(found)[finite], expected[finite], equal_nan=True)
        for i in range(0, 700, 7):
            alone = getattr(ad, name)(x[i : i + 1], y[i : i + 1])
            assert np.array_equal(array(alone), array(found)[i : i + 1], equal_nan=True), (a[i], b[i])
        into = x.clone()
        getattr(into, name + "_")(y)
        assert np.array_equal(array(into), array(found), equal_nan=True)


def test_gradients_of_remainders_in_blocks():
    generator = np.random.default_rng(1)
    x = ad.tensor(generator.normal(size=300) * 10, requires_grad=True)
    y = ad.tensor(generator.uniform(0.5, 3, size=300), requires_grad=True)
    g = ad.tensor(generator.normal(size=300))
    ad.remainder(x, y).backward(g)
    assert np.array_equal(array(x.grad), array(g))
    assert np.array_equal(array(y.grad), -array(g) * np.floor_divide(array(x.detach()), array(y.detach())))


@pytest.mark.parametrize(
    "function", [ad.nn.functional.elu, ad.nn.functional.selu, lambda x: ad.nn.functional.celu(x, 0.7)]
)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_places_of_negative_elements(function, dtype):
    x = ad.rand(1200, dtype=dtype) + 0.1
    x[[3, 700, 701, 1199]] = ad.tensor([-0.5, float("nan"), -0.0, -3.0], dtype=dtype)
    whole = function(x)
    alone = ad.cat([function(x[i : i + 1]) for i in range(1200)])
    assert np.array_equal(array(whole), array(alone), equal_nan=True)


@pytest.mark.parametrize("n", [2, 3, 127, 128, 129, 255, 511, 700])
def test_exponents_that_are_the_same_but_for_one(n):
    x = ad.rand(n) + 0.5
    for exponent in (2.0, -1.0, 0.5):
        same = ad.full((n,), exponent)
        assert np.allclose(array(x**same), array(x) ** exponent, rtol=1e-6)
        for at in {0, 1, n // 2, n - 1}:
            other = same.clone()
            other[at] = 1.0
            expected = array(x) ** exponent
            expected[at] = array(x)[at]
            assert np.allclose(array(x**other), expected, rtol=1e-6)
    with_nan = ad.full((n,), math.nan)
    assert bool((x**with_nan).isnan().all())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int32", "uint8"])
@pytest.mark.parametrize("right", [False, True])
def test_searches_of_many_lengths(dtype, right):
    generator = np.random.default_rng(2)
    for n in (1, 2, 3, 7, 8, 63, 64, 65, 500):
        a = np.sort((generator.random(n) * 60).astype(dtype))
        v = (generator.random((3, 67)) * 70).astype(dtype)
        found = ad.searchsorted(ad.tensor(a), ad.tensor(v), right=right)
        assert np.array_equal(array(found), np.searchsorted(a, v, "right" if right else "left")), n
    rows = np.sort(generator.random((3, 9)) * 60, -1).astype(dtype)
    found = ad.searchsorted(ad.tensor(rows), ad.tensor(v), right=right)
    for i in range(3):
        assert np.array_equal(array(found)[i], np.searchsorted(rows[i], v[i], "right" if right else "left"))


def test_searches_for_nan():
    edges = ad.tensor([1.0, 2.0, math.nan])
    assert ad.searchsorted(edges, ad.tensor([math.nan, 1.5, 5.0])).tolist() == [3, 1, 3]


@pytest.mark.parametrize("k", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("largest", [False, True])
def test_the_k_largest_with_ties(k, largest):
    generator = np.random.default_rng(k)
    a = generator.integers(0, 9, size=(20, 70)).astype("float32")
    values, indices = ad.tensor(a).topk(k, 1, largest)
    order = np.argsort(-a if largest else a, axis=1, kind="stable")[:, :k]
    assert np.array_equal(array(indices), order)
    assert np.array_equal(array(values), np.take_along_axis(a, order, 1))


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 9, 17])
@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_running_sums_of_rows(rows, n):
    a = np.random.default_rng(rows).integers(-4, 5, size=(rows, n)).astype("float32")
    x = ad.tensor(a)
    assert np.array_equal(array(x.cumsum(1)), a.cumsum(1))
    assert np.array_equal(array(x.cumprod(1)), a.cumprod(1))
    values, indices = x.cummax(1)
    assert np.array_equal(array(values), np.maximum.accumulate(a, 1))
    assert np.array_equal(np.take_along_axis(a, array(indices), 1), array(values))
    assert np.array_equal(array(x.flip(0).cumsum(1)), array(x.cumsum(1))[::-1])


def test_equal_stops_early_and_reads_all():
    x = ad.rand(300_000)
    for at in (0, 511, 512, 16_895, 16_896, 299_999):
        y = x.clone()
        assert ad.equal(x, y)
        y[at] += 1
        assert not ad.equal(x, y)
        assert not ad.equal(x.view(3, -1).T, y.view(3, -1).T)
