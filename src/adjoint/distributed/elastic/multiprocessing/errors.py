"""`record`: a program's exception goes into a file that its launcher reads, so that the first failure can be shown.

Start reading at `record`.
"""

from __future__ import annotations

import functools
import json
import os
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

VARIABLE = "TORCHELASTIC_ERROR_FILE"


class ProcessFailure:
    """How a process failed: its rank, its process id, its exit status, and what it recorded."""

    def __init__(self, local_rank: Any, pid: Any, exitcode: Any, error_file: Any = "") -> None:
        self.local_rank, self.pid, self.exitcode, self.error_file = local_rank, pid, exitcode, error_file
        self.timestamp, self.message = int(time.time()), f"exited with status {exitcode}"
        if error_file and os.path.isfile(error_file):
            with open(error_file, encoding="utf-8") as file:
                try:
                    self.message = json.load(file)["message"]["extraInfo"]["py_callstack"]
                except (ValueError, KeyError, TypeError):
                    pass  # it was killed while writing: the status has to do


class ChildFailedError(Exception):
    """A program that was started on several ranks has failed.

    Attributes
    ----------
    failures : dict
        By rank: `ProcessFailure`.
    """

    def __init__(self, name: Any, failures: Any) -> None:
        self.name, self.failures = name, failures
        first = self.get_first_failure()[1]
        super().__init__(f"{name} failed: rank {first.local_rank} {first.message}")

    def get_first_failure(self):
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]


class ErrorHandler:
    """Writes an exception into the launcher's file."""

    def initialize(self) -> None:
        """Nothing has to be prepared."""

    def record_exception(self, e) -> None:
        """Write an exception with its traceback."""
        path = os.environ.get(VARIABLE)
        if path:
            text = "".join(traceback.format_exception(e))
            info = {"py_callstack": text, "timestamp": str(int(time.time()))}
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": info}}, file)


def get_error_handler() -> ErrorHandler:
    """The handler that `record` uses."""
    return ErrorHandler()


def record(fn=None, error_handler=None):
    """Decorate a program's main function: what it raises is shown by the launcher, last of all it prints."""
    handler = error_handler or get_error_handler()

    def wrap(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            handler.initialize()
            try:
                return function(*args, **kwargs)
            except ChildFailedError:
                raise
            except Exception as error:
                handler.record_exception(error)
                raise

        return wrapper

    return wrap if fn is None else wrap(fn)
