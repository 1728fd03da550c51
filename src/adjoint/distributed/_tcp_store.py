"""`TCPStore`: a store that one process serves to the others over loopback.

A question is a frame ``word, key, values…``; the answer one of ``ok, values…`` or ``no, what``. The server has a thread for each
connection, since a question may wait. A client has a connection for each question that is under way. Start reading at `_Server`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time

from adjoint._publish.arguments import ignores
from adjoint._types import Any
from adjoint._version import distribution
from adjoint.distributed import _wire
from adjoint.distributed._errors import DistNetworkError, DistStoreError
from adjoint.distributed._stores import DEFAULT, Store, Table, as_timedelta, late, seconds

__all__ = ["TCPStore", "on_this_host"]

_JOINED = "adjoint/joined"


def on_this_host(host: Any, what: Any) -> str:
    """The loopback address for a name of this machine; other hosts are refused.

    Raises
    ------
    DistNetworkError
        The name is unknown, or another machine's.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DistNetworkError(
            f"{what}: the address {host!r} does not resolve: {getattr(error, 'strerror', None) or error}"
        ) from None
    for family, _, _, _, address in found:
        if str(address[0]).startswith("127.") or address[0] == "::1":
            return str(address[0])
        with socket.socket(family, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.bind(address)  # which only works for an address of this machine; connection refused there
            return "127.0.0.1"
    raise DistNetworkError(
        f"{what}: {host!r} ({found[0][4][0]}) is another machine, and sockets join processes of one. For several machines use the "
        f"backend 'mpi' (pip install {distribution}[mpi]) and start the program by\n"
        "    mpirun -n RANKS --host HOST,HOST python program.py      or      srun -n RANKS python program.py"
    )


class _Server:
    """The server."""

    def __init__(self, host, port, listener=None):
        self.table = Table()
        self.closing = False
        self.clients: set = set()
        self.lock = threading.Lock()
        try:
            self.listener = listener or socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
            )
        except (OSError, OverflowError) as error:
            name = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
            raise DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: {port}, {name}: "
                f"{getattr(error, 'strerror', None) or error}. Choose another MASTER_PORT, or 0 with `run --standalone`"
            ) from None
        self.port = self.listener.getsockname()[1]
        name = "adjoint-store"
        threading.Thread(
            target=_wire.serve, args=(self.listener, self._serve, name), name=name, daemon=True
        ).start()

    def _serve(self, connection):
        with connection:
            if not _wire.welcome(connection):
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.clients.add(connection)
            try:
                while True:
                    word, key, *values = _wire.receive(connection)
                    try:
                        answer = [b"ok", *self._answer(word.decode(), key.decode(), values)]
                    except DistStoreError as error:
                        answer = [b"no", str(error).encode()]
                    _wire.send(connection, *answer)
            except (OSError, ValueError, EOFError):
                pass  # it went away, or talks nonsense: either way that is its end
            finally:
                with self.lock:
                    self.clients.discard(connection)
                self._end_if_alone()

    def _answer(self, word, key, values):
        table = self.table
        if word == "look":
            found = table.values.get(key)
            return [] if found is None else [found]
        if word == "wait":
            timeout, *keys = values
            return [name.encode() for name in table.wait([k.decode() for k in keys], float(timeout))]
        if word == "delete":
            with table.arrived:
                return [b"" if table.values.pop(key, None) is None else b"1"]
        if word == "names":
            return [name.encode() for name in list(table.values) if name != _JOINED]
        return [table.change(key, word, values)]

    def release(self):
        """Stop serving once the last client has left."""
        self.closing = True
        self._end_if_alone()

    def _end_if_alone(self):
        with self.lock:
            if not self.closing or self.clients:
                return
            for key in [key for key, server in _servers.items() if server is self]:
                del _servers[key]
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


#: The servers of this process that several stores may share, by address.
_servers: dict = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_servers.clear)


