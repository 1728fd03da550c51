"""Tensors from other libraries, and to them, without copying: ``utils.dlpack.from_dlpack(array)``."""

from __future__ import annotations

from adjoint import from_dlpack
from adjoint._C import Tensor
from adjoint._publish.register import listing
from adjoint._types import Any

__all__ = ["from_dlpack", "to_dlpack"]
__dir__ = listing(__name__)


def to_dlpack(tensor: Tensor) -> Any:
    """What ``tensor.__dlpack__()`` gives: a capsule that other libraries take once."""
    return tensor.__dlpack__()
