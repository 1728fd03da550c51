"""Images read at places: against loops in NumPy, and differences."""

import itertools
import math

import numpy as np
import pytest
from helpers import array, check_gradient, check_second_derivative, tensor

import adjoint as ad
from adjoint.nn import functional as F

RNG = np.random.default_rng(14)


def normal(*shape):
    return RNG.standard_normal(shape)


def reflect(x, low, high):
    if high == low:
        return 0.0
    x = abs(x - low) % (2 * (high - low))
    return low + min(x, 2 * (high - low) - x)


def numpy_grid(image, grid, mode, padding, corners):
    """One image (C, ...), one grid (..., n), place by place."""
    n = grid.shape[-1]
    sizes = image.shape[1:]

    def bound(x, size):
        if padding == "reflection":
            x = reflect(x, 0, size - 1) if corners else reflect(x, -0.5, size - 0.5)
        return x if padding == "zeros" else min(max(x, 0), size - 1)

    def pixel(index):
        inside = all(0 <= i < s for i, s in zip(index, sizes))
        return image[(slice(None), *map(int, index))] if inside else np.zeros(len(image))

    out = np.zeros((len(image), *grid.shape[:-1]))
    for where in itertools.product(*map(range, grid.shape[:-1])):
        dims = []
        for d, size in enumerate(sizes):
            g = grid[where][n - 1 - d]
            x = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
            if mode == "bicubic":
                low = math.floor(x)
                weight = []
                for k in range(-1, 3):
                    t, a = abs(x - low - k), -0.75
                    if t < 1:
                        weight.append((a + 2) * t**3 - (a + 3) * t**2 + 1)
                    else:
                        weight.append(a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a)
                dims.append([(bound(low + k, size), w) for k, w in zip(range(-1, 3), weight)])
            elif mode == "nearest":
                dims.append([(round(bound(x, size)), 1.0)])
            else:
                x = bound(x, size)
                low = math.floor(x)
                dims.append([(low, low + 1 - x), (low + 1, x - low)])
        for corner in itertools.product(*dims):
            out[(slice(None), *where)] += pixel([i for i, _ in corner]) * math.prod(w for _, w in corner)
    return out


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("n", [2, 3])
def test_grid_sample(mode, padding, corners, n):
    if mode == "bicubic" and n == 3:
        with pytest.raises(RuntimeError, match="bicubic interpolation only supports 4D input"):
            F.grid_sample(ad.ones(1, 1, 2, 2, 2), ad.ones(1, 1, 1, 1, 3), mode, align_corners=corners)
        return
    x = normal(2, 2, *(3, 4, 2)[:n])
    grid = normal(2, *(2, 3, 1)[:n], n) * 1.5

    def run(x, g):
        return F.grid_sample(x, g, mode, padding, corners)

    expected = np.stack([numpy_grid(a, b, mode, padding, corners) for a, b in zip(x, grid)])
    np.testing.assert_allclose(array(run(tensor(x), tensor(grid))), expected, rtol=1e-9, atol=1e-12)
    check_gradient(run, [x, grid])
    if mode != "nearest":
        check_second_derivative(run, [x[:1, :1], grid[:1]])


def test_places_that_are_no_numbers_do_no_harm():
    places = ad.tensor([[[[math.nan, 0.0], [math.inf, 0.0], [-math.inf, math.nan]]]])
    for mode, padding, corners in itertools.product(
        ["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [True, False]
    ):
        F.grid_sample(ad.ones(1, 1, 3, 3), places, mode, padding, corners)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("corners", [True, False])
def test_affine_grid(n, corners):
    theta, sizes = normal(2, n, n + 1), (3, 4, 5)[:n]
    axes = [np.linspace(-1, 1, s) * (1 if corners else (s - 1) / s) for s in sizes]
    places = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(sizes)], -1)
    expected = np.einsum("...k,bjk->b...j", places, theta)

    def run(t):
        return F.affine_grid(t, (2, 1, *sizes), corners)

    np.testing.assert_allclose(array(run(tensor(theta))), expected, rtol=1e-12, atol=1e-14)
    check_gradient(run, [theta])


