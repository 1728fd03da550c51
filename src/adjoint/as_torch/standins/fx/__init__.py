"""``torch.fx`` without symbolic tracing: marks that libraries set on functions are taken, and tracing is refused.

The classes are there to be named and derived from, as libraries do when they are imported; none can be made.
"""

from __future__ import annotations

from adjoint import nn

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "wrap"]


def wrap(fn_or_name):
    """The function itself; in torch, one that a trace does not look into."""
    return fn_or_name


def _refuse(*args, **keywords):
    raise NotImplementedError(
        "torch.fx: Adjoint does not have symbolic tracing; functions and modules run as they are written"
    )


class _Refused:
    def __init__(self, *args, **keywords):
        _refuse()


class Graph(_Refused):
    """Needs tracing."""


class GraphModule(_Refused, nn.Module):
    """Needs tracing; a module, for those that derive from it."""


class Interpreter(_Refused):
    """Needs tracing."""


class Node(_Refused):
    """Needs tracing."""


class Proxy(_Refused):
    """Needs tracing."""


class Tracer(_Refused):
    """Needs tracing."""
