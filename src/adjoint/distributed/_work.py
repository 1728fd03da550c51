"""`Work`: the handle of an asynchronous operation. Start reading at `Work.wait`."""

from __future__ import annotations

import threading
from datetime import timedelta

from adjoint._publish.arguments import ignores
from adjoint._types import Any
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._futures import Future
from adjoint.distributed._stores import seconds

__all__ = ["Done", "Work"]


class Work:
    """An operation of a group that may not be finished.

    What it writes must not be read, and what it reads not be written, before `wait` has returned.
    """

    def __init__(self, what: str = "", outputs: Any = (), source: int = -1) -> None:
        self._what, self._outputs, self._source = what, outputs, source
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._future: Future | None = None
        self._lock = threading.Lock()

    def _finish(self, error=None):
        """Mark it finished, with an error if it failed."""
        with self._lock:
            self._error = error
            self._done.set()
            future = self._future
        if future is not None:
            self._tell(future)

    def _tell(self, future):
        if self._error is None:
            future.set_result(list(self._outputs))
        else:
            future.set_exception(
                self._error if isinstance(self._error, Exception) else DistBackendError(str(self._error))
            )

    def is_completed(self) -> bool:
        """Whether it is finished, successfully or not."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it is finished successfully."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error; None if there is none so far."""
        return self._error

    def wait(self, timeout: Any = timedelta(0)) -> bool:
        """Wait until it is finished.

        Parameters
        ----------
        timeout : timedelta
            How long to wait; 0: as long as the group's timeout lets the operation last.

        Raises
        ------
        DistBackendError
            It failed, or did not finish in time.
        """
        limit = seconds(timeout)
        if not self._done.wait(limit if limit > 0 else None):
            raise DistBackendError(f"Wait timeout after {limit:g} s: {self._what} is not finished")
        if self._error is not None:
            # The same error may be raised to many who wait, each with a traceback of its own.
            raise self._error.with_traceback(None)
        return True

    def synchronize(self) -> None:
        """Like `wait`."""
        self.wait()

    def result(self) -> list:
        """The tensors that it wrote."""
        return list(self._outputs)

    def source_rank(self) -> int:
        """The rank that a message was sent from."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Future:
        """A future of the tensors that it writes."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                if self._done.is_set():
                    self._tell(self._future)
            return self._future

    def __repr__(self):
        state = "failed" if self._error else "done" if self.is_completed() else "under way"
        return f"<Work: {self._what}, {state}>"


class Done(Work):
    """An operation that was finished when its call returned."""

    # Shared by all: to make an event takes longer than a small message.
    _done, _lock = threading.Event(), threading.Lock()
    _error = _future = None

    def __init__(self, what: str = "", outputs: Any = (), source: int = -1) -> None:
        self._what, self._outputs, self._source = what, outputs, source

    @ignores("timeout", why="it is finished", warns=False)
    def wait(self, timeout: Any = None) -> bool:
        """It is finished."""
        return True


Done._done.set()
