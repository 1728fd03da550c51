"""What goes wrong in a group: every rank gets an error that says who and what, in time, and none hangs.

Start reading at `test_ranks_that_call_different_things_all_learn_who_called_what`.
"""

import contextlib
import os
import socket
import struct
import threading
import time
from datetime import timedelta

import pytest
from ranks import processes, sound, threads

import adjoint as ad
from adjoint.distributed import DistBackendError, HashStore, ReduceOp
from adjoint.distributed._process_group import BroadcastOptions as Options
from adjoint.distributed._socket_group import SocketGroup


def now(**words):
    return Options(async_op=False, **words)


DIFFERENT = {
    "operation": (lambda g: g.allreduce([ad.ones(4)], now()), lambda g: g.broadcast([ad.ones(4)], now())),
    "count": (lambda g: g.allreduce([ad.ones(4)], now()), lambda g: g.allreduce([ad.ones(5)], now())),
    "large": (lambda g: g.allreduce([ad.ones(50000)], now()), lambda g: g.allreduce([ad.ones(60000)], now())),
    "mixed": (lambda g: g.allreduce([ad.ones(60000)], now()), lambda g: g.barrier(now())),
    "dtype": (
        lambda g: g.allreduce([ad.ones(4)], now()),
        lambda g: g.allreduce([ad.ones(4, dtype=ad.int32)], now()),
    ),
    "reduction": (
        lambda g: g.allreduce([ad.ones(4)], now()),
        lambda g: g.allreduce([ad.ones(4)], now(op=ReduceOp.MAX)),
    ),
    "message": (
        lambda g: g.send([ad.ones(4)], 1).wait() and g.recv([ad.ones(1)], 1).wait(),
        lambda g: g.recv([ad.ones(5)], 0).wait(),
    ),
}


@pytest.mark.parametrize("n", (2, 4))
@pytest.mark.parametrize("what", DIFFERENT)
def test_ranks_that_call_different_things_all_learn_who_called_what(what, n):
    one, other = DIFFERENT[what]

    def body(group, rank):
        if what == "message" and rank > 1:
            return group.recv([ad.ones(1)], 0).wait()  # which the others' failure ends
        return other(group) if rank == 1 else one(group)

    started = time.monotonic()
    for words in sound(n, body, timeout=20.0):
        assert "ranks disagree: rank" in words and words.count("rank ") >= 2
    assert time.monotonic() - started < 10  # found by comparing, not by waiting


def test_a_group_that_has_failed_stays_failed():
    def body(group, rank):
        with pytest.raises(RuntimeError, match="disagree"):
            group.allreduce([ad.ones(2 + rank)], now())
        with pytest.raises(RuntimeError, match="failed before.*disagree"):
            group.barrier(now())
        with pytest.raises(RuntimeError, match="failed before.*disagree"):
            group.send([ad.ones(1)], 1 - rank).wait()
        return True

    assert [rank.result for rank in threads(2, body)] == [True, True]


def test_a_rank_that_does_not_come_is_named_with_what_it_does():
    def body(group, rank):
        group.barrier(now())
        if rank == 2:
            time.sleep(2.5)
        group.allreduce([ad.ones(3)], now())

    for words in sound(3, body, timeout=0.6):
        assert "all_reduce number 2 of 3 float32 by SUM" in words
        assert "rank 2 has finished barrier number 1 and called nothing since" in words


def test_a_message_that_nobody_sends_or_takes_ends_after_the_timeout():
    def body(group, rank):
        if rank == 0:
            group.recv([ad.ones(3)], 1, 4).wait()
        else:
            group.barrier(now())

    for words in sound(2, body, timeout=0.5):
        assert "after 0.5 s" in words or "has called nothing" in words
    words = sound(2, lambda group, rank: group.send([ad.ones(10**5)], 1 - rank, rank).wait(), timeout=0.5)
    assert all("send of 100000 float32" in said and "after 0.5 s" in said for said in words)


