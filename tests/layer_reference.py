"""What further rows of networks compute, in NumPy, place by place: see structured_reference.py, which gathers these."""

import itertools

import numpy as np
from network_reference import transposed


def bent(at, size, padding, align):
    """A place as the padding has it, and how much it moves: bilinear and nearest."""
    slope = 1.0
    if padding == "reflection":
        low, span = (0, size - 1) if align else (-0.5, size)
        away = at - low
        flips = np.floor(abs(away) / span)
        rest = abs(away) - flips * span
        slope = np.sign(away) * (-1) ** flips
        at = low + (rest if flips % 2 == 0 else span - rest)
    if padding != "zeros":
        slope = slope if 0 < at < size - 1 else 0.0
        at = min(max(at, 0), size - 1)
    return at, slope


def taps(v, size, mode, padding, align, order):
    """Places along a dimension and their weights, differentiated by v."""
    scale = (size - (1 if align else 0)) / 2
    at = (v + 1) * scale - (0 if align else 0.5)
    if mode == "bicubic":
        low = int(np.floor(at))
        kernel = [
            [(1.25, -2.25, 0, 1), (-0.75, 3.75, -6, 3)][k in (0, 3)] for k in range(4)
        ]  # Keys, from the highest power on
        return [
            (
                int(bent(low + k - 1, size, padding, align)[0]),
                np.polyval(np.polyder(np.poly1d(kernel[k]), order), abs(at - low - k + 1))
                * (scale * (1 if k < 2 else -1)) ** order,
            )
            for k in range(4)
        ]
    at, slope = bent(at, size, padding, align)
    if mode == "nearest":
        return [(round(at), 1.0 * (order == 0))]
    low, slope = int(np.floor(at)), slope * scale
    pair = [(low + 1 - at, at - low), (-slope, slope), (0, 0)][min(order, 2)]
    return list(zip((low, low + 1), pair, strict=True))


def grid_sample(x, grid, mode, padding, align, orders):
    n = len(orders)
    y = np.zeros((*x.shape[:-n], *grid.shape[-n - 1 : -1]), x.dtype)
    for at in np.ndindex(*grid.shape[:-1]):
        image, place = at[:-n], at[-n:]
        along = [
            taps(float(v), size, mode, padding, align, k)
            for v, size, k in zip(grid[at][::-1], x.shape[-n:], orders, strict=True)
        ]
        for corner in itertools.product(*along):
            spot = tuple(i for i, _ in corner)
            if all(0 <= i < size for i, size in zip(spot, x.shape[-n:], strict=True)):
                y[(*image, slice(None), *place)] += x[(*image, slice(None), *spot)] * np.prod(
                    [w for _, w in corner]
                )
    return y


def grid_sample_slopes(g, x, grid, mode, padding, align, orders):
    n = len(orders)
    parts = [
        np.sum(
            g * grid_sample(x, grid, mode, padding, align, [k + (i == d) for i, k in enumerate(orders)]),
            -n - 1,
        )
        for d in reversed(range(n))
    ]
    return np.stack(parts, -1)


def spellings(x, letters, blank):
    """All paths that spell the letters, and the logarithms of their probabilities."""
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        runs = [c for i, c in enumerate(path) if (i == 0 or path[i - 1] != c) and c != blank]
        if runs == list(letters):
            yield path, sum(x[t, c] for t, c in enumerate(path))


def ctc_loss(x, targets, steps, letters, blank, zero_infinity):
    y = np.zeros(len(steps), x.dtype)
    for i, (n, k) in enumerate(zip(steps, letters, strict=True)):
        y[i] = -np.logaddexp.reduce(
            [p for _, p in spellings(x[:n, i], targets[i, :k], blank)], initial=-np.inf
        )
    return np.where(np.isinf(y) & zero_infinity, 0, y)


def ctc_loss_backward(g, x, targets, steps, letters, blank, _):
    slopes = np.zeros_like(x)
    for i, (n, k) in enumerate(zip(steps, letters, strict=True)):
        paths = list(spellings(x[:n, i], targets[i, :k], blank))
        total = np.logaddexp.reduce([p for _, p in paths], initial=-np.inf)
        for path, p in paths:
            slopes[range(n), i, path] -= g[i] * np.exp(p - total)
    return slopes


def own_pad(x, pad, mode):
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.ndim - 1 - i
        n = x.shape[axis]
        place = np.arange(-before, n + after)
        if mode == "replicate":
            place = place.clip(0, n - 1)
        elif mode == "reflect":
            place = np.where(place < 0, -place, np.where(place >= n, 2 * (n - 1) - place, place))
        else:  # what is cut away is not wrapped around
            x = x.take(range(max(-before, 0), n - max(-after, 0)), axis)
            place = (place - max(-before, 0)) % x.shape[axis]
        x = x.take(place, axis)
    return x


def unfold(x, kernel, dilation, padding, stride):
    p, q = padding
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p), (q, q)])
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(x.shape[-2:], kernel, dilation, stride, strict=True)
    ]
    parts = []
    for at in np.ndindex(*kernel):
        i, j = (
            slice(a * d, a * d + (n - 1) * s + 1, s)
            for a, d, n, s in zip(at, dilation, counts, stride, strict=True)
        )
        parts.append(x[..., i, j])
    return np.stack(parts, -3).reshape(
        *x.shape[:-3], -1 if x.size else x.shape[-3] * len(parts), np.prod(counts)
    )


REFERENCES = {
    "_unfold_blocks": unfold,
    "_fold_blocks": lambda y, size, kernel, *how: transposed(
        (*y.shape[:-2], y.shape[-2] // np.prod(kernel), *size), y.dtype, lambda x: unfold(x, kernel, *how), y
    ),
    "_own_pad": own_pad,
    "_own_pad_transposed": lambda y, sizes, pad, mode: transposed(
        (*y.shape[: -len(sizes)], *sizes), y.dtype, lambda x: own_pad(x, pad, mode), y
    ),
    "_ctc_loss": ctc_loss,
    "_ctc_loss_backward": ctc_loss_backward,
    "_grid_sample": grid_sample,
    "_grid_sample_transposed": lambda y, grid, sizes, *how: transposed(
        (*y.shape[: -len(sizes)], *sizes), y.dtype, lambda x: grid_sample(x, grid, *how), y
    ),
    "_grid_sample_slopes": grid_sample_slopes,
}
