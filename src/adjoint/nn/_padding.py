"""Padding with elements of the tensor itself: reflected, repeated or wrapped around.

What is put around by `functional.pad` in its usual mode is a number (core/kernels/cpu/padding.cpp does both).
"""

from __future__ import annotations

from adjoint import _C
from adjoint._publish import register


def pad_with_own(input, pad, mode, value):
    """What `functional.pad` does in the modes 'reflect', 'replicate' and 'circular'."""
    if value is not None:
        raise ValueError(f"Padding mode {mode!r} doesn't take in value argument")
    padded = len(pad) // 2
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {tuple(pad)}")
    if not 1 <= padded <= 3 or input.ndim not in (padded + 1, padded + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\nOnly 2D, 3D, 4D, 5D padding with "
            "non-constant padding are supported for now: the last one, two or three dimensions with one or two before them."
        )
    # Only a batch may be empty.
    if mode != "circular" and 0 in input.shape[input.ndim - padded - 1 :]:
        raise RuntimeError(
            f"Expected {padded + 1}D or {padded + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    return _C._own_pad(input, pad, mode)


register.publish(globals())
