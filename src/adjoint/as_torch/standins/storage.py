"""``torch.storage``: the memory below tensors, as far as programs ask about its type."""

from __future__ import annotations

from adjoint._tensor import UntypedStorage

__all__ = ["UntypedStorage"]
