"""``torch.cuda.amp``: older names of ``torch.amp`` for a device that is not there, so that they do nothing."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from adjoint import amp
from adjoint.as_torch._amp import of_device

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = of_device("cuda")
custom_fwd = partial(amp.custom_fwd, device_type="cuda")
custom_bwd = partial(amp.custom_bwd, device_type="cuda")
common = SimpleNamespace(amp_definitely_not_available=lambda: True)
