"""Tensors on their way from a worker: the large ones of a batch in one shared segment, which the receiver maps without a copy.

The segment's descriptor follows the message through the same socket, so that the memory is freed with the last tensor over it,
or with an unread message. Small tensors, and all where the system knows no such memory, go as bytes. Start reading at
`pack`.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor import segments

__all__ = ["pack", "receive", "send"]

#: Bytes below which a copy is cheaper than a segment.
SMALL = 16384


class _Place(NamedTuple):
    """Where a tensor is in the segment: what is sent instead of it."""

    start: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


def _gone_through(value, kind, f):
    """`f` of all that is of a type in a nest of the plain containers."""
    if type(value) is kind:
        return f(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_gone_through(x, kind, f) for x in value))
    if type(value) in (list, tuple):
        return type(value)(_gone_through(x, kind, f) for x in value)
    if type(value) is dict:
        return {key: _gone_through(x, kind, f) for key, x in value.items()}
    return value


def pack(value: Any) -> tuple[Any, list[tuple[int, Any]], int]:
    """The value with places instead of its large tensors, where in a segment the bytes of each belong, and its length."""
    parts: list[tuple[int, Any]] = []
    end = 0

    def place(tensor):
        nonlocal end
        nbytes = tensor.numel() * tensor.element_size()
        if nbytes < SMALL or tensor.requires_grad or tensor.is_sparse or tensor.is_meta:
            return tensor
        start, end = end, end + -(-nbytes // segments.ALIGNMENT) * segments.ALIGNMENT
        parts.append((start, memoryview(tensor.contiguous().view(-1).view(_C.uint8))))
        return _Place(start, nbytes, str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape))

    packed = _gone_through(value, Tensor, place) if hasattr(os, "memfd_create") else value
    return packed, parts, end


def send(connection: Any, message: bytes, parts: list[tuple[int, Any]], nbytes: int) -> None:
    """Send a pickle, and a segment with the bytes that it speaks of."""
    connection.send_bytes(message)
    if nbytes:
        from multiprocessing.reduction import send_handle

        fd = segments.written(nbytes, parts)
        try:
            send_handle(connection, fd, None)
        finally:
            os.close(fd)


def receive(connection: Any) -> tuple[Any, Any]:
    """The pair that was sent, its value over the memory that the sender wrote."""
    from multiprocessing.reduction import ForkingPickler, recv_handle

    number, value, nbytes = ForkingPickler.loads(connection.recv_bytes())
    if not nbytes:
        return number, value
    segment = segments.mapped(recv_handle(connection), nbytes)

    def fetch(place):
        stride, step = [], 1
        for size in reversed(place.shape):
            stride.append(step)
            step *= size
        dtype = getattr(_C, place.dtype)
        return segments.tensor_over(
            segment, place.start, place.nbytes, dtype, place.shape, tuple(stride[::-1]), 0
        )

    return number, _gone_through(value, _Place, fetch)
