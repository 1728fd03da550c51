"""``torch.distributed`` of one process: it is not available, as programs ask before they use it."""

from __future__ import annotations

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """Whether processes can be joined: no."""
    return False


def is_initialized() -> bool:
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_available
