"""Loaders: with and without worker processes, which may fail, die, or be left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import pytest

import adjoint as ad
from adjoint.utils import data
from adjoint.utils.data import DataLoader, get_worker_info


class Numbers(data.Dataset):
    """Sample i is a large tensor of i; asking for `bad` does what `how` says."""

    def __init__(self, n=10, bad=None, how=None, size=3):
        self.n, self.bad, self.how, self.size = n, bad, how, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.bad:
            self.how()
        return ad.full((self.size,), float(i))


class Shared(data.IterableDataset):
    """A stream of n numbers that workers divide among themselves."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


def raise_error():
    raise ValueError("this sample is bad")


def raise_key_error():
    raise KeyError("no such key")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(3)


def values(loader):
    return [batch[:, 0].tolist() for batch in loader]


EXPECTED = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@WORKERS
@pytest.mark.parametrize("size", [3, 5000])
def test_order_and_batches(workers, size):
    loader = DataLoader(Numbers(size=size), batch_size=3, num_workers=workers)
    assert len(loader) == 4 and values(loader) == EXPECTED and values(loader) == EXPECTED
    assert values(DataLoader(Numbers(size=size), 3, num_workers=workers, drop_last=True)) == EXPECTED[:3]


@WORKERS
def test_shuffle_is_decided_by_the_seed(workers):
    def order():
        ad.manual_seed(5)
        return [x.item() for x in DataLoader(range(20), shuffle=True, num_workers=workers)]

    assert order() == order() and sorted(order()) == list(range(20)) and order() != list(range(20))
    generator = [ad.Generator().manual_seed(1) for _ in range(2)]
    one, two = ([x.item() for x in DataLoader(range(20), shuffle=True, generator=g)] for g in generator)
    assert one == two


@WORKERS
def test_without_batches_and_with_samplers(workers):
    assert [x for x in DataLoader(range(4), batch_size=None, num_workers=workers)] == [0, 1, 2, 3]
    loader = DataLoader(range(6), batch_sampler=[[0, 5], [1]], num_workers=workers)
    assert [b.tolist() for b in loader] == [[0, 5], [1]]
    loader = DataLoader(range(6), sampler=[4, 2], num_workers=workers)
    assert [b.tolist() for b in loader] == [[4], [2]]
    loader = DataLoader(range(4), 2, collate_fn=tuple, num_workers=workers)
    assert list(loader) == [(0, 1), (2, 3)]


@WORKERS
def test_streams(workers):
    loader = DataLoader(Shared(11), batch_size=3, num_workers=workers)
    assert sorted(x for batch in loader for x in batch.tolist()) == list(range(11))
    assert sorted(DataLoader(Shared(5), batch_size=None, num_workers=workers)) == [0, 1, 2, 3, 4]
    full = DataLoader(Shared(11), batch_size=3, num_workers=workers, drop_last=True)
    assert all(len(batch) == 3 for batch in full)


def test_streams_of_different_length():
    class Uneven(data.IterableDataset):
        def __iter__(self):
            return iter(range([0, 7][get_worker_info().id]))

    assert [x.item() for x in DataLoader(Uneven(), num_workers=2)] == list(range(7))


def test_persistent_workers():
    loader = DataLoader(
        range(6), 2, num_workers=2, persistent_workers=True, collate_fn=lambda b: (os.getpid(), b)
    )
    first = list(loader)
    iterator = iter(loader)
    next(iterator)
    again = list(loader)  # a pass that was left does not disturb the next
    assert [b for _, b in first] == [b for _, b in again] == [[0, 1], [2, 3], [4, 5]]
    assert {p for p, _ in first} == {p for p, _ in again}


def test_workers_know_and_are_seeded():
    def init(worker):
        assert get_worker_info().id == worker
        get_worker_info().dataset.append(100 + worker)

    numbers = [0, 1, 2, 3]
    loader = DataLoader(
        numbers,
        2,
        num_workers=2,
        worker_init_fn=init,
        collate_fn=lambda b: (get_worker_info().id, numbers[-1], ad.rand(()).item()),
    )
    ad.manual_seed(0)
    (a, x, u), (b, y, v) = loader
    assert (a, x, b, y) == (0, 100, 1, 101) and u != v
    ad.manual_seed(0)
    assert [r for _, _, r in loader] == [u, v]
    assert get_worker_info() is None


@pytest.mark.parametrize(
    "how, kind, text",
    [(raise_error, ValueError, "this sample is bad"), (raise_key_error, KeyError, "no such key")],
)
def test_an_error_arrives_with_its_traceback(how, kind, text):
    with pytest.raises(kind) as caught:
        values(DataLoader(Numbers(bad=4, how=how), 3, num_workers=2))
    shown = str(caught.value)
    assert f"Caught {kind.__name__} in DataLoader worker process 1.\nOriginal Traceback" in shown
    assert text in shown and "in __getitem__" in shown


