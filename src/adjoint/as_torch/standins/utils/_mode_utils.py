"""``torch.utils._mode_utils``: out of the reach of modes that look at operators."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["all_same_mode", "no_dispatch"]


def no_dispatch():
    """A context for what a mode computes itself: it is not asked about that here anyhow."""
    return nullcontext()


def all_same_mode(modes) -> bool:
    """Whether all are the first."""
    return all(mode == modes[0] for mode in modes)
