"""``torch._dynamo.eval_frame``: whether there is a compiler."""

from __future__ import annotations

from adjoint.as_torch.standins._dynamo import OptimizedModule

__all__ = ["OptimizedModule", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """Whether functions can be compiled: no."""
    return False
