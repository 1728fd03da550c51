"""Data sets, samplers and how samples are put together."""

from collections import Counter, namedtuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils import data

Point = namedtuple("Point", "x y")


class Squares(data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i * i


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def test_tensor_dataset():
    x, y = ad.arange(6.0).view(3, 2), ad.arange(3)
    d = data.TensorDataset(x, y)
    assert len(d) == 3 and d[1][1].item() == 1 and d[-1][0].tolist() == [4, 5]
    with pytest.raises(AssertionError, match="Size mismatch"):
        data.TensorDataset(x, ad.arange(4))


def test_concat_and_chain():
    d = Squares(3) + Squares(2)
    assert isinstance(d, data.ConcatDataset) and [d[i] for i in range(5)] == [0, 1, 4, 0, 1] and d[-1] == 1
    with pytest.raises(ValueError, match="absolute value of index"):
        d[-6]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError):
        data.ConcatDataset([])
    with pytest.raises(AssertionError):
        data.ConcatDataset([Stream(2)])


def test_stack_and_subset():
    assert data.StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    assert data.StackDataset(a=Squares(3))[2] == {"a": 4}
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset(Squares(3), Squares(2))
    part = data.Subset(Squares(10), [3, 5])
    assert len(part) == 2 and part[1] == 25 and part.__getitems__([0, 1]) == [9, 25]


@pytest.mark.parametrize(
    "lengths, sizes", [([3, 7], [3, 7]), ([0.5, 0.5], [5, 5]), ([0.33, 0.33, 0.34], [4, 3, 3])]
)
def test_random_split(lengths, sizes):
    parts = data.random_split(range(10), lengths)
    assert [len(p) for p in parts] == sizes
    assert sorted(x for p in parts for x in p) == list(range(10))
    once = [list(p) for p in data.random_split(range(10), lengths, ad.Generator().manual_seed(1))]
    assert once == [list(p) for p in data.random_split(range(10), lengths, ad.Generator().manual_seed(1))]


def test_random_split_refuses():
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="not between 0 and 1"):
        data.random_split(range(10), [1.5, -0.5])


def test_samplers():
    assert list(data.SequentialSampler(range(4))) == [0, 1, 2, 3]
    order = list(data.RandomSampler(range(50)))
    assert sorted(order) == list(range(50)) and order != list(range(50))
    assert len(list(data.RandomSampler(range(5), num_samples=12))) == 12
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == {0, 1, 2}
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    counts = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 2000))
    assert counts[0] == 0 and 2.4 < counts[2] / counts[1] < 3.8
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(data.BatchSampler(range(5), 2, False)) == 3
    g = ad.Generator().manual_seed(3)
    first = list(data.RandomSampler(range(9), generator=g))
    assert first != list(data.RandomSampler(range(9), generator=g))
    assert first == list(data.RandomSampler(range(9), generator=ad.Generator().manual_seed(3)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: data.BatchSampler(range(5), 0, False),
        lambda: data.BatchSampler(range(5), 2, None),
        lambda: data.RandomSampler(range(5), num_samples=0),
        lambda: data.WeightedRandomSampler([1.0], 0),
        lambda: data.WeightedRandomSampler([[1.0]], 1),
    ],
)
def test_samplers_refuse(make):
    with pytest.raises(ValueError):
        make()


def test_distributed():
    parts = [list(data.DistributedSampler(range(10), 3, r, seed=1)) for r in range(3)]
    assert all(len(p) == 4 for p in parts) and set().union(*parts) == set(range(10))
    dropped = [
        list(data.DistributedSampler(range(10), 3, r, shuffle=False, drop_last=True)) for r in range(3)
    ]
    assert dropped == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    with pytest.raises(ValueError, match="Invalid rank"):
        data.DistributedSampler(range(10), 3, 3)
    with pytest.raises(ValueError, match="process group has not been initialized"):
        data.DistributedSampler(range(10))


