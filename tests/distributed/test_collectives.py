"""Every collective over sockets: what arrives, where, of which type, and that all ranks have the same bits.

Ranks are threads here, each with connections of its own. References are computed from what every rank would have put in. Start
reading at `inputs`.
"""

import os
import threading
import time

import numpy as np
import pytest
from ranks import agree, processes

import adjoint as ad
from adjoint.distributed import ReduceOp
from adjoint.distributed._call import DTYPES
from adjoint.distributed._process_group import BroadcastOptions as Options

SIZES = (1, 2, 3, 4, 5, 7)
NUMPY = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def inputs(rank, count, dtype):
    """What a rank puts in: small integers, so that sums are exact in every type."""
    whole = (np.arange(count) * (rank + 3) + rank) % 3
    return ad.tensor(whole.tolist()).to(dtype) if count else ad.empty(0, dtype=dtype)


def numbers(tensor):
    tensor = tensor.detach()
    return tensor.float().numpy() if tensor.dtype is ad.bfloat16 else tensor.numpy()


def options(**words):
    return Options(async_op=False, **words)


@pytest.mark.parametrize("n", SIZES)
def test_all_reduce_in_every_type_and_size(n):
    def body(group, rank):
        for dtype in DTYPES:
            for count in (0, 1, 5, 20000):
                if count == 20000 and dtype not in (ad.float32, ad.int64):
                    continue
                x = inputs(rank, count, dtype)
                group.allreduce([x], options()).wait()
                all_of_them = [numbers(inputs(r, count, dtype)) for r in range(n)]
                expected = sum(all_of_them[1:], all_of_them[0])  # a sum of bools is "or"
                np.testing.assert_array_equal(numbers(x), expected)

    agree(n, body)


@pytest.mark.parametrize("n", (2, 3))
def test_every_way_to_reduce(n):
    def body(group, rank):
        for op, function in NUMPY.items():
            for dtype in (ad.int32, ad.bool, ad.float64):
                if dtype is ad.float64 and op.name.startswith("B"):
                    with pytest.raises(RuntimeError, match="non-integral"):
                        group.allreduce([ad.ones(1)], options(op=op))
                    continue
                x = inputs(rank, 6, dtype)
                group.allreduce([x], options(op=op)).wait()
                values = [numbers(inputs(r, 6, dtype)) for r in range(n)]
                of_bools = {"SUM": np.logical_or, "PRODUCT": np.logical_and} if dtype is ad.bool else {}
                expected = values[0]
                for value in values[1:]:
                    expected = of_bools.get(op.name, function)(expected, value)
                np.testing.assert_array_equal(numbers(x), expected)
        mean, scaled = ad.full((3,), rank + 1.0), ad.ones(2)
        group.allreduce([mean], options(op=ReduceOp.AVG)).wait()
        group.allreduce([scaled], options(op=ad.distributed._make_nccl_premul_sum(0.5))).wait()
        assert mean.tolist() == [(n + 1) / 2] * 3 and scaled.tolist() == [n / 2] * 2
        with pytest.raises(ValueError, match="does not support MAX on complex"):
            group.allreduce([ad.ones(1, dtype=ad.complex64)], options(op=ReduceOp.MAX))

    agree(n, body)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", (3, 30000))
