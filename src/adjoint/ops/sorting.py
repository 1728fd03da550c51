"""Order: finding, distinct elements, counts, and order statistics such as `quantile`.

Start reading at `searchsorted`.
"""

from __future__ import annotations

import math

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give, give_all, ignores, scalar_type
from adjoint._publish.register import composition
from adjoint._tensor.dtypes import result_type
from adjoint._types import Any, Dims, Number, Sequence


@composition
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sort in ascending order along the first dimension."""
    result = input.sort(0)[0]
    return give(out, result, "msort", converts=False)


# --- places ----------------------------------------------------------------------------------------------------------


@composition(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    out: Tensor | None = None,
    sorter: Any = None,
) -> Tensor:
    """Where each value would be inserted into a sorted sequence to keep it sorted.

    Parameters
    ----------
    sorted_sequence : Tensor, shape (n) or (..., n)
        Rising along its last dimension.
    input : Tensor, shape any or (..., m); or a number
        With a sequence of several rows, each row of values is searched for in its own.
    right : bool
        Insert after equal elements instead of before them; as ``side='right'``.
    sorter : Tensor of int64, optional
        Indices that bring an unordered sequence into rising order.

    Returns
    -------
    Tensor of int64, or int32 with `out_int32`, of the shape of `input`

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.searchsorted(ad.tensor([1.0, 3.0, 5.0]), ad.tensor([0.0, 3.0, 9.0]))
    tensor([0, 1, 3])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    right = right or side == "right"
    sequence = sorted_sequence.detach()
    values = input.detach() if isinstance(input, Tensor) else _C.tensor(input)
    if sequence.ndim == 0 or sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(sequence.shape)} and input value "
            f"tensor {list(values.shape)}"
        )
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    dtype = result_type(sequence, values)
    result = _C._search_sorted(sequence.to(dtype), values.to(dtype), right)
    if out_int32:
        result = result.to(_C.int32)
    return give(out, result, "searchsorted", converts=False)


@composition(method=False)
def bucketize(
    input: Tensor,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The index of the interval between sorted boundaries that each value lies in: `searchsorted` with swapped arguments."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@composition(method=False)
@ignores("assume_unique", why="the way taken is right for repeated elements, too", warns=False)
def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element is among `test_elements`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.isin(ad.tensor([1, 2, 3]), ad.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            "isin() received an invalid combination of arguments: one of elements and test_elements must be a Tensor"
        )
    elements, tests = (x if isinstance(x, Tensor) else _C.tensor(x) for x in (elements, test_elements))
    for t in (elements, tests):
        if t.dtype is _C.bool:
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {scalar_type(t)}; convert it, for example with .int()"
            )
    if tests.numel() == 0:
        found = _C._full(elements.shape, False)
    else:
        dtype = _C.promote_types(elements.dtype, tests.dtype)
        ordered = tests.detach().to(dtype).flatten().sort()[0]
        place = searchsorted(ordered, elements.to(dtype)).clamp(max=ordered.numel() - 1)
        found = ordered[place] == elements
    result = ~found if invert else found
    return give(out, result, "isin", converts=False)


# --- distinct elements -----------------------------------------------------------------------------------------------


