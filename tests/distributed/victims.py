"""Rank 1 is killed, stopped, interrupted or out of memory in every operation that programs call; the others must learn it in time.

Every operation has a world of its own, made by children that each rank forks. What is written here runs in `test_failures`, which starts
the ranks. Start reading at `OPERATIONS`.
"""

import os
import signal
import time
from datetime import timedelta

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.algorithms.join import Join
from adjoint.distributed.nn import functional as F
from adjoint.distributed.optim import ZeroRedundancyOptimizer
from adjoint.nn.parallel import DistributedDataParallel

TIMEOUT = 8.0


def n():
    """How many ranks there are."""
    return dist.get_world_size()


def part():
    """All ranks, in another order: rank 1 is the first."""
    return [*range(1, n()), 0]


def _model():
    return DistributedDataParallel(
        ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.BatchNorm1d(4), ad.nn.Linear(4, 1))
    )


def _step(model, x):
    model(x).sum().backward()


def _joined(model, rank):
    with Join([model]):
        for _ in range(1 + rank):
            _step(model, ad.ones(2, 3))


def _zero(model):
    optimizer = ZeroRedundancyOptimizer(model.parameters(), ad.optim.Adam, lr=0.1)
    _step(model, ad.ones(2, 3))
    optimizer.step()


def _synchronised(rank):
    layer = ad.nn.SyncBatchNorm(2)
    layer(ad.ones(4, 2) * rank).sum().backward()


def _recorded(rank):
    x = ad.ones(2, requires_grad=True)
    F.all_reduce(x * rank).sum().backward()


def _messages(rank, count):
    x, y = ad.ones(count), ad.ones(count)
    works = [dist.isend(x, (rank + 1) % n()), dist.irecv(y, (rank - 1) % n())]
    for work in works:
        work.wait()


def _batch(rank):
    x, y = ad.ones(9), ad.ones(9)
    both = [dist.P2POp(dist.isend, x, (rank + 1) % n()), dist.P2POp(dist.irecv, y, (rank - 1) % n())]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def _late(rank):
    works = [dist.all_reduce(ad.ones(5), async_op=True) for _ in range(4)]
    for work in reversed(works):
        work.wait()


#: By name: what each rank calls. `model` was made by all before anything happened.
OPERATIONS = {
    "all_reduce_coalesced": lambda rank, model: dist.all_reduce_coalesced([ad.ones(2), ad.ones(3)]),
    "async all_reduce": lambda rank, model: _late(rank),
    "all_gather_coalesced": lambda rank, model: dist.all_gather_coalesced(
        [[ad.ones(2)] for _ in range(n())], [ad.ones(2)]
    ),
    "all_gather_into_tensor": lambda rank, model: dist.all_gather_into_tensor(ad.ones(2 * n()), ad.ones(2)),
    "reduce_scatter_tensor": lambda rank, model: dist.reduce_scatter_tensor(ad.ones(2), ad.ones(2 * n())),
    "all_to_all_single": lambda rank, model: dist.all_to_all_single(ad.ones(2 * n()), ad.ones(2 * n())),
    "uneven": lambda rank, model: dist.all_to_all_single(
        ad.ones(n() * (rank + 1)), ad.ones(n() * (n() + 1) // 2), [rank + 1] * n(), list(range(1, n() + 1))
    ),
    "all_gather_object": lambda rank, model: dist.all_gather_object([None] * n(), "x" * 100),
    "gather_object": lambda rank, model: dist.gather_object(rank, [None] * n() if rank == 0 else None),
    "broadcast_object_list": lambda rank, model: dist.broadcast_object_list([rank], src=1),
    "scatter_object_list": lambda rank, model: dist.scatter_object_list(
        [None], list(range(n())) if rank == 1 else None, src=1
    ),
    "recv_object_list": lambda rank, model: dist.recv_object_list([None], src=1),
    "messages": lambda rank, model: _messages(rank, 5),
    "long messages": lambda rank, model: _messages(rank, 300_000),
    "batch_isend_irecv": lambda rank, model: _batch(rank),
    "monitored_barrier": lambda rank, model: dist.monitored_barrier(timeout=timedelta(seconds=TIMEOUT)),
    "barrier with a timeout": lambda rank, model: dist.barrier(timeout=timedelta(seconds=TIMEOUT)),
    "a part of the world": lambda rank, model: dist.all_reduce(ad.ones(1), group=model.part),
    "new_group of another order": lambda rank, model: dist.new_group(
        part(), timeout=timedelta(seconds=2), sort_ranks=False
    ),
    "new_group": lambda rank, model: dist.new_group(timeout=timedelta(seconds=2)),
    "differentiated": lambda rank, model: _recorded(rank),
    "SyncBatchNorm": lambda rank, model: _synchronised(rank),
    "DistributedDataParallel": lambda rank, model: _model(),
    "a step": lambda rank, model: _step(model, ad.ones(2, 3)),
    "Join": lambda rank, model: _joined(model, rank),
    "ZeroRedundancyOptimizer": lambda rank, model: _zero(model),
}


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


def _stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def _no_memory():
    raise MemoryError("no room for what rank 1 wants")


def _survive(name, rank, size, path, end, limit=TIMEOUT):
    """In a child: join, let rank 1 end, and call until that is noticed."""
    dist.is_initialized() and dist.destroy_process_group()
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=size, timeout=timedelta(seconds=TIMEOUT)
    )
    model = _model()
    model.part = dist.new_group(part(), sort_ranks=False, timeout=timedelta(seconds=TIMEOUT))
    for group in (dist.group.WORLD, model.part):
        group.set_timeout(timedelta(seconds=limit))
    if rank == 1:
        dist.barrier()
        end()
        return
    began = time.monotonic()
    try:
        dist.barrier()  # which rank 1 may leave before others
        while time.monotonic() < began + 2 * limit:
            OPERATIONS[name](rank, model)
    except dist.DistBackendError as error:
        took = time.monotonic() - began
        words, within = str(error), name in ("a part of the world", "new_group of another order")
        assert (
            ("rank 0" in words and f"among all, these are {part()}" in words) if within else "rank 1" in words
        ), error
        assert took < limit + 5, took
        return
    raise AssertionError(f"{name} goes on without rank 1")


def _in_child(run):
    child = os.fork()
    if child:
        return child
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - said by the status and on the way out
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def killed(rank, size, folder, *names):
    """Each operation after rank 1 was killed."""
    for name in names or OPERATIONS:
        path = os.path.join(folder, "meet-" + name.replace(" ", "-"))
        child = _in_child(lambda name=name, path=path: _survive(name, rank, size, path, _kill))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == (-9 if rank == 1 else 0), (name, status)
    print("survived all")


def stopped(rank, size, folder):
    """Rank 1 is stopped, for ever; or is without memory, and nobody catches that."""
    limit, children = 1.5, []
    for name, end in (("async all_reduce", _stop), ("a step", _stop), ("all_gather_object", _no_memory)):
        path = os.path.join(folder, "meet-" + name.replace(" ", "-"))
        child = _in_child(lambda name=name, path=path, end=end: _survive(name, rank, size, path, end, limit))
        if rank == 1:
            children.append(child)
        else:
            assert not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (end, name)
    dist.barrier()  # the others have told
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print("survived all")
