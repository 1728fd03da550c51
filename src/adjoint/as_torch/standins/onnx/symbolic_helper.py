"""``torch.onnx.symbolic_helper``: marks on functions that an export would call."""

from __future__ import annotations

__all__ = ["parse_args"]


def parse_args(*arg_descriptors):
    """The function itself."""
    return lambda fn: fn
