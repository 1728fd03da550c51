"""The groups of this process: the default one, which `init_process_group` makes, and those of `new_group`.

Start reading at `init_process_group`.
"""

from __future__ import annotations

import os
from datetime import timedelta

from adjoint._publish.arguments import ignores
from adjoint._publish.register import publish
from adjoint._types import Any, Device
from adjoint.distributed import _backend
from adjoint.distributed._backend import Backend
from adjoint.distributed._errors import DistError
from adjoint.distributed._process_group import ProcessGroup, whose
from adjoint.distributed._stores import PrefixStore, Store, as_timedelta
from adjoint.distributed.rendezvous import default_pg_timeout, rendezvous

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
]


class _World:
    """The groups of this process."""

    default: ProcessGroup | None = None
    #: By group: its name, its backend.
    groups: dict = {}
    by_name: dict = {}
    #: How many groups were made, and how many default ones: the same on all ranks, so that names agree.
    made = started = 0


world = _World()


class _Group(type):
    @property
    def WORLD(cls) -> Any:
        """The default group; None before `init_process_group`."""
        return world.default

    @WORLD.setter
    def WORLD(cls, made):
        world.default = made


class group(metaclass=_Group):
    """``group.WORLD``: the default group, of all processes."""


class GroupMember(metaclass=_Group):
    """Like `group`; and what `new_group` returns to a process that is not in it."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether distributed programs can run here: yes."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` has been called."""
    return world.default is not None


def is_torchelastic_launched() -> bool:
    """Whether `adjoint.distributed.run` (or torchrun) has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: Any = None) -> int:
    """The rank of this process on its machine, as the launcher says."""
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you "
        "are not running in a multi-device context and want the code to run locally instead."
    )


def need_group(given=None) -> ProcessGroup:
    """A group argument; None is the default one."""
    if given is None or given is group or given is GroupMember:
        if world.default is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return world.default
    if isinstance(given, str) and (given := world.by_name.get(name := given)) is None:
        raise ValueError(
            f"Process group {name} is not initialized in the world group map. Please initialize the group first: there are "
            f"{', '.join(world.by_name) or 'none'}"
        )
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"expected a process group, as new_group() returns, but got {given!r}")
    if given not in world.groups:
        raise ValueError("Invalid process group specified: it was destroyed, or is another process's")
    return given


def _rank_not_in_group(group) -> bool:
    return group is GroupMember.NON_GROUP_MEMBER


def is_member(given) -> bool:
    """Whether this process is in the group; others get a warning and skip the call."""
    if given is GroupMember.NON_GROUP_MEMBER:
        import warnings

        rank = world.default.rank() if world.default else -1
        warnings.warn(
            f"Running a collective on global rank {rank} which does not belong to the given group.",
            stacklevel=4,
        )
        return False
    return True


@ignores("group_name", "pg_options", "device_id", why="groups of ranks on the CPU have no such options")
def init_process_group(
    backend: Any = None,
    init_method: Any = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
    """Join the default group of the processes of a program.

    Parameters
    ----------
    backend : {"gloo", "mpi"} or a registered name
        "gloo", the default, are sockets between processes of one machine; "mpi" is an MPI library by mpi4py.
    init_method : str
        ``env://`` (the default: by variables, which a launcher sets), ``tcp://127.0.0.1:29500``, ``file:///a/path``.
    timeout : timedelta
        How long processes wait for each other, here and in each collective: 30 minutes unless said.
    world_size, rank : int
        How many processes there are, and which this is, where `init_method` does not say.
    store : Store
        In place of `init_method`.
    group_name, pg_options, device_id
        Taken, and of no effect.

    Raises
    ------
    DistBackendError, DistNetworkError, DistStoreError
        The others did not come in time, or have the same rank, or are on another machine.
    """
    if world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if not isinstance(timeout, (timedelta, type(None))):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, but got {timeout!r} of type {type(timeout).__name__}"
        )
    timeout = default_pg_timeout if timeout is None else as_timedelta(timeout)
    name = _backend.choose(backend)
    if name == "mpi":
        if rank != -1 or world_size != -1:
            import warnings

            warnings.warn(
                f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by the MPI runtime.",
                stacklevel=2,
            )
        made = _backend.create("mpi", None, -1, -1, timeout, "default", None)
    else:
        if store is None:
            store, rank, world_size = next(
                iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
            )
        elif not isinstance(store, Store):
            raise TypeError(f"init_process_group(): expected a Store, but got {type(store).__name__}")
        if rank < 0 or world_size < 1:
            raise ValueError(
                f"init_process_group(): rank {rank} and world_size {world_size}: both must be given with a store"
            )
        if rank >= world_size:
            raise ValueError(
                f"init_process_group(): rank {rank} is out of range for a world size of {world_size}: ranks are 0 to {world_size - 1}"
            )
        store.set_timeout(timeout)
        world.started += 1
        own = PrefixStore(
            f"default_pg/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}/{world.started}", store
        )
        made = _backend.create(name, own, rank, world_size, timeout, "default", list(range(world_size)))
        made._store = made._store or own
    _register(made, "default", name, list(range(made.size())))
    world.default = made


def _register(made, name, backend, ranks):
    made.group_name, made.ranks = name, ranks
    world.groups[made] = backend
    world.by_name[name] = made


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or all groups; the other ranks are told."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    made = need_group(group)
    ending = list(reversed(world.groups)) if made is world.default else [made]
    for one in ending:
        world.groups.pop(one, None)
        world.by_name.pop(one.group_name, None)
    if made is world.default:
        world.default, world.made = None, 0
    for one in ending:
        one.shutdown()


@ignores("pg_options", "device_id", why="groups of ranks on the CPU have no such options")
def new_group(
    ranks: Any = None,
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: Any = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Create a group of some of the processes. All processes must call it, in the same order, even those outside the group.

    Parameters
    ----------
    ranks : list of int
        All, without it.
    timeout : timedelta
    backend : str
        That of the default group, unless said.
    use_local_synchronization : bool
        Only the members call it.
    group_desc : str

    Returns
    -------
    ProcessGroup, or GroupMember.NON_GROUP_MEMBER
    """
    default = need_group()
    default._check_usable("new_group")
    size, rank = default.size(), default.rank()
    ranks = list(range(size)) if ranks is None else [int(r) for r in ranks]
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"new_group(): duplicate ranks in {ranks}")
    for r in ranks:
        if not 0 <= r < size:
            raise ValueError(f"new_group(): the new group's rank {r} is not in the world of {size} ranks")
    if not ranks:
        raise ValueError("new_group(): the list of ranks is empty")
    ranks = sorted(ranks) if sort_ranks else ranks
    name = _backend.choose(backend or world.groups[default])
    if use_local_synchronization:
        label = "local/" + "_".join(map(str, ranks))
        count = sum(known.startswith(label) for known in world.by_name)
        label += f"/{count}"
    else:
        world.made += 1
        label = f"group/{world.made}"
    if rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    limit = as_timedelta(getattr(default, "_timeout", default_pg_timeout) if timeout is None else timeout)
    if name == "mpi":
        made = _backend.create(name, None, -1, -1, limit, label, ranks, default)
    else:
        store = PrefixStore(label, default._store)
        try:
            made = _backend.create(name, store, ranks.index(rank), len(ranks), limit, label, ranks)
        except DistError as error:
            raise type(error)(f"{error}{whose(label, ranks)}") from None
        made._store = store
    made.group_desc = group_desc or "undefined"
    _register(made, label, name, ranks)
    return made


