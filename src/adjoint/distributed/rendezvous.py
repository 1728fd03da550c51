"""Rendezvous: ``env://``, ``tcp://``, ``file://``, and registered schemes.

A handler yields a store, this process's rank, and how many there are. Start reading at `rendezvous`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import parse_qsl, urlparse

from adjoint._publish.register import publish
from adjoint._switches import switches
from adjoint._types import Any
from adjoint.distributed._file_store import FileStore
from adjoint.distributed._stores import as_timedelta
from adjoint.distributed._tcp_store import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

default_pg_timeout = timedelta(minutes=30)
_handlers: dict = {}

#: What starters of processes call a process's rank, how many there are, and both on its machine.
VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def register_rendezvous_handler(scheme: str, handler: Any) -> None:
    """Register ``handler(url, **keywords)`` for addresses ``scheme://…``; it yields (store, rank, world size)."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **keywords: Any) -> Any:
    """An iterator over (store, rank, world size) for an address.

    Raises
    ------
    RuntimeError
        The scheme is unknown.
    ValueError
        The address, or the environment, lacks something, which the error names.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    scheme = urlparse(url).scheme or ("file" if url.startswith("/") else "")
    if scheme not in _handlers:
        raise RuntimeError(
            f"No rendezvous handler for {scheme}://: {url!r} should begin with {', '.join(f'{s}://' for s in sorted(_handlers))}"
        )
    return _handlers[scheme](url, rank=rank, world_size=world_size, **keywords)


def _lack(scheme, what):
    return ValueError(
        f"Error initializing {switches.package}.distributed using {scheme}:// rendezvous: {what}"
    )


def _given(scheme, url, rank, world_size):
    """Rank and world size from arguments, or from the address's query."""
    query = dict(parse_qsl(urlparse(url).query))
    try:
        rank = int(query.get("rank", rank))
        world_size = int(query.get("world_size", world_size))
    except ValueError:
        raise _lack(scheme, f"rank and world_size must be numbers, in {url!r}") from None
    if rank < 0:
        raise _lack(scheme, "rank parameter missing")
    if world_size < 1:
        raise _lack(scheme, "world size parameter missing")
    return rank, world_size


def _file(url, rank=-1, world_size=-1, timeout=default_pg_timeout, **keywords):
    path = urlparse(url).path
    if not path:
        raise _lack("file", "path missing")
    rank, world_size = _given("file", url, rank, world_size)
    store = FileStore(path, world_size)
    store.set_timeout(as_timedelta(timeout))
    yield store, rank, world_size


def _tcp(url, rank=-1, world_size=-1, timeout=default_pg_timeout, **keywords):
    parts = urlparse(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _lack("tcp", f"{url!r}: {error}") from None
    if not host or port is None:
        raise _lack("tcp", "port number missing" if host else "address missing")
    rank, world_size = _given("tcp", url, rank, world_size)
    yield _store(host, port, rank, world_size, timeout), rank, world_size


def _store(host, port, rank, world_size, timeout):
    # A launcher keeps the store itself: it is there before the ranks, and after any of them.
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    return TCPStore(
        host,
        port,
        world_size,
        rank == 0 and not agent,
        as_timedelta(timeout),
        wait_for_workers=False,
        multi_tenant=True,
    )


def from_environment():
    """The rank and world size that mpirun, srun and the like provide; (None, None) without them."""
    for rank, size in VARIABLES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return None, None


def _env(url, rank=-1, world_size=-1, timeout=default_pg_timeout, **keywords):
    def need(name):
        if name in os.environ:
            return os.environ[name]
        raise _lack(
            "env",
            f"environment variable {name} expected, but not set. Start the program by `python -m adjoint.distributed.run "
            "--nproc-per-node=2 program.py`, which sets it, or by mpirun with the backend 'mpi'",
        )

    def number(name):
        text = need(name)
        if not text.lstrip("-").isdigit():
            raise _lack("env", f"environment variable {name} is {text!r}, and should be a number")
        return int(text)

    query = dict(parse_qsl(urlparse(url).query))
    started = from_environment()
    if rank == -1:
        rank = int(query["rank"]) if "rank" in query else None
        if rank is None:
            rank = started[0] if "RANK" not in os.environ and started[0] is not None else number("RANK")
    if world_size == -1:
        world_size = int(query["world_size"]) if "world_size" in query else None
        if world_size is None:
            world_size = started[1] if "WORLD_SIZE" not in os.environ and started[1] else number("WORLD_SIZE")
    host, port = need("MASTER_ADDR"), number("MASTER_PORT")
    yield _store(host, port, rank, world_size, timeout), rank, world_size


for _scheme, _handler in (("tcp", _tcp), ("env", _env), ("file", _file)):
    register_rendezvous_handler(_scheme, _handler)


publish(globals(), None, None)
