"""Communication hooks for `DistributedDataParallel`: see `default_hooks`."""

from __future__ import annotations

from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]
