"""``torch.accelerator``: the device that would be used before the CPU; there is none."""

from __future__ import annotations

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Whether there is one: no."""
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available=False) -> None:
    """None."""


def empty_cache() -> None:
    """Nothing is cached."""


def memory_allocated(device_index=None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device_index=None) -> None:
    """Nothing is counted."""


def _refuse(*args, **keywords):
    raise RuntimeError("Cannot access accelerator device when none is available: there is the CPU")


current_device_index = current_device_idx = set_device_index = set_device_idx = synchronize = _refuse
current_stream = set_stream = device_index = _refuse
