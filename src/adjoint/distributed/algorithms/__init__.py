"""What programs import from ``torch.distributed.algorithms``: `join`, and communication hooks."""

from __future__ import annotations

from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
