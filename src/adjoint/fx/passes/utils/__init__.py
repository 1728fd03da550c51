"""Building blocks of passes."""

from adjoint._publish.register import listing

__all__: list[str] = []
__dir__ = listing(__name__)
