"""``torch.fx.node``: names that libraries write in annotations."""

from __future__ import annotations

from typing import Any

from adjoint.as_torch.standins.fx import Node

__all__ = ["Argument", "Node", "Target"]

Target = Argument = Any
