"""Choosing among elements: `where` as a method, whose tensor is not its first argument."""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.register import Members, extend
from adjoint._types import Any, Tensor


@extend
class Selection(Members):
    def where(self, condition: Any, other: Tensor) -> Tensor:
        """The elements where the condition holds, those of `other` elsewhere."""
        return _C.where(condition, self, other)
