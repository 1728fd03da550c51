"""`Mesh`: connections between all ranks of a group on one machine, and the messages of collectives over them.

Each pair of ranks has two connections: one for collectives, read by the thread that runs one, and one beside it (`_side`), which is
always listened to: by it a rank says that it leaves or has failed, and what it is doing; messages from rank to rank go there, too.
Listening sockets lie in the user's own folder and are there until all have joined. Start reading at `Mesh.exchange`.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time

from adjoint._types import Any
from adjoint._version import distribution
from adjoint.distributed import _wire
from adjoint.distributed._call import HEADER, read_header
from adjoint.distributed._errors import DistBackendError, DistNetworkError
from adjoint.distributed._side import Side

__all__ = ["Mesh"]

#: Messages up to here fit into what the system keeps of a connection, so that they can be sent before one is received.
SMALL = 1 << 16
_NOW = getattr(socket, "MSG_DONTWAIT", 0)
_HELLO = struct.Struct("<II16s")


def host() -> str:
    """An identifier of this machine."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{socket.gethostname()} {file.read().strip()}"
    return socket.gethostname()


def _listener():
    """A listening socket and its address as text: a path in the user's folder, or a loopback port."""
    path = os.path.join(_wire.private_folder(), f"adjoint-{os.getpid()}-{os.urandom(4).hex()}")
    if hasattr(socket, "AF_UNIX") and len(path) < 100:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1024)
        return listener, path
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    return listener, str(listener.getsockname()[1])


