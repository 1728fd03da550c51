"""``torch.fx.experimental.proxy_tensor``: whether a trace is being made."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """None: nothing is traced."""
