"""What processes of the tests run: ``processes("programs:name", …)``. None of this is imported by pytest."""

import os
import signal
import threading
import time
from datetime import timedelta

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed._file_store import FileStore
from adjoint.distributed._process_group import BroadcastOptions as Options
from adjoint.distributed._socket_group import SocketGroup

LARGE = 400_000


def _call(group, rank, kind, n):
    """One operation of a group of three."""
    x, many, now = ad.ones(n), [ad.ones(n) for _ in range(3)], Options(async_op=False, root=1)
    {
        "allreduce": lambda: group.allreduce([x], now),
        "broadcast": lambda: group.broadcast([x], now),
        "reduce": lambda: group.reduce([x], now),
        "allgather": lambda: group.allgather([many], [x], now),
        "gather": lambda: group.gather([many] if rank == 1 else [], [x], now),
        "scatter": lambda: group.scatter([x], [many] if rank == 1 else [], now),
        "reduce_scatter": lambda: group.reduce_scatter([x], [many], now),
        "alltoall": lambda: group.alltoall(many, [x, x, x], now),
        "barrier": lambda: group.barrier(now),
        "monitored_barrier": lambda: group.monitored_barrier(timedelta(seconds=8)),
        "recv": lambda: group.recv([x], (rank + 2) % 3).wait(),
        "recv_anysource": lambda: group.recv_anysource([x]).wait(),
    }[kind]()


OPERATIONS = (
    "allreduce broadcast reduce allgather gather scatter reduce_scatter alltoall barrier monitored_barrier recv recv_anysource"
).split()


def _with_victim(path, victim, survivor, timeout=8.0):
    """Ranks 0 and 2 in threads of this process, rank 1 in a forked one; what the survivors raised."""
    child = os.fork()
    if not child:
        try:
            group = SocketGroup(FileStore(path), 1, 3, timedelta(seconds=timeout), "victim")
            group.barrier(Options(async_op=False))
            victim(group)
        finally:
            os._exit(0)
    errors = {}

    def survive(rank):
        group = SocketGroup(FileStore(path), rank, 3, timedelta(seconds=timeout), "victim")
        group.barrier(Options(async_op=False))
        try:
            # What only sends may do so some times before it notices.
            while time.monotonic() < started + 20:
                survivor(group, rank)
        except BaseException as error:  # noqa: BLE001 - which the test looks at
            errors[rank] = f"{type(error).__name__}: {error}"
        group.shutdown()

    both = [threading.Thread(target=survive, args=(rank,)) for rank in (0, 2)]
    started = time.monotonic()
    for t in both:
        t.start()
    for t in both:
        t.join(30)
    took = time.monotonic() - started
    try:
        os.kill(child, signal.SIGCONT)
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    os.unlink(path)
    assert set(errors) == {0, 2}, (path, errors)
    assert all(words.startswith("DistBackendError") for words in errors.values()), errors
    return errors, took


def killed_in_every_operation(rank, size):
    """Rank 1 is gone when the others call; or goes in the middle of a long transfer."""
    for kind in OPERATIONS:

        def victim(group):
            os.kill(os.getpid(), signal.SIGKILL)

        path = f"/tmp/adjoint-test-{os.getpid()}-{kind}"
        errors, took = _with_victim(path, victim, lambda group, rank: _call(group, rank, kind, 3))
        assert took < 6, (kind, took)
        assert all(
            "rank 1 has ended without a word" in words or "waited" in words for words in errors.values()
        ), errors
    for kind in ("allreduce", "broadcast", "alltoall"):

        def victim(group):
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
            while True:
                _call(group, 1, kind, LARGE)

        path = f"/tmp/adjoint-test-{os.getpid()}-{kind}"
        errors, took = _with_victim(path, victim, lambda group, rank: _call(group, rank, kind, LARGE))
        assert took < 6, (kind, took)
    print("survived all")


