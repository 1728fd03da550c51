"""Padding with elements of the tensor itself: reflected, repeated or wrapped around.

Along each dimension the result is a selection by an index, so that its derivative is the selection's. Start reading at
`pad_with_own`; what is put around by `functional.pad` in its usual mode is a number.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C, _register
from adjoint._memory_format import like


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
    given = input
    if mode != "circular":
        # As in torch, the gradient can be differentiated again, although it is linear.
        input = _C._attach(input, input)
    # Which results may be empty is as in torch.
    least = mode == "reflect" or (mode == "replicate" and padded == 1)
    whole = input
    for i in range(padded):
        before, after = pad[2 * i : 2 * i + 2]
        dim = input.ndim - 1 - i
        if mode == "reflect" and 0 <= before < input.shape[dim] > after >= 0:
            input = _mirrored(input, dim, before, after)
        elif before or after:
            input = input.index_select(dim, _index(input.shape[dim], before, after, dim, mode, least))
    if mode == "circular":
        return input.clone(memory_format=ad.contiguous_format) if input is whole else input
    return input.clone() if input is whole else like(input, given)


def _mirrored(input, dim, before, after):
    """With what lies beside its first and last elements turned round and put before and after it."""
    size = input.shape[dim]
    parts = [input]
    if before:
        parts.insert(0, input.narrow(dim, 1, before).flip(dim))
    if after:
        parts.append(input.narrow(dim, size - 1 - after, after).flip(dim))
    return _C.cat(parts, dim) if len(parts) > 1 else input


def _index(size, before, after, dim, mode, least):
    if size == 0:
        raise RuntimeError(f"pad: mode={mode!r} needs elements along dimension {dim}, but its size is 0")
    length = size + before + after
    if length < least:
        raise RuntimeError(
            f"pad: the size {size} of dimension {dim} with padding {before}, {after} is too small: {length}"
        )
    place = ad.arange(-before, size + after)
    if mode == "replicate":
        return place.clamp(0, size - 1)
    if mode == "reflect":
        if max(before, after) >= size:
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {dim} of size {size}"
            )
        return (size - 1) - ((size - 1) - place.abs()).abs()
    if max(before, after) > size:
        raise RuntimeError(
            f"Padding value causes wrapping around more than once: ({before}, {after}) at dimension {dim} of size {size}"
        )
    # What negative widths cut away is not wrapped around either.
    first = max(-before, 0)
    left = size - first - max(-after, 0)
    if left < 1 and length:
        raise RuntimeError(
            f"pad: the padding {before}, {after} leaves nothing of dimension {dim} of size {size}"
        )
    return (place - first) % left + first


_register.publish(globals())
