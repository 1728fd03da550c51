"""What `test_mpi` runs under mpirun: ``all``, ``random`` calls, or a way to fail; ``many``: as if there were more ranks than tell each other all;
``unchecked``: without messages that only compare."""

import os
import sys
import time
from datetime import timedelta

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed._call import DTYPES
from adjoint.distributed.nn import functional as F

how = sys.argv[1]
if "many" in sys.argv:
    from adjoint.distributed import _mpi_group

    _mpi_group.FEW = 1
if "unchecked" in sys.argv:
    os.environ["ADJOINT_DISTRIBUTED_CHECK"] = "0"
ad.set_num_threads(1)
dist.init_process_group("mpi", timeout=timedelta(seconds=2 if how == "late" else 30))
rank, size = dist.get_rank(), dist.get_world_size()
total = size * (size + 1) // 2
if how == "all":
    for dtype in DTYPES:
        for n in (5, 5, 5, 0, 0, 300, 300):  # again: what was done before is done by a shorter way
            x = ad.full((n,), rank + 1).to(dtype)
            version = x._version
            dist.all_reduce(x)
            assert (x == ad.full((n,), total).to(dtype)).all() and x._version > version, dtype
        parts = [ad.zeros(2, 3, dtype=dtype) for _ in range(size)]
        dist.all_gather(parts, ad.full((3, 2), rank + 1).to(dtype).t())
        assert all((part == ad.tensor(r + 1).to(dtype)).all() for r, part in enumerate(parts))
    for op, expected in (
        ("MAX", size),
        ("MIN", 1),
        ("PRODUCT", 2 if size == 2 else 6),
        ("AVG", total / size),
    ):
        for n in (3, 3, 100):
            x = ad.full((n,), rank + 1.0)
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            assert ad.allclose(x, ad.full((n,), float(expected)))
    x = ad.ones(4)[::2]
    for _ in range(3):
        dist.all_reduce(x)
    assert x.tolist() == [size**3] * 2
    x = ad.ones(3, requires_grad=True)
    dist.all_reduce(x)
    assert x.is_leaf and x.tolist() == [size] * 3
    try:
        dist.all_reduce(x * 2)
    except RuntimeError as error:
        assert "is being recorded" in str(error)
    else:
        raise AssertionError("not refused")
    # Sums have the same bits everywhere, in the order of ranks, whether they travel with the header or not.
    for n in (7, 1000):
        x = ad.randn(n, generator=ad.Generator().manual_seed(rank))
        dist.all_reduce(x)
        others = [ad.empty(n) for _ in range(size)]
        dist.all_gather(others, x)
        assert all((x == y).all() for y in others)
    for root in range(size):
        x = ad.full((4,), float(rank))
        dist.broadcast(x, root)
        assert (x == root).all()
        parts = [ad.zeros(2) for _ in range(size)] if rank == root else None
        dist.gather(ad.full((2,), float(rank)), parts, root)
        assert parts is None or [float(p[0]) for p in parts] == list(range(size))
        dist.scatter(x[:2], [ad.full((2,), 7.0 * r) for r in range(size)] if rank == root else None, root)
        assert float(x[1]) == 7 * rank
        y = ad.ones(3)
        dist.reduce(y, root)
        assert rank != root or (y == size).all()
    out = ad.zeros(2)
    dist.reduce_scatter(out, [ad.full((2,), float(r)) for r in range(size)])
    assert (out == rank * size).all()
    outs = [ad.zeros(1 + r) for r in range(size)]
    dist.all_to_all(outs, [ad.full((1 + rank,), 10.0 * rank + r) for r in range(size)])
    assert [float(t[0]) for t in outs] == [10.0 * r + rank for r in range(size)]
    for n in (3, 300_000):
        got = ad.zeros(n)
        works = [
            dist.isend(ad.full((n,), float(rank)), (rank + 1) % size),
            dist.irecv(got, (rank - 1) % size),
        ]
        [work.wait() for work in works]
        assert (got == (rank - 1) % size).all()
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things == [{"rank": r} for r in range(size)]
    group = dist.new_group([0, size - 1])
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        x = ad.ones(1)
        dist.all_reduce(x, group=group)
        assert float(x) == 2
    x = ad.full((2,), rank + 1.0, requires_grad=True)
    (F.all_reduce(x * x) * (rank + 1)).sum().backward()
    assert (x.grad == 2 * (rank + 1) * total).all()
    model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
    model(ad.full((1, 2), rank + 1.0)).sum().backward()
    assert ad.allclose(model.module.weight.grad, ad.full((1, 2), total / size))
    print("ok")
    dist.destroy_process_group()
elif how == "random":
    from fuzz_collectives import ranks_of_adjoint

    ranks_of_adjoint(rank, size, 7, int(sys.argv[2]))
    dist.destroy_process_group()
elif how == "disagree":
    different = [
        (lambda: dist.all_reduce(ad.ones(4)), lambda: dist.broadcast(ad.ones(4), 0)),
        (lambda: dist.all_reduce(ad.ones(4)), lambda: dist.all_reduce(ad.ones(100_000))),
        (lambda: dist.all_reduce(ad.ones(4)), lambda: dist.all_reduce(ad.ones(4), dist.ReduceOp.MAX)),
        (lambda: dist.barrier(), lambda: dist.all_reduce(ad.ones(4, dtype=ad.int32))),
        (lambda: dist.barrier(), lambda: dist.all_reduce(ad.ones(4))),
    ]
    for one, other in different:
        for _ in range(3):
            dist.all_reduce(ad.ones(4))
        try:
            (other if rank == 1 else one)()
        except dist.DistBackendError as error:
            words = str(error)
            assert "ranks disagree: rank" in words and "rank 1 called" in words, words
        else:
            raise AssertionError("not found")
        try:
            dist.barrier()
        except dist.DistBackendError as error:
            assert "failed before" in str(error)
        dist.destroy_process_group()
        dist.init_process_group("mpi", timeout=timedelta(seconds=30))
    print("ok")
    dist.destroy_process_group()
else:
    x = ad.ones(3)
    dist.all_reduce(x)
    if rank == 1:
        if how == "raise":
            raise ValueError("planted")
        if how == "late":
            time.sleep(30)
        x = ad.ones(4)
    dist.all_reduce(x)
    print("came back")
