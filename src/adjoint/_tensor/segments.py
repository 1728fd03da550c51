"""Anonymous shared memory (memfd): freed with its last mapping and descriptor.

A tensor over such memory keeps its segment alive, and the segment is found by the tensor's address. Start reading at `move`.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref

from adjoint import _C
from adjoint._types import Any

__all__ = ["Segment", "find", "mapped", "move", "tensor_over"]

ALIGNMENT = 64
# By address: the segment, and where in it. By identity of the file: the segment.
_at: dict = {}
_by_file: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Segment(mmap.mmap):
    """One mapping; closes its descriptor when it dies."""

    fd: int

    def __new__(cls, fd: Any, nbytes: Any) -> Any:
        # Else the mapping has a descriptor of its own.
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        self = super().__new__(cls, fd, nbytes, **options)
        self.fd = fd
        return self

    def __del__(self) -> None:
        if hasattr(self, "fd"):  # it was mapped
            os.close(self.fd)


def _identity(fd):
    state = os.fstat(fd)
    return state.st_dev, state.st_ino


def made(nbytes):
    """A new segment."""
    fd = written(nbytes, ())
    try:
        segment = Segment(fd, nbytes)
    except BaseException:
        os.close(fd)
        raise
    _by_file[_identity(fd)] = segment
    return segment


def written(nbytes, parts):
    """The descriptor of memory with these pairs (where, bytes), which this process does not map: writing is faster than faults."""
    fd = os.memfd_create("adjoint")
    try:
        os.ftruncate(fd, nbytes)
        for at, part in parts:
            while part:
                count = os.pwrite(fd, part, at)
                part, at = part[count:], at + count
    except BaseException:
        os.close(fd)
        raise
    return fd


def mapped(fd, nbytes):
    """The segment of a descriptor, which is used up: the one that is there already, if this process has it."""
    there = _by_file.get(_identity(fd))
    if there is not None:
        os.close(fd)
        return there
    segment = Segment(fd, nbytes)
    _by_file[_identity(fd)] = segment
    return segment


def tensor_over(segment, start, nbytes, dtype, size, stride, offset):
    """A tensor over a part of a segment, which its storage then is."""
    part = _C._from_buffer(memoryview(segment)[start : start + nbytes])
    _at[part._storage()[0]] = weakref.ref(segment), start
    return _C._over(part, dtype, size, stride, offset)


def find(tensor):
    """(segment, where in it) of a tensor's storage; None where that is not shared."""
    address = tensor._storage()[0]
    found = _at.get(address)
    if found is None:
        return None
    segment = found[0]()
    if segment is None:
        del _at[address]
        return None
    return segment, found[1]


def move(tensors, asked) -> bool:
    """Move the memory of tensors to a segment; False, and nothing is moved, where others share it.

    Tensors that share memory go on doing so. `asked` names the function for the error, where that is one.
    """
    storages: dict = {}
    for tensor in tensors:
        if tensor._storage()[1] and find(tensor) is None:
            storages.setdefault(tensor._storage()[0], []).append(tensor)
    for group in storages.values():
        if _C._storage_uses(group[0]) > len({id(t) for t in group}):
            if not asked:
                return False
            raise RuntimeError(
                f"{asked}(): other tensors share the memory of one of shape {tuple(group[0].shape)}, and would stay in "
                "memory of this process alone: a view, a detached tensor, an array of numpy(), or a graph that has saved it. Call "
                "it before these are made, or on a clone()"
            )
    starts, total = [], 0
    for group in storages.values():
        starts.append(total)
        total += -(-group[0]._storage()[1] // ALIGNMENT) * ALIGNMENT
    if not total:
        return True
    segment = made(total)
    for start, group in zip(starts, storages.values(), strict=True):
        nbytes = group[0]._storage()[1]
        segment[start : start + nbytes] = bytes(memoryview(_C._storage_bytes(group[0])))
        for tensor in group:
            tensor.data = tensor_over(
                segment,
                start,
                nbytes,
                tensor.dtype,
                tuple(tensor.shape),
                tensor.stride(),
                tensor.storage_offset(),
            )
    return True
