"""Reductions: norms, distances, means without NaN, covariances, and sums to the shape before broadcasting.

Order statistics such as `quantile` are in `sorting`, integrals in `scan`. Start reading at `norm`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._arguments import give
from adjoint._C import Tensor
from adjoint._register import Members, composition, extend


@composition
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None) -> Tensor:
    """The mean of the elements that are not NaN."""
    count = (~input.isnan()).sum(dim, keepdim=keepdim)
    return _C.div(_C.nansum(input, dim, keepdim, dtype=dtype), count, out=out)


# --- norms and distances ---------------------------------------------------------------------------------------------


@composition
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None) -> Tensor:
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

            return linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
        p = 2.0
    result = _C._vector_norm(input, 2.0 if p is None else p, dim, keepdim, dtype=dtype)
    return give(out, result, "norm")


@composition
def dist(input, other, p=2) -> Tensor:
    """The p-norm of ``input - other``."""
    return norm(input - other, p)


@composition(method=False)
def cdist(x1, x2, p=2.0, compute_mode=None) -> Tensor:
    """The p-norm distance of each row of one matrix from each row of another.

    Parameters
    ----------
    x1 : Tensor, shape (..., n, d)
    x2 : Tensor, shape (..., m, d)

    Returns
    -------
    Tensor, shape (..., n, m)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.cdist(ad.zeros(1, 2), ad.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist(): expected matrices with the same number of columns, but got {list(x1.shape)} and {list(x2.shape)}"
        )
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    # No columns: every distance is 0, whatever the norm.
    return _C._vector_norm(difference, float(p) if x1.shape[-1] else 1.0, -1, False)


# --- statistics ------------------------------------------------------------------------------------------------------


@composition
def cov(input, *, correction=1, fweights=None, aweights=None) -> Tensor:
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
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.get_default_dtype())
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given.to(x.dtype) if weights is None else weights * given
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
    if count and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composition
def corrcoef(input) -> Tensor:
    """The correlations of variables, one per row, over their observations, one per column."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviation = c.diagonal().real.sqrt()
    return c / deviation.unsqueeze(0) / deviation.unsqueeze(1)


# --- shapes ----------------------------------------------------------------------------------------------------------


@extend
class Sums(Members):
    def sum_to_size(self, *sizes, size=None) -> Tensor:
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
        if not dims:
            return self
        return self.sum(dims, keepdim=True).view(size)
