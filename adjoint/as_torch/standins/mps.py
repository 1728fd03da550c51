"""``torch.mps`` where there is no such device."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "manual_seed"]


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed) -> None:
    """Nothing to seed."""
