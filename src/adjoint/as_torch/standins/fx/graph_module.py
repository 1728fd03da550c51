"""``torch.fx.graph_module``: names that libraries import; without tracing nothing comes of them."""

from __future__ import annotations

from adjoint import nn
from adjoint.as_torch.standins.fx import GraphModule, _refuse

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_copy_attr = _refuse


class _CodeOnlyModule(nn.Module):
    def __init__(self, body):
        _refuse()
