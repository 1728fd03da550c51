"""``memory_format=``: the order of dimensions in memory that a caller may ask for. Start reading at `laid`.

`preserve_format` keeps the order that a tensor has, `contiguous_format` is row by row, `channels_last` keeps the second
of four dimensions innermost and `channels_last_3d` the second of five. No operation depends on it but by speed.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._switches import switches
from adjoint._tensor.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from adjoint._types import Any

__all__ = ["copied", "has_channels_innermost", "is_laid", "laid", "like", "relaid"]

#: The order of dimensions from the outermost to the innermost.
_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def _check(format, name):
    if not isinstance(format, memory_format):
        raise TypeError(
            f"{name}(): argument 'memory_format' must be {switches.package}.memory_format, not {type(format).__name__}"
        )


def is_laid(x: Tensor, format: Any = contiguous_format) -> bool:
    """Whether the elements lie in the order of the format, without gaps."""
    _check(format, "is_contiguous")
    order = _ORDERS.get(format)
    if order is None:
        return x.is_contiguous()
    return x.ndim == len(order) and x.permute(order).is_contiguous()


def has_channels_innermost(image: Any) -> bool:
    """Whether steps in memory grow from channels to columns, rows and images: what torch takes for `channels_last`."""
    if image.ndim not in (4, 5):
        return False
    strides, least = image.stride(), 0
    if strides[1] == 0:
        return False
    for d in (1, *range(image.ndim - 1, 1, -1), 0):
        size = image.shape[d]
        if size == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * size if size > 1 else strides[d]
    return True


def laid(x: Tensor, format: Any, name: str = "contiguous") -> Tensor:
    """The tensor in the order of the format: itself where it lies so, else a copy, with its history."""
    _check(format, name)
    order = _ORDERS.get(format)
    if order is None:
        return x if format is preserve_format else x.contiguous()
    if x.ndim != len(order):
        raise RuntimeError(
            f"{name}(): required rank {len(order)} tensor to use {format.name} format, but got one of shape {list(x.shape)}"
        )
    return x if is_laid(x, format) else _back(x.permute(order).contiguous(), order)


def like(x: Tensor, image: Any) -> Tensor:
    """A result in the order of the image that it was made of, where that has its channels innermost."""
    if image.is_contiguous() or not has_channels_innermost(image):
        return x
    return laid(x, channels_last if image.ndim == 4 else channels_last_3d)


def _back(x, order):
    return x.permute([order.index(d) for d in range(len(order))])


def relaid(x: Tensor, format: Any, name: str) -> Tensor:
    """`laid`, for a tensor that was just made: without history, a leaf."""
    if format is None or format is preserve_format:
        return x
    made = laid(x.detach(), format, name).detach()
    return made.requires_grad_() if x.requires_grad else made


def copied(x: Tensor, format: Any) -> Tensor:
    """A copy: with the same order of dimensions in memory, or that of the format."""
    if format is None:
        return _C.clone(x)
    _check(format, "clone")
    order = _ORDERS.get(format)
    if order is None:
        return _C.clone(x if format is preserve_format else x.contiguous())
    if x.ndim != len(order):
        return laid(x, format, "clone")  # an error that says why
    return _back(_C.clone(x.permute(order).contiguous()), order)
