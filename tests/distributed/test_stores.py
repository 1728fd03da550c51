"""Stores, and how processes find each other: values, waiting, strangers, full disks, addresses.

Start reading at `every`.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from ranks import environment

from adjoint.distributed import (
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    TCPStore,
    register_rendezvous_handler,
    rendezvous,
)

SHORT = timedelta(seconds=0.2)


@pytest.fixture(params=["hash", "file", "tcp", "prefix", "client"])
def every(request, tmp_path):
    """A store of each kind."""
    kind = request.param
    if kind == "hash":
        return HashStore()
    if kind == "file":
        return FileStore(tmp_path / "store", 1)
    master = TCPStore("localhost", is_master=True, wait_for_workers=False)
    if kind == "client":
        client = TCPStore("127.0.0.1", master.port)
        client.kept = master
        return client
    return master if kind == "tcp" else PrefixStore("a", PrefixStore("b", master))


def test_values(every):
    store = every
    store.set("k", "v")
    assert store.get("k") == b"v" and store.check(["k"]) and not store.check(["k", "other"])
    assert [store.add("n", 2), store.add("n", -5), store.get("n")] == [2, -3, b"-3"]
    store.append("k", b"\x00w")
    assert store.get("k") == b"v\x00w"
    assert store.compare_set("c", "", "first") == b"first" and store.compare_set("c", "x", "y") == b"first"
    assert (
        store.compare_set("c", "first", "second") == b"second" and store.compare_set("none", "x", "y") == b"x"
    )
    store.multi_set(["p", "q"], ["1", b"2"])
    assert store.multi_get(["q", "p"]) == [b"2", b"1"] and store.num_keys() == 5
    assert sorted(store.list_keys()) == ["c", "k", "n", "p", "q"]
    assert store.delete_key("p") and not store.delete_key("p") and store.num_keys() == 4
    store.queue_push("line", "one")
    store.queue_push("line", "two")
    assert store.queue_len("line") == 2 and [store.queue_pop("line"), store.queue_pop("line")] == [
        b"one",
        b"two",
    ]
    with pytest.raises(QueueEmptyError):
        store.queue_pop("line", block=False)
    with pytest.raises(DistStoreError, match="holds no number"):
        store.add("k", 1)
    large = os.urandom(300_000)
    store.set("large", large)
    assert store.get("large") == large and store.has_extended_api()


def test_waiting(every):
    every.set_timeout(SHORT)
    assert every.timeout == SHORT
    for call in (
        lambda: every.get("absent"),
        lambda: every.wait(["absent"]),
        lambda: every.wait(["absent"], SHORT),
    ):
        with pytest.raises(DistStoreError, match=r"wait timeout after 200ms, keys: \S*absent"):
            call()
    with pytest.raises(TypeError, match="timedelta"):
        every.wait(["absent"], "soon")
    every.set_timeout(timedelta(seconds=20))
    later = threading.Timer(0.05, every.set, ("late", "here"))
    later.start()
    assert every.get("late") == b"here"


def test_clients_of_a_tcp_store_count_together_and_learn_its_end():
    master = TCPStore("localhost", is_master=True, wait_for_workers=False)
    clients = [TCPStore("localhost", master.port) for _ in range(4)]
    threads = [threading.Thread(target=lambda c=c: [c.add("n", 1) for _ in range(50)]) for c in clients]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert master.get("n") == b"200"
    with pytest.raises(DistNetworkError, match=r"EADDRINUSE.*Choose another MASTER_PORT"):
        TCPStore("localhost", master.port, is_master=True)
    # The master's end is an error of who waits, at once, and of who asks afterwards.
    code = (
        "import sys, time, adjoint.distributed as d\n"
        "store = d.TCPStore('localhost', is_master=True, wait_for_workers=False)\n"
        "print(store.port, flush=True)\n"
        "store.wait(['waiting'])\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    )
    client = TCPStore("localhost", int(other.stdout.readline()))
    client.set("waiting", "1")  # upon which it ends
    for ask in (lambda: client.get("absent"), lambda: client.set("k", "v")):
        with pytest.raises(
            DistNetworkError, match="no longer reachable .*the process that served it.*has exited"
        ):
            ask()
        other.communicate(timeout=20)
    with pytest.raises(
        DistStoreError, match=r"Timed out after 0.2 seconds waiting for clients. 1/3 clients joined"
    ):
        TCPStore("localhost", world_size=3, is_master=True, timeout=SHORT)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\x00" * 200, struct.pack("<Q", 1 << 60), bytes(range(7, 63))],
    ids=["nothing", "one", "two", "three"],
)
def test_strangers_get_nothing(garbage):
    master = TCPStore("localhost", is_master=True, wait_for_workers=False)
    with socket.create_connection(("127.0.0.1", master.port)) as stranger:
        stranger.settimeout(10)
        got = b""
        with contextlib.suppress(OSError):  # it may be sent away while it talks
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            while more := stranger.recv(100):
                got += more
        assert len(got) <= 24
    master.set("k", "still there")
    assert TCPStore("localhost", master.port).get("k") == b"still there"


def test_addresses_that_are_no_store_of_this_machine():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def talk():
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            connection.close()

    threading.Thread(target=talk, daemon=True).start()
    with pytest.raises(DistNetworkError, match="not a store or rank of Adjoint"):
        TCPStore("localhost", port, timeout=timedelta(seconds=2))
    listener.close()
    with pytest.raises(DistNetworkError, match=r"timed out after 200ms.*is it\s+running"):
        TCPStore("localhost", port, timeout=SHORT)
    with pytest.raises(DistNetworkError, match="does not resolve"):
        TCPStore("no.such.host.invalid", 1, timeout=SHORT)
    with pytest.raises(DistNetworkError, match=r"(?s)another machine.*mpirun -n"):
        TCPStore("192.0.2.1", 1, timeout=SHORT)
    with pytest.raises(DistNetworkError, match="out of range"):
        TCPStore("localhost", 1 << 20, is_master=True)


def test_a_client_with_another_secret_is_refused(monkeypatch):
    monkeypatch.setenv("ADJOINT_DISTRIBUTED_SECRET", "one")
    master = TCPStore("localhost", is_master=True, wait_for_workers=False)
    code = f"import adjoint.distributed as d; d.TCPStore('localhost', {master.port})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(ADJOINT_DISTRIBUTED_SECRET="two"),
        capture_output=True,
        text=True,
    )
    assert "does not accept this process's secret" in done.stderr


def test_a_file_store_survives_a_record_that_was_cut_short(tmp_path):
    path = tmp_path / "store"
    store = FileStore(path)
    store.set("a", "1")
    with open(path, "ab") as file:
        file.write(struct.pack("<II", 1, 100) + b"bcut")  # a writer was killed here
    assert not store.check(["b"]) and FileStore(path).get("a") == b"1"
    store.set("c", "3")
    assert FileStore(path).get("c") == b"3"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(DistStoreError, match="is not a store file"):
        FileStore(path).check(["a"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_an_error(tmp_path, monkeypatch):
    store = FileStore(tmp_path / "store")
    store.set("a", "1")

    class Full:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            self.file.write(data[:5])
            with open("/dev/full", "wb", buffering=0) as full:
                full.write(data)

    append = FileStore._append
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "_append", lambda self, file, *rest: append(self, Full(file), *rest))
        with pytest.raises(DistStoreError, match=r"'b' could not be written to .*No space left"):
            store.set("b", "2")
    assert not store.check(["b"]) and store.get("a") == b"1"
    store.set("b", "2")
    assert FileStore(tmp_path / "store").get("b") == b"2"
    with pytest.raises(DistStoreError, match="cannot open"):
        FileStore(tmp_path / "no" / "folder")


def test_rendezvous(tmp_path, monkeypatch):
    store, rank, size = next(rendezvous(f"file://{tmp_path}/meet?rank=1&world_size=3"))
    assert (rank, size) == (1, 3) and isinstance(store, FileStore)
    for url, words in (
        ("env://", "environment variable RANK expected"),
        ("tcp://127.0.0.1", "port number missing"),
        ("tcp://127.0.0.1:1", "rank parameter missing"),
        ("file://", "path missing"),
        (f"file://{tmp_path}/x?rank=0", "world size parameter missing"),
        (f"file://{tmp_path}/x?rank=zero", "must be numbers"),
    ):
        for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(ValueError, match=words):
            next(rendezvous(url))
    with pytest.raises(RuntimeError, match="No rendezvous handler for magic://"):
        rendezvous("magic://x")
    register_rendezvous_handler("magic", lambda url, **words: iter([(HashStore(), 0, 1)]))
    assert next(rendezvous("magic://x"))[1:] == (0, 1)
    with pytest.raises(RuntimeError, match="already registered"):
        register_rendezvous_handler("magic", None)
    from adjoint.distributed.rendezvous import from_environment

    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert from_environment() == (3, 8)


def test_a_master_whose_files_ran_out_serves_again():
    program = """
import contextlib, resource, socket, time
from adjoint.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, 1, True)
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
strangers = []
with contextlib.suppress(OSError):
    while True:
        strangers.append(socket.create_connection(("127.0.0.1", store.port), timeout=1))
time.sleep(0.1)
for s in strangers:
    s.close()
time.sleep(0.1)
store.set("a", "1")
print(TCPStore("127.0.0.1", store.port, 1, False).get("a"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.returncode == 0 and done.stdout == "b'1'\n", done.stderr
