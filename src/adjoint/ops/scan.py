"""Neighbours along a dimension: differences, and integrals by the trapezoidal rule. Start reading at `diff`."""

from __future__ import annotations

import builtins

from adjoint import _C
from adjoint._arguments import give
from adjoint._C import Tensor
from adjoint._register import composition


@composition
def diff(input, n=1, dim=-1, prepend=None, append=None, *, out=None) -> Tensor:
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
    ends = [x for x in (prepend, input, append) if x is not None]
    # Without a step the result is still a new tensor, and what would be put around the input is left away.
    result = input.clone() if n == 0 else input if len(ends) == 1 else _C.cat(ends, dim)
    for _ in range(builtins.min(n, result.shape[dim])):
        size = builtins.max(result.shape[dim] - 1, 0)
        later, earlier = result.narrow(dim, result.shape[dim] - size, size), result.narrow(dim, 0, size)
        result = later != earlier if result.dtype is _C.bool else later - earlier
    return give(out, result, "diff")


@composition
def trapezoid(y, x=None, *, dx=1, dim=-1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule."""
    if y.shape[dim] == 0:
        return y.sum(dim)
    if x is not None and x.ndim == 1 and x.shape[0] != y.shape[dim]:
        raise RuntimeError(
            f"trapezoid(): There must be one `x` value for each sample point: {y.shape[dim]}, but got {x.shape[0]}"
        )
    return _integral(_C.sum, y, x, dx, dim)


@composition(method=False)
def trapz(y, x=None, *, dx=1, dim=-1) -> Tensor:
    """`trapezoid`, by its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composition(method=False)
def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1) -> Tensor:
    """The integral from the first point up to each other one by the trapezoidal rule."""
    return _integral(_C.cumsum, y, x, dx, dim)


def _integral(add, y, x, dx, dim):
    """The areas of the trapezoids between neighbouring points along a dimension, added up by `add`."""
    ends = y.narrow(dim, 1, y.shape[dim] - 1) + y.narrow(dim, 0, y.shape[dim] - 1)
    if x is None:
        return add(ends, dim) * (dx / 2)
    steps = x.narrow(-1, 1, x.shape[-1] - 1) - x.narrow(-1, 0, x.shape[-1] - 1)
    if x.ndim == 1 and y.ndim > 1:
        steps = steps.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    return add(ends * steps, dim) / 2
