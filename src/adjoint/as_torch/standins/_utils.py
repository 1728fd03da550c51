"""``torch._utils``: what libraries and tests reach of torch's own helpers."""

from __future__ import annotations

import sys
import traceback

import adjoint
from adjoint._files import names
from adjoint._types import Any

__all__ = ["ExceptionWrapper"]

_rebuild_tensor_v2, _rebuild_tensor_v3 = names.tensor_v2, names.tensor_v3


def _element_size(dtype) -> int:
    """The number of bytes of one element."""
    if not isinstance(dtype, adjoint.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _rebuild_tensor(storage, storage_offset, size, stride):
    return adjoint.empty(0, dtype=storage._dtype).set_(storage._untyped_storage, storage_offset, size, stride)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    result = adjoint.nn.Parameter(data, requires_grad)
    result._backward_hooks = backward_hooks
    return result


def _flatten_dense_tensors(tensors):
    """All elements in one row."""
    return adjoint.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of the row, of the shapes of the tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors))


def _get_available_device_type():
    """None: there is none besides the CPU."""


def _get_all_device_indices() -> list:
    return []


class ExceptionWrapper:
    """An error as its type and its text, which `reraise` raises again."""

    def __init__(self, exc_info=None, where="in background"):
        kind: Any
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self):
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(text)
        except Exception:  # noqa: BLE001 - the type wants other arguments
            raise RuntimeError(text) from None
        raise error
