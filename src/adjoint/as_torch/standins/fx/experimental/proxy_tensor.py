"""``torch.fx.experimental.proxy_tensor``: whether a trace is being made."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refusing

__all__ = ["get_proxy_mode"]

globals().update(refusing("torch.fx.experimental.proxy_tensor", "make_fx", "programs are not traced"))


def get_proxy_mode() -> None:
    """None: nothing is traced."""