def test_a_rank_that_has_left_is_named():
    def body(group, rank):
        if rank == 1:
            return group.shutdown()
        group.allreduce([ad.ones(3)], now())

    ranks = threads(3, body)
    assert ranks[1].error is None
    for rank in (ranks[0], ranks[2]):
        assert "rank 1 has left the group by destroy_process_group()" in str(rank.error)


def test_an_exception_of_one_rank_ends_the_collective_of_all():
    class Odd(ad.Tensor):
        pass

    def body(group, rank):
        x = ad.ones(3)
        group._allreduce_before = group._allreduce
        if rank == 1:
            group._allreduce = lambda *a: (_ for _ in ()).throw(MemoryError("no room"))
        group.allreduce([x], now())

    ranks = threads(3, body, timeout=20.0)
    assert isinstance(ranks[1].error, MemoryError)
    for rank in (ranks[0], ranks[2]):
        assert "rank 1 met MemoryError: no room" in str(rank.error)


def test_what_nobody_has_waited_for_when_a_group_is_destroyed_ends():
    def body(group, rank):
        works = [group.allreduce([ad.ones(5)]) for _ in range(3)]
        lost = [group.recv([ad.ones(3)], 1 - rank, 7), group.send([ad.ones(300_000)], 1 - rank, 8)]
        group.shutdown()
        for work in reversed(works):
            assert work.wait()
        for work in lost:
            with pytest.raises(DistBackendError, match="has left the group by destroy_process_group"):
                work.wait()
        return work.is_completed()

    assert [rank.result for rank in threads(2, body, close=False)] == [True, True]


def test_what_is_no_tensor_to_send_is_refused():
    def body(group, rank):
        def refused(match, *tensors, call=group.allreduce):
            with pytest.raises((RuntimeError, TypeError, ValueError), match=match):
                call(list(tensors), now())

        refused("meta device", ad.ones(2, device="meta"))
        refused("dense tensor", ad.sparse_coo_tensor([[0]], [1.0], (2,)))
        refused("single memory location", ad.ones(1).expand(4))
        refused("expected a Tensor", [1.0])
        refused("distributed.nn.functional", ad.ones(2, requires_grad=True) * 2)
        refused(
            "expected length 2, got length 5",
            [ad.ones(1)] * 5,
            call=lambda t, o: group.allgather(t, [ad.ones(1)], o),
        )
        with pytest.raises(RuntimeError, match="distributed.nn.functional"):
            ad.vmap(lambda x: group.allreduce([x], now()) and x)(ad.ones(3, 2))
        parameter = ad.nn.Parameter(ad.ones(2))
        group.allreduce([parameter], now())  # no operation has used it
        return parameter.tolist()

    assert [rank.result for rank in threads(2, body)] == [[2.0, 2.0]] * 2


def test_a_world_that_does_not_fill_says_who_is_missing():
    store, said = HashStore(), {}

    def join(rank):
        try:
            SocketGroup(store, rank, 4, timedelta(seconds=0.5))
        except RuntimeError as error:
            said[rank] = str(error)

    both = [threading.Thread(target=join, args=(rank,)) for rank in (0, 2)]
    [t.start() for t in both]
    [t.join(20) for t in both]
    assert (
        all("world of 4: ranks 1, 3 have not joined" in words for words in said.values()) and len(said) == 2
    )


def test_a_rank_twice_and_worlds_of_different_sizes():
    store = HashStore()
    store.add("joined/0", 1)
    with pytest.raises(DistBackendError, match="rank 0 has joined already"):
        SocketGroup(store, 0, 2, timedelta(seconds=0.5))
    with pytest.raises(DistBackendError, match="world size of 3, another rank 2"):
        SocketGroup(store, 0, 3, timedelta(seconds=0.5))


def test_ranks_of_another_machine_are_sent_to_mpi():
    store = HashStore()
    store.set("address/1", "elsewhere 123\n/nowhere")
    with pytest.raises(RuntimeError, match=r"(?s)rank 1 is on another machine.*mpirun -n 2"):
        SocketGroup(store, 0, 2, timedelta(seconds=1))