def _connect(address, timeout):
    if address.isdigit():
        connection = socket.create_connection(("127.0.0.1", int(address)), timeout=timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        connection.connect(address)
    _wire.introduce(connection, timeout)
    return connection


class Mesh:
    """The connections of one rank to all others of a group.

    Raises
    ------
    DistBackendError, DistNetworkError
        A rank is missing after the timeout, is there twice, or is on another machine.
    """

    def __init__(self, store, rank, size, timeout, doing):
        self.rank, self.size = rank, size
        self.peers: dict = {}
        sides: dict = {}
        self._end = time.monotonic() + timeout
        listener, address = _listener()
        try:
            token = self._meet(store, address)
            for kind, found in enumerate((self.peers, sides)):
                for peer in range(rank):
                    found[peer] = self._join(self._addresses[peer], peer, kind, token)
            self._admit(listener, sides, token)
        except BaseException:
            for connection in (*self.peers.values(), *sides.values()):
                connection.close()
            raise
        finally:
            listener.close()
            if not address.isdigit():
                os.unlink(address)
        self.set_timeout(timeout)
        for connection in self.peers.values():
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                connection.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        self.side = Side(rank, sides, list(self.peers.values()), timeout, doing)

    # --- joining -----------------------------------------------------------------------------------------------------

    def _meet(self, store, address):
        """The addresses of all ranks, and the secret that connections of this group present."""
        rank, size = self.rank, self.size
        agreed = store.compare_set("size", "", str(size)).decode()
        if agreed != str(size):
            raise DistBackendError(f"rank {rank} was given a world size of {size}, another rank {agreed}")
        if store.add(f"joined/{rank}", 1) > 1:
            raise DistBackendError(
                f"rank {rank} has joined already: two processes have the same rank; each needs its own, from 0 to {size - 1}"
            )
        store.set(f"address/{rank}", f"{host()}\n{address}")
        if not rank:
            store.set("token", os.urandom(16))
        keys = [f"address/{peer}" for peer in range(size)]
        try:
            store.wait(["token", *keys], _left(self._end))
        except RuntimeError as error:
            absent = []
            with contextlib.suppress(RuntimeError):
                absent = [peer for peer, key in enumerate(keys) if not store.check([key])]
            if not absent:
                raise
            raise DistBackendError(
                f"rank {rank} timed out waiting for a world of {size}: {_ranks(absent)} not joined. Is every process started, with the "
                "same world size and address?"
            ) from error
        found = [value.decode().partition("\n") for value in store.multi_get(keys)]
        if away := [peer for peer, (machine, _, _) in enumerate(found) if machine != found[0][0]]:
            raise DistNetworkError(
                f"{_ranks(away, 'is', 'are')} on another machine than rank 0 ({found[away[0]][0].split()[0]}, {found[0][0].split()[0]}), "
                f"and sockets join processes of one. For several machines use the backend 'mpi' (pip install {distribution}[mpi]):\n"
                f"    mpirun -n {size} --host HOST,HOST python program.py      or      srun -n {size} python program.py"
            )
        self._addresses = [address for _, _, address in found]
        return bytes(store.get("token"))

    def _join(self, address, peer, kind, token):
        try:
            connection = _connect(address, max(0.1, self._end - time.monotonic()))
            connection.sendall(_HELLO.pack(self.rank, kind, token))
            return connection
        except OSError as error:
            raise DistBackendError(
                f"rank {self.rank} cannot join rank {peer}: {error.strerror or error}; did it exit during startup?"
            ) from None

    def _admit(self, listener, sides, token):
        """Accept the connections of higher ranks, and reject others without waiting for them."""
        higher, changed = range(self.rank + 1, self.size), threading.Condition()

        def greet(connection):
            try:
                if not _wire.welcome(connection):
                    raise ConnectionError
                connection.settimeout(5.0)
                peer, kind, theirs = _HELLO.unpack(_wire.read(connection, _HELLO.size))
                if theirs != token or peer not in higher or kind > 1:
                    raise ConnectionError
            except OSError:
                connection.close()
                return
            connection.settimeout(None)
            with changed:
                (sides if kind else self.peers)[peer] = connection
                changed.notify_all()

        if not higher:
            return
        name = "adjoint-door"
        threading.Thread(target=_wire.serve, args=(listener, greet, name), name=name, daemon=True).start()
        with changed:
            changed.wait_for(
                lambda: all(peer in self.peers and peer in sides for peer in higher),
                max(0.01, self._end - time.monotonic()),
            )
            absent = [peer for peer in higher if peer not in self.peers or peer not in sides]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        if absent:
            raise DistBackendError(
                f"rank {self.rank} timed out waiting for a world of {self.size}: {_ranks(absent)} not connected"
            )

    # --- messages ----------------------------------------------------------------------------------------------------

    def set_timeout(self, timeout) -> None:
        """How long a message may take."""
        self.timeout = timeout
        limit = struct.pack("ll", int(timeout), int(timeout % 1 * 1e6) or (0 if timeout >= 1 else 1))
        for connection in self.peers.values():
            connection.setblocking(True)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def exchange(self, call, to, out, source, into, sent=None, expected=None) -> None:
        """Send `out` to one rank while receiving `into` from another; None to skip either.

        Parameters
        ----------
        out, into : memoryview of bytes
        sent, expected : bytes, optional
            The headers, where they are not those of the call.
        """
        if out is None or len(out) <= SMALL:
            if out is not None:
                self.send(call, to, out, sent)
            if into is not None:
                self.receive(call, source, into, expected)
            return
        self._both(call, to, [memoryview(sent or call.header), out], source, into, expected or call.header)

    def send(self, call, to, out, header=None) -> None:
        """Send a message."""
        header = header or call.header
        try:
            n = self.peers[to].sendmsg([header, out])
            if n < HEADER + len(out):
                self._both(call, to, _rest([memoryview(header), out], n), None, None, None)
        except OSError as error:
            self.fail(call, to, error)

    def receive(self, call, source, into, header=None) -> None:
        """Receive a message that begins with the header of this call."""
        expected, found = header or call.header, bytearray(HEADER)
        parts = [memoryview(found), into] if len(into) else [memoryview(found)]
        connection, unchecked = self.peers[source], True
        try:
            while parts:
                n = connection.recvmsg_into(parts)[0]
                if not n:
                    raise ConnectionError
                parts = _rest(parts, n)
                if unchecked and (not parts or parts[0].obj is not found):
                    unchecked = False
                    if found != expected:
                        self.disagree(call, source, found)
        except OSError as error:
            self.fail(call, source, error)

    def _both(self, call, to, parts, source, into, expected):
        """Send and receive at once, so that full buffers cannot deadlock."""
        end = time.monotonic() + self.timeout
        found, incoming = bytearray(HEADER), []
        if into is not None:
            incoming = [memoryview(found), into] if len(into) else [memoryview(found)]
        unchecked = bool(incoming)
        sender: Any = self.peers.get(to)
        receiver: Any = self.peers.get(source)
        poll = None
        at = to
        try:
            while parts or incoming:
                moved = False
                if parts:
                    at = to
                    with contextlib.suppress(BlockingIOError):
                        n = sender.sendmsg(parts, (), _NOW)
                        parts, moved = _rest(parts, n), True
                if incoming:
                    at = source
                    with contextlib.suppress(BlockingIOError):
                        n = receiver.recvmsg_into(incoming, 0, _NOW)[0]
                        if not n:
                            raise ConnectionError
                        incoming, moved = _rest(incoming, n), True
                        if unchecked and (not incoming or incoming[0].obj is not found):
                            unchecked = False
                            if found != expected:
                                self.disagree(call, source, found)
                if moved:
                    continue
                poll = select.poll()
                waits = {}
                if parts:
                    waits[sender.fileno()] = select.POLLOUT
                if incoming:
                    waits[receiver.fileno()] = waits.get(receiver.fileno(), 0) | select.POLLIN
                for number, events in waits.items():
                    poll.register(number, events)
                at = source if incoming else to
                if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                    raise BlockingIOError
        except OSError as error:
            self.fail(call, at, error)

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def disagree(self, call, source, found):
        """Fail on all ranks because another rank called another collective."""
        theirs = read_header(found)
        self.raise_everywhere(
            f"ranks disagree: rank {self.rank} called {call}, rank {source} "
            + (f"called {theirs}" if theirs else f"sent what is no message: {bytes(found).hex()}")
        )

    def fail(self, call, peer, error):
        """Fail on all ranks because a rank has exited or timed out."""
        if isinstance(error, BlockingIOError):
            self.raise_everywhere(
                f"{call}: rank {self.rank} waited {self.timeout:g} s for rank {peer}. {self.side.what_others_do()}"
            )
        reason = self.side.why_ended(peer)
        self.raise_everywhere(f"{call}: {reason}, so that rank {self.rank} cannot go on")

    def raise_everywhere(self, text):
        """Fail on all ranks, with the reason that came first."""
        raise DistBackendError(self.side.abort(text)) from None

    def close(self, how) -> None:
        """Close the connections after what was sent has been delivered."""
        self.side.leave(how)
        for connection in self.peers.values():
            connection.close()


def _rest(parts, n):
    """What is left of buffers after n bytes."""
    while parts and n >= len(parts[0]):
        n -= len(parts[0])
        parts = parts[1:]
    return [parts[0][n:], *parts[1:]] if n else parts


def _left(end):
    from datetime import timedelta

    return timedelta(seconds=max(0.01, end - time.monotonic()))


def _ranks(ranks, one="has", several="have"):
    return f"rank {ranks[0]} {one}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} {several}"