def test_the_identity_reads_the_image():
    x = ad.randn(2, 3, 4, 5)
    theta = ad.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2)
    for corners in (True, False):
        got = F.grid_sample(x, F.affine_grid(theta, x.shape, corners), align_corners=corners)
        np.testing.assert_allclose(array(got), array(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (
            ValueError,
            "expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'x'",
            lambda x, g: F.grid_sample(x, g, "x"),
        ),
        (ValueError, "expected padding_mode to be", lambda x, g: F.grid_sample(x, g, "nearest", "x")),
        (RuntimeError, "same number of dimensions", lambda x, g: F.grid_sample(x, g[:, 0])),
        (RuntimeError, "to have same batch size", lambda x, g: F.grid_sample(x, g[:1])),
        (
            RuntimeError,
            "expected grid to have size 2 in last dimension",
            lambda x, g: F.grid_sample(x, ad.ones(2, 3, 3, 3)),
        ),
        (RuntimeError, "dimension 2 being empty", lambda x, g: F.grid_sample(x[:, :, :0], g)),
        (RuntimeError, "to have same dtype", lambda x, g: F.grid_sample(x, g.double(), align_corners=True)),
        (
            ValueError,
            "Expected theta to have floating point type",
            lambda x, g: F.affine_grid(ad.ones(1, 2, 3, dtype=ad.int64), (1, 1, 2, 2)),
        ),
        (
            ValueError,
            "2D affine matrices of shape Nx2x3",
            lambda x, g: F.affine_grid(ad.ones(1, 3, 3), (1, 1, 2, 2), True),
        ),
        (
            NotImplementedError,
            "only supports 4D and 5D sizes",
            lambda x, g: F.affine_grid(ad.ones(1, 2, 3), (1, 1, 2), True),
        ),
        (
            ValueError,
            "Expected non-zero, positive output size",
            lambda x, g: F.affine_grid(ad.ones(1, 2, 3), (1, 1, 0, 2), False),
        ),
    ],
)
def test_what_grids_refuse(error, text, call):
    with pytest.raises(error, match=text):
        call(ad.ones(2, 1, 3, 3), ad.zeros(2, 3, 3, 2))


def test_the_old_default_warns():
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        grid = F.affine_grid(ad.ones(1, 2, 3), (1, 1, 2, 2))
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.grid_sample(ad.ones(1, 1, 2, 2), grid)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("sizes", [(9, 11), (5, 1), (5, 6, 7)])
def test_many_places_of_a_grid(mode, padding, sizes):
    """Whole vectors of places, inside of the image and across its border, in both precisions."""
    n = len(sizes)
    if mode == "bicubic" and n == 3:
        return
    for reach, corners in ((0.5, False), (1.3, True), (3.0, False)):
        x, grid = (
            normal(1, 2, *sizes),
            np.random.default_rng(1).uniform(-reach, reach, (1, *(11, 7, 1)[:n], n)),
        )
        g = normal(1, 2, *grid.shape[1:-1])
        slopes = {}
        for dtype in (ad.float64, ad.float32):
            a, b = tensor(x, dtype).requires_grad_(), tensor(grid, dtype).requires_grad_()
            y = F.grid_sample(a, b, mode, padding, corners)
            y.backward(tensor(g, dtype))
            slopes[dtype] = [array(t).astype("float64") for t in (y.detach(), a.grad, b.grad)]
        np.testing.assert_allclose(
            slopes[ad.float64][0], [numpy_grid(x[0], grid[0], mode, padding, corners)], rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(np.sum(slopes[ad.float64][1] * x), np.sum(slopes[ad.float64][0] * g))
        for one, two in zip(slopes[ad.float64], slopes[ad.float32], strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-3, atol=2e-4)


def test_what_lies_beside_a_place_is_not_read():
    x = ad.zeros(1, 1, 3, 3)
    x[0, 0, 0, 0] = x[0, 0, 0, 2] = math.inf
    outside = ad.tensor([2.0, 2.0, -3.0, 0.0, 0.0, 0.25, 0.0, 0.5]).reshape(1, 1, 4, 2)
    for mode in ("bilinear", "nearest"):
        assert F.grid_sample(x, outside, mode, align_corners=True).tolist() == [[[[0.0] * 4]]]


def test_places_stand_still_at_the_border():
    """As in torch, there is no slope across the border, and a place that is no number is the image's beginning."""
    x = ad.arange(9.0).reshape(1, 1, 3, 3)
    for padding in ("border", "reflection"):
        grid = ad.tensor([[[[-1.0, 0.0], [1.0, 0.5], [0.0, 1.0], [math.nan, 0.0]]]], requires_grad=True)
        y = F.grid_sample(x, grid, "bilinear", padding, True)
        y.sum().backward()
        assert y.tolist() == [[[[3.0, 6.5, 7.0, 3.0]]]]
        assert grid.grad.tolist() == [[[[0.0, 3.0], [0.0, 3.0], [1.0, 0.0], [0.0, 3.0]]]]
    assert F.grid_sample(x, grid[:, :, 3:], align_corners=True).isnan().all()


def test_derivatives_of_grids_of_any_order():
    def third(g):
        y = F.grid_sample(
            ad.arange(16.0, dtype=ad.float64).reshape(1, 1, 4, 4) ** 2, g, "bicubic", align_corners=True
        )
        (one,) = ad.autograd.grad(y.sum(), g, create_graph=True)
        (two,) = ad.autograd.grad((one**2).sum(), g, create_graph=True)
        return (one * two).sum()

    grid = ad.tensor([[[[0.11, -0.23], [0.4, 0.35]]]], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(third, (grid,))


def test_a_row_longer_than_single_precision_counts():
    x = ad.zeros(1, 1, 2, 2**24 + 3, dtype=ad.float16)
    grid = ad.tensor([[[[1.0, 1.0], [5.0, 5.0]]]], dtype=ad.float16)
    for padding in ("zeros", "border", "reflection"):
        assert not F.grid_sample(x, grid, "nearest", padding, True).any()
