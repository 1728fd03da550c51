"""Loaders: batches of a data set, in this process or in others. Start reading at `DataLoader`.

Without workers a batch is made when it is asked for. With workers, each process gets sample numbers through a queue and
answers through a pipe of its own; `prefetch_factor` batches are under way per worker, and they are given out in order. A
worker that dies is seen by its pipe, and is an error.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import warnings
import weakref
from multiprocessing.connection import wait
from typing import Any

from adjoint._publish.arguments import ignores
from adjoint._types import Callable, Generator, Iterable, Iterator, Sequence
from adjoint.utils.data._utils import options, shared, worker
from adjoint.utils.data._utils.collate import default_collate, default_convert
from adjoint.utils.data._utils.generic import Generic, T_co
from adjoint.utils.data.dataset import Dataset, IterableDataset
from adjoint.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, _generator

__all__ = ["DataLoader", "get_worker_info"]

get_worker_info = worker.get_worker_info


class _ByNumber:
    """Fetches the samples of a data set by their numbers."""

    def __init__(self, dataset: Any, auto_collation: Any, collate_fn: Any, drop_last: Any) -> None:
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn

    def fetch(self, wanted):
        if not self.auto_collation:
            return self.collate_fn(self.dataset[wanted])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(many(wanted) if callable(many) else [self.dataset[i] for i in wanted])


class _InTurn:
    """Fetches as many samples of a stream as it is given numbers."""

    def __init__(self, dataset: Any, auto_collation: Any, collate_fn: Any, drop_last: Any) -> None:
        self.samples = iter(dataset)
        self.auto_collation, self.collate_fn, self.drop_last = auto_collation, collate_fn, drop_last

    def fetch(self, wanted):
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        samples = list(itertools.islice(self.samples, len(wanted)))
        if not samples or (self.drop_last and len(samples) < len(wanted)):
            raise StopIteration
        return self.collate_fn(samples)


#: What `_dataset_kind` of a loader is, and who fetches samples of that kind.
NUMBERED, STREAM = 0, 1
FETCHERS: Any = (_ByNumber, _InTurn)


class _Endless:
    """What is asked of a stream: the same, again and again."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


