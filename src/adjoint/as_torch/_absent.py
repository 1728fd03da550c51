"""What ``torch.cuda``, ``torch.mps`` and ``torch.xpu`` have in common where there is no such device: the answer is no."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "manual_seed"]


def is_available() -> bool:
    """Whether there is a device: no."""
    return False


def device_count() -> int:
    return 0


def manual_seed(seed) -> None:
    """Nothing to seed: ``torch.manual_seed`` seeds the generator that there is."""
