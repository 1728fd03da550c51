"""What each structured operator computes, said in NumPy and SciPy. A function takes all arguments of the signature, in its
order: arrays for tensors, NumPy's types for types. Where it gives None, nothing is compared.

Results that are fixed only up to a phase or an order of elimination are held to what makes them right: `CHECKS` takes
the results first. `INVARIANTS` says what of them a derivative can be checked on.
"""

import numpy as np
from creation_reference import CHECKS as CREATION_CHECKS
from creation_reference import REFERENCES as CREATION
from fourier_reference import REFERENCES as FOURIER
from layer_reference import REFERENCES as LAYER
from linalg_reference import CHECKS as LINALG_CHECKS
from linalg_reference import REFERENCES as LINALG
from network_reference import REFERENCES as NETWORK
from optimizer_reference import REFERENCES as OPTIMIZER
from reduction_reference import REFERENCES as REDUCTION


def padded(x, n):
    return x.reshape((1,) * (n - x.ndim) + x.shape)


# --- places ------------------------------------------------------------------------------------------------------


def positions(size, stride, offset):
    return offset + sum(
        (
            np.arange(n).reshape((-1,) + (1,) * (len(size) - 1 - i)) * s
            for i, (n, s) in enumerate(zip(size, stride))
        ),
        np.zeros(size, int),
    )


def take_strided(x, size, stride, offset):
    return x.reshape(-1)[positions(size, stride, offset or 0)]


def put_strided(x, shape, size, stride, offset):
    return added(shape, x.dtype, lambda y: (y.reshape(-1), positions(size, stride, offset)), x)


def added(shape, dtype, at, values):
    """Zeros with values added at an index of them."""
    y = np.zeros(shape, dtype)
    target, index = at(y)
    (np.logical_or if y.dtype == bool else np.add).at(target, index, values)
    return y


def sorted_positions(indices, size):
    flat = np.ravel_multi_index(indices, size) if indices.size else np.zeros(indices.shape[1], int)
    found, inverse = np.unique(flat, return_inverse=True)
    return np.stack(np.unravel_index(found, size)), inverse.reshape(-1)


def entries_times(values, rows, columns, dense, count):
    matrix = np.zeros((count, dense.shape[0]), values.dtype)
    np.add.at(matrix, (rows, columns), values)
    return matrix @ dense


def basic(spec):
    """The index that a spec stands for: (kind, start, step, length) for each entry."""
    entries = [spec[i : i + 4] for i in range(0, len(spec), 4)]
    one = lambda kind, start, step, n: (
        start if kind == 0 else slice(start, start + n * step, step or 1) if kind == 1 else None
    )  # noqa: E731
    return tuple(one(*e) for e in entries)


def advanced(indices):
    return tuple(slice(None) if i is None else i for i in indices)


def spots(shape, index, dim):
    """The full index of which `index` is the part along `dim`."""
    grid = list(np.indices(index.shape))
    grid[dim : dim + 1 or None] = [index] if index.ndim else []
    return tuple(grid)


def slices(x, index, dim):
    return (slice(None),) * (dim % max(x.ndim, 1)) + (index,)


def written(x, index, values, how=None):
    y = np.array(x)
    if how is None:
        y[index] = values
    else:
        how.at(y, index, values)
    return y


def adding(x):
    return np.logical_or if x.dtype == bool else np.add


def index_add(x, dim, index, source, alpha):
    return written(
        np.atleast_1d(x), slices(x, index, dim), alpha * source if alpha != 1 else source, adding(x)
    ).reshape(x.shape)


def masked_scatter(x, mask, source):
    mask = np.broadcast_to(mask, x.shape)
    return written(x, mask, source.reshape(-1)[: mask.sum()])


