"""Max pooling against a loop over windows: sizes around the widths of vectors, every option, type and order in memory."""

import itertools

import numpy as np
import pytest
from helpers import array

import adjoint as ad

F = ad.nn.functional
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64"]


def options(rng, n):
    """Kernel, stride, padding and dilation that fit each other, and an image's sizes that they fit."""
    kernel, stride, dilation = (rng.integers(1, high, n) for high in (4, 4, 3))
    padding = [int(rng.integers(0, ((k - 1) * d + 1) // 2 + 1)) for k, d in zip(kernel, dilation)]
    # As torch has it: at most half of the kernel.
    padding = [min(p, int(k) // 2) for p, k in zip(padding, kernel)]
    sizes = [
        int(rng.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 18] if i == n - 1 else [1, 2, 3, 5, 8]))
        for i in range(n)
    ]
    sizes = [max(s, int((k - 1) * d + 1 - 2 * p)) for s, k, d, p in zip(sizes, kernel, dilation, padding)]
    return kernel.tolist(), stride.tolist(), padding, dilation.tolist(), sizes


def numbers(rng, shape, dtype):
    """Few different ones, so that there are ties; among floating-point ones infinite ones and NaN."""
    values = rng.integers(0 if dtype == "uint8" else -4, 5, shape).astype(float)
    if "float" in dtype:
        for odd in (-np.inf, -np.inf, np.nan, np.inf):
            values[rng.random(shape) < 0.05] = odd
        if rng.random() < 0.2:
            values[...] = -np.inf
    return values


def pooled(x, n, kernel, stride, padding, dilation, ceil_mode, lowest):
    """The first largest element of each window, or its last NaN, and where it lies: nowhere in a window without elements."""
    sizes, windows = x.shape[2:], []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        span = size + 2 * p - d * (k - 1) - 1
        count = (-(-span // s) if ceil_mode else span // s) + 1
        count -= ceil_mode and (count - 1) * s >= size + p
        windows.append(
            [[c for c in range(i * s - p, i * s - p + d * k, d) if 0 <= c < size] for i in range(count)]
        )
    shape = (*x.shape[:2], *map(len, windows))
    values, places = np.empty(shape), np.empty(shape, int)
    for lead in np.ndindex(x.shape[:2]):
        for at in np.ndindex(shape[2:]):
            best, where = None, -1
            for place in itertools.product(*(axis[i] for axis, i in zip(windows, at))):
                v = x[lead + place]
                if best is None or v > best or np.isnan(v):
                    best, where = v, np.ravel_multi_index(place, sizes)
            values[lead + at], places[lead + at] = lowest if best is None else best, where
    return values, places


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_against_a_loop_over_windows(n, dtype):
    rng = np.random.default_rng(n * 100 + TYPES.index(dtype))
    for trial in range(12 if n < 3 else 6):
        *how, sizes = options(rng, n)
        channels = int(rng.choice([1, 3, 8, 17])) if n == 2 else 2
        x = numbers(rng, (2, channels, *sizes), dtype)
        ceil_mode = bool(rng.integers(2))
        lowest = -np.inf if "float" in dtype else np.iinfo(dtype).min
        values, places = pooled(x, n, *how, ceil_mode, lowest)
        given = ad.tensor(x).to(getattr(ad, dtype))
        orders = [given]
        if n > 1:
            orders.append(given.contiguous(memory_format=ad.channels_last if n == 2 else ad.channels_last_3d))
        orders.append(given.transpose(0, 1).contiguous().transpose(0, 1))
        pool = getattr(F, f"max_pool{n}d")
        for order in orders:
            found, where = pool(order, *how, ceil_mode, return_indices=True)
            case = f"{trial}: {sizes}, {how}, {ceil_mode}, {order.stride()}"
            np.testing.assert_array_equal(array(found.double()), values, err_msg=case)
            np.testing.assert_array_equal(np.where(places < 0, -1, array(where)), places, err_msg=case)
            assert bool((where >= 0).all()) and bool((where < x[0, 0].size).all())
            if channels > 1 and x[0, 0].size > 1 and order is not given and n > 1:
                assert found.is_contiguous() == where.is_contiguous()


@pytest.mark.parametrize("threads", [1, 2])
def test_many_channels_in_several_threads(threads):
    x = ad.randn(6, 40, 33, 18)
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        for order in (x, x.contiguous(memory_format=ad.channels_last)):
            y = F.max_pool2d(order.requires_grad_(), 3, 2, 1)
            expected = np.full((6, 40, 17, 9), -np.inf, np.float32)
            padded = np.pad(array(x), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
            for i, j in np.ndindex(3, 3):
                expected = np.maximum(expected, padded[:, :, i : i + 33 : 2, j : j + 18 : 2][:, :, :17, :9])
            np.testing.assert_array_equal(array(y), expected)
            # The gradient goes where the largest element lies, once for each window.
            (g,) = ad.autograd.grad(y.sum(), order)
            assert g.sum().item() == y.numel() and bool((g[:, :, ::2] >= 0).all())
    finally:
        ad.set_num_threads(before)
