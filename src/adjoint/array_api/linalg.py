"""The standard's linear algebra."""

from __future__ import annotations

import collections

import adjoint as ad
from adjoint import linalg as own
from adjoint._publish.register import listing
from adjoint._types import Any, DType, Sequence, Tensor
from adjoint.array_api._elementwise import together
from adjoint.array_api._shapes import axes_of

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
__dir__ = listing(__name__)

EigResult = collections.namedtuple("EigResult", "eigenvalues eigenvectors")
EighResult = collections.namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = collections.namedtuple("QRResult", "Q R")
SlogdetResult = collections.namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = collections.namedtuple("SVDResult", "U S Vh")

det, inv, matrix_power = own.det, own.inv, own.matrix_power
eigvals, eigvalsh, svdvals = own.eigvals, own.eigvalsh, own.svdvals


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix."""
    return own.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements."""
    x1, x2 = together(x1, x2)
    if x1.shape[axis] == x2.shape[axis] == 3:
        x1, x2 = ad.broadcast_tensors(x1, x2)
    return own.cross(x1, x2, dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of each matrix."""
    return ad.diagonal(x, offset, -2, -1)


def eig(x: Tensor, /) -> Any:
    """Eigenvalues and eigenvectors."""
    return EigResult(*own.eig(x))


def eigh(x: Tensor, /) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    return EighResult(*own.eigh(x))


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """An orthogonal and a triangular factor."""
    return QRResult(*own.qr(x, mode=mode))


def slogdet(x: Tensor, /) -> Any:
    """Sign and logarithm of the absolute value of the determinant."""
    return SlogdetResult(*own.slogdet(x))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Singular vectors and values."""
    return SVDResult(*own.svd(x, full_matrices=full_matrices))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of x1 y = x2; `x2` is a vector where it has one dimension, and only there."""
    x1, x2 = together(x1, x2)
    if x2.ndim == 1:
        return own.solve(x1, x2[:, None])[..., 0]
    batch = ad.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return own.solve(x1.expand(batch + x1.shape[-2:]), x2.expand(batch + x2.shape[-2:]))


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices."""
    return ad.matmul(*together(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Each matrix with rows and columns exchanged."""
    return x.mT


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of one vector with each of another."""
    return ad.outer(*together(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """The product summed over some axes of both."""
    x1, x2 = together(x1, x2)
    return ad.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The scalar product along an axis; the first vector is conjugated."""
    x1, x2 = together(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot(): vectors of {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}"
        )
    if x1.is_floating_point() or x1.is_complex():
        return own.vecdot(x1, x2, dim=axis)
    return ad.sum(x1 * x2, axis, dtype=x1.dtype)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum of the diagonal of each matrix."""
    return ad.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: str = "fro") -> Tensor:
    """A norm of each matrix."""
    if ord is None:
        return own.vector_norm(x, dim=(-2, -1), keepdim=keepdims)
    return own.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest."""
    return own.matrix_rank(x, rtol=rtol)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse, which leaves out singular values below `rtol` times the largest."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * ad.finfo(x.dtype).eps
    return own.pinv(x, rtol=rtol)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: int = 2) -> Tensor:
    """A norm over axes."""
    axes = axes_of(x, axis)
    if not axes:
        return ad.abs(x) if ord != 0 else (x != 0).to(ad.abs(x).dtype)
    return own.vector_norm(x, ord, axes, keepdims)
