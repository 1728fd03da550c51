"""Weights of convolutions laid out with their channels last."""

from __future__ import annotations

from adjoint._publish import register
from adjoint._types import MemoryFormat

from ..convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, kinds):
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Module:
    """Lay out the weights of all `Conv2d` and `ConvTranspose2d` in the module; return it.

    Examples
    --------
    >>> import adjoint as ad
    >>> conv = ad.nn.utils.convert_conv2d_weight_memory_format(ad.nn.Conv2d(3, 4, 2), ad.channels_last)
    >>> conv.weight.is_contiguous(memory_format=ad.channels_last)
    True
    """
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Module:
    """Lay out the weights of all `Conv3d` and `ConvTranspose3d` in the module; return it."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))


register.publish(globals(), consults=None)
