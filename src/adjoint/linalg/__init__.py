"""Norms and products of vectors and matrices, over what the core has.

Decompositions and solvers are not provided yet: asking for one gives a function that raises NotImplementedError. Start
reading at `vector_norm`.
"""

from __future__ import annotations

from math import inf

from adjoint import _C
from adjoint._C import Tensor
from adjoint._creation import _into
from adjoint._products import cross

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "vecdot",
    "vector_norm",
]


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None) -> Tensor:
    """The norm ``sum(|x|^ord)^(1/ord)`` of all elements, or along dimensions.

    Parameters
    ----------
    x : Tensor, any shape, floating point or complex
    ord : float
        inf and -inf give the largest and the smallest absolute value, 0 the number of elements that are not zero.
    dim : int or tuple of int, optional
        All of them when left out.
    keepdim : bool
        Keep the reduced dimensions with size 1.
    dtype : dtype, optional
        What to compute in.

    Returns
    -------
    Tensor
        Real. Its gradient at a zero vector is zero.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.vector_norm(ad.tensor([[3.0, 4.0], [0.0, 1.0]]), dim=1)
    tensor([5., 1.])
    """
    if not isinstance(ord, (int, float)):
        raise TypeError(f"linalg.vector_norm(): argument 'ord' must be a number, not {type(ord).__name__}")
    if not (x.is_floating_point() or x.is_complex()) and dtype is None:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype}"
        )
    result = _C._vector_norm(x, float(ord), dim, keepdim, dtype=dtype)
    return result if out is None else _into(out, result)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None) -> Tensor:
    """The norm of each matrix in two dimensions of the input.

    Parameters
    ----------
    A : Tensor, at least two dimensions
    ord : 'fro', inf, -inf, 1 or -1
        'fro': the root of the sum of squares. ±inf: the largest and smallest sum of absolute values in a row; ±1: in a
        column. 2, -2 and 'nuc' need singular values and are not provided yet.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.matrix_norm(ad.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, but got {A.ndim}"
        )
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    row, column = (d % A.ndim for d in dim)
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {dim}")
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim, dtype=dtype, out=out)
    if ord in (2, -2, "nuc"):
        raise NotImplementedError(
            f"linalg.matrix_norm: ord={ord!r} needs singular values, which are not provided yet"
        )
    if ord not in (1, -1, inf, -inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, kept = (row, column) if abs(ord) == 1 else (column, row)
    if not keepdim and kept > summed:
        kept -= 1
    sums = vector_norm(A, 1, summed, keepdim, dtype=dtype)
    result = sums.amax(kept, keepdim=keepdim) if ord > 0 else sums.amin(kept, keepdim=keepdim)
    return result if out is None else _into(out, result)


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None, out=None) -> Tensor:
    """`vector_norm` of all elements; `matrix_norm` where `ord` is given and there are two dimensions.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.norm(ad.tensor([3.0, 4.0]))
    tensor(5.)
    """
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2
    if isinstance(ord, str) or (ord is not None and (pair or (dim is None and A.ndim == 2))):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    if ord is not None and dim is None and A.ndim > 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1) -> Tensor:
    """The diagonal of each matrix in the last two dimensions, as a view."""
    return A.diagonal(offset, dim1, dim2)


def matmul(input, other, *, out=None) -> Tensor:
    """``input @ other``."""
    return _C.matmul(input, other, out=out)


def vecdot(x, y, *, dim=-1, out=None) -> Tensor:
    """The sum of products along a dimension, of the conjugate of `x` with `y`."""
    result = ((x.conj() if x.is_complex() else x) * y).sum(dim)
    return result if out is None else _into(out, result)


def matrix_power(A, n, *, out=None) -> Tensor:
    """Each square matrix to the power of a whole number that is not negative."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but its shape is {list(A.shape)}"
        )
    if n < 0:
        raise NotImplementedError(f"linalg.matrix_power: n={n} needs an inverse, which is not provided yet")
    result, square = None, A
    while n:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if n:
            square = square @ square
    if result is None:
        result = _C._eye(A.shape[-1], A.shape[-1], A.dtype, False).expand(A.shape).clone()
    return result if out is None else _into(out, result)


def multi_dot(tensors, *, out=None) -> Tensor:
    """The product of several matrices, in the order that costs the least.

    Parameters
    ----------
    tensors : sequence of at least two Tensors
        The first and the last may be vectors.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.multi_dot([ad.ones(2, 3), ad.ones(3, 4), ad.ones(4, 1)]).shape
    adjoint.Size([2, 1])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for i, t in enumerate(tensors):
        if t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if i and t.shape[0] != tensors[i - 1].shape[1]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(tensors[i - 1].shape)} and {list(t.shape)} "
                "cannot be multiplied"
            )
    result = _chain(tensors, *_cheapest_order([t.shape[0] for t in tensors] + [tensors[-1].shape[1]]))
    if first:
        result = result.squeeze(0)
    if last:
        result = result.squeeze(-1)
    return result if out is None else _into(out, result)


def _cheapest_order(sizes):
    """Where to split each run of matrices, by dynamic programming over runs (Cormen et al., section 14.2)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return cut, 0, n - 1


def _chain(tensors, cut, i, j):
    if i == j:
        return tensors[i]
    k = cut[i, j]
    return _chain(tensors, cut, i, k) @ _chain(tensors, cut, k + 1, j)


_PLANNED = frozenset(
    "cholesky cholesky_ex cond det eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor ldl_solve lstsq lu "
    "lu_factor lu_solve matrix_exp matrix_rank pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv "
    "tensorsolve vander".split()
)


def __getattr__(name):
    if name in _PLANNED:

        def missing(*args, **kwargs):
            raise NotImplementedError(f"linalg.{name}() is not provided yet")

        missing.__name__ = name
        return missing
    raise AttributeError(f"module 'adjoint.linalg' has no attribute {name!r}")