def ends(rank, size):
    """A rank is stopped, exits, or uses its parent's group."""
    path = f"/tmp/adjoint-test-{os.getpid()}"
    reduce = lambda group, rank: _call(group, rank, "allreduce", 3)  # noqa: E731
    errors, took = _with_victim(path, lambda group: os.kill(os.getpid(), signal.SIGSTOP), reduce, 1.0)
    assert any("rank 1 does not answer" in words for words in errors.values()) and took < 6, errors
    errors, took = _with_victim(path, lambda group: os._exit(3), reduce)
    assert all("rank 1 has ended without a word" in words for words in errors.values()) and took < 4
    x = ad.ones(1)
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.barrier(async_op=True),
        lambda: dist.recv(x),
        lambda: dist.all_gather_object([None], 1),
        lambda: dist.monitored_barrier(),
        lambda: dist.new_group([0]),
    ):
        child = os.fork()
        if not child:
            try:
                call()
            except dist.DistBackendError as error:
                os._exit(7 if "forked" in str(error) else 1)
            except BaseException as error:  # noqa: BLE001
                print(error, flush=True)
                os._exit(3)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    print("survived all")


def bounds(rank, size):
    """Wrong ranks and groups, through the public functions."""

    def refused(match, call, *kinds):
        try:
            call()
        except kinds or (ValueError,) as error:
            assert match in str(error), error
        else:
            raise AssertionError(f"not refused: {match}")

    x = ad.ones(2)
    refused(
        "twice", lambda: dist.init_process_group("gloo", init_method="file:///tmp/none", rank=0, world_size=1)
    )
    refused("not part of group", lambda: dist.broadcast(x, size))
    refused("not part of group", lambda: dist.reduce(x, -1))
    refused("Invalid destination rank", lambda: dist.send(x, rank))
    refused("Invalid source rank", lambda: dist.recv(x, rank))
    refused("not in the world", lambda: dist.new_group([0, size]))
    refused("duplicate ranks", lambda: dist.new_group([0, 0]))
    refused(
        "must be specified on",
        lambda: (
            dist.gather(x, None if rank == 0 else [x], dst=0) if rank == 0 else dist.scatter(x, None, rank)
        ),
    )
    refused("expected a process group", lambda: dist.all_reduce(x, group=5), TypeError)
    refused("everyone is not initialized", lambda: dist.all_reduce(x, group="everyone"))
    refused("Expected parameter `tensor`", lambda: dist.all_reduce([x]), TypeError)
    refused("op must be a ReduceOp", lambda: dist.all_reduce(x, "sum"), TypeError)
    refused("does not divide", lambda: dist.all_to_all_single(ad.ones(5), ad.ones(4)), RuntimeError)
    group = dist.new_group([0])
    assert (group is dist.GroupMember.NON_GROUP_MEMBER) == (rank != 0)
    if rank == 0:
        y = ad.ones(1)
        dist.all_reduce(y, group=group)
        assert float(y[0]) == 1 and dist.get_group_rank(group, 0) == 0
        dist.destroy_process_group(group)
        refused("destroyed", lambda: dist.all_reduce(y, group=group))
    dist.barrier()
    dist.destroy_process_group()
    refused("Default process group has not been initialized", lambda: dist.all_reduce(x))
    print("ok")


