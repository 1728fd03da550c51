"""``torch.distributed.autograd``: backward passes over several processes are not available."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused, refusing

__all__ = ["is_available"]

_WHY = "graphs are of one process; torch.distributed.autograd.is_available() is False, and says so beforehand"


def is_available() -> bool:
    """Whether a graph can go through several processes: no."""
    return False


globals().update(
    refused("torch.distributed.autograd", "DistAutogradContext context", _WHY),
    **refusing("torch.distributed.autograd", "backward get_gradients", _WHY),
)
