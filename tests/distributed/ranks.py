"""Ranks for tests: threads of this process, each with a group of its own over real sockets, or processes.

Start reading at `threads`.
"""

import os
import pathlib
import subprocess
import sys
import threading
from datetime import timedelta

import adjoint as ad
from adjoint.distributed._socket_group import SocketGroup
from adjoint.distributed._stores import HashStore

HERE = pathlib.Path(__file__).resolve().parent


class Rank:
    """What a rank's thread came to: its result, or what it raised."""

    def __init__(self):
        self.result = self.error = None


def threads(n, body, timeout=5.0, limit=30.0, close=True):
    """Run ``body(group, rank)`` in n threads, one for each rank of a group; what each came to. None of them may hang."""
    store, ranks = HashStore(), [Rank() for _ in range(n)]
    arrived = threading.Barrier(n)

    def one(rank):
        try:
            group = SocketGroup(store, rank, n, timedelta(seconds=timeout))
            try:
                ranks[rank].result = body(group, rank)
            except BaseException as error:  # noqa: BLE001 - tests look at it
                ranks[rank].error = error
            finally:
                if close:
                    arrived.wait(limit)
                    group.shutdown()
        except BaseException as error:  # noqa: BLE001
            ranks[rank].error = error

    workers = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(n)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(limit)
    assert not any(worker.is_alive() for worker in workers), "a rank hangs"
    return ranks


def agree(n, body, **options):
    """The results of ranks that must not fail."""
    ranks = threads(n, body, **options)
    for rank in ranks:
        if rank.error is not None:
            raise rank.error
    return [rank.result for rank in ranks]


def sound(n, body, **options):
    """The words of the errors that all ranks must have."""
    ranks = threads(n, body, **options)
    assert all(isinstance(rank.error, RuntimeError) for rank in ranks), [rank.error for rank in ranks]
    return [str(rank.error) for rank in ranks]


def environment(**more):
    """Variables for a program that uses this package, without those of a launcher."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")
    }
    source = str(pathlib.Path(ad.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join([source, str(HERE), kept.get("PYTHONPATH", "")])
    return {**kept, "ADJOINT_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **more}


def processes(program, n, folder, *arguments, limit=60, expect=0):
    """Run ``program:function(rank, size, *arguments)`` in n processes that have joined by a file; what each printed.

    Parameters
    ----------
    program : str
        A file of this folder and a function in it, ``"programs:train"``.
    expect : int or None
        The status that all must end with.
    """
    module, _, function = program.partition(":")
    code = (
        "import sys, datetime, adjoint as ad, adjoint.distributed as dist\n"
        f"import {module}\n"
        "rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]\n"
        "ad.set_num_threads(1)\n"
        "dist.init_process_group('gloo', init_method='file://' + path, rank=rank, world_size=size, "
        "timeout=datetime.timedelta(seconds=20))\n"
        f"{module}.{function}(rank, size, *sys.argv[4:])\n"
        "dist.is_initialized() and dist.destroy_process_group()\n"
    )
    path = str(pathlib.Path(folder) / f"meet-{os.urandom(4).hex()}")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(n), path, *map(str, arguments)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]
    try:
        said = [process.communicate(timeout=limit) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
    if expect is not None:
        for process, (out, error) in zip(running, said):
            assert process.returncode == expect, error + out
    assert not os.path.exists(path), "the last to leave removes the file"
    return [out for out, _ in said]
