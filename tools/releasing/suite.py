"""Runs paths of tests one after the other, each in a process forked from this one, which has loaded what tests need: an emulated
processor takes seconds for that. Alone where a wheel was installed, with nothing of the release script beside it.

    python suite.py SECONDS PATH...      the most seconds of the clock that a path may take

How each path ended is a line, `suite.py: ended with 0`: pytest's status, or a signal's number below zero.
"""

import contextlib
import importlib
import os
import signal
import sys
import time

NEEDED = "numpy scipy.linalg scipy.sparse scipy.special scipy.stats hypothesis mpmath pytest adjoint".split()


def run(path: str) -> int:
    import pytest

    return pytest.main(["-p", "no:cacheprovider", "-p", "no:warnings", path])


def wait(child: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)  # with the programs that it has started
    os.waitpid(child, 0)
    return -signal.SIGALRM


def main(seconds: str, *paths: str) -> None:
    stated = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's threads would not survive a fork
    for name in NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    del os.environ["OPENBLAS_NUM_THREADS"]
    if stated is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = stated
    for path in paths:
        print("suite.py: runs", path, flush=True)
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            status = run(path)
            sys.stdout.flush()
            os._exit(status)
        print("\nsuite.py: ended with", wait(child, float(seconds)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
