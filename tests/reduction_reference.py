"""What reductions, scans, softmax and sorting compute, in NumPy: see structured_reference.py, which gathers these."""

import numpy as np
import scipy.special as sp


def axes(dim):
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def convert(x, dtype):
    return x if dtype is None else x.astype(dtype)


# --- reductions and scans ----------------------------------------------------------------------------------------


def mode_index(x, dim, keepdim=False):
    """The last place of the most frequent element, the least of several."""

    def of_row(row):
        found, counts = np.unique(row, return_counts=True)
        return np.flatnonzero(row == found[np.argmax(counts)])[-1]

    if x.ndim == 0 or x.size == 0:
        return np.zeros(np.sum(x, dim, keepdims=keepdim).shape if x.ndim else (), int)
    place = np.apply_along_axis(of_row, dim, x)
    return np.expand_dims(place, dim) if keepdim else place


def search_sorted(sequence, values, right=False):
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    return np.stack([search_sorted(s, v, right) for s, v in zip(sequence, values)])


def median(x, dim=None, keepdim=False, skip_nan=False):
    """The lower of the two in the middle, and where it is."""
    flat = x.reshape(-1) if dim is None else np.moveaxis(np.atleast_1d(x), dim, -1)
    order = np.argsort(flat, axis=-1, kind="stable")
    present = (
        np.sum(~np.isnan(flat), -1)
        if skip_nan and flat.dtype.kind == "f"
        else np.full(flat.shape[:-1], flat.shape[-1])
    )
    place = np.take_along_axis(order, (np.maximum(present, 1)[..., None] - 1) // 2, -1)
    values = np.take_along_axis(flat, place, -1)
    if dim is None:
        return values.reshape(())
    if keepdim and x.ndim:
        return np.moveaxis(values, -1, dim), np.moveaxis(place, -1, dim)
    return (values[..., 0], place[..., 0]) if x.ndim else (values.reshape(()), place.reshape(()))


def extreme_at(find):
    def at(x, dim, keepdim):
        place = find(x, axis=dim, keepdims=keepdim) if x.ndim else np.zeros((), int)
        if not x.ndim:
            return x, place
        values = np.take_along_axis(x, place if keepdim else np.expand_dims(place, dim), dim)
        return values if keepdim else np.squeeze(values, dim), place

    return at


def place_of(find):
    return lambda x, dim, keepdim: (
        find(x, axis=dim, keepdims=keepdim) if dim is not None else np.array(find(x))
    )


def norm(x, ord, dim, keepdim, dtype):
    size, dim = np.abs(convert(x, dtype)), axes(dim)
    if ord == 0:
        return np.sum(size != 0, axis=dim, keepdims=keepdim)
    if np.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, axis=dim, keepdims=keepdim)
    return np.sum(size**ord, axis=dim, keepdims=keepdim) ** (1 / ord)


def moments(square_root):
    def both(x, dim, correction, keepdim):
        spread = (np.std if square_root else np.var)(x, axis=axes(dim), ddof=correction, keepdims=keepdim)
        return spread, np.mean(x, axis=axes(dim), keepdims=keepdim)

    return both


def logsumexp(x, dim, keepdim):
    x = x + 0.0
    top = 0 if np.iscomplexobj(x) or not x.size else np.max(x, axis=axes(dim), keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axes(dim), keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axes(dim))


def along(scan):
    """A scan that also takes a tensor without dimensions."""

    def both(x, dim, *more):
        result = scan(np.atleast_1d(x), dim, *more)
        shape = lambda y: y.reshape(x.shape)  # noqa: E731
        return tuple(map(shape, result)) if isinstance(result, tuple) else shape(result)

    return both


def cumulative(better):
    def both(x, dim):
        x, values, places = np.moveaxis(x, dim, 0), [], []
        for i, row in enumerate(x):
            newer = better(row, values[-1]) if values else np.ones(row.shape, bool)
            values.append(np.where(newer, row, values[-1] if values else row))
            places.append(np.where(newer, i, places[-1] if places else i))
        back = lambda rows, like: np.moveaxis(np.array(rows, like).reshape(x.shape), 0, dim)  # noqa: E731
        return back(values, x.dtype), back(places, np.int64)

    return both


def linear_scan(a, b, dim, reverse):
    a, b, s = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0), []
    n = len(b)
    for i in reversed(range(n)) if reverse else range(n):
        s.append(b[i] if not s else b[i] + a[i + 1 if reverse else i] * s[-1])
    return np.moveaxis(np.array(s[::-1] if reverse else s).reshape(b.shape), 0, dim)


def shifted(x, dim, by, fill):
    y = np.roll(x, by, dim)
    np.moveaxis(y, dim, 0)[(slice(0, by) if by > 0 else slice(by, None))] = fill
    return y


def softmax(x, dim, dtype):
    x = np.atleast_1d(convert(x, dtype))
    return sp.softmax(x, axis=dim) if x.size else x


