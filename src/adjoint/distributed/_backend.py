"""`Backend`: the names of the communication backends, and how each creates groups. Start reading at `Backend.register_backend`."""

from __future__ import annotations

from collections import namedtuple
from importlib.util import find_spec

from adjoint._publish.register import publish
from adjoint._types import Any, Callable

__all__ = ["Backend", "create", "is_gloo_available", "is_mpi_available", "is_nccl_available"]

_Plugin = namedtuple("_Plugin", "creator_fn extended_api")


class Backend(str):
    """The name of a backend, in lower case.

    ``"gloo"`` joins processes of one machine by sockets and needs nothing installed; ``"mpi"`` is an MPI library, by mpi4py,
    for any number of machines.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributed.Backend("GLOO")
    'gloo'
    """

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL, FAKE = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {GLOO: ["cpu"], MPI: ["cpu"]}
    backend_type_map: dict = {}
    _plugins: dict = {}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        known = getattr(cls, name.upper(), None)
        return str.__new__(cls, name.lower() if known is None or not isinstance(known, str) else known)

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: Any = None
    ) -> None:
        """Add a backend.

        Parameters
        ----------
        name : str
        func : callable
            ``func(store, rank, size, timeout)`` returns a `ProcessGroup`; or, with `extended_api`, ``func(options, pg_options)``
            with these as attributes ``store``, ``group_rank``, ``group_size``, ``timeout``, ``group_id``.
        extended_api : bool
        devices : str or list of str, optional
            The devices whose tensors it takes.

        Raises
        ------
        AssertionError
            There is one of this name.
        """
        lower = name.lower()
        if lower in cls._plugins or (hasattr(cls, name.upper()) and lower not in ("nccl", "ucc", "xccl")):
            raise AssertionError(f"{name.upper()} c10d backend already exist; choose another name")
        setattr(cls, name.upper(), lower)
        if lower not in cls.backend_list:
            cls.backend_list.append(lower)
        devices = [devices] if isinstance(devices, str) else devices or ["cpu"]
        cls.backend_capability[lower] = devices
        cls._plugins[name.upper()] = cls._plugins[lower] = _Plugin(func, extended_api)


class _Options:
    def __init__(self, store, rank, size, timeout, name, ranks):
        self.store, self.group_rank, self.group_size, self.timeout = store, rank, size, timeout
        self.group_id, self.global_ranks_in_group = name, ranks


def is_gloo_available() -> bool:
    """Whether the sockets backend is available: yes."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether NCCL is available: no."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend) -> bool:
    """Whether a backend can be used here."""
    name = backend.lower()
    return name == "gloo" or name == "mpi" and is_mpi_available() or name in Backend._plugins


def choose(backend) -> str:
    """The backend for the CPU in a request such as ``"cpu:gloo,cuda:nccl"``."""
    if backend is None or backend == "undefined":
        return "gloo"
    name = str(backend).lower()
    if ":" in name:
        parts = dict(part.split(":", 1) for part in name.split(",") if ":" in part)
        if "cpu" not in parts:
            raise ValueError(
                f"init_process_group(): backend {backend!r} names none for the CPU, such as 'cpu:gloo'"
            )
        name = parts["cpu"]
    if name in Backend._plugins or name in ("gloo", "mpi"):
        return name
    if name in ("nccl", "xccl", "ucc"):
        raise RuntimeError(
            f"Distributed package doesn't have {name.upper()} built in: there is no such device here. Use 'gloo' for ranks on one "
            "machine, 'mpi' for several"
        )
    raise ValueError(
        f"Invalid backend: {backend!r}; there are {', '.join(sorted({'gloo', 'mpi', *Backend._plugins}))}"
    )


def create(
    backend: Any,
    store: Any,
    rank: int,
    size: int,
    timeout: Any,
    name: str,
    ranks: Any,
    parent: Any = None,
    pg_options: Any = None,
) -> Any:
    """Create a group of a backend."""
    if backend in Backend._plugins:
        function, extended = Backend._plugins[backend]
        if extended:
            return function(_Options(store, rank, size, timeout, name, ranks), pg_options)
        return function(store, rank, size, timeout)
    if backend == "mpi":
        from adjoint.distributed._mpi_group import MPIGroup

        return MPIGroup(rank, size, timeout, name, ranks, parent)
    from adjoint.distributed._socket_group import SocketGroup

    return SocketGroup(store, rank, size, timeout, name)


publish(globals(), None, None)
