"""Products, powers and exponentials of matrices. Start reading at `matrix_power`."""

from __future__ import annotations

from functools import lru_cache
from math import factorial, isfinite, nan

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.arguments import give
from adjoint._types import Sequence
from adjoint.linalg._checks import give_cast, same_dtype, square, square_shape, tensor, type_name
from adjoint.linalg._solvers import inv, solve
from adjoint.ops.product import _cross

__all__ = ["cross", "diagonal", "matmul", "matrix_exp", "matrix_power", "multi_dot", "vander", "vecdot"]


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The cross product of vectors of length three along a dimension; the other dimensions broadcast.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.cross(ad.tensor([1.0, 0.0, 0.0]), ad.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return _cross(input, other, dim, out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix in the last two dimensions, as a view."""
    return A.diagonal(offset, dim1, dim2)


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input @ other``."""
    return _C.matmul(input, other, out=out)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The sum of products along a dimension, of the conjugate of `x` with `y`."""
    for t, what in ((x, "x"), (y, "y")):
        tensor(t, "linalg.vecdot", what)
    if x.dtype == y.dtype and not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {type_name(x)}"
        )
    same_dtype(x, y, "linalg.vecdot", "x", "y")
    if x.ndim == y.ndim == 1 and 1 not in (len(x), len(y)) and len(x) != len(y):
        raise RuntimeError(
            f"linalg.vecdot: inconsistent tensor size, expected tensor {list(x.shape)} and src {list(y.shape)} to have the "
            f"same number of elements, but got {len(x)} and {len(y)} elements respectively"
        )
    result = ((x.conj() if x.is_complex() else x) * y).sum(dim)
    return give(out, result, "linalg.vecdot", converts=False)


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Each square matrix to the power of a whole number; a negative one is a power of the inverse.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.matrix_power(ad.tensor([[2.0, 0.0], [0.0, 4.0]]), -1)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    tensor(A, "linalg.matrix_power")
    if not isinstance(n, int):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    square_shape(A, "linalg.matrix_power")
    if n < 0:
        A, n = inv(A), -n
    result, power = None, A
    while n:
        if n & 1:
            result = power if result is None else result @ power
        n >>= 1
        if n:
            power = power @ power
    if result is None:
        # Constant, yet a function of A: its gradient is zero.
        result = _C._attach(_C._eye(A.shape[-1], A.shape[-1], dtype=A.dtype).expand(A.shape), A)
    return give_cast(out, result, "matrix_power", converts=False)


#: Padé approximants of order m are accurate to unit roundoff up to a 1-norm of theta (N. Higham, The scaling and squaring
#: method for the matrix exponential revisited, 2005, table 2.3).
_PADE = {
    3: 1.495585217958292e-2,
    5: 2.539398330063230e-1,
    7: 9.504178996162932e-1,
    9: 2.097847961257068,
    13: 5.371920351148152,
}


def _pade_coefficients(m):
    """b_j of the numerator: (2m - j)! m! / ((2m)! (m - j)! j!), scaled to whole numbers."""
    return [float(factorial(2 * m - j) // (factorial(m - j) * factorial(j))) for j in range(m + 1)]


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of each square matrix, by scaling, a Padé approximant and squaring.

    Source: N. Higham, *The scaling and squaring method for the matrix exponential revisited* (2005). Every step is
    recorded, so that all derivatives exist.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.matrix_exp(ad.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if A.dtype in (_C.float16, _C.bfloat16):
        return matrix_exp(A.to(_C.float32)).to(A.dtype)
    square(A, "linalg.matrix_exp")
    n = A.shape[-1]
    if A.numel() == 0 or n == 1 or A.is_meta:
        return A.exp()
    size = A.detach().abs().sum(-2).amax(-1)
    largest, mark = _C._whole(size).max().item(), None
    if not isfinite(largest):
        # The members that are not finite give NaN, and no bound for the others.
        finite = size.isfinite()
        mark = _C.where(finite, 1.0, nan).to(A.dtype).unsqueeze(-1).unsqueeze(-1)
        size = _C.where(finite, size, 0.0)
        largest = _C._whole(size).max().item()
    order = next((m for m, theta in _PADE.items() if largest <= theta), 13)
    eye = _C._eye(n, n, dtype=A.dtype)
    squarings = None
    if largest > _PADE[13]:
        squarings = (size / _PADE[13]).log2().ceil().clamp(min=0)
        A = A * (2.0**-squarings).to(A.dtype).unsqueeze(-1).unsqueeze(-1)
    b = _pade_coefficients(order)
    A2 = A @ A
    if order < 13:
        even, odd, power = b[0] * eye, b[1] * eye, None
        for j in range(2, order + 1, 2):
            power = A2 if power is None else power @ A2
            even, odd = even + b[j] * power, odd + b[j + 1] * power
        odd = A @ odd
    else:
        A4 = A2 @ A2
        A6 = A4 @ A2
        odd = A @ (
            A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye
        )
        even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    # No step saves the result, which may be written to.
    result = eye + solve(even - odd, odd + odd)
    if squarings is not None:
        for i in range(int(_C._whole(squarings).max().item())):
            more = (squarings > i).unsqueeze(-1).unsqueeze(-1)
            result = _C.where(more, result @ result, result)
    return result if mark is None else result * mark


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """The matrix of powers ``x[i] ** j`` for ``j < N``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.vander(ad.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    tensor(x, "linalg.vander", "x")
    if x.dtype == _C.bool:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    x = x if x.ndim else x.unsqueeze(0)
    N = x.shape[-1] if N is None else N
    if N <= 1:
        raise RuntimeError(f"N must be greater than 1, but got {N}")
    x = x.unsqueeze(-1)
    ones = x.new_ones(x.shape, dtype=_C.int64 if not (x.is_floating_point() or x.is_complex()) else x.dtype)
    return _C.cat([ones, x.expand(*x.shape[:-1], N - 1).to(ones.dtype).cumprod(-1)], -1)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
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
    dtype = getattr(tensors[0], "dtype", None)
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            tensor(t, "linalg.multi_dot", f"tensors[{i}]")
        if t.ndim == 2 and t.dtype is dtype:
            continue
        if i in (0, len(tensors) - 1):
            if t.ndim not in (1, 2):
                which = "last" if i else "first"
                raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {t.ndim}D")
        elif t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if t.dtype is not dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {dtype} and tensor {i} "
                f"{t.dtype}"
            )
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    sizes, before = [], None
    for i, t in enumerate(tensors):
        rows, columns = t.shape
        if i and rows != before:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(tensors[i - 1].shape)} and {list(t.shape)} "
                "cannot be multiplied"
            )
        before = columns
        sizes.append(rows)
    result = _chain(tensors, *_cheapest_order((*sizes, before)))
    if first:
        result = result.squeeze(0)
    if last:
        result = result.squeeze(-1)
    if out is None:
        return result
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"multi_dot(): expected out tensor to have dtype {result.dtype} but got {out.dtype}"
        )
    return give(out, result, "linalg.multi_dot")


@lru_cache(256)
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


register.publish(globals())
