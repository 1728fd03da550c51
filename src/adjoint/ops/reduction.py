"""Reductions: norms, distances, means without NaN, covariances, and sums to the shape before broadcasting.

Order statistics such as `quantile` are in `sorting`, integrals in `scan`. Start reading at `norm`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import give, give_all, same_dtype, scalar_type
from adjoint._publish.register import Members, composition, extend
from adjoint._switches import switches
from adjoint._types import Any, Dims, DType, Shape
from adjoint.ops.shape import broadcast_shapes
from adjoint.ops.sorting import searchsorted
from adjoint.ops.writing import _neutral, scatter_reduce


@composition
def nanmean(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of the elements that are not NaN."""
    count = (~input.isnan()).sum(dim, keepdim=keepdim)
    return _C.div(_C.nansum(input, dim, keepdim, dtype=dtype), count, out=out)


# --- norms and distances ---------------------------------------------------------------------------------------------


@composition
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """The p-norm of the elements, of all of them or along dimensions.

    Parameters
    ----------
    p : float or 'fro'
        'fro' is 2; inf and -inf are the largest and smallest absolute value, 0 counts the elements that are not zero.
    dim : int or tuple of int, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.norm(ad.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(p, str):
        if p != "fro":
            from adjoint import linalg

            return linalg.matrix_norm(
                input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out
            )
        p = 2.0
    result = _C._vector_norm(input, 2.0 if p is None else p, dim, keepdim, dtype=dtype)
    return give(out, result, "norm", converts=False)


@composition
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of ``input - other``."""
    return norm(input - other, p)


_WAYS_OF_CDIST = (
    None,
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@composition(method=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of each row of one matrix from each row of another.

    Parameters
    ----------
    x1 : Tensor, shape (..., n, d)
    x2 : Tensor, shape (..., m, d)
    compute_mode : str, optional
        torch's names of ways to compute it, each of which permits the one that is taken.

    Returns
    -------
    Tensor, shape (..., n, m)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.cdist(ad.zeros(1, 2), ad.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if compute_mode not in _WAYS_OF_CDIST:
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode: expected one of {', '.join(map(repr, _WAYS_OF_CDIST))}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_type(x)}")
    same_dtype("cdist", x1, x2)
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p in (1, 2, float("inf")):
        if (lead := x1.shape[:-2]) != x2.shape[:-2]:
            lead = broadcast_shapes(lead, x2.shape[:-2])
            x1, x2 = (x.expand(*lead, *x.shape[-2:]) for x in (x1, x2))
        return _C._cdist(x1, x2, p)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    # No columns: every distance is 0, whatever the norm.
    return _C._vector_norm(difference, float(p) if x1.shape[-1] else 1.0, -1, False)


# --- statistics ------------------------------------------------------------------------------------------------------


@composition
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of variables, one per row, over their observations, one per column.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.cov(ad.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got {input.ndim}")
    if input.dtype is _C.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    _check_weights("fweights", fweights, x.shape[1])
    _check_weights("aweights", aweights, x.shape[1])
    # As operators promote them: a weight of a higher dtype decides.
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given if weights is None else weights * given
    n = x.shape[1] if weights is None else weights.sum()
    mean = (x if weights is None else x * weights).sum(1, True) / n
    if weights is None:
        freedom = n - correction
    elif aweights is None:
        freedom = n - correction
    else:
        freedom = n - correction * (weights * aweights).sum() / n
    centred = x - mean
    other = centred if weights is None else centred * weights
    other, centred = other.to(dtype := _C.promote_types(other.dtype, centred.dtype)), centred.to(dtype)
    result = (other @ centred.mH.clone()) / (freedom if isinstance(freedom, Tensor) else max(freedom, 0))
    return result.squeeze()


def _check_weights(name, weights, count):
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    if name == "fweights" and (
        weights.is_floating_point() or weights.is_complex() or weights.dtype is _C.bool
    ):
        raise RuntimeError(
            f"cov(): expected fweights to have integral dtype but got fweights with {weights.dtype} dtype"
        )
    if name == "aweights" and not weights.is_floating_point():
        raise RuntimeError(
            f"cov(): expected aweights to have floating point dtype but got aweights with {weights.dtype} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {count}"
        )
    if count and not weights.is_meta and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composition
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables, one per row, over their observations, one per column."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviation = c.diagonal().real.sqrt()
    result = c / deviation.unsqueeze(0) / deviation.unsqueeze(1)
    # Rounding must not make a correlation of more than one.
    if result.is_complex():
        return _C.complex(result.real.clamp(-1, 1), result.imag.clamp(-1, 1))
    return result.clamp(-1, 1)


# --- shapes ----------------------------------------------------------------------------------------------------------


@extend
class Sums(Members):
    def sum_to_size(self, *sizes: Any, size: Shape | None = None) -> Tensor:
        """Summed over the dimensions that broadcasting would repeat, to a given shape.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
        """
        sizes = sizes if size is None else (size,)
        size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        lead = self.ndim - len(size)
        if lead < 0 or any(n not in (1, m) for n, m in zip(size, self.shape[lead:])):
            raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(self.shape)}}}.")
        dims = [*range(lead), *(d + lead for d, n in enumerate(size) if n == 1 and self.shape[d + lead] != 1)]
        if not size:
            return self.sum()
        if not dims:
            return self
        result = self.sum(dims, keepdim=True)
        return result.view(size) if lead else result


