"""Tensors on their way between processes: large ones through shared memory, which the receiver maps without a copy.

The sender writes a file in the memory file system and sends its name; the receiver maps and removes it at once, so that
the memory is freed with the tensor. Names carry the prefix of their loader, which removes what nobody fetched. Where
there is no such file system, and for small tensors, the bytes go through the pipe. Start reading at `pack`.
"""

from __future__ import annotations

import contextlib
import glob
import mmap
import os
import tempfile

from adjoint import _C
from adjoint._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["pack", "remove_unfetched", "unpack"]

FOLDER = "/dev/shm"
#: Bytes below which a pipe is cheaper than a file.
SMALL = 16384


class _Shared:
    """A tensor in a file: what is sent instead of it."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: Any, dtype: Any, shape: Any) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape

    def __getstate__(self) -> Any:
        return self.name, str(self.dtype).rpartition(".")[2], self.shape

    def __setstate__(self, state: Any) -> None:
        self.name, dtype, self.shape = state
        self.dtype = getattr(_C, dtype)


def _gone_through(value, f):
    """`f` of every tensor, or what stands for one, in a nest of the plain containers."""
    if isinstance(value, (Tensor, _Shared)):
        return f(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_gone_through(x, f) for x in value))
    if type(value) in (list, tuple):
        return type(value)(_gone_through(x, f) for x in value)
    if type(value) is dict:
        return {key: _gone_through(x, f) for key, x in value.items()}
    return value


def pack(value, prefix):
    """The value with its large tensors moved to shared memory."""
    if not os.path.isdir(FOLDER):
        return value

    def move(tensor):
        nbytes = tensor.numel() * tensor.element_size()
        if nbytes < SMALL or type(tensor) is not Tensor or tensor.requires_grad:
            return tensor
        handle, path = tempfile.mkstemp(prefix=prefix, dir=FOLDER)
        with os.fdopen(handle, "wb") as file:
            file.write(memoryview(tensor.contiguous().view(-1).view(_C.uint8)))
        return _Shared(os.path.basename(path), tensor.dtype, tuple(tensor.shape))

    return _gone_through(value, move)


def unpack(value):
    """The value as it was, over memory that the sender wrote."""
    import adjoint as ad

    def fetch(shared):
        if isinstance(shared, Tensor):
            return shared
        path = os.path.join(FOLDER, shared.name)
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        os.unlink(path)
        return ad.frombuffer(memory, dtype=shared.dtype).view(shared.shape)

    return _gone_through(value, fetch)


def remove_unfetched(prefix):
    """Remove what senders with this prefix left behind."""
    for path in glob.glob(os.path.join(FOLDER, glob.escape(prefix) + "*")):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