def scatter(x, dim, index, src, reduce):
    how = {None: None, "add": np.add, "multiply": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    values = src[tuple(slice(n) for n in index.shape)] if isinstance(src, np.ndarray) else src
    return written(x, spots(x.shape, index, dim), values, how)


# --- shapes ------------------------------------------------------------------------------------------------------


def expand(x, size):
    x = padded(x, len(size))
    return np.broadcast_to(x, [m if n == -1 else n for m, n in zip(x.shape, size)])


def squeeze(x, dim):
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


def flatten(x, start, end):
    x = np.atleast_1d(x)
    end %= x.ndim
    return x.reshape(
        x.shape[:start] + (-1 if x.size else int(np.prod(x.shape[start : end + 1])),) + x.shape[end + 1 :]
    )


def unflatten(x, dim, sizes):
    dim %= x.ndim
    return x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim + 1 :])


def pieces(x, sizes, dim):
    return np.split(x, np.cumsum(sizes)[:-1], dim)


def every(x, size, dim):
    n = x.shape[dim]
    return pieces(x, [min(size, n - i) for i in range(0, max(n, 1), size)], dim)


def windows(x, dim, size, step):
    if not x.ndim:
        return x.reshape(1)
    starts = range(0, x.shape[dim] - size + 1, step)
    return np.stack([np.moveaxis(np.take(x, range(i, i + size), dim), dim, -1) for i in starts], dim % x.ndim)


def diagonal_embedded(x, offset, dim1, dim2):
    n = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    k = np.arange(x.shape[-1])
    y[..., k + max(-offset, 0), k + max(offset, 0)] = x
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


def constant_padded(x, pad, value):
    pairs = [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)][::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    y = np.pad(
        x, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=np.asarray(value).astype(x.dtype)
    )
    return y[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, y.shape))]


def roll(x, shifts, dims):
    return np.roll(x, tuple(shifts), tuple(dims)) if dims else np.roll(x, tuple(shifts)[0])


