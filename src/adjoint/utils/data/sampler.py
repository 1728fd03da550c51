"""Samplers: in which order, and in which batches, a loader asks for samples. Start reading at `Sampler`."""

from __future__ import annotations

import itertools

from adjoint import _C
from adjoint._publish.register import listing
from adjoint._tensor import random as _random
from adjoint._types import Any, Generator, Iterable, Iterator, Sequence, Tensor
from adjoint.utils.data._utils.generic import Generic, T_co

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
__dir__ = listing(__name__)


def _is_count(n):
    return isinstance(n, int) and not isinstance(n, bool) and n > 0


def fresh_seed() -> int:
    """A seed drawn from the default generator, so that `manual_seed` decides what follows from it."""
    return int(_random.randint(0, 2**62, (), dtype=_C.int64).item())


def _generator(given):
    if given is not None:
        return given
    generator = _random.Generator()
    generator.manual_seed(fresh_seed())
    return generator


class Sampler(Generic[T_co]):
    """An iterable over sample numbers: subclasses write ``__iter__`` and, mostly, ``__len__``."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, …"""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A permutation, or draws with replacement.

    Parameters
    ----------
    replacement : bool
    num_samples : int, optional
        How many to draw: as many as there are, when left out.
    generator : Generator, optional
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not _is_count(self.num_samples):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> Any:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[Any]:
        n = len(self.data_source)
        generator = _generator(self.generator)
        if self.replacement:
            for start in range(0, self.num_samples, 32):
                count = min(32, self.num_samples - start)
                yield from _random.randint(0, n, (count,), dtype=_C.int64, generator=generator).tolist()
            return
        for _ in range(self.num_samples // n if n else 0):
            yield from _random.randperm(n, generator=generator).tolist()
        if n:
            # Also where nothing of it is wanted: so torch does, and the next pass goes on from there.
            yield from _random.randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A permutation of given numbers."""

    def __init__(self, indices: Any, generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for i in _random.randperm(
            len(self.indices),
            generator=_random.default_generator if self.generator is None else self.generator,
        ).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws with probabilities proportional to weights, which need not sum to one."""

    def __init__(
        self,
        weights: Tensor | Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not _is_count(num_samples):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        from adjoint import as_tensor

        self.weights = as_tensor(weights, dtype=_C.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        keywords: dict[str, Any] = {} if self.generator is None else {"generator": self.generator}
        return iter(
            _random.multinomial(self.weights, self.num_samples, self.replacement, **keywords).tolist()
        )

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler["list[int]"]):
    """Lists of `batch_size` numbers of another sampler; the last may be shorter, unless it is dropped.

    Examples
    --------
    >>> from adjoint.utils.data import BatchSampler, SequentialSampler
    >>> list(BatchSampler(SequentialSampler(range(5)), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not _is_count(batch_size):
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[Any]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        if self.drop_last:
            return len(self.sampler) // self.batch_size
        return (len(self.sampler) + self.batch_size - 1) // self.batch_size
