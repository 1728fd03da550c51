"""Differences, and integrals by the trapezoidal rule. Start reading at `diff`."""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give
from adjoint._publish.register import composition
from adjoint._switches import switches
from adjoint._types import Any, Dims


@composition
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along a dimension, `n` times; of bools, whether they differ.

    Parameters
    ----------
    prepend, append : Tensor, optional
        What to put before and after the input along the dimension first.

    Raises
    ------
    RuntimeError
        `n` is negative, or the input is a number.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.diff(ad.tensor([1, 4, 9]), prepend=ad.tensor([0]))
    tensor([1, 3, 5])
    """
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = dimension(dim, input.ndim)
    for side in (prepend, append):
        if side is not None:
            _need_fit(input, side, dim)
    ends = [x for x in (prepend, input, append) if x is not None]
    # Without a step the result is still a new tensor, and what would be put around the input is left away.
    result = input.clone() if n == 0 else input if len(ends) == 1 else _C.cat(ends, dim)
    for _ in range(builtins.min(n, result.shape[dim])):
        size = builtins.max(result.shape[dim] - 1, 0)
        later, earlier = result.narrow(dim, result.shape[dim] - size, size), result.narrow(dim, 0, size)
        result = later != earlier if result.dtype is _C.bool else later - earlier
    return give(out, result, "diff", converts=False)


def _need_fit(input, side, dim):
    """What `diff` puts before or after its input has the input's shape but along that dimension."""
    if side.ndim != input.ndim:
        raise RuntimeError(
            f"diff expects prepend or append to be the same dimension as input, but it has {side.ndim} and the input {input.ndim}"
        )
    if any(n != m for d, (n, m) in enumerate(zip(side.shape, input.shape)) if d != dim):
        raise RuntimeError(
            "diff expects the shape of tensor to prepend or append to match that of input except along the differencing "
            f"dimension {dim}: they are {tuple(side.shape)} and {tuple(input.shape)}"
        )


@composition
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: int = 1, dim: int = -1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule."""
    dim = dimension(dim, y.ndim, False)
    if y.shape[dim] == 0:
        return y.sum(dim)
    if x is not None and x.ndim == 1 and x.shape[0] != y.shape[dim]:
        raise RuntimeError(
            f"trapezoid(): There must be one `x` value for each sample point: {y.shape[dim]}, but got {x.shape[0]}"
        )
    return _integral("trapezoid", _C.sum, y, x, dx, dim)


@composition(method=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: int = 1, dim: int = -1) -> Tensor:
    """`trapezoid`, by its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composition(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: int = 1, dim: int = -1) -> Tensor:
    """The integral from the first point up to each other one by the trapezoidal rule."""
    return _integral("cumulative_trapezoid", _C.cumsum, y, x, dx, dimension(dim, y.ndim, False))


def _integral(name, add, y, x, dx, dim):
    """The areas of the trapezoids between neighbouring points along a dimension, added up by `add`."""
    if any(t is not None and t.dtype is _C.bool for t in (y, x)):
        raise RuntimeError(
            f"{name}: received a bool input for `x` or `y`, but bool is not supported; convert it, for example with .int()"
        )
    if not y.shape[dim]:
        return add(y, dim)
    ends = y.narrow(dim, 1, y.shape[dim] - 1) + y.narrow(dim, 0, y.shape[dim] - 1)
    if x is None:
        return add(ends, dim) * (dx / 2)
    # Places of one dimension are those along `dim`; of several, they broadcast with the values.
    if x.ndim == 1:
        x = x.reshape([-1 if d == dim else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    steps = x.narrow(dim, 1, x.shape[dim] - 1) - x.narrow(dim, 0, x.shape[dim] - 1)
    return add(ends * steps, dim) / 2


@composition(method=False)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Dims = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative along each dimension of a function known at points, by differences of second order.

    At points that are not equally far apart, by the parabola through each and its neighbours.

    Parameters
    ----------
    spacing : number, sequence of numbers, or sequence of Tensors
        How far apart points are, for all dimensions or for each (1 when left out); or where they are along each.
    dim : int or tuple of int, optional
        All, when left out.
    edge_order : 1 or 2
        Of the differences at the ends.

    Returns
    -------
    tuple of Tensor, one for each dimension, of the shape of `input`

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.gradient(ad.tensor([1.0, 2.0, 4.0, 8.0]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    dims = [dim] if isinstance(dim, int) else list(range(input.ndim) if dim is None else dim)
    if edge_order not in (1, 2):
        raise RuntimeError(f"{switches.package}.gradient only supports edge_order=1 and edge_order=2.")
    if spacing is None:
        spacing = 1
    if isinstance(spacing, Tensor) or isinstance(spacing, (int, float, complex)):
        spacings = [spacing] * len(dims)
    else:
        spacings = list(spacing)
        if len(spacings) != len(dims):
            raise RuntimeError(
                f"{switches.package}.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
                f"same length, but got a spacing argument of length {len(spacings)} and a dim argument of length {len(dims)}."
            )
    axes = [dimension(d, input.ndim, False) for d in dims]
    for d in axes:
        if axes.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    x = input if input.is_floating_point() or input.is_complex() else input.to(_C.get_default_dtype())
    results = []
    for d, step in zip(dims, spacings):
        size = input.shape[d]
        if size < edge_order + 1:
            raise RuntimeError(
                f"{switches.package}.gradient expected each dimension size to be at least edge_order+1"
            )
        if isinstance(step, Tensor) and step.ndim and step.numel() != size:
            raise RuntimeError(
                f"{switches.package}.gradient expected each tensor of spacing to have as many elements as there are points: {size}, but got "
                f"{step.numel()}"
            )
        results.append(_slopes(x, d, step, edge_order))
    return tuple(results)


def _slopes(x, dim, step, edge_order):
    """Along a dimension; `step` is a number or where the points are."""
    n = x.shape[dim]

    def part(t, start, end):
        return t.narrow(dim, start, end - start)

    uneven = isinstance(step, Tensor) and step.ndim > 0
    if uneven:
        h = (step[1:] - step[:-1]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
    else:
        h = step
    between = (part(x, 1, n) - part(x, 0, n - 1)) / h
    if uneven:
        before, after = part(h, 0, n - 2), part(h, 1, n - 1)
        inner = (part(between, 0, n - 2) * after + part(between, 1, n - 1) * before) / (before + after)
    else:
        inner = (part(x, 2, n) - part(x, 0, n - 2)) / h / 2
    first, last = part(between, 0, 1), part(between, n - 2, n - 1)
    if edge_order == 2:
        if uneven:
            a, b, y, z = part(h, 0, 1), part(h, 1, 2), part(h, n - 3, n - 2), part(h, n - 2, n - 1)
            first = first + (first - part(between, 1, 2)) * (a / (a + b))
            last = last + (last - part(between, n - 3, n - 2)) * (z / (z + y))
        else:
            first = (part(x, 0, 1) * -1.5 + part(x, 1, 2) * 2 - part(x, 2, 3) * 0.5) / h
            last = (part(x, n - 3, n - 2) * 0.5 - part(x, n - 2, n - 1) * 2 + part(x, n - 1, n) * 1.5) / h
    return _C.cat((first, inner, last), dim)