#: What a loader keeps as it was made.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[T_co]):
    """Iterates over a data set in batches.

    Parameters
    ----------
    dataset : Dataset, IterableDataset, or anything with ``__getitem__`` and ``__len__``
    batch_size : int or None
        None: samples as they are, not put together.
    shuffle : bool
        A new order in each pass.
    sampler, batch_sampler : iterable, optional
        Which samples, or which batches of them, in which order; instead of `shuffle`, or of `batch_size`, `shuffle`,
        `sampler` and `drop_last`.
    num_workers : int
        Processes that fetch; 0 fetches in this one.
    collate_fn : callable, optional
        Makes a batch of a list of samples: `default_collate`.
    drop_last : bool
        Leave out a last batch that is not full.
    timeout : float
        Seconds to wait for a batch of a worker; 0 waits without limit.
    worker_init_fn : callable, optional
        Called in each worker with its number, after it was seeded.
    multiprocessing_context : str or context, optional
    generator : Generator, optional
        Decides the order and the workers' seeds.
    prefetch_factor : int, optional
        Batches under way per worker: 2.
    persistent_workers : bool
        Keep the processes for the next pass.
    pin_memory, pin_memory_device
        Accepted for programs that give them: there is no device to pin for.
    in_order : bool
        Give batches out in the order of the sampler, not as they come.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.data import DataLoader, TensorDataset
    >>> [x.sum().item() for (x,) in DataLoader(TensorDataset(ad.arange(5.0)), batch_size=2)]
    [1.0, 5.0, 4.0]
    """

    _made = False

    @ignores(
        "pin_memory", "pin_memory_device", why="memory is pinned for transfers to a device, and there is none"
    )
    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[..., Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: int = 0,
        worker_init_fn: Callable[..., Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        options.check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._dataset_kind = STREAM if isinstance(dataset, IterableDataset) else NUMBERED
        kind = "stream" if self._dataset_kind == STREAM else "numbered"
        options.check(kind, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            if self._dataset_kind == STREAM:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._kept: _Workers | None = None
        # How long a stream said that it is, once it was asked.
        self._IterableDataset_len_called: int | None = None
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None for the usual way."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> Any:
        self._context = options.checked_context(context, self.num_workers)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            if self.timeout:
                raise AssertionError(
                    f"timeout={self.timeout} is how long workers are waited for, and there are none: set num_workers, or leave it out"
                )
            return _OneProcess(self)
        if not self.persistent_workers:
            return _Workers(self)
        if self._kept is None or self._kept.closed:
            self._kept = _Workers(self)
        else:
            self._kept.restart()
        return self._kept

    def __repr__(self) -> str:
        own = type(self.dataset).__repr__
        of = type(self.dataset).__name__ if own in (object.__repr__, list.__repr__) else repr(self.dataset)
        return f"{type(self).__name__}({of}, batch_size={self.batch_size}, num_workers={self.num_workers})"

    def __len__(self) -> int:
        if self._dataset_kind == NUMBERED:
            return len(self._index_sampler)
        stream: Any = self.dataset
        length = self._IterableDataset_len_called = len(stream)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class _Iterator:
    """What both kinds of passes are."""

    _next: Any

    def _watch(self, loader):
        self._count_given, self._said_length = 0, loader._IterableDataset_len_called
        self._dataset, self._num_workers = loader.dataset, loader.num_workers

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._next()
        self._count_given += 1
        if self._said_length is not None and self._count_given > self._said_length:
            options.warn_of_more_samples(
                self._dataset, self._said_length, self._count_given, self._num_workers
            )
        return batch


class _OneProcess(_Iterator):
    """One pass, batches made when they are asked for."""

    def __init__(self, loader: Any) -> None:
        self._numbers = iter(loader._index_sampler)
        # Drawn here too, so that a pass takes the same random numbers however many workers there are.
        _base_seed(loader)
        kind = FETCHERS[loader._dataset_kind]
        self._fetcher = kind(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self._length = loader.__len__
        self._watch(loader)

    def _next(self):
        return self._fetcher.fetch(next(self._numbers))

    def __len__(self) -> int:
        return self._length()


def _base_seed(loader):
    from adjoint import _C
    from adjoint._tensor import random as _random

    return int(_random.randint(0, 2**62, (), dtype=_C.int64, generator=_generator(loader.generator)).item())


@dataclasses.dataclass
class _Settings:
    """What a worker is told at its start."""

    num_workers: int
    iterable: bool
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    worker_init_fn: Any
    base_seed: int


class _Workers(_Iterator):
    """Worker processes and one pass over their batches."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        context = loader.multiprocessing_context
        if context is None:
            import multiprocessing

            fork = "fork" in multiprocessing.get_all_start_methods()
            context = multiprocessing.get_context("fork" if fork else None)
        settings = _Settings(
            loader.num_workers,
            loader._dataset_kind == STREAM,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            _base_seed(loader),
        )
        kind = FETCHERS[loader._dataset_kind]
        self._tasks: list[Any] = []
        self._pipes: list[Any] = []
        self._workers: list[Any] = []
        self.closed = False
        self._end = weakref.finalize(self, _end, os.getpid(), self._tasks, self._pipes, self._workers)
        for number in range(loader.num_workers):
            tasks = context.Queue()
            tasks.cancel_join_thread()
            receive, send = context.Pipe()  # of sockets, through which descriptors go, too
            arguments = (kind, loader.dataset, tasks, send, number, settings)
            process = context.Process(target=worker.run, args=arguments, daemon=True)
            with warnings.catch_warnings():
                # Python warns of forks beside threads: the core's own are made fit for it.
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                process.start()
            send.close()
            self._tasks.append(tasks)
            self._pipes.append(receive)
            self._workers.append(process)
        self._begin()

    def _begin(self):
        self._watch(self._loader)
        self._numbers = iter(self._loader._index_sampler)
        self._sent = self._given = 0
        self._arrived: dict = {}  # answers that came before their turn, by task number
        self._of: dict = {}  # which worker has which task
        self._alive = list(range(len(self._workers)))  # workers whose stream goes on
        self._turn = 0
        for _ in range(self._loader.prefetch_factor or 1):
            for _ in range(len(self._workers)):
                self._ask()

    def restart(self):
        """Begin the next pass with the processes that are there."""
        # What is still under way belongs to a pass that was left: it is fetched, and dropped.
        seed = _base_seed(self._loader)
        for tasks in self._tasks:
            tasks.put(worker.Restart(seed))
        waiting = set(range(len(self._workers)))
        while waiting:
            number, _, index = self._receive()
            if isinstance(number, worker.Restart):
                waiting.discard(index)
        self._begin()

    def _ask(self):
        """Give the next task to the next worker."""
        if not self._alive:
            return
        try:
            wanted = next(self._numbers)
        except StopIteration:
            return
        index = self._alive[self._turn % len(self._alive)]
        self._turn += 1
        self._of[self._sent] = index
        self._tasks[index].put((self._sent, wanted))
        self._sent += 1

    def _receive(self):
        """The next (task number, answer, worker) that arrives."""
        timeout = self._loader.timeout or None
        ready = wait(self._pipes, timeout)
        if not ready:
            self.close()
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds")
        index = self._pipes.index(ready[0])
        try:
            number, answer = shared.receive(self._pipes[index])
        except (EOFError, ConnectionResetError):
            self._died(index)
        return number, answer, index

    def _died(self, index):
        process = self._workers[index]
        process.join(5)
        code, pid = process.exitcode, process.pid
        self.close()
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            how = f"is killed by signal: {signal.strsignal(-code) or name}."
        else:
            how = f"exited unexpectedly with exit code {code}. Details are lost due to multiprocessing."
        raise RuntimeError(
            f"DataLoader worker (pid {pid}) {how} Rerunning with num_workers=0 may give better error trace."
        )

    def __len__(self) -> int:
        return len(self._loader)

    def _next(self):
        if self.closed:
            raise StopIteration
        while True:
            if self._given in self._arrived:
                return self._give(self._given)
            if not self._loader.in_order and self._arrived:
                return self._give(next(iter(self._arrived)))
            if self._given not in self._of:
                # Given out already, or never asked for.
                if self._given < self._sent:
                    self._given += 1
                    continue
                if not self._loader.persistent_workers:
                    self.close()
                raise StopIteration
            number, answer, index = self._receive()
            if isinstance(answer, worker.Exhausted):
                self._exhausted(number, index)
            else:
                self._arrived[number] = answer

    def _exhausted(self, number, index):
        if index in self._alive:
            self._alive.remove(index)
        # Its later tasks get no answer.
        for task in [n for n, i in self._of.items() if i == index and n not in self._arrived]:
            del self._of[task]
        self._ask()

    def _give(self, number):
        answer = self._arrived.pop(number)
        del self._of[number]
        if number == self._given:
            self._given += 1
        self._ask()
        if isinstance(answer, worker.Failure):
            answer.reraise()  # and the pass goes on, if more is asked for
        return answer

    def close(self):
        """End the processes, and give up what they sent ahead of its turn."""
        self.closed = True
        self._end()
        self._arrived = {}


def _end(owner, tasks, pipes, processes):
    if os.getpid() != owner:  # a copy in a process that was forked later: they are not its children
        return
    for queue, process in zip(tasks, processes):
        if process.is_alive():
            queue.put(None)
    for pipe in pipes:
        pipe.close()  # one that is sending gets an error, and ends
    for process in processes:
        process.join(2)
        if process.is_alive():
            process.terminate()
            process.join(2)
    for queue in tasks:
        queue.close()
