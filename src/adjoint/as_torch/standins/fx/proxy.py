"""``torch.fx.proxy``: names that libraries derive from and write in annotations."""

from __future__ import annotations

from adjoint.as_torch.standins.fx import Proxy

__all__ = ["Proxy"]