def test_collate():
    batch = data.default_collate([(ad.zeros(2), 1, 2.0, "a", Point(1, np.ones(2))) for _ in range(3)])
    x, i, f, s, p = batch
    assert x.shape == (3, 2) and i.dtype == ad.int64 and f.dtype == ad.float64 and s == ("a",) * 3
    assert isinstance(p, Point) and p.y.shape == (3, 2) and p.y.dtype == ad.float64
    assert data.default_collate([("a", "b"), ("c", "d")]) == [("a", "c"), ("b", "d")]  # as torch's
    assert data.default_collate([{"k": [1, 2]}, {"k": [3, 4]}])["k"][1].tolist() == [2, 4]
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == ad.float32
    assert data.default_collate([True, False]).dtype == ad.bool


@pytest.mark.parametrize(
    "batch, error, text",
    [
        ([object()], TypeError, "must contain tensors, numpy arrays, numbers"),
        ([np.array(["a"])], TypeError, "must contain tensors"),
        ([[1, 2], [1]], RuntimeError, "should be of equal size"),
        ([ad.zeros(2), ad.zeros(3)], RuntimeError, "stack"),
    ],
)
def test_collate_refuses(batch, error, text):
    with pytest.raises(error, match=text):
        data.default_collate(batch)


def test_convert():
    converted = data.default_convert({"a": np.zeros(2), "b": [1, np.ones(1)], "c": "x"})
    assert (
        isinstance(converted["a"], ad.Tensor)
        and isinstance(converted["b"][1], ad.Tensor)
        and converted["c"] == "x"
    )


def test_stacks_of_data_sets_refuse():
    for args, keywords, text in (
        ((), {}, "At least one dataset should be passed"),
        ((Squares(2),), {"a": Squares(2)}, "Supported either"),
        ((Squares(2), Squares(3)), {}, "Size mismatch between datasets"),
    ):
        with pytest.raises(ValueError, match=text):
            data.StackDataset(*args, **keywords)


class Many(Squares):
    """Gives several samples at once, and one too few where it is asked for three."""

    def __getitems__(self, indices):
        self.asked = indices
        return [self[i] for i in indices][: 2 if len(indices) == 3 else None]


def test_stacks_fetch_several_samples_at_once():
    many = Many(5)
    assert data.StackDataset(many, Squares(5)).__getitems__([1, 3]) == [(1, 1), (9, 9)]
    assert many.asked == [1, 3]
    assert data.StackDataset(a=many, b=range(5)).__getitems__([2]) == [{"a": 4, "b": 2}]
    with pytest.raises(ValueError, match="Nested dataset's output size mismatch. Expected 3, got 2"):
        data.StackDataset(many, Squares(5)).__getitems__([0, 1, 2])
    loader = data.DataLoader(data.StackDataset(many, Squares(5)), batch_size=2)
    assert [column.tolist() for column in next(iter(loader))] == [[0, 1], [0, 1]]


def test_an_empty_part_of_a_split_and_an_old_name():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert [len(part) for part in data.random_split(range(2), [0.99, 0.01])] == [2, 0]
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert data.ConcatDataset([range(2), range(3)]).cummulative_sizes == [2, 5]


def test_what_prints_says_what_it_is():
    samples = data.TensorDataset(ad.ones(5, 2), ad.arange(5))
    assert repr(samples) == "TensorDataset(5 samples of [2] adjoint.float32, [] adjoint.int64)"
    assert repr(data.DataLoader(samples, 2)) == f"DataLoader({samples!r}, batch_size=2, num_workers=0)"
    assert repr(data.DataLoader([1] * 1000)) == "DataLoader(list, batch_size=1, num_workers=0)"


@pytest.mark.parametrize("replacement", [False, True])
def test_nothing_can_be_drawn_from_an_empty_set(replacement):
    with pytest.raises(
        ValueError, match="num_samples should be a positive integer value, but got num_samples=0"
    ):
        data.RandomSampler([], replacement)
    with pytest.raises(ValueError, match="num_samples=0"):
        data.DataLoader([], shuffle=True)
    assert list(data.DataLoader([])) == []
