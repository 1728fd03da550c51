"""`spawn`: a function in several processes, whose errors come back with their tracebacks.

Start reading at `start_processes`.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from multiprocessing import connection

from adjoint._types import Any, Callable

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process has failed: which one, and its process id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended with an exception, whose traceback is the message.

    Parameters
    ----------
    msg : str
    error_index, pid : int
        Which process it was, and its process id.

    Examples
    --------
    >>> import adjoint as ad
    >>> try:
    ...     ad.multiprocessing.start_processes(int, args=("no base",), start_method="fork")
    ... except ad.multiprocessing.ProcessRaisedException as error:
    ...     print(error.error_index, "TypeError" in error.msg)
    0 True
    """


class ProcessExitedException(ProcessException):
    """A process ended by a signal, or with a status that is not 0.

    Parameters
    ----------
    msg : str
    error_index, error_pid : int
        Which process it was, and its process id.
    exit_code : int
    signal_name : str, optional

    Examples
    --------
    >>> import os
    >>> import adjoint as ad
    >>> try:
    ...     ad.multiprocessing.start_processes(os._exit, nprocs=2, start_method="fork")
    ... except ad.multiprocessing.ProcessExitedException as error:
    ...     print(error.error_index, error.exit_code)
    1 1
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _wrap(fn, i, args, error_file):
    """What a process runs."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # an interrupt goes to all of them
    except Exception:  # noqa: BLE001 - its text goes to the process that asked
        import traceback

        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that run one function: `join` waits for them.

    Parameters
    ----------
    processes : list of Process
    error_files : list of str
        Where each leaves its exception.

    Examples
    --------
    >>> import adjoint as ad
    >>> context = ad.multiprocessing.start_processes(bin, nprocs=2, join=False, start_method="fork")
    >>> while not context.join():  # True when all have ended
    ...     pass
    >>> len(context.pids())
    2
    """

    def __init__(self, processes: Any, error_files: Any) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> Any:
        """The process ids.

        Returns
        -------
        list of int
        """
        return [process.pid for process in self.processes]

    def join(self, timeout: Any = None, grace_period: Any = None) -> Any:
        """Wait until one has failed, in which case the others are ended, or `timeout` seconds.

        Parameters
        ----------
        timeout, grace_period : float, optional
            In seconds.

        Returns
        -------
        bool
            Whether all have ended.

        Raises
        ------
        ProcessRaisedException, ProcessExitedException
        """
        failed = None
        for sentinel in connection.wait(self.sentinels, timeout=timeout) if self.sentinels else ():
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            if not self.sentinels:
                self._tidy()
            return not self.sentinels
        self._end_others(grace_period)
        try:
            raise self._error(failed)
        finally:
            self._tidy()

    def _end_others(self, grace_period):
        end = time.monotonic() + (grace_period or 0)
        while grace_period and time.monotonic() < end and any(p.is_alive() for p in self.processes):
            time.sleep(0.02)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()

    def _error(self, i):
        process, path = self.processes[i], self.error_files[i]
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as file:
                said = pickle.load(file)
            return ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{said}", i, process.pid
            )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            return ProcessExitedException(
                f"process {i} terminated with signal {name}", i, process.pid, code, name
            )
        return ProcessExitedException(f"process {i} terminated with exit code {code}", i, process.pid, code)

    def _tidy(self):
        for path in self.error_files:
            if os.path.exists(path):
                os.remove(path)


class SpawnContext(ProcessContext):
    """A `ProcessContext` of processes that were spawned.

    Parameters
    ----------
    processes : list of Process
    error_files : list of str

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.multiprocessing.SpawnContext, ad.multiprocessing.ProcessContext)
    True
    """


def start_processes(
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run ``fn(i, *args)`` in processes i = 0 … nprocs - 1.

    Parameters
    ----------
    fn : callable
        Found by its name in its module, since another process imports it.
    args : tuple
        Tensors among them are shared.
    nprocs : int
    join : bool
        Wait for all; else a `ProcessContext` is returned, whose `join` does.
    daemon : bool
        Whether the processes end with this one.
    start_method : {'spawn', 'fork', 'forkserver'}

    Returns
    -------
    ProcessContext or None
        None if it has waited for all.

    Raises
    ------
    ProcessRaisedException
        One of them has; the others are ended.
    ProcessExitedException
        One of them has ended by a signal, or with a status that is not 0.

    Examples
    --------
    >>> import adjoint as ad
    >>> def half(i, x):
    ...     x[i] /= 2  # in the memory of this process
    >>> x = ad.ones(2).share_memory_()
    >>> ad.multiprocessing.start_processes(half, args=(x,), nprocs=2, start_method="fork")
    >>> x
    tensor([0.5000, 0.5000])
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, files = [], []
    for i in range(nprocs):
        handle, path = tempfile.mkstemp(prefix="adjoint-errorfile-", suffix=".pickle")
        os.close(handle)
        process = context.Process(target=_wrap, args=(fn, i, args, path), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(path)
    kind = SpawnContext if start_method == "spawn" else ProcessContext
    running = kind(processes, files)
    if not join:
        return running
    while not running.join():
        pass
    return None


#: By the name that torch documents.
spawn = start_processes
