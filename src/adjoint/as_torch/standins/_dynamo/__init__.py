"""``torch._dynamo`` without a compiler: programs set its options and mark functions for it; nothing comes of either."""

from __future__ import annotations

from types import SimpleNamespace

from adjoint.as_torch.standins.compiler import allow_in_graph, disable, is_compiling, reset

__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "reset"]

config = SimpleNamespace(verbose=False, suppress_errors=False, cache_size_limit=8)
