"""A mode in which a compiler sees ``x[i]`` as an operator, with `i` a tensor; eager indexing needs no help."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext):
    """A context that changes nothing."""