@pytest.mark.parametrize(
    "garbage", [b"", b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 16, struct.pack("<Q", 1 << 60) * 20]
)
def test_strangers_at_a_group_s_door_are_sent_away(garbage):
    """While the ranks are joining, somebody else connects."""
    store, met = HashStore(), []

    def stranger():
        store.wait(["address/0"])
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(store.get("address/0").decode().partition("\n")[2])
            door.settimeout(10)
            with contextlib.suppress(ConnectionError):
                door.sendall(garbage)
                while met_now := door.recv(100):
                    met.append(met_now)

    def join(rank, found):
        if rank:
            time.sleep(0.1)
        group = SocketGroup(store, rank, 2, timedelta(seconds=8))
        x = ad.ones(1)
        group.allreduce([x], now())
        found[rank] = float(x[0])
        group.shutdown()

    found = {}
    workers = [
        threading.Thread(target=stranger),
        *(threading.Thread(target=join, args=(r, found)) for r in (0, 1)),
    ]
    [t.start() for t in workers]
    [t.join(20) for t in workers[1:]]
    assert found == {0: 2.0, 1: 2.0} and len(b"".join(met)) == 24


def test_garbage_between_ranks_is_found_by_both():
    def body(group, rank):
        if rank == 1:
            group._mesh.peers[0].sendall(os.urandom(64))
        group.allreduce([ad.ones(2)], now())  # which rank 1 may finish before it hears
        group.barrier(now())

    assert all("no message" in words or "disagree" in words for words in sound(2, body))

    def beside(group, rank):
        if rank == 1:
            group._mesh.side.peers[0].connection.sendall(struct.pack("<BxxxiQQ", 4, 0, 0, 1 << 60))
        group.recv([ad.ones(2)], 1 - rank).wait()

    assert all("no message" in words or "ended" in words for words in sound(2, beside))


def test_a_rank_is_killed_in_every_operation(tmp_path):
    """Two ranks go on in one process each time, a third is killed by the system in the middle."""
    (said,) = processes("programs:killed_in_every_operation", 1, tmp_path)
    assert said.split() == ["survived", "all"]


@pytest.mark.parametrize("how", ("killed", "stopped"))
def test_what_programs_call_ends_when_a_rank_does(how, tmp_path):
    """Each operation, data-parallel training too, in a world of its own."""
    said = processes(f"victims:{how}", 3, tmp_path, tmp_path)
    assert [out.splitlines()[-1] for out in said] == ["survived all"] * 3, said


def test_what_a_killed_stopped_forked_or_raising_rank_does_to_the_others(tmp_path):
    (said,) = processes("programs:ends", 1, tmp_path)
    assert said.split() == ["survived", "all"]


def test_wrong_ranks_and_groups_are_refused(tmp_path):
    assert [said.split() for said in processes("programs:bounds", 2, tmp_path)] == [["ok"]] * 2


def test_an_interrupt_ends_the_wait_and_the_others_hear_of_it(tmp_path):
    assert processes("programs:interrupted", 2, tmp_path) == ["interrupted\n", "told\n"]


def test_a_collective_in_a_hook_and_after_destroy():
    def body(group, rank):
        x = ad.ones(2, requires_grad=True)
        y = x * (rank + 1)

        def reduce(g):
            g = g.clone()
            group.allreduce([g], now())
            return g

        y.register_hook(reduce)
        y.sum().backward()
        group.barrier(now())
        group.shutdown()
        with pytest.raises(DistBackendError, match="destroyed by destroy_process_group"):
            group.allreduce([ad.ones(1)], now())
        return x.grad.tolist()

    assert [rank.result for rank in threads(2, body)] == [[2.0, 2.0], [4.0, 4.0]]


def test_importing_adjoint_does_not_import_what_joins_processes():
    import subprocess
    import sys

    from ranks import environment

    code = "import sys, adjoint, adjoint.nn, adjoint.utils.data; print('adjoint.distributed' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_nccl_is_refused_by_name(tmp_path):
    dist = ad.distributed
    assert not dist.is_nccl_available()
    with pytest.raises(RuntimeError, match="NCCL built in: there is no such device.*'gloo'.*'mpi'"):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    assert not dist.is_initialized()
