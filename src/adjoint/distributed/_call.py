"""`Call`: what all ranks must agree on in one collective, as text and as a header of 32 bytes.

Every message of a collective begins with its header; ranks that mean different things find out by comparing. Start reading at `Call`.
"""

from __future__ import annotations

import struct

import adjoint as ad

__all__ = ["HEADER", "Call", "read_header"]

#: Group, operation, dtype, how to reduce, root, label, number of the operation, count of elements.
_LAYOUT = struct.Struct("<IBBBxIIQQ")
HEADER = _LAYOUT.size
OPERATIONS = (
    "all_reduce broadcast reduce all_gather gather scatter reduce_scatter all_to_all barrier monitored_barrier send recv"
).split()
_NUMBER = {name: i for i, name in enumerate(OPERATIONS)}
DTYPES = [
    *(
        ad.bool,
        ad.uint8,
        ad.int8,
        ad.int16,
        ad.int32,
        ad.int64,
        ad.float16,
        ad.bfloat16,
        ad.float32,
        ad.float64,
    ),
    *(ad.complex64, ad.complex128),
]
_REDUCE = "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM".split()
_NOTHING = 255
_DTYPE: dict = {None: _NOTHING, **{dtype: i for i, dtype in enumerate(DTYPES)}}


class Call:
    """An operation, its sequence number in the group, and the arguments that must agree on all ranks."""

    __slots__ = ("count", "dtype", "gives", "group", "header", "label", "name", "number", "reduce", "root")

    def __init__(self, group, number, name, dtype=None, count=0, reduce=None, root=None, label=0, gives=None):
        #: Which of a differentiated program's collectives it is, and which derivative of it (`nn.functional`).
        self.label = label
        #: What this rank gives, in one dimension, where all ranks give as much: so that it may travel with the header.
        self.gives = gives
        self.group, self.number, self.name = group, number, name
        self.dtype, self.count, self.reduce, self.root = dtype, count, reduce, root
        self.header = self.header_of(count)

    def header_of(self, count) -> bytes:
        """The header of a message of so many elements."""
        return _LAYOUT.pack(
            self.group,
            _NUMBER[self.name],
            _DTYPE[self.dtype],
            _NOTHING if self.reduce is None else self.reduce.value,
            0xFFFFFFFF if self.root is None else self.root,
            self.label,
            self.number,
            count,
        )

    def __str__(self):
        return describe(
            self.name,
            self.number,
            self.dtype,
            self.count,
            self.reduce and self.reduce.name,
            self.root,
            self.label,
        )


def describe(name, number, dtype, count, reduce, root, label=0) -> str:
    """In words."""
    text = f"{name} number {number}"
    if dtype is not None:
        text += f" of {count} {dtype.name}"
    if reduce is not None:
        text += f" by {reduce}"
    if root is not None:
        text += f" with root {root}"
    if label:
        text += f" (differentiable: {label:x})"
    return text


def read_header(data) -> str | None:
    """A header as text; None if it is not a header."""
    _, name, dtype, reduce, root, label, number, count = _LAYOUT.unpack(bytes(data))
    try:
        return describe(
            OPERATIONS[name],
            number,
            None if dtype == _NOTHING else DTYPES[dtype],
            count,
            None if reduce == _NOTHING else _REDUCE[reduce],
            None if root == 0xFFFFFFFF else root,
            label,
        )
    except IndexError:
        return None
