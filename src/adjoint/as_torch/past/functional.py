"""Legacy names of `nn.functional.interpolate`."""

from __future__ import annotations

from adjoint._publish import register
from adjoint._switches import announce
from adjoint._types import Ints, Sequence, Tensor
from adjoint.nn.functional import interpolate

__all__ = ["upsample", "upsample_bilinear", "upsample_nearest"]


def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` by its legacy name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def _deprecated(name):
    announce(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=4)


def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` by the nearest element."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate`, bilinear with aligned corners."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


register.publish(globals())
