"""``torch.futures``."""

from __future__ import annotations

from adjoint.distributed._futures import Future, collect_all, wait_all

__all__ = ["Future", "collect_all", "wait_all"]
