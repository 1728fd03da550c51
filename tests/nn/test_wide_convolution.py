"""Convolution of small images with many channels, which are products of matrices, against NumPy: values and both gradients."""

import functools

import numpy as np
import pytest
from helpers import array, normal, tensor
from network_reference import convolution

import adjoint as ad


def inner(a, b):
    return float((np.asarray(a, np.float64) * np.asarray(b, np.float64)).sum())


CASES = {
    "rows of a vector and more": ((1, 64, 7, 8), (70, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "smaller than the kernel": ((5, 64, 2, 2), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "stride": ((3, 65, 9, 7), (64, 65, 3, 2), [2, 3], [1, 0], [1, 1], 1),
    "a stride beyond the kernel": ((3, 64, 9, 9), (64, 64, 2, 2), [3, 3], [0, 0], [1, 1], 1),
    "dilation, padding beyond the kernel": ((1, 64, 3, 4), (64, 64, 3, 3), [1, 1], [4, 3], [2, 3], 1),
    "one pixel, stride": ((5, 64, 4, 4), (128, 64, 1, 1), [2, 2], [0, 0], [1, 1], 1),
    "groups": ((4, 130, 4, 4), (128, 65, 3, 3), [1, 1], [1, 1], [1, 1], 2),
    "one dimension": ((2, 64, 30), (64, 64, 5), [1], [2], [1], 1),
    "three dimensions": ((2, 64, 3, 4, 3), (64, 64, 2, 3, 2), [1, 2, 1], [1, 1, 0], [1, 1, 2], 1),
    "images in several parts": ((5, 8192, 6, 10), (64, 8192, 1, 1), [6, 3], [0, 0], [1, 1], 1),
    "a pixel": ((1, 64, 3, 3), (64, 64, 3, 3), [1, 1], [0, 0], [1, 1], 1),
    "more pixels": ((9, 64, 4, 4), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1),
}


@functools.cache
def reference(name):
    """Operands, results, other operands for the transposes with their results, and elements of both gradients."""
    shape, weight, *how = CASES[name]
    x, w, b = normal(*shape), normal(*weight, seed=1), normal(weight[0], seed=2)
    y = convolution(x, w, *how, b)
    g, x2, w2 = normal(*y.shape, seed=3), normal(*shape, seed=4), normal(*weight, seed=5)
    singles, rng = [], np.random.default_rng(6)
    for number, (given_to, of) in enumerate(
        ((shape, lambda one: convolution(one, w, *how)), (weight, lambda one: convolution(x, one, *how)))
    ):
        for _ in range(6 if x.size < 1_000_000 else 2):
            one = np.zeros(given_to)
            at = tuple(int(rng.integers(m)) for m in given_to)
            one[at] = 1
            singles.append((number, at, inner(of(one), g)))
    return x, w, b, y, g, (x2, convolution(x2, w, *how)), (w2, convolution(x, w2, *how)), singles


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 1e-4)])
def test_values_and_transposes(name, threads, dtype, tolerance):
    shape, weight, *how = CASES[name]
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        x, w, b, y, g, (x2, y2), (w2, y3), singles = reference(name)
        given = {k: tensor(t).to(getattr(ad, dtype)) for k, t in {"x": x, "w": w, "g": g, "b": b}.items()}
        found = array(ad._C._convolution(given["x"], given["w"], *how, given["b"]))
        np.testing.assert_allclose(found, y, rtol=tolerance, atol=tolerance * np.abs(y).max())
        gx = array(ad._C._convolution_input(given["g"], given["w"], list(shape), *how))
        gw = array(ad._C._convolution_weight(given["x"], given["g"], list(weight), *how))
        # One direction, and single numbers, of both.
        for a, e in (
            (inner(gx, x2), inner(y2, g)),
            (inner(gw, w2), inner(y3, g)),
        ):
            assert abs(a - e) <= tolerance * np.sqrt(inner(g, g) * inner(w, w) * inner(x, x) / 100)
        for number, at, e in singles:
            assert abs((gx, gw)[number][at] - e) <= tolerance * (abs(e) + 30)
    finally:
        ad.set_num_threads(before)


def test_what_is_not_finite_stays_with_its_image():
    """Images lie behind each other in the planes that taps are picked from."""
    x, w = normal(6, 64, 4, 4), normal(64, 64, 3, 3, seed=1)
    x[2], x[4, :, 0, 0] = np.nan, np.inf
    y = array(ad._C._convolution(tensor(x), tensor(w), [1, 1], [1, 1], [1, 1], 1))
    assert np.isfinite(y[[0, 1, 3, 5]]).all() and np.isnan(y[2]).all() and np.isfinite(y[4, :, 2:, 2:]).all()