def log_softmax(x, dim, dtype):
    x = np.atleast_1d(convert(x, dtype))
    return sp.log_softmax(x, axis=dim) if x.size else x


# --- order -------------------------------------------------------------------------------------------------------


def order(x, dim, descending):
    key = np.atleast_1d(x)
    key = key.astype(int) if key.dtype == bool else key
    return np.argsort(-key.astype(np.float64) if descending else key, axis=dim, kind="stable")


def sort(x, dim, descending, stable):
    places = order(x, dim, descending)
    return np.take_along_axis(np.atleast_1d(x), places, dim).reshape(x.shape), places.reshape(x.shape)


def topk(x, k, dim, largest, _sorted):
    places = np.take(order(x, dim, largest), range(k), dim)
    shape = places.shape if x.ndim else ()
    return np.take_along_axis(np.atleast_1d(x), places, dim).reshape(shape), places.reshape(shape)


def kthvalue(x, k, dim, keepdim):
    places = np.take(order(x, dim, False), [k - 1], dim)
    values = np.take_along_axis(np.atleast_1d(x), places, dim)
    if not keepdim or not x.ndim:
        values, places = values.squeeze(dim), places.squeeze(dim)
    return values, places


def unique(x, return_inverse, return_counts):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return values, inverse.reshape(x.shape) if return_inverse else None, counts if return_counts else None


REFERENCES = {
    # reductions
    "sum": lambda x, dim, keepdim, dtype: np.sum(convert(x, dtype), axis=axes(dim), keepdims=keepdim),
    "nansum": lambda x, dim, keepdim, dtype: np.nansum(convert(x, dtype), axis=axes(dim), keepdims=keepdim),
    "mean": lambda x, dim, keepdim, dtype: np.mean(convert(x, dtype), axis=axes(dim), keepdims=keepdim),
    "prod": lambda x, dim, keepdim, dtype: np.prod(convert(x, dtype), axis=axes(dim), keepdims=keepdim),
    "var": lambda *a: moments(False)(*a)[0],
    "std": lambda *a: moments(True)(*a)[0],
    "var_mean": moments(False),
    "std_mean": moments(True),
    "amax": lambda x, dim, keepdim: np.max(x, axis=axes(dim), keepdims=keepdim),
    "amin": lambda x, dim, keepdim: np.min(x, axis=axes(dim), keepdims=keepdim),
    "_max_all": np.max,
    "_min_all": np.min,
    "_max_dim": extreme_at(np.argmax),
    "_min_dim": extreme_at(np.argmin),
    "aminmax": lambda x, dim, keepdim: (
        np.min(x, axis=axes(dim), keepdims=keepdim),
        np.max(x, axis=axes(dim), keepdims=keepdim),
    ),
    "argmax": place_of(np.argmax),
    "argmin": place_of(np.argmin),
    "all": lambda x, dim, keepdim: np.all(x, axis=axes(dim), keepdims=keepdim),
    "_same_elements": lambda x, y: np.array_equal(x, y),
    "any": lambda x, dim, keepdim: np.any(x, axis=axes(dim), keepdims=keepdim),
    "count_nonzero": lambda x, dim: np.count_nonzero(x, axis=axes(dim)),
    "logsumexp": logsumexp,
    "_vector_norm": norm,
    # scans
    "cumsum": along(lambda x, dim, dtype: np.cumsum(convert(x, dtype), dim)),
    "_reversed_cumsum": along(lambda x, dim: np.flip(np.cumsum(np.flip(x, dim), dim), dim)),
    "cumprod": along(lambda x, dim, dtype: np.cumprod(convert(x, dtype), dim)),
    "logcumsumexp": along(lambda x, dim: np.log(np.cumsum(np.exp(x), dim))),
    "cummax": along(cumulative(np.greater_equal)),
    "cummin": along(cumulative(np.less_equal)),
    "_linear_scan": linear_scan,
    "_shift": shifted,
    # softmax
    "softmax": lambda x, *a: softmax(x, *a).reshape(x.shape),
    "log_softmax": lambda x, *a: log_softmax(x, *a).reshape(x.shape),
    "_softmax_backward": lambda g, y, dim: y * (g - np.sum(g * y, axis=dim, keepdims=True)),
    "_log_softmax_backward": lambda g, y, dim: g - np.exp(y) * np.sum(g, axis=dim, keepdims=True),
    # order
    "sort": sort,
    "argsort": lambda *a: sort(*a)[1],
    "topk": topk,
    "kthvalue": kthvalue,
    "_median_dim": median,
    "_nanmedian_dim": lambda x, dim, keepdim: median(x, dim, keepdim, skip_nan=True),
    "_median_all": median,
    "_nanmedian_all": lambda x: median(x, skip_nan=True),
    "_mode_index": mode_index,
    "_search_sorted": search_sorted,
    "_unique": unique,
}
