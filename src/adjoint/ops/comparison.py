"""Comparison of whole tensors, and within tolerances. Start reading at `isclose`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import composition


@composition
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether ``|input - other| <= atol + rtol * |other|``, element by element.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.isclose(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose(): {input.dtype} did not match {other.dtype}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"isclose(): {name} must be greater than or equal to zero, but got {value}")
    input, other = input.detach(), other.detach()
    close = input == other
    if equal_nan:
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    if not (input.is_floating_point() or input.is_complex()):
        input, other = input.to(_C.float64), other.to(_C.float64)
    allowed = other.abs() * rtol + atol
    distance = (input - other).abs()
    return close | (distance.isfinite() & (distance <= allowed))


@composition
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds for all elements; a bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composition
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and the same elements; a bool."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    if input.shape != other.shape:
        return False
    if input.dtype is other.dtype and input.is_contiguous() and other.is_contiguous():
        return bool(_C._same_elements(input, other))
    return bool((input == other).all())


@composition
def is_nonzero(input: Tensor) -> bool:
    """Whether the single element is not zero; a bool."""
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no' if input.numel() == 0 else 'more than one'} value"
            f"{'s' if input.numel() == 0 else ''} is ambiguous"
        )
    return bool(input != 0)
