"""``torch.cuda.comm``: copies between CUDA devices, of which there are none."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refusing

__all__: list[str] = []

globals().update(
    refusing(
        "torch.cuda.comm",
        "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
        "there are no CUDA devices to copy between; torch.cuda.is_available() is False, and says so beforehand",
    )
)