def new_subgroups(
    group_size: Any = None,
    group: Any = None,
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> Any:
    """Split the ranks into groups of `group_size`; returns the group of this process, and all groups."""
    size = get_world_size(group)
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size < 1 or size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[i : i + group_size] for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Any,
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> Any:
    """Create a group for each list of ranks; returns the group of this process, and all groups."""
    seen: set = set()
    mine, made = None, []
    for ranks in ranks_per_subgroup_list:
        if seen & set(ranks):
            raise ValueError(f"Rank {min(seen & set(ranks))} has appeared in more than one subgroup")
        seen |= set(ranks)
        one = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(one)
        if one is not GroupMember.NON_GROUP_MEMBER:
            mine = one
    return mine, made


# --- questions -----------------------------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """The rank of this process in a group; -1 if it is not in it."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else need_group(group).rank()


def get_world_size(group: Any = None) -> int:
    """The size of a group; -1 if this process is not in it."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else need_group(group).size()


def get_backend(group: Any = None) -> Backend:
    """The name of a group's backend."""
    return Backend(world.groups[need_group(group)])


def get_backend_config(group: Any = None) -> str:
    """Its backend for each device."""
    return f"cpu:{world.groups[need_group(group)]}"


def get_default_backend_for_device(device: Device) -> str:
    """The default backend of a device."""
    kind = str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_process_group_ranks(group: Any = None) -> list:
    """The global ranks of a group, in order."""
    return list(need_group(group).ranks)


def get_group_rank(group: Any, global_rank: Any) -> int:
    """The rank within a group of a global rank."""
    ranks = need_group(group).ranks
    if global_rank not in ranks:
        raise ValueError(
            f"Global rank {global_rank} is not part of group {getattr(group, 'group_name', group)}"
        )
    return ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: Any) -> int:
    """The global rank of a rank within a group."""
    ranks = need_group(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(
            f"Group rank {group_rank} is not part of group {getattr(group, 'group_name', group)}"
        )
    return ranks[group_rank]


def get_pg_count() -> int:
    """The number of groups."""
    return len(world.groups)


publish(globals(), None, None)