class TCPStore(Store):
    """A store that one process, the master, serves to others on this machine over loopback.

    Parameters
    ----------
    host_name : str
        A name or address of this machine.
    port : int
        0: one that is free, which `port` then says.
    world_size : int, optional
        How many processes there are, the master among them.
    is_master : bool
        Whether this process keeps it.
    timeout : timedelta
        For joining, and for `get` and `wait`.
    wait_for_workers : bool
        Whether the master waits until `world_size` processes have joined.
    multi_tenant : bool
        Whether several stores of this process share one server.
    master_listen_fd : int, optional
        The descriptor of a socket that listens already.
    use_libuv
        Taken, and of no effect.

    Raises
    ------
    DistNetworkError
        The port is in use; no store answers within the timeout; the address is that of another machine.
    """

    @ignores("use_libuv", why="there is one server", warns=False)
    def __init__(
        self,
        host_name: Any,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: Any = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = as_timedelta(timeout)
        self.host = host_name
        if not 0 <= port < 1 << 16:
            raise DistNetworkError(
                f"TCPStore: port {port} is out of range: a port is at least 0 and below 65536"
            )
        self._address = on_this_host(host_name, "TCPStore")
        self._server, self._pid, self._lock = None, os.getpid(), threading.Lock()
        self._idle: list[socket.socket] = []
        if is_master:
            server = _servers.get((self._address, port)) if multi_tenant and port else None
            if server is None:
                listener = None if master_listen_fd is None else socket.socket(fileno=master_listen_fd)
                server = _Server(self._address, port, listener)
                if multi_tenant:
                    _servers[self._address, server.port] = server
            server.closing = False
            self._server, port = server, server.port
        elif not port:
            raise DistNetworkError("TCPStore: port 0 is for the master alone; the others must say its number")
        self.port = port
        self._give_back(self._connect())
        if world_size is not None and world_size > 0:
            joined = self.add(_JOINED, 1)
            if is_master and wait_for_workers:
                self._wait_for_all(world_size, joined)

    def _wait_for_all(self, world_size, joined):
        end = time.monotonic() + seconds(self._timeout)
        while joined < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {seconds(self._timeout):g} seconds waiting for clients. {joined}/{world_size} clients joined."
                )
            time.sleep(0.002)
            joined = self.add(_JOINED, 0)

    @property
    def libuvBackend(self) -> Any:
        """Whether libuv serves it: no."""
        return False

    def _connect(self, waits=True):
        """A connection to the master, without waiting if it was reachable before and is not now."""
        end, pause = time.monotonic() + seconds(self._timeout), 0.002
        where = f"{self.host}:{self.port}"
        while True:
            connection: Any = None
            try:
                connection = socket.create_connection(
                    (self._address, self.port), timeout=max(0.1, min(5.0, end - time.monotonic()))
                )
                if connection.getsockname() == connection.getpeername():
                    # Loopback can join a socket to itself, where connection refused.
                    raise ConnectionRefusedError("connection refused")
                _wire.introduce(connection, max(0.1, min(5.0, end - time.monotonic())))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except PermissionError as error:
                connection.close()
                raise DistNetworkError(f"TCPStore: {where} cannot be used as a store: {error}") from None
            except OSError as error:
                if connection is not None:
                    connection.close()
                if not waits and isinstance(error, ConnectionError):
                    raise
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"The client socket has timed out after {round(seconds(self._timeout) * 1000)}ms while trying to connect to "
                        f"({self.host}, {self.port}): {error.strerror or error}. The process of rank 0 serves the store there; is it "
                        "running, with this MASTER_ADDR and MASTER_PORT?"
                    ) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.1)

    def _give_back(self, connection):
        with self._lock:
            self._idle.append(connection)

    def _ask(self, word, key="", *values):
        if os.getpid() != self._pid:
            raise DistStoreError(
                "this TCPStore was created before a fork: create another in the child process"
            )
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect(waits=False)
            _wire.send(connection, word.encode(), key.encode(), *values)
            ok, *found = _wire.receive(connection)
        except OSError as error:
            if connection:
                connection.close()
            raise DistNetworkError(
                f"the store at {self.host}:{self.port} is no longer reachable ({error.strerror or error}): the process that served "
                "it, rank 0 or the launcher, has exited"
            ) from None
        except BaseException:
            if connection:
                connection.close()  # an answer is still to come there
            raise
        self._give_back(connection)
        if ok != b"ok":
            raise DistStoreError(found[0].decode())
        return found

    def _look(self, key):
        return next(iter(self._ask("look", key)), None)

    def _change(self, key, how, *values):
        return self._ask(how, key, *values)[0]

    def _wait(self, keys, timeout):
        missing = self._ask("wait", "", repr(seconds(timeout)).encode(), *(key.encode() for key in keys))
        if missing:
            raise late(timeout, [key.decode() for key in missing])

    def _delete(self, key):
        return self._ask("delete", key)[0] == b"1"

    def _names(self):
        return [key.decode() for key in self._ask("names")]

    def _close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        server, self._server = self._server, None
        if server is not None and os.getpid() == self._pid:
            server.release()

    def __del__(self):
        if hasattr(self, "_lock"):
            self._close()
