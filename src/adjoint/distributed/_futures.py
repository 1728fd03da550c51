"""Futures like those of ``torch.futures``."""

from __future__ import annotations

import threading

from adjoint._publish.arguments import ignores
from adjoint._types import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value, or an exception, that is set later."""

    @ignores("devices", why="values are on the CPU")
    def __init__(self, *, devices: Any = None) -> None:
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._value = self._error = None
        self._callbacks: list = []

    @classmethod
    def __class_getitem__(cls, item):
        return cls

    def done(self) -> bool:
        """Whether the value is set."""
        return self._done.is_set()

    def wait(self) -> Any:
        """Wait for the value, and return it; an exception that was set is raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> Any:
        """The value, which must be set."""
        if not self.done():
            raise RuntimeError("value() can only be called on completed futures: wait() waits for one")
        return self.wait()

    def set_result(self, result: Any) -> None:
        """Set the value, and run the callbacks."""
        self._finish(result, None)

    def set_exception(self, result: Any) -> None:
        """Set an exception instead of a value."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value, error):
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once: it has a value already")
            self._value, self._error = value, error
            self._done.set()
            waiting, self._callbacks = self._callbacks, []
        for callback in waiting:
            callback(self)

    def add_done_callback(self, callback: Any) -> None:
        """Call ``callback(self)`` when the value is set, at once if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Any) -> Future:
        """A future of ``callback(self)``."""
        following = Future()

        def run(self):
            try:
                result = callback(self)
            except Exception as error:  # whatever it is, it is the result of what follows
                following.set_exception(error)
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: Any) -> Future:
    """A future of the list of futures, once all have their values."""
    futures, all_done = list(futures), Future()
    left, lock = [len(futures)], threading.Lock()

    def one_done(_):
        with lock:
            left[0] -= 1
        if not left[0]:
            all_done.set_result(futures)

    for future in futures:
        future.add_done_callback(one_done)
    if not futures:
        all_done.set_result(futures)
    return all_done


def wait_all(futures: Any) -> list:
    """The values of all."""
    return [future.wait() for future in collect_all(futures).wait()]
