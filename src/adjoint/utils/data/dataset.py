"""Data sets: what can be asked for sample number i, or iterated. Start reading at `Dataset`."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings

from adjoint._tensor import random as _random
from adjoint._types import Any, Generator, Iterable, Iterator, Sequence, Tensor
from adjoint.utils.data._utils.generic import Generic, T, T_co

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset(Generic[T_co]):
    """A collection of samples by number: subclasses write ``__getitem__`` and, mostly, ``__len__``.

    ``__getitems__``, where a subclass has it, takes a list of numbers and gives a list of samples. The sum of two data sets
    is one after the other.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """A stream of samples: subclasses write ``__iter__``.

    With several workers each has a copy: `get_worker_info` tells it which part of the stream is its own.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple["Tensor", ...]]):
    """A data set of slices of tensors along their first dimension.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.data import TensorDataset
    >>> len(TensorDataset(ad.zeros(5, 2), ad.arange(5)))
    5
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError(
                f"Size mismatch between tensors: their first dimensions are {[t.size(0) for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> Any:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def __repr__(self) -> str:
        samples = ", ".join(f"{list(t.shape[1:])} {t.dtype}" for t in self.tensors)
        return f"{type(self).__name__}({len(self)} samples of {samples})"


class StackDataset(Dataset[T_co]):
    """Samples that are tuples, or dicts where keywords are given, of the samples of several data sets of one length."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both types "
                "are given."
            )
        self.datasets = args or kwargs
        members = list(args or kwargs.values())
        self._length = len(members[0])
        if any(len(d) != self._length for d in members):
            raise ValueError(f"Size mismatch between datasets: their lengths are {[len(d) for d in members]}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Any) -> Any:
        members = self.datasets.values() if isinstance(self.datasets, dict) else self.datasets
        columns = []
        for dataset in members:
            many = getattr(dataset, "__getitems__", None)
            column = many(indices) if callable(many) else [dataset[index] for index in indices]
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                )
            columns.append(column)
        samples = list(zip(*columns))
        return [dict(zip(self.datasets, s)) for s in samples] if isinstance(self.datasets, dict) else samples

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """The concatenation of several data sets."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset: use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    @property
    def cummulative_sizes(self) -> Any:
        """`cumulative_sizes`, by its old name."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[T_co]):
    """The concatenation of several streams."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: Any = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a data set at given indices."""

    def __init__(self, dataset: Dataset[T_co] | Sequence[T_co], indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Any) -> Any:
        chosen = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(chosen) if callable(many) else [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T] | Sequence[T], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Split a data set at random into parts of the given lengths.

    Parameters
    ----------
    lengths : list of int, or of float that sum to 1
        Of fractions the lengths are rounded down, and what is left goes to the first parts, one each.
    generator : Generator, optional
    dataset : Dataset

    Returns
    -------
    list of Subset

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    whole: Any = dataset
    total = len(whole)
    lengths = list(lengths)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        lengths = sizes
        for i, length in enumerate(lengths):
            if length == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(lengths) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset!"
            f" The lengths {lengths} sum to {sum(lengths)}, the data set has {total}"
        )
    order = _random.randperm(
        total, generator=_random.default_generator if generator is None else generator
    ).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]
