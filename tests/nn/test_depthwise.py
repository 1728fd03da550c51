"""Convolution where each output sees one channel: a pixel of several planes in each vector. Geometries at random, at the boundaries of
vectors and bands, against NumPy; images whose channels are innermost, taken as they lie, have the same results."""

import numpy as np
import pytest
from helpers import array, normal, tensor
from network_reference import convolution

import adjoint as ad


def taps(shape, weight, stride, padding, dilation):
    """Each tap of a kernel: its place, and the pixels of the padded image that it reads."""
    sizes = [
        (m + 2 * p - d * (k - 1) - 1) // s + 1
        for m, k, s, p, d in zip(shape[2:], weight[2:], stride, padding, dilation, strict=True)
    ]
    for place in np.ndindex(*weight[2:]):
        yield (
            place,
            (
                ...,
                *(
                    slice(i * d, i * d + (m - 1) * s + 1, s)
                    for i, d, m, s in zip(place, dilation, sizes, stride)
                ),
            ),
        )


def gradients(x, w, g, stride, padding, dilation, groups):
    """Of the image and of the weight, tap by tap."""
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded, multiple = np.pad(x, around), w.shape[0] // groups
    gx, gw = np.zeros_like(padded), np.zeros_like(w)
    by_group = g.reshape(g.shape[0], groups, multiple, *g.shape[2:])
    for place, read in taps(x.shape, w.shape, stride, padding, dilation):
        weight = w[(slice(None), 0, *place)].reshape(1, groups, multiple, *(1,) * len(stride))
        gx[read] += (by_group * weight).sum(2)
        gw[(slice(None), 0, *place)] = (by_group * padded[read][:, :, None]).sum((0, 3, 4)).reshape(-1)
    inside = tuple(slice(p, p + m) for p, m in zip(padding, x.shape[2:]))
    return gx[(..., *inside)], gw


def check(x, w, bias, how, dtype, tolerance, innermost=False, message=""):
    shape, weight = x.shape, w.shape
    y = convolution(x, w, *how, bias)
    g = normal(*y.shape, seed=7)
    gx, gw = gradients(x, w, g, *how)
    lay = lambda t: t.to(memory_format=ad.channels_last) if innermost else t  # noqa: E731
    x, w, g, b = (tensor(t).to(getattr(ad, dtype)) for t in (x, w, g, bias))
    x, g = lay(x), lay(g)
    found = [
        ad._C._convolution(x, w, *how, b),
        ad._C._convolution_input(g, w, list(shape), *how),
        ad._C._convolution_weight(x, g, list(weight), *how),
    ]
    for a, e, name in zip(found, (y, gx, gw), ("forward", "input", "weight")):
        np.testing.assert_allclose(
            array(a),
            e,
            rtol=tolerance,
            atol=tolerance * np.abs(e).max(initial=1),
            err_msg=f"{name} {message}",
        )
    if innermost and not x.is_contiguous():
        assert found[1].is_contiguous(memory_format=ad.channels_last)
        assert found[0].is_contiguous(memory_format=ad.channels_last)


def geometry(seed):
    rng = np.random.default_rng(seed)
    pick = lambda low, high: [int(v) for v in rng.integers(low, high, 2)]  # noqa: E731
    images, groups, multiple = (int(rng.integers(a, b)) for a, b in ((1, 9), (1, 40), (1, 4)))
    kernel, stride, dilation, padding = pick(1, 6), pick(1, 4), pick(1, 4), pick(0, 7)
    image = [
        max(1, (k - 1) * d + 1 - 2 * p) + int(rng.integers(0, 12))
        for k, d, p in zip(kernel, dilation, padding)
    ]
    return (images, groups, *image), (groups * multiple, 1, *kernel), (stride, padding, dilation, groups)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_geometries_at_random(threads, dtype, tolerance):
    """Paddings beyond the kernel, dilations, several outputs of a channel, and planes that end in every lane."""
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        for seed in range(60):
            shape, weight, how = geometry(seed)
            check(
                normal(*shape),
                normal(*weight, seed=1),
                normal(weight[0], seed=2),
                how,
                dtype,
                tolerance,
                message=str(seed),
            )
    finally:
        ad.set_num_threads(before)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_channels_innermost(dtype, tolerance):
    for channels in (2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 40):
        for seed in range(6):
            shape, weight, how = geometry(100 * channels + seed)
            shape, weight = (shape[0], channels, *shape[2:]), (channels, 1, *weight[2:])
            how = (*how[:3], channels)
            check(
                normal(*shape),
                normal(*weight, seed=1),
                normal(channels, seed=2),
                how,
                dtype,
                tolerance,
                innermost=True,
                message=f"{channels} {seed}",
            )


@pytest.mark.parametrize("innermost", [False, True])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (3, 2), (1, 9)])
def test_planes_of_several_bands(innermost, stride, dilation):
    shape, weight = (2, 17, 130, 90), (17, 1, 3, 5)
    how = ([stride, 1], [3, 2 * dilation], [dilation] * 2, 17)
    check(
        normal(*shape),
        normal(*weight, seed=1),
        normal(17, seed=2),
        how,
        "float32",
        2e-5,
        innermost=innermost,
        message=f"{stride}, {dilation}",
    )


