"""Collectives that return new tensors, with the names of torch.distributed._functional_collectives: libraries ask for them there.

They are those of `adjoint.distributed.nn.functional`, recorded like any operation, so that the forms whose names end in
`_autograd` are the same functions. They have finished when they return: there is nothing to wait for.
"""

from __future__ import annotations

import adjoint as ad
from adjoint.distributed._reduce_op import ReduceOp
from adjoint.distributed.nn import functional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from adjoint import Tensor

__all__ = [
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "wait_tensor",
]


def _op(name: str) -> Any:
    found = getattr(ReduceOp, name.upper(), None) if isinstance(name, str) else name
    if found is None:
        raise ValueError(
            f"unknown reduction {name!r}: expected sum, avg, product, min, max, band, bor or bxor"
        )
    return found


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself: it is ready."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """Reduce the tensors of all ranks; each rank gets the result."""
    return functional.all_reduce(self, _op(reduceOp), group)


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """Broadcast the tensor of one rank."""
    return functional.broadcast(self, src, group)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """All ranks' tensors, concatenated along a dimension."""
    return ad.cat(functional.all_gather(self, group), gather_dim)


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """Reduce the tensors of all ranks; each rank gets its part along a dimension."""
    size = functional._of(group)[0].size()
    if self.shape[scatter_dim] % size:
        raise RuntimeError(
            f"reduce_scatter_tensor(): dimension {scatter_dim} of size {self.shape[scatter_dim]} has no {size} equal parts"
        )
    parts = self.chunk(size, scatter_dim)
    return functional.reduce_scatter(self, [part.contiguous() for part in parts], _op(reduceOp), group)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Exchange rows between all ranks, split by the given sizes or evenly."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty(rows, *self.shape[1:])
    return functional.all_to_all_single(output, self, output_split_sizes, input_split_sizes, group)


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
