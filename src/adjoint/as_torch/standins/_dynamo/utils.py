"""``torch._dynamo.utils``: whether there is a compiler."""

from __future__ import annotations

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type) -> bool:
    """Whether functions can be compiled for a device: no."""
    return False