@composition
@ignores("sorted", why="the result is sorted in any case", warns=False)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order; with `dim`, the distinct slices along a dimension, in lexicographic order.

    It has no derivative: where `input` needs a gradient, a backward pass through the result is refused.

    Parameters
    ----------
    return_inverse : bool
        Also give, for each element (slice), where it is found in the result.
    return_counts : bool
        Also give how often each occurs.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.unique(ad.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    >>> ad.unique(ad.tensor([[2, 1], [1, 9], [2, 1]]), dim=0)
    tensor([[1, 9],
            [2, 1]])
    """
    if dim is None:
        values, inverse, counts = _C._unique(input.detach(), return_inverse, return_counts)
    else:
        inverse = _ranks(input, dim)
        ranks, _, counts = _C._unique(inverse, False, True)
        place = _C._zeros(ranks.shape, dtype=_C.int64)
        # Any one of several equal slices will do.
        place[inverse] = _C._full(inverse.shape, 1, dtype=_C.int64).cumsum(0) - 1
        values = input.detach().index_select(dim, place)
    if _C._is_differentiated(input):
        values = _without_derivative("unique", values, input)
    more = [x for x, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
    return (values, *more) if more else values


@composition
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Remove consecutive duplicates; with `dim`, of slices along a dimension.

    It has no derivative, like `unique`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.unique_consecutive(ad.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    >>> ad.unique_consecutive(ad.tensor([[1, 1], [1, 1], [2, 1]]), dim=0)
    tensor([[1, 1],
            [2, 1]])
    """
    flat = input.detach().flatten() if dim is None else _ranks(input, dim)
    n = flat.numel()
    starts = _C._full((n,), True)
    if n > 1:
        starts[1:] = flat[1:] != flat[:-1]
    values = flat[starts] if dim is None else input.detach().index_select(dim, starts.nonzero().flatten())
    if _C._is_differentiated(input):
        values = _without_derivative("unique_consecutive", values, input)
    results = [values]
    if return_inverse:
        inverse = starts.to(_C.int64).cumsum(0) - 1
        results.append(inverse.view(input.shape) if dim is None else inverse)
    if return_counts:
        first = starts.nonzero().flatten()
        after = _C.cat((first[1:], _C.tensor([n])), 0) if n else first
        results.append(after - first)
    return tuple(results) if len(results) > 1 else results[0]


def _ranks(input, dim):
    """For each slice along a dimension, its number in the order of words of the different slices, from 0."""
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    slices = input.detach().movedim(dim, 0)
    if 0 in slices.shape[1:]:
        raise RuntimeError(
            f"There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: the shape is "
            f"{tuple(input.shape)}, and dim={dim}"
        )
    ranks = _C._zeros((slices.shape[0],), dtype=_C.int64)
    if ranks.numel():
        for column in slices.reshape(slices.shape[0], -1).unbind(1):
            values, place, _ = _C._unique(column, True, False)
            ranks = _C._unique(ranks * values.numel() + place, True, False)[1]
    return ranks


def _without_derivative(name, value, *inputs):
    from adjoint.autograd._refused import without_derivative

    return without_derivative(name, value, *inputs)


# --- counts ----------------------------------------------------------------------------------------------------------


@composition
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, … occurs, or the sum of its weights.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.bincount(ad.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    refused = "bincount only supports 1-d non-negative integral inputs."
    if input.ndim != 1:
        raise RuntimeError(refused)
    if input.is_floating_point() or input.is_complex():
        raise RuntimeError(f"bincount(): expected integers, but got {input.dtype}")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, but got {minlength}")
    length = max(minlength, int(_C.amax(input).item()) + 1 if input.numel() else 0)
    if weights is None:
        weights = _C._full((), 1, dtype=_C.int64).expand(input.shape)
    elif weights.dtype is not _C.float32:
        weights = weights.to(_C.float64)
    try:  # a pass of its own that looks for negative numbers would take as long as that for the largest
        return _C._zeros((length,), dtype=weights.dtype).scatter_add_(0, input.to(_C.int64), weights.detach())
    except (IndexError, RuntimeError) as error:
        raise RuntimeError(refused) if (input < 0).any() else error from None


@composition
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """The histogram of the elements in `bins` equal intervals of [min, max]; of their whole range when both are equal."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    flat = input.detach().flatten()
    if input.is_meta:
        return give(out, _C._empty((bins,), dtype=input.dtype), "histc", converts=False)
    if _C._is_batched(flat):
        result = _histc_of_each(flat, bins, min, max)
        if out is not None:
            return give(out, result, "histc", converts=False)
        return _without_derivative("histc", result, input) if _C._is_differentiated(input) else result
    whole = min == max and flat.numel() > 0
    if whole:
        min, max = (x.item() for x in _C.aminmax(flat))
    if min == max:
        min, max = min - 1, max + 1
    if min > max:
        raise RuntimeError("max must be larger than min")
    if not (-math.inf < min and max < math.inf):
        raise RuntimeError(f"histc(): range of [{min}, {max}] is not finite")
    if not whole:
        flat = flat[(flat >= min) & (flat <= max)]
    place = ((flat - min) * (bins / (max - min))).to(_C.int64).clamp_(max=bins - 1)
    one = _C._full((), 1, dtype=_C.int64).expand(flat.shape)
    result = _C._zeros((bins,), dtype=_C.int64).scatter_add_(0, place, one).to(input.dtype)
    if out is not None:
        return give(out, result, "histc", converts=False)
    return _without_derivative("histc", result, input) if _C._is_differentiated(input) else result


def _histc_of_each(flat, bins, min, max):
    """`histc` without a look at values, for all samples of a vmap."""
    if min == max:
        low, high = flat.min(), flat.max()
        min, max = _C.where(low == high, low - 1, low), _C.where(low == high, high + 1, high)
    inside = (flat >= min) & (flat <= max)
    place = ((flat - min) * (bins / (max - min))).clamp(0, bins - 1).to(_C.int64)
    return _C._zeros((bins,), dtype=flat.dtype).scatter_add(0, place, inside.to(flat.dtype))


# --- order statistics ------------------------------------------------------------------------------------------------


@composition
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-th quantiles of the elements, or along a dimension.

    Parameters
    ----------
    q : float or Tensor of shape (k), in [0, 1]
        With a tensor, the result has a first dimension more.
    interpolation : 'linear', 'lower', 'higher', 'midpoint' or 'nearest'
        What is taken where a quantile lies between two elements.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.quantile(ad.tensor([0.0, 1.0, 4.0]), 0.75)
    tensor(2.5000)
    """
    return give(
        out, _quantiles("quantile", input, q, dim, keepdim, interpolation, False), "quantile", converts=False
    )


def _quantiles(name, input, q, dim, keepdim, interpolation, without_nan):
    if not input.is_floating_point():
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, Tensor) and q.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor: they are {q.dtype} and {input.dtype}"
        )
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    whole = dim is None
    values = input.flatten() if whole else input
    if not whole and not input.ndim:
        dimension(dim, 0)
        values = input.flatten()
        whole = True
    axis = 0 if whole else dimension(dim, input.ndim)
    if values.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    single = not isinstance(q, Tensor) or q.ndim == 0
    wanted = q if isinstance(q, Tensor) else _C.tensor(q, input.dtype)
    wanted = wanted.reshape(-1)
    if not (wanted.is_meta or bool(((wanted >= 0) & (wanted <= 1)).all())):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    ordered = values.sort(axis)[0].movedim(axis, -1)
    last = ordered.shape[-1] - 1
    if without_nan:
        # Sorted last: each row has a last place of its own, and a dimension for the places in front.
        last = (~ordered.isnan()).sum(-1) - 1
        wanted = wanted.reshape(-1, *[1] * last.ndim)
        last = last.clamp(min=0)
    place = wanted * last
    if interpolation in ("lower", "higher", "nearest"):
        place = {"lower": place.floor, "higher": place.ceil, "nearest": place.round}[interpolation]()
    below = place.detach().floor()
    low, high = (_at(ordered, p.to(_C.int64), without_nan) for p in (below, place.detach().ceil()))
    share = _C._full(place.shape, 0.5, dtype=place.dtype) if interpolation == "midpoint" else place - below
    result = _C.lerp(low, high, share.expand(low.shape))
    # NaN among the elements: sorted last, it is the result of its row.
    if not without_nan:
        result = _C.where(ordered[..., -1:].isnan(), ordered[..., -1:], result).movedim(-1, 0)
    if keepdim:
        result = result.reshape((-1, *[1] * input.ndim)) if whole else result.unsqueeze(axis + 1)
    return result[0] if single else result


