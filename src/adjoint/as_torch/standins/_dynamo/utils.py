"""``torch._dynamo.utils``: whether there is a compiler."""

from __future__ import annotations

import warnings

__all__ = ["is_compile_supported", "warn_once"]

_warned: set[str] = set()


def is_compile_supported(device_type) -> bool:
    """Whether functions can be compiled for a device: no."""
    return False


def warn_once(msg, stacklevel=1) -> None:
    """Warn, unless the same text was warned of before."""
    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)