def pixel_shuffle(x, r):
    *lead, c, h, w = x.shape
    parts = x.reshape(*lead, c // r**2, r, r, h, w)
    return np.moveaxis(parts, (-4, -3), (-3, -1)).reshape(*lead, c // r**2, h * r, w * r)


def pixel_unshuffle(x, r):
    *lead, c, h, w = x.shape
    parts = x.reshape(*lead, c, h // r, r, w // r, r)
    return np.moveaxis(parts, (-3, -1), (-4, -3)).reshape(*lead, c * r**2, h // r, w // r)


def product_of_others(x, dim):
    others = [np.delete(x, i, dim).prod(dim, keepdims=True) for i in range(x.shape[dim])]
    return np.concatenate(others, dim)


def even_interval(x, edges):
    return np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)


def rounded_quotient(x, y, rounding_mode):
    quotient = np.true_divide(x, y)
    return {None: quotient, "floor": np.floor(quotient), "trunc": np.trunc(quotient)}[rounding_mode]


def scaled_sum(product):
    return lambda x, a, b, beta, alpha: (0 if beta == 0 else beta * x) + alpha * product(a, b)


def times(a, b):
    """Products in the type of the factors, bool as well."""
    return np.matmul(a, b)


def places_of_index(index, dim):
    places = np.indices(index.shape)
    places[dim] = index
    return places.reshape(index.ndim, -1)


REFERENCES = {
    **CREATION,
    **LINALG,
    **FOURIER,
    **NETWORK,
    **LAYER,
    **OPTIMIZER,
    **REDUCTION,
    "_sort_positions": sorted_positions,
    "_rows_of_entries": lambda begin, count: np.repeat(np.arange(len(begin) - 1), np.diff(begin)),
    "_places_of_index": places_of_index,
    "_entries_times": entries_times,
    "_rows_dot": lambda x, y, rows, columns: (x[rows] * y[columns]).sum(1),
    "_add_multiple": lambda x, y, alpha: x + alpha * y,
    "_sub_multiple": lambda x, y, alpha: x - alpha * y,
    "rsub": lambda x, y, alpha: y - alpha * x,
    "_div_rounded": rounded_quotient,
    "_where_true": lambda x: np.nonzero(x),
    # reading by index
    "_basic_index": lambda x, spec: x[basic(spec)],
    "_index": lambda x, indices: x[advanced(indices)],
    "_put_index": lambda x, shape, indices: added(shape, x.dtype, lambda y: (y, advanced(indices)), x),
    "index_select": lambda x, dim, index: np.take(np.atleast_1d(x), index, dim).reshape(
        x.shape if not x.ndim else np.take(x, index, dim).shape
    ),
    "_put_slices": lambda x, shape, dim, index: added(
        shape, x.dtype, lambda y: (y, slices(y, index, dim)), x
    ),
    "gather": lambda x, dim, index, _: x[spots(x.shape, index, dim)] if x.ndim else x,
    "_put_along": lambda x, shape, dim, index: added(
        shape, x.dtype, lambda y: (y, spots(shape, index, dim)), x
    ),
    "take": lambda x, index: x.reshape(-1)[index],
    "masked_select": lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
    "_nonzero": lambda x: np.argwhere(x),
    # joining
    "cat": lambda xs, dim: np.concatenate([x for x in xs if x.shape != (0,)], dim),
    "stack": lambda xs, dim: np.stack(xs, dim),
    # parts
    "_take_strided": take_strided,
    "_put_strided": put_strided,
    "as_strided": take_strided,
    "select": lambda x, dim, index: np.take(x, index, dim),
    "narrow": lambda x, dim, start, n: np.take(x, range(start % x.shape[dim], start % x.shape[dim] + n), dim),
    "unbind": lambda x, dim: list(np.moveaxis(x, dim, 0)),
    "_split_every": every,
    "_split_sizes": pieces,
    "chunk": lambda x, n, dim: every(x, max(-(-x.shape[dim] // n), 1), dim) if x.size else [x] * n,
    "diagonal": np.diagonal,
    "unfold": windows,
    "real": np.real,
    "imag": np.imag,
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    # products
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "_matmul", "matmul"), times),
    "outer": np.multiply.outer,
    "addmm": scaled_sum(times),
    "baddbmm": scaled_sum(times),
    "addmv": scaled_sum(times),
    "addr": scaled_sum(np.multiply.outer),
    "linear": lambda x, w, b: x @ w.T + (0 if b is None else b),
    # rearranging
    "_attach": lambda x, other: x,
    "flip": lambda x, dims: np.flip(x, tuple(dims)),
    "roll": roll,
    "_pixel_shuffle": pixel_shuffle,
    "_product_of_others": product_of_others,
    "_even_interval": even_interval,
    "_pixel_unshuffle": pixel_unshuffle,
    "_cross": lambda x, y, dim: np.cross(x, y, axis=dim),
    "repeat": lambda x, n: np.tile(x, n),
    "tile": lambda x, n: np.tile(x, n),
    "_repeat_interleave": lambda x, n, dim: np.repeat(x, n, dim),
    "_repeat_interleave_each": lambda x, n, dim: np.repeat(x, n, dim),
    "tril": np.tril,
    "triu": np.triu,
    "diag_embed": diagonal_embedded,
    "constant_pad_nd": constant_padded,
    # shapes
    "expand": expand,
    "reshape": lambda x, shape: x.reshape(shape),
    "view": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "t": np.transpose,
    "permute": lambda x, dims: np.transpose(x, dims),
    "movedim": lambda x, a, b: np.moveaxis(x, a, b),
    "squeeze": squeeze,
    "unsqueeze": np.expand_dims,
    "flatten": flatten,
    "unflatten": unflatten,
    "contiguous": lambda x: x,
    "clone": lambda x: x,
    "_to_type": lambda x, dtype: x.astype(dtype),
    "_to_device": lambda x, device, source: x,
    # along a dimension
    "_scatter_along": lambda x, index, dim, size: added(
        [size if d == dim else n for d, n in enumerate(x.shape)],
        x.dtype,
        lambda y: (y, spots(y.shape, index, dim)),
        x,
    ),
    "_gather_along": lambda x, index, dim: x[spots(x.shape, index, dim)],
    # writing
    "_copy": lambda x, src: np.broadcast_to(src, x.shape),
    "_fill": lambda x, value: np.full_like(x, value),
    "_zero": np.zeros_like,
    "_zero_basic": lambda x, spec: written(x, basic(spec), 0),
    "_set_basic": lambda x, value, spec: written(x, basic(spec), value),
    "_zero_index": lambda x, indices: written(x, advanced(indices), 0),
    "_index_put": lambda x, values, indices, add: written(
        x, advanced(indices), values, adding(x) if add else None
    ),
    "_scatter": scatter,
    "_scatter_value": scatter,
    "_scatter_multiply": lambda x, dim, index, src: scatter(x, dim, index, src, "multiply"),
    "_scatter_multiply_value": lambda x, dim, index, value: scatter(x, dim, index, value, "multiply"),
    "_scatter_extreme": lambda x, dim, index, src, largest: scatter(
        x, dim, index, src, "amax" if largest else "amin"
    ),
    "scatter_add": lambda x, dim, index, src: written(
        x, spots(x.shape, index, dim), src[tuple(slice(n) for n in index.shape)], adding(x)
    ),
    "index_add": index_add,
    "index_fill": lambda x, dim, index, value: written(
        np.atleast_1d(x), slices(x, index, dim), value
    ).reshape(x.shape),
    "index_copy": lambda x, dim, index, source: written(
        np.atleast_1d(x), slices(x, index, dim), source
    ).reshape(x.shape),
    "masked_scatter": masked_scatter,
}


def reference_of(name):
    """What an operator is compared with: NumPy's function of its name where nothing else is said; None where there is none."""
    return REFERENCES.get(name) or getattr(np, name.lstrip("_"), None)


CHECKS = {**CREATION_CHECKS, **LINALG_CHECKS}

#: (operator, argument): what has no derivative, though the operator has one for others, as in torch: tolerances decide what
#: counts as zero, weights of classes are data, and some derivatives of special functions are not known in closed form.
MISSING = {
    ("_pinv", "atol"),
    ("_pinv", "rtol"),
    ("cross_entropy", "weight"),
    ("_cross_entropy", "weight"),
    ("nll_loss", "weight"),
    ("_nll_loss_backward", "weight"),
    # No closed form.
    ("_gamma_density", "self"),
    ("igamma", "self"),
    ("igammac", "self"),
    ("_zeta", "self"),
    *(("_dirichlet_slope", parameter) for parameter in ("self", "a", "b")),
}

#: Their elements are whatever the memory held.
WITHOUT_VALUES = {"_empty", "_empty_like"}

#: Their derivative is that of the distribution, and no difference of draws.
WITHOUT_DIFFERENCES = {"_sample_gamma", "_dirichlet_draw"}

#: Results, by number, that are float32 where the inputs are of a half type: they are exact to what is computed.
WIDE_RESULTS = {("_attention", 1)}

#: A batch may choose other signs of its vectors than a matrix alone.
SIGNS = {"_eigh", "_svd"}

INVARIANTS = {
    "_solve": lambda x, lu, pivots, info: x,
    "_det": lambda det, lu, pivots: det,
    "_slogdet": lambda sign, logabsdet, lu, pivots: (sign, logabsdet),
    "_eigh": lambda values, vectors, info: (values, vectors if vectors is None else vectors.abs()),
    "_eig": lambda values, vectors, info: (values, vectors if vectors is None else vectors.abs()),
    "_svd": lambda u, s, vh, info: (s,) if u is None else (u.abs(), s, vh.abs()),
}
