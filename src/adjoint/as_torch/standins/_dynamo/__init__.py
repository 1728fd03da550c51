"""``torch._dynamo``: the module that `torch.compile` returns, and settings and marks for the compiler, which have no effect."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import SimpleNamespace

from adjoint.as_torch._compile import OptimizedModule  # noqa: F401
from adjoint.as_torch.standins.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    reset,
)

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "reset",
]


def list_backends(exclude_tags=("debug", "experimental")) -> list:
    """The names that `torch.compile` takes; functions are replayed under each of them."""
    from adjoint._publish.arguments import _COMPILERS

    return sorted(name for name in _COMPILERS if "eager" not in name)


def mark_dynamic(t, index, **bounds) -> None:
    """Nothing is compiled for any size."""


mark_static = maybe_mark_dynamic = mark_dynamic


def mark_static_address(t, guard=True) -> None:
    """Nothing is compiled for any address."""


def graph_break(msg="") -> None:
    """There is no graph to break."""


class _Config(SimpleNamespace):
    def patch(self, *args, **options):
        """A context or decorator with other options, which have no effect."""
        return _Nothing()


class _Nothing(ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


config = _Config(verbose=False, suppress_errors=False, cache_size_limit=8)
