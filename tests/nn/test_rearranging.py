"""Interpolation, shuffled pixels and channels, blocks as columns: against NumPy; derivatives against finite differences."""

import numpy as np
import pytest
from helpers import assert_close, check_derivatives, normal, tensor

import adjoint as ad
from adjoint import nn

F = nn.functional
SHAPES = {1: (2, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 3, 4, 2)}


def places(size, count, corners, factor=None):
    i = np.arange(count)
    if corners:
        return i * (size - 1) / max(count - 1, 1)
    return (i + 0.5) * (1 / factor if factor else size / count) - 0.5


def by_matrix(x, dim, at, kernel):
    """Along one dimension, the sum of elements weighted by `kernel` of their distance, repeated at the ends."""
    size = x.shape[dim]
    matrix = np.zeros((len(at), size))
    for row, place in enumerate(at):
        for k in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            matrix[row, min(max(k, 0), size - 1)] += kernel(abs(place - k))
    return np.moveaxis(np.tensordot(matrix, np.moveaxis(x, dim, 0), 1), 0, dim)


def tent(s):
    return max(0.0, 1 - s)


def keys(s, a=-0.75):
    if s < 1:
        return (a + 2) * s**3 - (a + 3) * s**2 + 1
    return a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a if s < 2 else 0.0


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("n, mode", [(1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_between_elements(n, mode, corners, size):
    x = normal(*SHAPES[n])
    expected = x
    for d in range(n):
        at = places(x.shape[d + 2], size, corners)
        expected = by_matrix(expected, d + 2, at, keys if mode == "bicubic" else tent)
    assert_close(F.interpolate(tensor(x), size, mode=mode, align_corners=corners), expected)
    check_derivatives(lambda t: F.interpolate(t, size, mode=mode, align_corners=corners), [x])


def test_a_dimension_that_keeps_its_size_is_copied():
    x = ad.tensor([[[0.0, 1.0, 2.0]]])
    for mode, n in (("linear", 1), ("bilinear", 2), ("trilinear", 3)):
        image = x.reshape((1, 1) + (1,) * (n - 1) + (3,))
        result = F.interpolate(image, scale_factor=1.3, mode=mode, recompute_scale_factor=False)
        assert result.flatten().tolist() == [0.0, 1.0, 2.0]


def test_an_infinity_stays_within_its_window():
    x = ad.arange(0.0, 46.0)
    x[7] = np.inf
    means = F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 20).flatten()
    expected = [x[i * 46 // 20 : -(-(i + 1) * 46 // 20)].mean().item() for i in range(20)]
    np.testing.assert_allclose(means.tolist(), expected, rtol=1e-6)
    assert F.interpolate(ad.ones(1, 2, 5), 0, mode="area").shape == (1, 2, 0)


@pytest.mark.parametrize("recompute", [True, False])
def test_factor(recompute):
    x = normal(1, 1, 5)
    expected = by_matrix(x, 2, places(5, 7, False, None if recompute else 1.5), tent)
    result = F.interpolate(tensor(x), scale_factor=1.5, mode="linear", recompute_scale_factor=recompute)
    assert_close(result, expected)


@pytest.mark.parametrize("n", SHAPES)
def test_nearest_and_area(n):
    x = normal(*SHAPES[n])
    for mode, shift in (("nearest", 0.0), ("nearest-exact", 0.5)):
        expected = x
        for d in range(n):
            index = np.floor((np.arange(7) + shift) * (x.shape[d + 2] / 7)).astype(int)
            expected = expected.take(index, d + 2)
        assert_close(nn.Upsample(7, mode=mode)(tensor(x)), expected)
    twice = x
    for d in range(n):
        twice = twice.repeat(2, d + 2)
    assert_close(nn.Upsample(scale_factor=2)(tensor(x)), twice)
    assert_close(F.interpolate(tensor(twice), scale_factor=0.5, mode="area"), x)
    check_derivatives(lambda t: F.interpolate(t, 3), [x])


def test_pixels_and_channels():
    x = normal(2, 12, 2, 3)
    expected = x.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 4, 6)
    y = nn.PixelShuffle(2)(tensor(x))
    assert_close(y, expected)
    assert_close(F.pixel_shuffle(tensor(x[0]), 2), expected[0])
    assert_close(nn.PixelUnshuffle(2)(y), x)
    assert_close(nn.ChannelShuffle(3)(tensor(x)), x[:, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]])
    check_derivatives(lambda t: F.pixel_unshuffle(F.pixel_shuffle(t, 2), 2) * t, [x[:1]])


@pytest.mark.parametrize(
    "options", [(2, 1, 0, 1), ((3, 2), (1, 2), (1, 0), (2, 1)), ((2, 3), 1, 1, (1, 3))], ids=str
)
def test_blocks(options):
    """`unfold` is what makes a convolution a product; `fold` is its transpose."""
    x = normal(2, 2, 5, 6)
    kernel, dilation, padding, stride = options
    columns = nn.Unfold(*options)(tensor(x))
    height, width = (kernel,) * 2 if isinstance(kernel, int) else kernel
    w = normal(3, 2, height, width, seed=1)
    expected = F.conv2d(tensor(x), tensor(w), None, stride, padding, dilation)
    product = ad.tensor(w.reshape(3, -1).tolist(), dtype=ad.float64) @ columns
    assert_close(product, expected.reshape(2, 3, -1).numpy())
    assert_close(F.unfold(tensor(x[0]), *options), columns[0].numpy())
    z = normal(*columns.shape, seed=2)
    back = nn.Fold((5, 6), *options)(tensor(z))
    assert_close((back * tensor(x)).sum(), (columns * tensor(z)).sum().numpy())
    check_derivatives(lambda t: F.unfold(t, *options), [x])
    check_derivatives(lambda t: F.fold(t, (5, 6), *options), [z])


ONES = ad.ones(1, 2, 5, 5)
REFUSED = {
    "either size or scale_factor should be defined": lambda: F.interpolate(ONES),
    "only one of size or scale_factor should be defined": lambda: F.interpolate(ONES, 2, 2),
    "Got 4D input, but linear mode needs 3D input": lambda: F.interpolate(ONES, 2, mode="linear"),
    "align_corners option can only be set with the interpolating modes": lambda: F.interpolate(
        ONES, 2, align_corners=True
    ),
    "Input and output must have the same number of spatial dimensions": lambda: F.interpolate(
        ONES, (1, 2, 3)
    ),
    "Input and output sizes should be greater than 0": lambda: F.interpolate(ONES, 0),
    "input.size(-3)=2 is not divisible by 4": lambda: F.pixel_shuffle(ONES, 2),
    "pixel_unshuffle expects height to be divisible by downscale_factor": lambda: F.pixel_unshuffle(ONES, 2),
    "Number of channels must be divisible by groups. Got 2 channels and 3 groups.": lambda: F.channel_shuffle(
        ONES, 3
    ),
    "expected size of input's dimension 2 to match the calculated number of sliding blocks 1 * 2 = 2, but got "
    "input.size(2)=3.": lambda: F.fold(ad.ones(1, 4, 3), (2, 3), 2),
    "kernel size should be greater than zero": lambda: F.fold(ad.ones(1, 4, 4), 3, 0),
    "stride should be greater than zero": lambda: F.fold(ad.ones(1, 4, 4), 3, 2, stride=0),
    "stride should be greater than zero, but got (1, 0)": lambda: F.unfold(ONES, 1, stride=(1, 0)),
    "dilation should be greater than zero": lambda: F.unfold(ONES, 1, dilation=0),
    "Anti-alias option is restricted to": lambda: F.interpolate(ONES, 2, antialias=True),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)) as error:
        REFUSED[message]()
    assert message in str(error.value)


def test_repr():
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.PixelShuffle(3)) == "PixelShuffle(upscale_factor=3)"
    assert repr(nn.Unfold(3)) == "Unfold(kernel_size=3, dilation=1, padding=0, stride=1)"
    assert repr(nn.Fold(4, 3)) == "Fold(output_size=4, kernel_size=3, dilation=1, padding=0, stride=1)"