# --- segments and intervals ------------------------------------------------------------------------------------------


@composition(method=False)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce consecutive segments along a dimension.

    Parameters
    ----------
    data : Tensor, shape (..., n, ...)
    reduce : 'sum', 'mean', 'max', 'min' or 'prod'
    lengths : Tensor of integers, shape (..., segments)
        How many elements each segment has; dimensions before `axis` as those of `data`.
    offsets : Tensor of integers, shape (..., segments + 1)
        Or where each begins, and the last ends.
    initial : number, optional
        Takes part in each segment.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.segment_reduce(ad.tensor([1.0, 2.0, 3.0]), "sum", lengths=ad.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, max or min, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given: Any = lengths if lengths is not None else offsets
    axis %= data.ndim
    if given.ndim != axis + 1 or given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): expected lengths or offsets of {axis + 1} dimension(s) that begin as those of data, "
            f"{list(data.shape)}, but got shape {list(given.shape)}"
        )
    if lengths is None:
        ends, lengths = given[..., 1:], given[..., 1:] - given[..., :-1]
    else:
        ends = lengths.cumsum(-1)
    size, count = data.shape[axis], lengths.shape[-1]
    if not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if ends.numel() and not bool((ends[..., -1] == size).all()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
            )
    # The segment of each element is the number of those that end before it or with it.
    marks = _C._zeros((*ends.shape[:-1], size + 1), dtype=_C.int64)
    ends = ends.to(_C.int64)
    at = marks.scatter_add(-1, ends, _C._full(ends.shape, 1, dtype=_C.int64)).cumsum(-1).narrow(-1, 0, size)
    tail = data.shape[axis + 1 :]
    at = at.reshape((*at.shape, *[1] * len(tail))).expand(data.shape)
    how = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    start = _neutral(how, data.dtype) if initial is None else initial
    into = _C._full((*data.shape[:axis], count, *tail), start, dtype=data.dtype)
    if how != "mean":
        return scatter_reduce(into, axis, at, data, how)
    number = lengths.reshape((*lengths.shape, *[1] * len(tail)))
    mean = into.scatter_add(axis, at, data) / number
    return mean if initial is None else _C.where(number == 0, into, mean)


def _edges(flat, count, low, high):
    """`count` + 1 edges of equal intervals of [low, high]."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    return _C._linspace(low, high, count + 1, flat.dtype, False)


def _extent(flat, name):
    """Of all elements; torch's [0, 1] where there are none."""
    if not flat.numel():
        return 0.0, 1.0
    low, high = (x.item() for x in _C.aminmax(flat))
    if not (low - low == 0 == high - high):
        raise RuntimeError(f"{name}: dimension 0's range [{low}, {high}] is not finite")
    return low, high


def _interval(x, edge, even):
    """The number of the interval between edges, `even` or not, that each element lies in; the last one includes its end."""
    if even:
        return _C._even_interval(x, edge)
    return (searchsorted(edge, x, right=True) - 1).clamp(0, edge.numel() - 2)