def test_first_layers_of_one_channel():
    """Lanes are images where there are no groups."""
    for images, outputs, size in ((8, 6, 9), (16, 6, 28), (17, 3, 6), (33, 1, 4), (5, 2, 3)):
        check(
            normal(images, 1, size, size),
            normal(outputs, 1, 3, 3, seed=1),
            normal(outputs, seed=2),
            ([1, 1], [1, 1], [1, 1], 1),
            "float64",
            1e-12,
            message=str(images),
        )


def test_what_is_not_finite_stays_with_its_plane_and_its_taps():
    x, w, g = normal(3, 20, 5, 5), normal(20, 1, 3, 3, seed=1), normal(3, 20, 3, 3, seed=2)
    x[1, 18, 4, 4], w[3, 0, 0, 0] = np.inf, np.inf
    how = ([2, 2], [1, 1], [1, 1], 20)
    y = array(ad._C._convolution(tensor(x), tensor(w), *how))
    # Pixel (4, 4) is met by the last result alone; tap (0, 0) by those that do not lie at the upper or the left side.
    expected = np.ones(y.shape, bool)
    expected[1, 18, 2, 2] = expected[:, 3, 1, 1] = False
    expected[:, 3, 1:, 1:] = False
    np.testing.assert_array_equal(np.isfinite(y), expected)
    gw = array(ad._C._convolution_weight(tensor(x), tensor(g), [20, 1, 3, 3], *how))
    finite = np.ones(gw.shape, bool)
    finite[18, 0, 1, 1] = False
    np.testing.assert_array_equal(np.isfinite(gw), finite)
    gx = array(ad._C._convolution_input(tensor(g), tensor(w), list(x.shape), *how))
    assert np.isfinite(np.delete(gx, 3, 1)).all() and np.isinf(gx[:, 3, 1::2, 1::2][..., :1, :1]).all()
    assert np.isfinite(gx[:, 3, ::2]).all() and np.isfinite(gx[:, 3, :, ::2]).all()


@pytest.mark.parametrize("channels, images", [(16, 0), (20, 0)])
def test_no_images(channels, images):
    how = ([2, 2], [1, 1], [1, 1], channels)
    x, w = ad.ones(images, channels, 5, 5), ad.ones(channels, 1, 3, 3)
    assert ad._C._convolution(x, w, *how).shape == (images, channels, 3, 3)
    assert not ad._C._convolution_weight(x, ad.ones(images, channels, 3, 3), [channels, 1, 3, 3], *how).any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("innermost", [False, True])
def test_half_types_are_computed_in_float32(dtype, innermost):
    half = getattr(ad, dtype)
    x, w = (tensor(normal(*s)).to(half) for s in ((2, 20, 7, 6), (20, 1, 3, 3)))
    how = ([2, 1], [1, 1], [1, 1], 20)
    expected = ad._C._convolution(x.float(), w.float(), *how).to(half)
    given = x.to(memory_format=ad.channels_last) if innermost else x
    np.testing.assert_array_equal(array(ad._C._convolution(given, w, *how).float()), array(expected.float()))


# --- kernels of one pixel -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("innermost", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5), ("complex64", 1e-5)])
def test_a_kernel_of_one_pixel_starts_from_its_bias(innermost, dtype, tolerance):
    """Tiles and panels of every width, more channels than are multiplied at once."""
    for outputs, channels, size in (
        (1, 3, 3), (4, 16, 4), (5, 7, 5), (14, 2, 4), (15, 300, 6), (29, 31, 1), (33, 8, 7), (40, 270, 9), (3, 5, 23)
    ):  # fmt: skip
        x, w, b = (
            normal(2, channels, size, size + 1),
            normal(outputs, channels, 1, 1, seed=1),
            normal(outputs, seed=2),
        )
        expected = np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x) + b[:, None, None]
        x, w, b = (tensor(t).to(getattr(ad, dtype)) for t in (x, w, b))
        if innermost:
            x = x.to(memory_format=ad.channels_last)
        y = ad._C._convolution(x, w, [1, 1], [0, 0], [1, 1], 1, b)
        np.testing.assert_allclose(
            array(y), expected, rtol=tolerance, atol=tolerance * 50, err_msg=f"{outputs} {channels}"
        )
        g = tensor(normal(*expected.shape, seed=3)).to(x.dtype)
        if innermost:
            g = g.to(memory_format=ad.channels_last)
        gx = ad._C._convolution_input(g, w, list(x.shape), [1, 1], [0, 0], [1, 1], 1)
        gw = ad._C._convolution_weight(x, g, list(w.shape), [1, 1], [0, 0], [1, 1], 1)
        close = {"rtol": tolerance, "atol": tolerance * 100}
        np.testing.assert_allclose(
            array(gx), np.einsum("oc,nohw->nchw", array(w)[:, :, 0, 0], array(g)), **close
        )
        np.testing.assert_allclose(
            array(gw)[:, :, 0, 0], np.einsum("nohw,nchw->oc", array(g), array(x)), **close
        )
