"""What runs in a worker process: it waits for sample numbers, and sends batches back. Start reading at `run`.

Messages to a worker are (task number, sample numbers), `Restart` for another pass over the data, or None: end. It answers
(task number, batch), the batch being an `Failure` where an error came, or `Exhausted` where a stream came to its end.
"""

from __future__ import annotations

import dataclasses
import os
import queue
import traceback
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


#: How often, in seconds, a worker that waits looks whether its parent is alive.
MP_STATUS_CHECK_INTERVAL = 5.0


class _Pickler(ForkingPickler):
    """Small tensors go as bytes, since this process may have gone when they are read; large ones are shared already."""

    _extra_reducers: dict = {}


@dataclasses.dataclass
class WorkerInfo:
    """Which worker this process is: its number `id` of `num_workers`, its `seed`, its copy of the `dataset`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __post_init__(self):
        self.__dict__["_made"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_made" in self.__dict__:
            raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")
        self.__dict__[name] = value


@dataclasses.dataclass
class Exhausted:
    """A stream has come to its end in this worker."""

    worker: int


@dataclasses.dataclass
class Restart:
    """The next pass begins, with another seed."""

    seed: int


class Failure:
    """An error on its way to the process that asked: type and traceback as text, since the error may not pickle."""

    def __init__(self, error: Any, where: Any) -> None:
        self.type = type(error)
        self.text = (
            f"Caught {type(error).__name__} {where}.\nOriginal {''.join(traceback.format_exception(error))}"
        )
        self.key = str(error.args[0]) if isinstance(error, KeyError) and error.args else None

    def __reduce__(self) -> Any:
        return _failure, (self.type, self.text)

    def reraise(self):
        """Raise an error of the same type whose text holds the worker's traceback."""
        text = self.text
        if self.type is KeyError:
            # A KeyError shows the repr of its text: lines would stand as \\n in it.
            text = _Text(text)
        try:
            error = self.type(text)
        except Exception:  # noqa: BLE001 - the type wants other arguments
            raise RuntimeError(text) from None
        raise error


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _failure(kind, text):
    failure = Failure.__new__(Failure)
    failure.type, failure.text = kind, text
    return failure


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, which one it is; elsewhere None.

    Returns
    -------
    WorkerInfo, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.utils.data.get_worker_info() is None
    True
    """
    return _info


def seed_everything(seed):
    """Python's, Adjoint's and, where they were imported, NumPy's random numbers."""
    import random
    import sys

    import adjoint

    random.seed(seed)
    adjoint.manual_seed(seed)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(seed % 2**32)


def run(*arguments):
    """The main function of a worker process."""
    try:
        _serve(*arguments)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the process that asked was interrupted too, or wants no more


def _serve(fetcher_type, dataset, tasks, answers, worker, settings):
    import adjoint
    from adjoint.utils.data._utils import shared

    adjoint.set_num_threads(1)
    fetcher, failure = None, None

    def start(seed):
        nonlocal fetcher, failure
        global _info
        fetcher = failure = None
        seed_everything(seed)
        _info = WorkerInfo(worker, settings.num_workers, seed, dataset)
        try:
            if settings.worker_init_fn is not None:
                settings.worker_init_fn(worker)
            fetcher = fetcher_type(dataset, settings.auto_collation, settings.collate_fn, settings.drop_last)
        except Exception as error:  # noqa: BLE001 - it is told to the process that asked
            failure = Failure(error, f"in DataLoader worker process {worker}")

    def send(number, answer):
        try:
            packed, parts, nbytes = shared.pack(answer)
            message = _Pickler.dumps((number, packed, nbytes))
        except Exception as error:  # noqa: BLE001 - what the data set gave cannot be sent
            parts, nbytes = [], 0
            message = _Pickler.dumps((number, Failure(error, f"in DataLoader worker process {worker}"), 0))
        shared.send(answers, message, parts, nbytes)  # type: ignore[arg-type]

    parent = os.getppid()
    start(settings.base_seed + worker)
    exhausted = False
    while True:
        try:
            task = tasks.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            if os.getppid() != parent:
                return  # the parent is gone
            continue
        if task is None:
            return
        if isinstance(task, Restart):
            exhausted = False
            start(task.seed + worker)
            send(task, None)
            continue
        number, wanted = task
        if exhausted:
            continue
        answer: Any
        if failure is not None:
            answer, failure = failure, None
        else:
            try:
                answer = fetcher.fetch(wanted)  # type: ignore[union-attr]
            except StopIteration as error:
                if not settings.iterable:
                    answer = Failure(error, f"in DataLoader worker process {worker}")
                else:
                    answer, exhausted = Exhausted(worker), True
            except Exception as error:  # noqa: BLE001
                answer = Failure(error, f"in DataLoader worker process {worker}")
        send(number, answer)
