"""What every function of this package checks and says: shapes, dtypes, and what LAPACK's `info` means.

Start reading at `square`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor, can_cast
from adjoint._publish.arguments import give
from adjoint._switches import switches
from adjoint.ops.shape import broadcast_shapes

__all__ = ["LinAlgError", "broadcast", "matrices", "raise_where", "square"]


class LinAlgError(RuntimeError):
    """A matrix for which an algorithm has no answer: singular, not positive definite, not converging.

    Examples
    --------
    >>> import adjoint as ad
    >>> try:
    ...     ad.linalg.inv(ad.zeros(2, 2))
    ... except ad.linalg.LinAlgError as error:
    ...     print("singular" in str(error))
    True
    """

    __module__ = "adjoint.linalg"


def called(name):
    """The name of a function as it is known where the program runs: torch's own under `as_torch`."""
    return name.replace("torch.", f"{switches.package}.", 1)


def tensor(A, name, argument="A"):
    """Refuse anything but a tensor."""
    if not isinstance(A, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(A).__name__}")
    return A


def matrices(A, name, argument="A") -> Tensor:
    """Check that `A` is a batch of matrices of a type that LAPACK knows."""
    tensor(A, name, argument)
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    kind = type_name(A)
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind}; convert it, for example with "
            f".to({switches.package}.float64)"
        )
    if A.dtype in (_C.float16, _C.bfloat16):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind}; convert to float32")
    return A


def finite(A, name):
    """Refuse infinities and NaN, on which LAPACK's iterations do not end well."""
    if A.is_meta:
        return A
    whole = _C._whole(A).detach()  # of all samples of a vmap
    if not whole.isfinite().all().item():
        if whole.ndim > 2:
            finite = whole.isfinite().all(-1).all(-1).reshape(-1).tolist()
            raise LinAlgError(
                f"{called(name)}: (Batch element {finite.index(False)}): The algorithm failed to converge because the input "
                "matrix contained non-finite values."
            )
        raise LinAlgError(
            f"{called(name)}: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    return A


def two_or_more(A, name):
    """Refuse vectors and scalars with the words of the LU factorisations."""
    if A.ndim < 2:
        raise RuntimeError(
            f"{called(name)}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )


def square(A, name, argument="A") -> Tensor:
    """Check that `A` is a batch of square matrices of a type that LAPACK knows."""
    return square_shape(matrices(A, name, argument), name, argument)


def square_shape(A, name, argument="A") -> Tensor:
    """Check that `A` is a batch of square matrices."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    return A


def same_dtype(A, B, name, a="A", b="B"):
    """Refuse mixtures."""
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected {a} and {b} to have the same dtype, but found {a} of type {type_name(A)} and {b} of type "
            f"{type_name(B)} "
            "instead"
        )


def fitting(B, A, name, b="b", a="A"):
    """Check, with the words of the functions that are older than this package, that `A` and the right-hand side fit."""
    for what, t in ((b, B), (a, A)):
        tensor(t, name, what)
        if t.ndim < 2:
            raise RuntimeError(
                f"{name}: Expected {what} to have at least 2 dimensions, but it has {t.ndim} dimensions instead"
                if name == "triangular_solve"
                else f"{what} should have at least 2 dimensions, but has {t.ndim} dimensions instead"
            )
    if B.dtype != A.dtype:
        raise RuntimeError(
            f"{name}: Expected b and A to have the same dtype, but found b of type {type_name(B)} and A of type "
            f"{type_name(A)} instead."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    if A.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {A.shape[-2]} by {A.shape[-1]} but each b matrix is "
            f"{B.shape[-2]} by {B.shape[-1]}"
        )


def type_name(A):
    """As torch's messages name the type of a tensor's elements: ``Double``, ``Long``."""
    return A.type().split(".")[-1].removesuffix("Tensor")


def need_cast(out, result, name, what="result"):
    """Refuse an `out` whose type cannot hold the result, in torch's words."""
    if out is not None and not can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"{called(name)}: Expected {what} to be safely castable from {type_name(result)} dtype, but got {what} with dtype "
            f"{type_name(out)}"
        )


def give_cast(out, result, name, what="result", *, converts=True):
    """Like `give`, for the functions that torch lets write to any type that can hold the result."""
    need_cast(out, result, name, what)
    return give(out, result, name, converts=converts)


def _where(a, b):
    """Which sizes of two batches do not broadcast, in the words of elementwise operations."""
    for back in range(1, min(len(a), len(b)) + 1):
        if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
            dim = max(len(a), len(b)) - back
            return (
                f": The size of tensor a ({a[-back]}) must match the size of tensor b ({b[-back]}) at non-singleton "
                f"dimension {dim}"
            )
    return ""


def broadcast(A, B, name) -> tuple[Tensor, Tensor]:
    """Two batches of matrices with the same batch dimensions."""
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    try:
        batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except RuntimeError:
        raise RuntimeError(
            f"{name}: The batch dimensions of A, {list(A.shape[:-2])}, and of B, {list(B.shape[:-2])}, do not broadcast{_where(A.shape[:-2], B.shape[:-2])}"
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
            raise LinAlgError(f"{called(name)}: {say(found)}")
        return
    if not info.any().item():
        return
    flat = info.reshape(-1).tolist()
    number = next(i for i, found in enumerate(flat) if found)
    raise LinAlgError(f"{called(name)}: (Batch element {number}): {say(flat[number])}")
