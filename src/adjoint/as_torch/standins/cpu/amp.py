"""``torch.cpu.amp``: the older names of ``torch.amp``."""

from __future__ import annotations

from adjoint.as_torch._amp import of_device

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = of_device("cpu")
