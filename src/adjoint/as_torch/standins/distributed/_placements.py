"""How torch's sharded tensors say where their parts are: values that libraries make when they are imported. Nothing here is sharded."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Where the parts of a tensor are, along one dimension of a mesh of devices."""

    def is_shard(self, dim: int | None = None) -> bool:
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each has a part along a dimension."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each has all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each has a summand of it."""

    reduce_op: str = "sum"


for _cls in (Partial, Placement, Replicate, Shard):
    _cls.__module__ = "torch.distributed.tensor.placement_types"