def test_movements(n, count):
    dtype = ad.float32

    def body(group, rank):
        mine = inputs(rank, count, dtype)
        all_of_them = [numbers(inputs(r, count, dtype)) for r in range(n)]
        for root in range(n):
            x = mine.clone()
            group.broadcast([x], options(root=root)).wait()
            np.testing.assert_array_equal(numbers(x), all_of_them[root])
            x = mine.clone()
            group.reduce([x], options(root=root)).wait()
            np.testing.assert_array_equal(numbers(x), sum(all_of_them) if rank == root else all_of_them[rank])
            parts = [ad.empty(count) for _ in range(n)]
            group.gather([parts] if rank == root else [], [mine], options(root=root)).wait()
            if rank == root:
                np.testing.assert_array_equal([numbers(p) for p in parts], all_of_them)
            x = ad.empty(count)
            group.scatter(
                [x], [[mine + r for r in range(n)]] if rank == root else [], options(root=root)
            ).wait()
            np.testing.assert_array_equal(numbers(x), all_of_them[root] + rank)
        parts = [ad.empty(count) for _ in range(n)]
        group.allgather([parts], [mine], options()).wait()
        np.testing.assert_array_equal([numbers(p) for p in parts], all_of_them)
        whole = ad.empty(n * count)
        group._allgather_base(whole, mine, options()).wait()
        np.testing.assert_array_equal(numbers(whole), np.concatenate(all_of_them))
        x = ad.empty(count)
        group.reduce_scatter([x], [[mine + r for r in range(n)]], options()).wait()
        np.testing.assert_array_equal(numbers(x), sum(all_of_them) + n * rank)
        out = [ad.empty(count + r + rank) for r in range(n)]
        group.alltoall(
            out, [ad.full((count + r + rank,), 10.0 * rank + r) for r in range(n)], options()
        ).wait()
        assert [float(t[-1]) for t in out] == [10.0 * r + rank for r in range(n)]
        group.barrier(options()).wait()

    agree(n, body)


def test_uneven_pieces_of_one_tensor():
    sizes = [[0, 1, 2], [3, 0, 1], [1, 1, 1]]  # [from][to]

    def body(group, rank):
        x = ad.arange(sum(sizes[rank]) * 2.0).view(-1, 2) + 100 * rank
        out = ad.empty(sum(row[rank] for row in sizes), 2)
        group.alltoall_base(out, x, [row[rank] for row in sizes], sizes[rank], options()).wait()
        return out.tolist()

    whole = [np.arange(sum(row) * 2.0).reshape(-1, 2) + 100 * r for r, row in enumerate(sizes)]
    parts = [np.split(x, np.cumsum(row)[:-1]) for x, row in zip(whole, sizes)]
    for rank, found in enumerate(agree(3, body)):
        np.testing.assert_array_equal(np.array(found), np.concatenate([parts[r][rank] for r in range(3)]))


def test_strided_tensors_come_back_in_their_places():
    def body(group, rank):
        base = ad.zeros(4, 6)
        column, turned = base[:, 1], ad.full((2, 3), rank + 1.0).t()
        column += rank + 1
        group.allreduce([column], options()).wait()
        group.allreduce([turned], options()).wait()
        assert (
            base[:, 1].tolist() == [3.0] * 4
            and float(base.sum()) == 12
            and turned.tolist() == [[3.0] * 2] * 3
        )
        rows = [base[:, 2], base[:, 4]]
        group.allgather([rows], [ad.full((4,), rank + 1.0)], options()).wait()
        assert base[0].tolist() == [0, 3, 1, 0, 2, 0]
        before = base._version
        group.broadcast([base], options(root=0)).wait()
        return base._version > before if rank else True

    assert agree(2, body) == [True, True]


@pytest.mark.parametrize("n", (2, 3, 4, 6))
def test_all_ranks_have_the_same_bits_and_every_run_gives_them(n):
    def body(group, rank):
        generator = ad.Generator().manual_seed(rank)
        found = []
        for count in (7, 50000):
            x = ad.randn(count, generator=generator) * 10.0 ** (8 * rank - 8)
            x[:4] = ad.tensor(
                [float("nan") if rank % 2 else -float("nan"), 0.0 if rank else -0.0, float("inf"), 1.0]
            )
            for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.PRODUCT):
                y = x.clone()
                group.allreduce([y], options(op=op)).wait()
                found.append(y.view(ad.int32).tolist())
        return found

    first, second = agree(n, body), agree(n, body)
    assert all(rank == first[0] for rank in first) and first == second


def test_what_was_asked_for_without_waiting_is_done_in_order():
    def body(group, rank):
        x, works = ad.ones(1000), []
        for _ in range(5):
            works.append(group.allreduce([x]))
        # One that waits comes after those, and does not overtake them.
        group.allreduce([x], options()).wait()
        assert all(work.is_completed() and work.is_success() for work in works)
        future = group.allreduce([x]).get_future()
        return future.then(lambda f: f.wait()[0][0].item()).wait()

    assert agree(2, body) == [2.0**7] * 2


