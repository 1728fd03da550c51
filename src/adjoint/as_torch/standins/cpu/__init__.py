"""``torch.cpu``: the one device there is, under the names that other devices have."""

from __future__ import annotations

from contextlib import nullcontext

from adjoint.as_torch.standins.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "stream", "synchronize"]


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def synchronize(device=None) -> None:
    """Nothing to wait for: calls return when their work is done."""


def stream(stream):
    """A context that does nothing: there is one order of calls."""
    return nullcontext()


def set_device(device) -> None:
    """There is one."""
