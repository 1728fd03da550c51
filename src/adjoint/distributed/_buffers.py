"""Tensors as contiguous bytes to send from and receive into.

Start reading at `for_writing`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._switches import switches

__all__ = ["bytes_of", "check", "copy_back", "flat", "for_reading", "for_writing", "unrecorded"]


def check(tensor, name) -> None:
    """Refuse tensors that cannot be sent to another process."""
    if not isinstance(tensor, ad.Tensor):
        raise TypeError(f"{name}(): expected a Tensor, but got {type(tensor).__name__}")
    if tensor.layout is not ad.strided:
        raise RuntimeError(
            f"{name}(): expected a dense tensor, but got one of {tensor.layout}; call to_dense() first"
        )
    if tensor.is_meta:
        raise RuntimeError(f"{name}(): the tensor is on the meta device and has no elements to send")
    if _C._is_batched(tensor):
        raise RuntimeError(
            f"{name}() is no operator that vmap can batch: inside of transforms call those of {switches.package}.distributed.nn.functional"
        )


def flat(tensor):
    """A contiguous tensor's elements as one dimension, outside of any graph."""
    return tensor.detach().view(-1)


def for_reading(tensor, name):
    """The elements of a tensor, which stay as they are."""
    if (plain := _C._flat(tensor, False)) is not None:
        return plain
    check(tensor, name)
    return flat(tensor if tensor.is_contiguous() else tensor.detach().contiguous())


def unrecorded(tensor, name):
    """A tensor that will be written in whole or in part, outside of any graph.

    Raises
    ------
    RuntimeError
        It is being recorded, so that its gradient would be wrong.
    """
    check(tensor, name)
    if tensor.requires_grad and not tensor.is_leaf and _C.is_grad_enabled():
        raise RuntimeError(
            f"{name}() writes a tensor that is being recorded, and its gradient would be wrong. Call "
            f"{switches.package}.distributed.nn.functional.{name}, which is differentiated, or detach() the tensor"
        )
    return tensor.detach()


def for_writing(tensor, name):
    """A contiguous buffer for a tensor; and, unless it is the tensor's own memory, the pair to copy back.

    Raises
    ------
    RuntimeError
        The tensor is being recorded, so that its gradient would be wrong; or elements of it share memory.
    """
    if (plain := _C._flat(tensor, True)) is not None:
        return plain, None
    unrecorded(tensor, name)
    tensor._bump_version()
    if tensor.is_contiguous():
        return flat(tensor), None
    _refuse_overlap(tensor, name)
    place = tensor.detach().contiguous()
    return place.view(-1), (tensor.detach(), place)


def copy_back(pair) -> None:
    """Copy what was received into the tensor; None if it was received in place."""
    if pair is not None:
        tensor, place = pair
        tensor.copy_(place)


def _refuse_overlap(tensor, name):
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                raise RuntimeError(
                    f"{name}(): unsupported operation: more than one element of the written-to tensor refers to a single memory "
                    "location. Please clone() the tensor before performing the operation."
                )
            reach += (size - 1) * stride


def bytes_of(tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    return memoryview(_C._span(tensor))