def _counts(name, points, edges, even, weight, density):
    """How many rows of `points` lie in each box between the edges of its dimensions, which are `even` or not."""
    shape = [e.numel() - 1 for e in edges]
    inside: Any = None
    place: Any = None
    for x, edge, equal, size in zip(points.unbind(-1), edges, even, shape):
        if type(equal) is not tuple:
            within = (x >= edge[0]) & (x <= edge[-1])
            inside = within if inside is None else inside & within
        at = _interval(x, edge, equal)
        place = at if place is None else place * size + at
    if weight is None:
        weight = _C._full((), 1, dtype=points.dtype).expand(points.shape[0])
    elif weight.dtype is not points.dtype:
        raise RuntimeError(
            f"{switches.package}.{name}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input {points.dtype}, and weight {weight.dtype}"
        )
    total = 1
    for size in shape:
        total *= size
    weight = weight.detach().reshape(-1)
    if inside is not None:  # what lies outside counts nothing, in the first box
        place, weight = _C.where(inside, place, 0), _C.where(inside, weight, 0)
    hist = _C._zeros((total,), dtype=points.dtype).scatter_add(0, place, weight).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            widths = edge[1:] - edge[:-1]
            hist = hist / widths.reshape([-1 if k == d else 1 for k in range(len(shape))])
    return hist


@composition
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Tensor | None = None,
) -> Any:
    """The histogram of the elements; the last bin includes its end.

    Parameters
    ----------
    bins : int, or Tensor of shape (k + 1)
        The number of equal intervals; or their edges, rising.
    range : (low, high), optional
        What equal intervals cover; by default all elements.
    weight : Tensor of the shape of `input`, optional
        What each element counts.
    density : bool
        Scaled so that the integral is 1.

    Returns
    -------
    hist, bin_edges : Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> hist, edges = ad.histogram(ad.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0))
    >>> hist
    tensor([0., 2., 1., 0.])
    """
    from adjoint.return_types import histogram as result_type

    flat = input.detach().reshape(-1)
    _need_floating("histogram", flat)
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"{switches.package}.histogram: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    even: Any
    if isinstance(bins, Tensor):
        same_dtype("histogram", input, bins)
        edges, even = bins, False
    else:
        _need_bins("histogram", bins)
        low, high = _extent(flat, "histogram") if range is None else range
        edges = _edges(flat, bins, low, high)
        even = (low, high) if range is None and low < high else True
    hist = _counts("histogram", flat.unsqueeze(-1), [edges], [even], weight, density)
    return give_all(out, result_type(hist, edges), "histogram", converts=False)


@composition(method=False)
def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """The multi-dimensional histogram of points, one per row.

    Parameters
    ----------
    input : Tensor, shape (..., d)
    bins : int, or d of them, or d Tensors of edges
    range : sequence of 2 d numbers, optional
        Lowest and highest of each dimension.

    Returns
    -------
    hist : Tensor of d dimensions
    bin_edges : tuple of d Tensors

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.histogramdd(ad.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    from adjoint.return_types import histogramdd as result_type

    _need_floating("histogramdd", input)
    if input.ndim < 2:
        raise RuntimeError(f"{switches.package}.histogramdd: input tensor should have at least 2 dimensions")
    d = input.shape[-1]
    points = input.detach().reshape(-1, d)
    each = [bins] * d if isinstance(bins, int) else list(bins)
    if len(each) != d:
        raise RuntimeError(
            f"{switches.package}.histogramdd: The size of bins must be equal to the innermost dimension of the input: expected {d}, got "
            f"{len(each)}"
        )
    if range is not None and len(range) != 2 * d:
        raise RuntimeError(
            f"{switches.package}.histogramdd: for a {d}-dimensional histogram range should have {2 * d} elements, but got {len(range)}"
        )
    edges: Any = []
    even = [not isinstance(bin, Tensor) for bin in each]
    for k, bin in enumerate(each):
        if not isinstance(bin, Tensor):
            _need_bins("histogramdd", bin)
            ends = _extent(points[:, k], "histogramdd") if range is None else range[2 * k : 2 * k + 2]
            bin = _edges(points, bin, *ends)
        edges.append(bin)
    hist, edges = _counts("histogramdd", points, edges, even, weight, density), tuple(edges)
    return result_type(hist, edges)


def _need_floating(name, x):
    if not x.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype._type_name!r}')


def _need_bins(name, bins):
    if bins <= 0:
        raise RuntimeError(f"{switches.package}.{name}(): bins must be > 0, but got {bins}")
