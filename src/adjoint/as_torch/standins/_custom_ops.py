"""``torch._custom_ops``: an older name for what ``torch.library`` has."""

from __future__ import annotations

from adjoint.library import impl, impl_abstract

__all__ = ["impl", "impl_abstract"]
