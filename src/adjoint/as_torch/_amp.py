"""What ``torch.cpu.amp`` and ``torch.cuda.amp`` have in common: the classes of ``torch.amp`` with the device filled in.

Deprecated in torch, as they are here.
"""

from __future__ import annotations

import warnings

from adjoint import amp

__all__ = ["of_device"]


def of_device(device):
    """The classes (autocast, GradScaler) of a device."""

    def warn(name):
        warnings.warn(
            f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{device}', args...)` instead.",
            FutureWarning,
            stacklevel=3,
        )

    class autocast(amp.autocast):
        """`torch.amp.autocast` of this device."""

        def __init__(self, enabled=True, dtype=None, cache_enabled=True):
            warn("autocast")
            super().__init__(device, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):
        """`torch.amp.GradScaler` of this device."""

        def __init__(
            self,
            init_scale=2.0**16,
            growth_factor=2.0,
            backoff_factor=0.5,
            growth_interval=2000,
            enabled=True,
        ):
            warn("GradScaler")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for kind in (autocast, GradScaler):
        # Under this name pickle finds it.
        kind.__module__, kind.__qualname__ = f"adjoint.as_torch.standins.{device}.amp", kind.__name__
    return autocast, GradScaler
