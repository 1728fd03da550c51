"""What every function of this package checks and says: shapes, dtypes, and what LAPACK's `info` means.

Start reading at `square`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint.ops.shape import broadcast_shapes

__all__ = ["LinAlgError", "broadcast", "matrices", "raise_where", "square"]


class LinAlgError(RuntimeError):
    """A matrix for which an algorithm has no answer: singular, not positive definite, not converging."""

    __module__ = "adjoint.linalg"


def tensor(A, name, argument="A"):
    """Refuse what is no tensor."""
    if not isinstance(A, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(A).__name__}")
    return A


def matrices(A, name, argument="A") -> Tensor:
    """Check that `A` is a batch of matrices of a type that LAPACK knows."""
    tensor(A, name, argument)
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    kind = A.type().split(".")[-1].removesuffix("Tensor")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind}; convert it, for example with "
            ".to(adjoint.float64)"
        )
    if A.dtype in (_C.float16, _C.bfloat16):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind}; convert to float32")
    return A


def square(A, name, argument="A") -> Tensor:
    """Check that `A` is a batch of square matrices."""
    matrices(A, name, argument)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    return A


def same_dtype(A, B, name):
    """Refuse mixtures."""
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {A.dtype} and B of type {B.dtype} "
            "instead"
        )


def broadcast(A, B, name) -> tuple[Tensor, Tensor]:
    """Two batches of matrices with the same batch dimensions."""
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    try:
        batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except RuntimeError:
        raise RuntimeError(
            f"{name}: The batch dimensions of A, {list(A.shape[:-2])}, and of B, {list(B.shape[:-2])}, do not broadcast"
        ) from None
    return A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])


def raise_where(info, name, say):
    """Raise LinAlgError with what `say(info)` says of the first matrix whose `info` is not zero."""
    if info.is_meta:
        return
    info = _C._whole(info)
    if info.ndim == 0:
        found = info.item()
        if found:
            raise LinAlgError(f"{name}: {say(found)}")
        return
    if not info.any().item():
        return
    flat = info.reshape(-1).tolist()
    number = next(i for i, found in enumerate(flat) if found)
    raise LinAlgError(f"{name}: (Batch element {number}): {say(flat[number])}")
