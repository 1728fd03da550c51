"""Queries and settings of autocast in the module `torch`, by device or by the legacy names per device.

Where there is no such device nothing is ever enabled. Start reading at `NAMES`.
"""

from __future__ import annotations

import adjoint

__all__ = ["NAMES"]


def _mode():
    from adjoint.amp import autocast_mode

    return autocast_mode


def _is_cpu(device_type):
    return _mode().check_device(device_type) == "cpu"


def is_autocast_enabled(device_type="cuda") -> bool:
    return _is_cpu(device_type) and _mode().settings()[0]


def set_autocast_enabled(device_type, enabled=None) -> None:
    # In the legacy form the only argument is the state, of CUDA.
    if enabled is not None and _is_cpu(device_type):
        _mode().change(enabled=enabled)


def get_autocast_dtype(device_type):
    return _mode().settings()[1] if _is_cpu(device_type) else adjoint.float16


def set_autocast_dtype(device_type, dtype) -> None:
    if _is_cpu(device_type):
        _mode().change(dtype=dtype)


def is_autocast_cpu_enabled() -> bool:
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled) -> None:
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype():
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype) -> None:
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype():
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype) -> None:
    """Nothing to set: there is no such device."""


def is_autocast_cache_enabled() -> bool:
    return _mode().settings()[2]


def set_autocast_cache_enabled(enabled) -> None:
    _mode().change(cache=enabled)


def autocast_increment_nesting() -> int:
    return _mode().nest(1)


def autocast_decrement_nesting() -> int:
    return _mode().nest(-1)


def clear_autocast_cache() -> None:
    adjoint._C._clear_autocast_cache()


NAMES = {name: value for name, value in globals().items() if "autocast_" in name and callable(value)}
