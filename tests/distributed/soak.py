"""Many mixed collectives, and what they leave behind: ``python tests/distributed/soak.py 100000``.

The tests run a small number. Start reading at `mixed`.
"""

import os
import pathlib
import random
import sys
import threading
import time

import adjoint as ad
from adjoint.distributed._process_group import BroadcastOptions as Options


def resident():
    """The memory of this process, in bytes."""
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def mixed(group, rank, count):
    """So many collectives in an order that all ranks draw alike; by how many bytes the process has grown."""
    drawn, size = random.Random(0), group.size()
    before = None
    for number in range(count):
        n, kind = drawn.choice((0, 1, 10, 1000)), drawn.randrange(7)
        options = Options(async_op=drawn.random() < 0.3, root=drawn.randrange(size))
        x = ad.full((n,), float(rank))
        many = [ad.empty(n) for _ in range(size)]
        if kind == 0:
            work = group.allreduce([x], options)
        elif kind == 1:
            work = group.broadcast([x], options)
        elif kind == 2:
            work = group.allgather([many], [x], options)
        elif kind == 3:
            work = group.reduce_scatter([x], [[ad.ones(n)] * size], options)
        elif kind == 4:
            work = group.alltoall(many, [x] * size, options)
        elif kind == 5:
            work = group.barrier(options)
        else:
            works = [
                group.send([x], (rank + 1) % size, number),
                group.recv([x.clone()], (rank - 1) % size, number),
            ]
            works[0].wait()
            work = works[1]
        work.wait()
        if kind == 0 and n:
            assert float(x[0]) == size * (size - 1) / 2
        if number == count // 4:
            before = resident()
    return resident() - before


def held():
    """How many files and threads this process has, together."""
    return len(os.listdir("/proc/self/fd")) + threading.active_count()


if __name__ == "__main__":
    from ranks import agree

    for n in (2, 4):
        before = held()
        grown = agree(
            n, lambda group, rank: mixed(group, rank, int(sys.argv[1]) // n), timeout=60.0, limit=3600
        )
        print(f"{n} ranks: grown by {max(grown)} bytes")
        assert max(grown) < 8_000_000
        time.sleep(1)
        assert held() <= before, (held(), before)
