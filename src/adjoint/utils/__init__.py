"""Small helpers that several packages share; start with `hooks`."""

from adjoint.utils._swapping import swap_tensors

__all__ = ["swap_tensors"]
