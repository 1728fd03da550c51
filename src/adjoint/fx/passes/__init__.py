"""Passes over graphs: what libraries and programs run, after `symbolic_trace`, to note or change something."""

from adjoint._publish.register import listing

__all__: list[str] = []
__dir__ = listing(__name__)