def test_what_cannot_be_sent_is_an_error():
    with pytest.raises(Exception, match="Caught .* in DataLoader worker process 0"):
        list(DataLoader(range(2), num_workers=1, collate_fn=lambda b: (x for x in b)))


def test_an_error_in_worker_init_fn():
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError"):
        list(DataLoader(range(2), num_workers=1, worker_init_fn=lambda i: 1 / 0))


@pytest.mark.parametrize(
    "how, text", [(die, "is killed by signal"), (leave, "exited unexpectedly with exit code 3")]
)
def test_a_dead_worker_is_an_error(how, text):
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid \d+\) {text}"):
        values(DataLoader(Numbers(bad=4, how=how), 3, num_workers=2))
    assert time.monotonic() - begun < 30


def test_timeout():
    with pytest.raises(AssertionError, match="there are none: set num_workers"):
        list(DataLoader([1, 2], timeout=3))
    loader = DataLoader(Numbers(bad=1, how=lambda: time.sleep(20)), num_workers=1, timeout=0.5)
    with pytest.raises(RuntimeError, match="timed out after 0.5 seconds"):
        list(loader)


def left_behind():
    """The segments that this process has mapped, or has a descriptor of."""
    gc.collect()
    with open("/proc/self/maps") as maps:
        mapped = [line for line in maps if "memfd:adjoint" in line]
    opened = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    return mapped + [path for path in opened if "memfd:adjoint" in path]


def test_nothing_is_left_behind():
    before = len(left_behind())
    loader = DataLoader(Numbers(n=40, size=5000), 2, num_workers=2)
    iterator = iter(loader)
    x = next(iterator)
    assert len(left_behind()) > before
    processes = iterator._workers
    iterator.close()
    del x
    assert not any(p.is_alive() for p in processes) and len(left_behind()) <= before
    list(loader)
    assert len(left_behind()) <= before


def test_received_tensors_are_ordinary():
    (x,) = DataLoader(Numbers(n=1, size=5000), num_workers=1)
    x.requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.shape == (1, 5000)
    x.detach().add_(1)


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"shuffle": True, "sampler": [0]}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        (
            {"multiprocessing_context": "fork"},
            r"multi-process loading \(num_workers > 0\), but got num_workers=0",
        ),
        (
            {"multiprocessing_context": "none such", "num_workers": 1},
            "should specify a valid start method in",
        ),
    ],
)
def test_refusals(keywords, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(range(3), **keywords)


def test_streams_have_no_order():
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Shared(3), shuffle=True)
    with pytest.raises(ValueError, match="expected unspecified sampler option"):
        DataLoader(Shared(3), sampler=[1])


def test_what_a_loader_keeps_as_it_was_made():
    loader = DataLoader(range(3))
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(
            ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"
        ):
            setattr(loader, name, None)
    loader.num_workers = 1
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        loader.multiprocessing_context = object()


def test_more_workers_than_processors():
    with pytest.warns(UserWarning, match="This DataLoader will create 100000 worker processes in total"):
        DataLoader(range(3), num_workers=100000)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_goes_on_after_an_error(workers):
    def fails():
        raise KeyError("bad sample")

    iterator, seen = iter(DataLoader(Numbers(5, 2, fails), num_workers=workers)), []
    while True:
        try:
            seen.append(int(next(iterator)[0, 0]))
        except KeyError:
            seen.append("error")
        except StopIteration:
            break
    assert seen == [0, 1, "error", 3, 4]


class SaysLess(data.IterableDataset):
    def __iter__(self):
        return iter(range(4))

    def __len__(self):
        return 3


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_that_is_longer_than_it_said(workers):
    loader = DataLoader(SaysLess(), num_workers=workers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 4
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3 .* but 4 samples have been fetched") as caught:
        assert len(list(loader)) == 4
    assert len(caught) == 1 and ("multiprocessing" in str(caught[0].message)) is bool(workers)


class Info(data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        info = get_worker_info()
        with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
            info.id = 3
        return repr(info)


def test_what_a_worker_knows_is_not_to_be_changed():
    ((text,),) = DataLoader(Info(), num_workers=1)
    assert all(f"{name}=" in text for name in ("id", "num_workers", "seed", "dataset"))


def test_a_process_forked_later_leaves_the_workers_alone():
    """What an abandoned pass leaves behind is ended by the process that began it, and by no copy of that."""
    program = """
        import gc, os, adjoint as ad
        from adjoint.utils.data import DataLoader, TensorDataset
        passes = [iter(DataLoader(TensorDataset(ad.arange(9.0)), num_workers=1))]
        next(passes[0])
        if not os.fork():
            passes.clear()
            gc.collect()
            os._exit(0)
        os.wait()
        print(len(list(passes.pop())))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("8\n", "")