def _at(ordered, place, by_row):
    """Elements along the last dimension: the same places of all rows, or each row's own, one for each along the first."""
    if not by_row:
        return ordered[..., place]
    return ordered.gather(-1, place.movedim(0, -1)).movedim(-1, 0)


@composition
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-th quantiles of the elements that are not NaN; NaN where there are none; otherwise like `quantile`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nanquantile(ad.tensor([0.0, ad.nan, 4.0]), 0.5)
    tensor(2.)
    """
    return give(
        out,
        _quantiles("nanquantile", input, q, dim, keepdim, interpolation, True),
        "nanquantile",
        converts=False,
    )


@composition
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Sequence[Tensor] | None = None) -> Any:
    """The most frequent element along a dimension, the smallest of several, and the last index where it occurs.

    Examples
    --------
    >>> import adjoint as ad
    >>> values, indices = ad.mode(ad.tensor([3, 1, 1, 3, 2]))
    >>> values, indices
    (tensor(1), tensor(2))
    """
    from adjoint.return_types import mode as result_type

    if input.ndim == 0:
        indices = _C._zeros((), dtype=_C.int64)
        return give_all(out, result_type(input.clone(), indices), "mode", converts=False)
    n = input.size(dim)
    if n == 0:
        if input.numel() == 0 and all(size for d, size in enumerate(input.shape) if d != dim % input.ndim):
            raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    indices = _C._mode_index(input.detach(), dim, True)
    values = input.gather(dim, indices)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return give_all(out, result_type(values, indices), "mode", converts=False)
