"""Names that torch has in one module and that lie in a neighbour here: found when they are asked for."""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["finds"]


def finds(own, *neighbours):
    """A module's ``__getattr__`` that looks for public names in its neighbours within `adjoint.nn`."""

    def __getattr__(name):
        if not name.startswith("__"):
            for neighbour in neighbours:
                path = f"adjoint.nn.{neighbour}"
                module = sys.modules.get(path) or import_module(path)
                if name in vars(module):
                    return vars(module)[name]
        raise AttributeError(f"module {own!r} has no attribute {name!r}")

    return __getattr__