def test_messages_of_all_lengths_meet_by_source_and_tag():
    def body(group, rank):
        left, right, n = (rank - 1) % 3, (rank + 1) % 3, 200_000
        # All send first: none may wait for a receiver that waits, too.
        works = [
            group.send([ad.full((n,), rank + 0.5)], right, 7),
            group.send([ad.full((3,), rank + 0.25)], left, 5),
        ]
        long, short = ad.empty(n), ad.empty(3)
        group.recv([short], right, 5).wait()
        group.recv([long], left, 7).wait()
        for work in works:
            work.wait()
        assert float(long[-1]) == left + 0.5 and float(short[0]) == right + 0.25
        # From whoever comes first; and into places that are not contiguous.
        if rank:
            group.send([ad.full((2, 2), float(rank))], 0, 0).wait()
            return None
        base, seen = ad.zeros(2, 4), set()
        for _ in range(2):
            work = group.recv_anysource([base[:, ::2]], 0)
            work.wait()
            seen.add((work.source_rank(), float(base[0, 0]), float(base[0, 1])))
        return seen

    assert agree(3, body)[0] == {(1, 1.0, 0.0), (2, 2.0, 0.0)}


def test_two_threads_of_each_rank_may_use_one_group():
    """Their calls are put into one order; here they are the same, so that any is right."""

    def body(group, rank):
        results = []

        def some():
            for _ in range(50):
                x = ad.ones(10)
                group.allreduce([x], options()).wait()
                results.append(float(x[0]))

        both = [threading.Thread(target=some) for _ in range(2)]
        [t.start() for t in both]
        [t.join() for t in both]
        return results

    assert agree(2, body) == [[2.0] * 100] * 2


def test_many_mixed_collectives_leave_nothing_behind():
    """A fortieth of the run in `soak.py`: memory, files and threads stay as they were."""
    from soak import held, mixed

    before = held()
    grown = agree(2, lambda group, rank: mixed(group, rank, 2500), limit=60)
    resting = 40_000_000 if os.environ.get("ADJOINT_CHECKS") else 0  # what was returned is kept for a while
    assert max(grown) < 2_000_000 + resting, grown
    end = time.monotonic() + 5
    while held() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert held() <= before


@pytest.mark.parametrize("n", (2, 3, 4))
def test_random_calls_are_numpy_s(n, tmp_path):
    """More of them, also beside torch: ``python tests/distributed/fuzz_collectives.py``."""
    said = processes("fuzz_collectives:ranks_of_adjoint", n, tmp_path, n, 200)
    assert [out.split() for out in said] == [["ok"]] * n


def test_what_programs_call(tmp_path):
    assert processes("programs:public", 3, tmp_path) == ["ok\n"] * 3


def test_a_backend_of_a_program_s_own():
    """A subclass of `ProcessGroup` with the methods that are called; others say what they lack."""
    import adjoint.distributed as dist

    class Doubles(dist.ProcessGroup):
        def __init__(self, store, rank, size, timeout):
            super().__init__(rank, size)
            self.timeout = timeout

        def allreduce(self, tensors, opts=None):
            with ad.no_grad():
                tensors[0].mul_(2)
            return dist._work.Done("all_reduce", tensors)

        def getBackendName(self):
            return "doubles"

    dist.Backend.register_backend("doubles", Doubles)
    with pytest.raises(AssertionError, match="already exist"):
        dist.Backend.register_backend("doubles", Doubles)
    dist.init_process_group("doubles", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = ad.full((2,), 3.0, requires_grad=True)
        group = dist.group.WORLD
        assert (
            dist.get_backend() == "doubles"
            and group.name() == "doubles"
            and dist.Backend.DOUBLES == "doubles"
        )
        y = group.sum(x * x)
        y.sum().backward()
        assert y.tolist() == [18.0] * 2 and x.grad.tolist() == [12.0] * 2
        with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)doubles.*broadcast"):
            dist.broadcast(ad.ones(1), 0)
    finally:
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="rank 3 is out of range for a world size of 2"):
        dist.init_process_group(store=dist.HashStore(), rank=3, world_size=2)
