"""Convolution on padded planes: images of every small size, several in a line, with strides, dilations and groups drawn at random,
against NumPy; its gradients are the transposed maps; what lies between the images changes nothing."""

import numpy as np
import pytest
from helpers import array, normal, tensor
from network_reference import convolution

import adjoint as ad


def geometry(seed):
    """A call at random: shapes of image and weight, and the numbers of each dimension."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    pick = lambda low, high: [int(v) for v in rng.integers(low, high, n)]  # noqa: E731
    groups, inputs, outputs = (int(v) for v in rng.choice([1, 1, 2, 3, 5], 3))
    if rng.random() < 0.4:
        groups, inputs, outputs = int(rng.integers(2, 20)), 1, int(rng.integers(1, 3))
    elif rng.random() < 0.4:
        outputs = int(rng.integers(8, 40))
    kernel, stride, dilation, padding = pick(1, 5), pick(1, 4), pick(1, 3), pick(0, 4)
    image = [
        max(1, (k - 1) * d + 1 - 2 * p) + int(rng.integers(0, 9 if n < 3 else 3))
        for k, d, p in zip(kernel, dilation, padding)
    ]
    images = int(rng.integers(1, 14))
    return (
        (images, groups * inputs, *image),
        (groups * outputs, inputs, *kernel),
        (stride, padding, dilation, groups),
    )


def inner(a, b):
    return float((np.asarray(a, np.float64) * np.asarray(b, np.float64)).sum())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 2e-4)])
def test_values_and_transposes_at_random(threads, dtype, tolerance):
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        for seed in range(80):
            shape, weight, how = geometry(seed)
            x, w = (normal(*s, seed=k) for k, s in enumerate((shape, weight)))
            x2, w2 = (normal(*s, seed=k + 2) for k, s in enumerate((shape, weight)))
            y = convolution(x, w, *how)
            g = normal(*y.shape, seed=4)
            given = [tensor(t).to(getattr(ad, dtype)) for t in (x, w, g)]
            scale = np.abs(y).max(initial=1)
            found = ad._C._convolution(given[0], given[1], *how)
            np.testing.assert_allclose(
                array(found), y, rtol=tolerance, atol=tolerance * scale, err_msg=str(seed)
            )
            gx = array(ad._C._convolution_input(given[2], given[1], list(shape), *how))
            gw = array(ad._C._convolution_weight(given[0], given[2], list(weight), *how))
            for a, b in (
                (inner(gx, x2), inner(convolution(x2, w, *how), g)),
                (inner(gw, w2), inner(convolution(x, w2, *how), g)),
            ):
                size = np.sqrt(inner(g, g) * inner(x, x) * inner(w, w)) + 1
                assert abs(a - b) <= tolerance * size, (seed, shape, weight, how)
    finally:
        ad.set_num_threads(before)


@pytest.mark.parametrize(
    "kernel, stride, padding", [(3, 1, 1), (5, 1, 2), (7, 1, 3), (3, 2, 1), (3, 1, 0), (2, 2, 0)]
)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 3e-5)])
def test_small_images_of_a_channel_each(kernel, stride, padding, dtype, tolerance):
    """Planes shorter and longer than vectors, and lines of results that end in every place of one."""
    for rows, columns in [(k, k) for k in range(1, 16)] + [
        (1, 40),
        (40, 1),
        (2, 3),
        (17, 3),
        (5, 33),
        (28, 28),
    ]:
        if min(rows, columns) + 2 * padding < kernel:
            continue
        for images, channels in ((1, 1), (3, 5)):
            x, w = normal(images, channels, rows, columns), normal(channels, 1, kernel, kernel, seed=1)
            how = ([stride] * 2, [padding] * 2, [1, 1], channels)
            y = convolution(x, w, *how)
            g = normal(*y.shape, seed=2)
            close = {"rtol": tolerance, "atol": 50 * tolerance, "err_msg": f"{rows}, {columns}, {images}"}
            given = [tensor(t).to(getattr(ad, dtype)) for t in (x, w, g)]
            np.testing.assert_allclose(array(ad._C._convolution(*given[:2], *how)), y, **close)
            # The gradients, tap by tap.
            gx = np.zeros((images, channels, rows + 2 * padding, columns + 2 * padding))
            gw, padded = np.zeros_like(w), np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
            for i, j in np.ndindex(kernel, kernel):
                part = (
                    ...,
                    slice(i, i + stride * (y.shape[2] - 1) + 1, stride),
                    slice(j, j + stride * (y.shape[3] - 1) + 1, stride),
                )
                gx[part] += g * w[None, :, 0, i, j, None, None]
                gw[:, 0, i, j] = (padded[part] * g).sum((0, 2, 3))
            gx = gx[:, :, padding : padding + rows, padding : padding + columns]
            np.testing.assert_allclose(
                array(ad._C._convolution_input(given[2], given[1], list(x.shape), *how)), gx, **close
            )
            np.testing.assert_allclose(
                array(ad._C._convolution_weight(given[0], given[2], list(w.shape), *how)), gw, **close
            )


def test_infinite_weights_meet_no_zero_between_results():
    """With a stride, an infinite weight makes those pixels infinite that meet a result by it, and no other NaN."""
    w = normal(2, 1, 2, 2)
    w[:, 0, 0, 0] = np.inf
    g = np.ones((1, 2, 3, 3))
    found = array(ad._C._convolution_input(tensor(g), tensor(w), [1, 2, 6, 6], [2, 2], [0, 0], [1, 1], 2))
    assert np.isposinf(found[:, :, ::2, ::2]).all()
    assert np.isfinite(found[:, :, 1::2]).all() and np.isfinite(found[..., 1::2]).all()


@pytest.mark.parametrize("channels, outputs, groups", [(4, 4, 4), (3, 2, 1), (2, 16, 1)])
def test_what_is_not_finite_stays_with_its_image(channels, outputs, groups):
    """Neighbouring images lie in one line, with zeros between: an infinite one must not reach the others."""
    x = normal(8, channels, 5, 5)
    x[2] = np.inf
    w = normal(outputs, channels // groups, 3, 3)
    y = array(ad._C._convolution(tensor(x), tensor(w), [1, 1], [1, 1], [1, 1], groups))
    assert np.isfinite(np.delete(y, 2, 0)).all()
    g = normal(8, outputs, 5, 5)
    g[2] = np.nan
    gx = array(ad._C._convolution_input(tensor(g), tensor(w), list(x.shape), [1, 1], [1, 1], [1, 1], groups))
    assert np.isfinite(np.delete(gx, 2, 0)).all() and np.isnan(gx[2]).all()


def test_an_infinite_pixel_that_a_tap_does_not_meet():
    """Of a depthwise kernel, the tap below an image's last row never meets its first row."""
    x = normal(2, 3, 4, 4)
    x[1, :, 0, 0] = np.inf
    g = normal(2, 3, 4, 4)
    how = ([1, 1], [1, 1], [1, 1], 3)
    gw = array(ad._C._convolution_weight(tensor(x), tensor(g), [3, 1, 3, 3], *how))
    # The tap (2, 2) reads pixels from (1, 1) on.
    assert np.isfinite(gw[:, 0, 2, 2]).all() and not np.isfinite(gw[:, 0, 0, 0]).any()


@pytest.mark.parametrize("images, channels, outputs, size", [(1, 5, 7, 6), (3, 64, 16, 9), (8, 4, 33, 5)])
def test_the_gradient_of_a_kernel_of_one_pixel_is_a_product(images, channels, outputs, size):
    x, g = normal(images, channels, size, size), normal(images, outputs, size, size, seed=1)
    expected = np.einsum("nohw,nchw->oc", g, x)[:, :, None, None]
    for dtype, tolerance in (("float64", 1e-11), ("float32", 1e-4), ("complex128", 1e-11)):
        found = ad._C._convolution_weight(
            *(tensor(t).to(getattr(ad, dtype)) for t in (x, g)),
            [outputs, channels, 1, 1],
            [1, 1],
            [0, 0],
            [1, 1],
            1,
        )
        np.testing.assert_allclose(array(found), expected, rtol=tolerance, atol=tolerance * 50)
