"""Norms of vectors and matrices, condition and rank. Start reading at `vector_norm`."""

from __future__ import annotations

from math import inf

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.arguments import dimension, give
from adjoint._types import Dims, DType
from adjoint.linalg._checks import give_cast, matrices, square, tensor, type_name
from adjoint.linalg._decompositions import eigvalsh, svdvals
from adjoint.linalg._solvers import tolerances

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]


def vector_norm(
    x: Tensor,
    ord: float | str = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
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
    tensor(x, "linalg.vector_norm", "x")
    if not isinstance(ord, (int, float)):
        raise TypeError(f"linalg.vector_norm(): argument 'ord' must be a number, not {type(ord).__name__}")
    if not (x.is_floating_point() or x.is_complex()) and dtype is None:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(x)}"
        )
    result = _C._vector_norm(x, float(ord), dim, keepdim, dtype=dtype)
    if out is None:
        return result
    if out.dtype is not result.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype.name}, but got {out.dtype.name} instead"
        )
    return give(out, result, "linalg.vector_norm")


def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Dims = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of each matrix in two dimensions of the input.

    Parameters
    ----------
    A : Tensor, at least two dimensions
    ord : 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2
        'fro': the root of the sum of squares. ±inf: the largest and smallest sum of absolute values in a row; ±1: in a
        column; ±2: the largest and smallest singular value; 'nuc': their sum.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.matrix_norm(ad.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    tensor(A, "linalg.matrix_norm")
    if ord not in ("fro", "nuc", 2, -2, 1, -1, inf, -inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, but got {A.ndim}"
        )
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    row, column = (dimension(d, A.ndim) for d in dim)
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {dim}")
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim, dtype=dtype, out=out)
    largest = isinstance(ord, str) or ord > 0
    if ord in (2, -2, "nuc"):
        moved = (A if dtype is None else A.to(dtype)).movedim((row, column), (-2, -1))
        values = svdvals(moved)
        if ord == "nuc" or largest and not values.shape[-1]:  # the largest of no singular values is 0
            result = values.sum(-1)
        else:
            result = values.amax(-1) if largest else values.amin(-1)
        if keepdim:
            for d in sorted((row, column)):
                result = result.unsqueeze(d)
        return give(out, result, "linalg.matrix_norm")
    summed, kept = (row, column) if ord in (1, -1) else (column, row)
    if not keepdim and kept > summed:
        kept -= 1
    sums = vector_norm(A, 1, summed, keepdim, dtype=dtype)
    if largest:  # sums are not negative: the largest of none is 0
        result = sums.amax(kept, keepdim=keepdim) if sums.shape[kept] else sums.sum(kept, keepdim=keepdim)
    else:
        result = sums.amin(kept, keepdim=keepdim)
    return give(out, result, "linalg.matrix_norm")


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`vector_norm` of all elements; `matrix_norm` where `ord` is given and there are two dimensions.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.norm(ad.tensor([3.0, 4.0]))
    tensor(5.)
    """
    tensor(A, "linalg.norm")
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is not None and dim is None and A.ndim > 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2
    if isinstance(ord, str) or (ord is not None and (pair or (dim is None and A.ndim == 2))):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def cond(A: Tensor, p: float | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number: the norm of a matrix times that of its inverse.

    Parameters
    ----------
    p : None, 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2
        None and 2: the largest singular value over the smallest (matrices need not be square); -2 the other way round.
        Singular matrices give inf.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.cond(ad.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    name = "linalg.cond"
    if p not in (None, "fro", "nuc", 2, -2, 1, -1, inf, -inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    matrices(A, name)
    if p is None or p in (2, -2):
        values = svdvals(A)
        if values.shape[-1] == 0:
            result = values.sum(-1)
        else:
            largest, smallest = (
                values.narrow(-1, 0, 1).squeeze(-1),
                values.narrow(-1, values.shape[-1] - 1, 1).squeeze(-1),
            )
            result = smallest / largest if p == -2 else largest / smallest
        return give_cast(out, result, "linalg.cond")
    square(A, name)
    inverse, info = _C._inverse(A)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    result = _C.where(info != 0, _C._full((), inf, dtype=result.dtype), result)
    return give_cast(out, result, "linalg.cond")


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values (absolute eigenvalues where `hermitian`) are larger than ``max(atol, rtol * largest)``.

    Parameters
    ----------
    atol, rtol : float or Tensor, optional
        Like those of `pinv`.
    tol : float or Tensor
        The old name of `atol`.

    Returns
    -------
    Tensor
        int64, one number per matrix. Not differentiable.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.matrix_rank(ad.ones(3, 3))
    tensor(1)
    """
    name = "linalg.matrix_rank"
    (square if hermitian else matrices)(A, name)
    A = A.detach()
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = tolerances(A, atol, rtol, name)
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if values.shape[-1] == 0:
        result = values.sum(-1).to(_C.int64)
    else:
        least = _C.maximum(atol.expand(values.shape[:-1]), rtol * values.amax(-1))  # type: ignore[union-attr]
        result = (values > least.unsqueeze(-1)).sum(-1)
    return give_cast(out, result, "linalg.matrix_rank")


register.publish(globals())
