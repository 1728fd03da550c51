"""Parts of a data set for each of several processes."""

from __future__ import annotations

import math

from adjoint._publish.register import listing
from adjoint._tensor import random as _random
from adjoint._types import Any, Iterator
from adjoint.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]
__dir__ = listing(__name__)


class DistributedSampler(Sampler[int]):
    """The samples of one of `num_replicas` processes; all get as many, by repeating some or dropping the last.

    Parameters
    ----------
    num_replicas, rank : int, optional
        How many processes there are, and which this one is: those of the default process group, unless given.
    shuffle : bool
        By an order that `set_epoch` varies, the same in every process.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from adjoint import distributed

            if not distributed.is_initialized():
                raise ValueError(
                    "DistributedSampler: Default process group has not been initialized, please make sure to call "
                    "init_process_group; or give num_replicas and rank"
                )
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        n = len(dataset)
        self.num_samples = (
            n // num_replicas if drop_last and n % num_replicas else math.ceil(n / num_replicas)
        )
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        n = len(self.dataset)
        order = list(range(n))
        if self.shuffle:
            generator = _random.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = _random.randperm(n, generator=generator).tolist()
        if not self.drop_last and order:
            order += (order * math.ceil((self.total_size - n) / n))[: self.total_size - n]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose another order."""
        self.epoch = epoch
