"""Passes over graphs, which annotate or rewrite them."""

from adjoint._publish.register import listing

__all__: list[str] = []
__dir__ = listing(__name__)
