"""What the rows of networks compute, in NumPy: see structured_reference.py, which gathers these."""

import itertools

import mpmath
import numpy as np
import scipy.special as sp


def convolution(x, w, stride, padding, dilation, groups, bias=None):
    n, c, out_channels = *x.shape[:2], w.shape[0]
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [
        (m - d * (k - 1) - 1) // s + 1
        for m, d, k, s in zip(x.shape[2:], dilation, w.shape[2:], stride, strict=True)
    ]
    y = np.zeros((n, groups, out_channels // groups, *sizes), np.result_type(x, w))
    for k in np.ndindex(*w.shape[2:]):
        window = x[
            (
                slice(None),
                slice(None),
                *(slice(i * d, i * d + (m - 1) * s + 1, s) for i, d, m, s in zip(k, dilation, sizes, stride)),
            )
        ]
        window = window.reshape(n, groups, c // groups, *sizes)
        weight = w[(..., *k)].reshape(groups, out_channels // groups, c // groups)
        y += np.einsum("ngc...,goc->ngo...", window, weight, optimize=True)
    y = y.reshape(n, out_channels, *sizes)
    return y if bias is None else y + bias.reshape(-1, *(1,) * len(stride))


def transposed(sizes, dtype, f, y):
    """The transpose of a linear function of arrays of the given sizes, applied to y."""
    result = np.zeros(sizes, dtype)
    for at in np.ndindex(*sizes):
        basis = np.zeros(sizes)
        basis[at] = 1
        result[at] = np.sum(f(basis) * y)
    return result


def max_pool(x, kernel, stride, padding, dilation, sizes):
    values, places = np.zeros((*x.shape[:2], *sizes), x.dtype), np.full((*x.shape[:2], *sizes), -1)

    def along(d, o):
        if stride[d] == 0:
            n = x.shape[2 + d]
            return range(o * n // sizes[d], -(-(o + 1) * n // sizes[d]))
        return [o * stride[d] - padding[d] + k * dilation[d] for k in range(kernel[d])]

    for at in np.ndindex(*values.shape):
        for spot in itertools.product(*(along(d, o) for d, o in enumerate(at[2:]))):
            inside = all(0 <= i < n for i, n in zip(spot, x.shape[2:]))
            if inside and (places[at] < 0 or x[(*at[:2], *spot)] > values[at]):
                values[at] = x[(*at[:2], *spot)]
                places[at] = np.ravel_multi_index(spot, x.shape[2:])
    return values, places


# --- losses ------------------------------------------------------------------------------------------------------


def reduced(terms, reduction, count):
    return terms if reduction == "none" else np.sum(terms) / (count if reduction == "mean" else 1)


def classes(x, target, weight, ignore):
    """Elements with their classes last, the class of each (0 where ignored), its weight (0 there), all weights."""
    axis = 1 if x.ndim > 1 else 0
    weights = np.ones(x.shape[axis]) if weight is None else weight
    valid = target != ignore
    target = np.where(valid, target, 0)
    return np.moveaxis(x, axis, -1), target, weights[target] * valid, weights * valid[..., None]


def pick(x, target):
    return np.take_along_axis(x, target[..., None], -1)[..., 0]


def nll_loss(x, target, weight, reduction, ignore):
    x, target, weights, _ = classes(x, target, weight, ignore)
    return reduced(-pick(x, target) * weights, reduction, np.sum(weights))


def cross_entropy(x, target, weight, reduction, ignore, smoothing):
    axis = 1 if x.ndim > 1 else 0
    x = sp.log_softmax(x, axis=axis)
    n = x.shape[axis]
    if target.dtype.kind == "f":
        target = target * (1 - smoothing) + smoothing / n
        terms = -np.sum(x * target * (1 if weight is None else weight), axis)
        return reduced(terms, reduction, terms.size)
    x, target, weights, all_weights = classes(x, target, weight, ignore)
    terms = (smoothing - 1) * pick(x, target) * weights - smoothing / n * np.sum(x * all_weights, -1)
    return reduced(terms, reduction, np.sum(weights))


def cross_entropy_backward(g, x, target, weight, reduction, ignore, smoothing):
    p, target, weights, all_weights = classes(sp.softmax(x, axis=1), target, weight, ignore)
    one = np.arange(p.shape[-1]) == target[..., None]
    slopes = (1 - smoothing) * weights[..., None] * (p - one)
    slopes += smoothing / p.shape[-1] * (np.sum(all_weights, -1, keepdims=True) * p - all_weights)
    return np.moveaxis(slopes * shares(g, weights, reduction), -1, 1)


def shares(g, weights, reduction):
    g = g / np.sum(weights) if reduction == "mean" else g
    return np.broadcast_to(g, weights.shape)[..., None]


def nll_loss_backward(g, size, target, weight, reduction, ignore):
    x, target, weights, _ = classes(np.zeros(size), target, weight, ignore)
    one = np.arange(x.shape[-1]) == target[..., None]
    return np.moveaxis(-1.0 * one * weights[..., None] * shares(g, weights, reduction), -1, 1)


def squares(x, y, reduction):
    return reduced(np.subtract(x, y, dtype=np.result_type(x, np.int64)) ** 2, reduction, x.size)


def bce_with_logits(x, target, weight, pos_weight, reduction):
    terms = (1 - target) * np.logaddexp(0, x)
    terms = terms + target * np.logaddexp(0, -x) * (1 if pos_weight is None else pos_weight)
    return reduced(terms * (1 if weight is None else weight), reduction, x.size)


def embedding_backward(g, indices, rows, padding):
    y = np.zeros((rows, g.shape[-1]), g.dtype)
    np.add.at(y, indices, g)
    if padding >= 0:
        y[padding] = 0
    return y


# --- normalisation -----------------------------------------------------------------------------------------------


def layer_norm(x, shape, weight, bias, eps):
    over = tuple(range(-len(shape), 0))
    y = (x - np.mean(x, over, keepdims=True)) / np.sqrt(np.var(x, over, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def layer_norm_backward(g, x, weight, dims, eps, needs):
    over, rest = tuple(range(-dims, 0)), tuple(range(x.ndim - dims))
    scale = 1 / np.sqrt(np.var(x, over, keepdims=True) + eps)
    y = (x - np.mean(x, over, keepdims=True)) * scale
    h = g if weight is None else g * weight
    slope = scale * (h - np.mean(h, over, keepdims=True) - y * np.mean(h * y, over, keepdims=True))
    results = slope, np.sum(g * y, rest), np.sum(g, rest)
    return tuple(r if needs >> i & 1 else None for i, r in enumerate(results))


def layer_norm_twice(v, g, x, weight, dims, eps, centred):
    """By the derivative of the input's gradient itself, along each element: the scale and the normal elements vary."""
    over = tuple(range(-dims, 0))

    def mean(t):
        return np.mean(t, over, keepdims=True)

    c = x - mean(x) if centred else x
    scale = 1 / np.sqrt(mean(c * c) + eps)
    y, h = c * scale, g if weight is None else g * weight
    v, h = (v - mean(v), h - mean(h)) if centred else (v, h)
    # Of scale * (v h) - n * scale * mean(v y) mean(h y), by the centred elements: scale varies by -scale**2 y / n.
    along = -mean(v * h) + 3 * mean(v * y) * mean(h * y)
    return scale**2 * (y * along - v * mean(h * y) - h * mean(v * y))


def by_sets(x, groups):
    """(sets, elements), and back."""
    if groups:
        size = x.size // max(x.shape[0] * groups, 1)
        return x.reshape(x.shape[0] * groups, size), lambda y: y.reshape(x.shape)
    moved = np.moveaxis(x, 1, 0)
    flat = moved.reshape(x.shape[1], int(np.prod(moved.shape[1:])))
    return flat, lambda y: np.moveaxis(y.reshape(moved.shape), 0, 1)


def per_channel(v, x):
    return v.reshape(1, -1, *(1,) * (x.ndim - 2))


def channel_norm(x, weight, bias, mean, variance, groups, eps):
    flat, back = by_sets(x, groups)
    fixed = mean is not None
    if not fixed:
        mean, variance = np.mean(flat, 1), np.var(flat, 1)
    y = back((flat - mean[:, None]) / np.sqrt(variance[:, None] + eps))
    y = y * (1 if weight is None else per_channel(weight, x)) + (0 if bias is None else per_channel(bias, x))
    shape = (x.shape[0], groups) if groups else (x.shape[1],)
    return y, *((None, None) if fixed else (mean.reshape(shape), variance.reshape(shape)))


def channel_norm_backward(g, x, weight, mean, variance, groups, eps, fixed, needs):
    flat, back = by_sets(x, groups)
    scale = 1 / np.sqrt(variance.reshape(-1, 1) + eps)
    y = (flat - mean.reshape(-1, 1)) * scale
    h, _ = by_sets(g if weight is None else g * per_channel(weight, x), groups)
    average = lambda t: t.sum(1, keepdims=True) / max(t.shape[1], 1)  # noqa: E731
    slope = back(scale * (h if fixed else h - average(h) - y * average(h * y)))
    over = tuple(d for d in range(x.ndim) if d != 1)
    results = slope, (g * back(y)).sum(over), g.sum(over)
    return tuple(r if needs >> i & 1 else None for i, r in enumerate(results))


def time(shape, sizes, reverse):
    """(the rows of a step, the rows of the state before it that are a step's, or None) for each step, in their order."""
    if not sizes:
        sizes = [shape[1]] * shape[0]
    firsts = np.cumsum([0, *sizes])
    steps = [np.arange(firsts[t], firsts[t + 1]) for t in range(len(sizes))]
    return steps[::-1] if reverse else steps


def states_before(steps, rows, first):
    """For each step the state that it starts from, given the states behind all steps."""
    state = np.array(first)
    for step in steps:
        yield state[: len(step)].copy()
        state[: len(step)] = rows[step]


def recurrence(inputs, hidden, cell, w_ih, weight, b_ih, bias, kind, sizes, reverse):
    x = inputs @ w_ih.T + (0 if b_ih is None else b_ih)
    steps, flat = time(x.shape, sizes, reverse), x.reshape(-1, x.shape[-1])
    h, c = np.array(hidden), None if cell is None else np.array(cell)
    output = np.zeros((len(flat), h.shape[1]), x.dtype)
    cells = None if cell is None else np.zeros_like(output)
    gates = np.zeros((len(flat), 4 * h.shape[1]), x.dtype) if kind in ("lstm", "gru") else None
    for step in steps:
        n = len(step)
        p = h[:n] @ weight.T + (0 if bias is None else bias)
        if kind == "lstm":
            i, f, g, o = np.split(flat[step] + p, 4, 1)
            i, f, g, o = sp.expit(i), sp.expit(f), np.tanh(g), sp.expit(o)
            c[:n] = f * c[:n] + i * g
            h[:n] = o * np.tanh(c[:n])
            cells[step], gates[step] = c[:n], np.concatenate([i, f, g, o], 1)
        elif kind == "gru":
            (r, z, u), q = np.split(flat[step], 3, 1), np.split(p, 3, 1)
            r, z = sp.expit(r + q[0]), sp.expit(z + q[1])
            u = np.tanh(u + r * q[2])
            h[:n] = (1 - z) * u + z * h[:n]
            gates[step] = np.concatenate([r, z, u, q[2]], 1)
        else:
            h[:n] = np.tanh(flat[step] + p) if kind == "tanh" else np.maximum(flat[step] + p, 0)
        output[step] = h[:n]
    return tuple(t if t is None else t.reshape(*x.shape[:-1], t.shape[-1]) for t in (output, cells, gates))


def recurrence_backward(g, g_cells, output, cells, gates, hidden, cell, weight, kind, sizes, reverse, needs):
    steps, shape = time(output.shape, sizes, reverse), output.shape
    g, g_cells, output, cells, gates = (
        None if t is None else t.reshape(-1, t.shape[-1]) for t in (g, g_cells, output, cells, gates)
    )
    before = list(states_before(steps, output, hidden))
    cells_before = list(states_before(steps, cells, cell)) if kind == "lstm" else before
    dh, dc, dw = np.zeros_like(hidden), np.zeros_like(hidden), np.zeros_like(weight)
    dx, db = np.zeros((len(output), len(weight)), output.dtype), np.zeros(len(weight), output.dtype)
    for step, h, c in list(zip(steps, before, cells_before, strict=True))[::-1]:
        n = len(step)
        d = dh[:n] + (0 if g is None else g[step])
        keep = 0
        if kind == "lstm":
            i, f, u, o = np.split(gates[step], 4, 1)
            t = np.tanh(cells[step])
            e = dc[:n] + d * o * (1 - t**2) + (0 if g_cells is None else g_cells[step])
            dc[:n] = e * f
            parts = [e * u * i * (1 - i), e * c * f * (1 - f), e * i * (1 - u**2), d * t * o * (1 - o)]
            dp = dx[step] = np.concatenate(parts, 1)
        elif kind == "gru":
            r, z, u, q = np.split(gates[step], 4, 1)
            du = d * (1 - z) * (1 - u**2)
            dr, dz, keep = du * q * r * (1 - r), d * (h - u) * z * (1 - z), d * z
            dx[step], dp = np.concatenate([dr, dz, du], 1), np.concatenate([dr, dz, du * r], 1)
        else:
            dp = dx[step] = d * (1 - output[step] ** 2 if kind == "tanh" else output[step] > 0)
        dh[:n] = dp @ weight + keep
        dw += dp.T @ h
        db += dp.sum(0)
    results = dx.reshape(*shape[:-1], len(weight)), dh, dc if kind == "lstm" else None, dw, db
    return tuple(r if needs >> i & 1 else None for i, r in enumerate(results))


# --- attention ---------------------------------------------------------------------------------------------------


def softmax_of_rows(x):
    """Softmax along the last dimension; zeros for a row in which all is masked."""
    x = np.exp(x - np.where(np.isinf(x).all(-1, keepdims=True), 0, x.max(-1, keepdims=True)))
    return x / np.maximum(x.sum(-1, keepdims=True), 1e-300)


def attention_scores(q, k, mask, causal, scale):
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf) if causal else scores


def attention(q, k, v, mask, causal, scale, dropout, seed, position):
    scores = attention_scores(q, k, mask, causal, scale)
    total = np.exp(scores).sum(-1, keepdims=True)
    return (np.exp(scores) / total) @ v if dropout == 0 else None, np.log(total[..., 0])


def attention_backward(
    g, g_log_sum, q, k, v, mask, result, log_sum, causal, scale, dropout, seed, position, needs
):
    weights = np.exp(attention_scores(q, k, mask, causal, scale) - log_sum[..., None])
    slope = g @ np.swapaxes(v, -1, -2) - (g * result).sum(-1, keepdims=True)
    slope = weights * (slope + (0 if g_log_sum is None else g_log_sum[..., None]))
    of_q, of_k = slope @ k * scale, np.swapaxes(slope, -1, -2) @ q * scale
    results = of_q, of_k, np.swapaxes(weights, -1, -2) @ g, slope
    return tuple(r if needs >> i & 1 else None for i, r in enumerate(results))


def attention_factors(weights, dropout, seed, position):
    """Those of Philox4x32-10 that are smaller than the probability times 2³² are left out."""
    rows, keys = int(np.prod(weights.shape[:-1])), weights.shape[-1]
    groups = -(-keys // 64)
    words = philox(seed, position + np.arange(rows * groups * 16)).reshape(-1, 16, 4)
    words = words.swapaxes(1, 2).reshape(rows, groups * 64)[:, :keys].reshape(weights.shape)
    return np.where(words < np.ceil(dropout * 2**32), 0, 1 / (1 - dropout))


def philox(seed, blocks):
    """J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011): four words for each number of a block."""
    low = np.uint64(2**32 - 1)
    words = np.zeros((len(blocks), 4), np.uint64)
    words[:, 0], words[:, 1] = blocks & 0xFFFFFFFF, blocks >> 32
    keys = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[:, 0], np.uint64(0xCD9E8D57) * words[:, 2]
        high = second >> np.uint64(32), first >> np.uint64(32)
        words = np.stack(
            [high[0] ^ words[:, 1] ^ keys[0], second & low, high[1] ^ words[:, 3] ^ keys[1], first & low], -1
        )
        keys = keys + np.array([0x9E3779B9, 0xBB67AE85], np.uint64) & low
    return words


@np.vectorize
def gamma_draw_derivative(a, x):
    slope = mpmath.diff(lambda b: mpmath.gammainc(b, 0, mpmath.mpf(x), regularized=True), mpmath.mpf(a))
    density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
    return float(-slope / density)


def distances(x, y, p):
    return np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], ord=p, axis=-1)


def distances_backward(g, x, y, result, p, needs):
    d = x[..., :, None, :] - y[..., None, :, :]
    pulled = (np.sign(d) if p == 1 else d / result[..., None]) * g[..., None]
    return pulled.sum(-2), -pulled.sum(-3)


def resampling_matrix(size, count, mode, scale, align):
    """Each result's weights of the elements along one dimension."""
    weights = np.zeros((count, size))
    step = (
        (size - 1) / (count - 1)
        if align and count > 1
        else 0
        if align
        else 1 / scale
        if scale
        else size / count
    )
    rows, places = np.arange(count), np.arange(size)
    if mode == "area":
        for i in rows:
            part = slice(i * size // count, -(-(i + 1) * size // count))
            weights[i, part] = 1 / (part.stop - part.start)
    elif mode.startswith("nearest"):
        at = np.floor((rows + (0.5 if mode == "nearest-exact" else 0)) * step)
        weights[rows, np.minimum(at, size - 1).astype(int)] = 1
    elif mode.endswith("-wide"):
        wide = max(step, 1)
        t = np.abs(places + 0.5 - (rows[:, None] + 0.5) * step) / wide
        if mode == "linear-wide":
            weights = np.maximum(1 - t, 0)
        elif mode == "cubic-wide":
            weights = np.where(
                t < 1, 1.5 * t**3 - 2.5 * t**2 + 1, np.where(t < 2, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2, 0)
            )
        else:
            weights = np.where(t < 3, np.sinc(t) * np.sinc(t / 3), 0)
        weights = weights / weights.sum(1, keepdims=True)
    else:
        at = rows * step if align else (rows + 0.5) * step - 0.5
        if size == count and mode == "linear":
            at = rows.astype(float)
        at = np.maximum(at, 0) if mode == "linear" else at
        low = np.floor(at)
        s = at - low
        a = -0.75
        terms = {0: 1 - s, 1: s}
        if mode == "cubic":
            terms = {
                -1: a * (s + 1) ** 3 - 5 * a * (s + 1) ** 2 + 8 * a * (s + 1) - 4 * a,
                0: (a + 2) * s**3 - (a + 3) * s**2 + 1,
                1: (a + 2) * (1 - s) ** 3 - (a + 3) * (1 - s) ** 2 + 1,
                2: a * (2 - s) ** 3 - 5 * a * (2 - s) ** 2 + 8 * a * (2 - s) - 4 * a,
            }
        for k, w in terms.items():
            np.add.at(weights, (rows, np.clip(low + k, 0, size - 1).astype(int)), w)
    return weights


def resample(x, sizes, mode, scales, align):
    for d, (count, scale) in enumerate(zip(sizes, scales), x.ndim - len(sizes)):
        matrix = resampling_matrix(x.shape[d], count, mode, scale, align)
        x = np.moveaxis(np.moveaxis(x, d, -1) @ matrix.T, -1, d)
    return x


def resample_transposed(g, sizes, mode, scales, align):
    for d, (size, scale) in enumerate(zip(sizes, scales), g.ndim - len(sizes)):
        matrix = resampling_matrix(size, g.shape[d], mode, scale, align)
        g = np.moveaxis(np.moveaxis(g, d, -1) @ matrix, -1, d)
    return g


def rms_norm(x, dims, eps):
    return x / np.sqrt((x**2).mean(tuple(range(-dims, 0)), keepdims=True) + eps)


def rms_norm_backward(g, x, dims, eps):
    over = tuple(range(-dims, 0))
    scale = 1 / np.sqrt((x**2).mean(over, keepdims=True) + eps)
    return scale * (g - x * scale * (g * x * scale).mean(over, keepdims=True))


REFERENCES = {
    "_rms_norm": rms_norm,
    "_rms_norm_backward": rms_norm_backward,
    "_resample": resample,
    "_resample_transposed": resample_transposed,
    "_cdist": distances,
    "_cdist_backward": distances_backward,
    "_attention": attention,
    "_attention_backward": attention_backward,
    "_attention_factors": attention_factors,
    "_convolution": convolution,
    "_convolution_input": lambda y, w, sizes, *how: transposed(
        sizes, np.result_type(y, w), lambda x: convolution(x, w, *how), y
    ),
    "_convolution_weight": lambda x, y, sizes, *how: transposed(
        sizes, np.result_type(x, y), lambda w: convolution(x, w, *how), y
    ),
    "_max_pool": max_pool,
    "_max_pool_values": lambda *args: max_pool(*args)[0],
    "cross_entropy": cross_entropy,
    "_cross_entropy": cross_entropy,
    "_cross_entropy_backward": cross_entropy_backward,
    "nll_loss": nll_loss,
    "_nll_loss_backward": nll_loss_backward,
    "mse_loss": squares,
    "_squared_distance": lambda x, y, mean: squares(x, y, "mean" if mean else "sum"),
    "binary_cross_entropy_with_logits": bce_with_logits,
    "embedding": lambda weight, indices, padding, by_frequency, sparse: weight[indices],
    "_embedding_backward": embedding_backward,
    "layer_norm": layer_norm,
    "_layer_norm_backward": layer_norm_backward,
    "_layer_norm_twice": layer_norm_twice,
    "_channel_norm": channel_norm,
    "_channel_norm_backward": channel_norm_backward,
    "_recurrence": recurrence,
    "_recurrence_backward": recurrence_backward,
    "_dirichlet_draw": lambda a, x: x,
    "_standard_gamma_grad": lambda a, x: gamma_draw_derivative(a, x) if a.size else a,
}