def public(rank, size):
    """What programs call, by torch's signatures, on three ranks."""
    whole, mine = ad.arange(6.0), ad.full((2,), rank + 1.0)
    x = ad.full((2, 2), float(rank))
    assert dist.broadcast(x, group_src=2) is None and (x == 2).all()
    work = dist.all_reduce(mine.clone(), async_op=True)
    assert work.wait() and work.is_success() and work.result()[0].tolist() == [6.0] * 2
    assert work.get_future().then(lambda f: f.value()[0][0].item()).wait() == 6
    pair = [mine.clone(), ad.ones(1)]
    dist.all_reduce_coalesced(pair, op=dist.ReduceOp.MAX)
    assert pair[0].tolist() == [3.0] * 2 and pair[1].tolist() == [1.0]
    y = mine.clone()
    dist.reduce(y, 1, dist.ReduceOp.PRODUCT)
    assert y.tolist() == ([6.0] * 2 if rank == 1 else [rank + 1.0] * 2)
    stacked, joined = ad.empty(3, 2), ad.empty(6)
    dist.all_gather_into_tensor(stacked, mine)
    dist.all_gather_into_tensor(joined, mine)
    assert stacked[:, 0].tolist() == [1, 2, 3] and joined.tolist() == [1, 1, 2, 2, 3, 3]
    lists = [[ad.empty(2), ad.empty(1)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [mine, ad.full((1,), rank * 10.0)])
    assert [float(two[0]) for _, two in lists] == [0, 10, 20]
    parts = [ad.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, parts)
    assert parts is None or [float(p[1]) for p in parts] == [1, 2, 3]
    dist.scatter(y, list(whole.split(2)) if rank == 0 else None)
    assert y.tolist() == [2.0 * rank, 2.0 * rank + 1]
    dist.reduce_scatter_tensor(y, whole, dist.ReduceOp.AVG)
    assert y.tolist() == [2.0 * rank, 2.0 * rank + 1]
    dist.reduce_scatter(y, [whole[:2] * rank] * 3)
    assert y.tolist() == [0.0, 3.0]
    out = ad.empty(6)
    dist.all_to_all_single(out, ad.full((6,), float(rank)))
    assert out.tolist() == [0, 0, 1, 1, 2, 2]
    uneven = ad.empty(3 * (rank + 1))
    dist.all_to_all_single(uneven, ad.full((6,), float(rank)), [rank + 1] * 3, [1, 2, 3])
    assert uneven.tolist() == [float(r) for r in range(3) for _ in range(rank + 1)]
    after, before, came = (rank + 1) % 3, (rank - 1) % 3, ad.empty(2)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, came, group_peer=before)]
    )
    [work.wait() for work in works]
    assert came.tolist() == [before + 1.0] * 2
    if rank:
        dist.send(mine, 0, tag=3)
    else:
        assert {dist.recv(came, tag=3) for _ in range(2)} == {1, 2}
    things, words = [None] * size, [f"{rank}", {"of": rank}] if rank == 1 else [None, None]
    dist.all_gather_object(things, ("rank", rank))
    dist.broadcast_object_list(words, src=1)
    assert things == [("rank", r) for r in range(size)] and words == ["1", {"of": 1}]
    gathered, got = [None] * size if rank == 2 else None, [None]
    dist.gather_object(rank**2, gathered, dst=2)
    dist.scatter_object_list(got, ["a", "bb", "ccc"] if rank == 0 else None)
    assert gathered in (None, [0, 1, 4]) and len(got[0]) == rank + 1
    if rank == 0:
        dist.send_object_list([1, "two"], 1)
    elif rank == 1:
        two = [None, None]
        assert dist.recv_object_list(two, 0) == 0 and two == [1, "two"]
    alone, all_of_them = dist.new_subgroups(1)
    assert dist.get_world_size(alone) == 1 and len(all_of_them) == 3 and dist.get_group_rank(alone, rank) == 0
    ends = dist.new_group([2, 0], timeout=timedelta(seconds=9), group_desc="ends")
    if rank == 1:
        assert dist.get_rank(ends) == -1
    else:
        z = ad.ones(1)
        dist.all_reduce(z, group=ends)
        assert (
            float(z) == 2
            and dist.get_process_group_ranks(ends) == [0, 2]
            and dist.get_global_rank(ends, 1) == 2
        )
        assert ends.group_desc == "ends" and dist.get_backend(ends) == "gloo"
    dist.monitored_barrier(timeout=timedelta(seconds=9))
    dist.barrier(async_op=True).wait(timedelta(seconds=9))
    store = dist.distributed_c10d._get_default_store()
    store.set(f"k{rank}", str(rank))
    assert store.get(f"k{after}") == str(after).encode()
    print("ok")


def interrupted(rank, size):
    """A rank that waits is interrupted from the keyboard: it raises that, and the others hear of it."""
    if rank == 0:
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # shells let what they start in the background ignore it
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            dist.all_reduce(ad.ones(1))
        except KeyboardInterrupt:
            print("interrupted")
    else:
        time.sleep(1.0)
        try:
            dist.all_reduce(ad.ones(1))
        except dist.DistBackendError as error:
            assert "rank 0 met KeyboardInterrupt" in str(error), error
            print("told")
