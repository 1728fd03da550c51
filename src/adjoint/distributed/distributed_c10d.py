"""What programs and libraries import from ``torch.distributed.distributed_c10d``: the names of this package, and some private ones."""

# ruff: noqa: F401
from __future__ import annotations

from adjoint.distributed import *  # noqa: F403
from adjoint.distributed._functions import _all_gather_base, _coalescing_manager, _reduce_scatter_base
from adjoint.distributed._objects import _packed, _unpacked
from adjoint.distributed._process_group import ProcessGroup
from adjoint.distributed._reduce_op import _make_nccl_premul_sum
from adjoint.distributed._world import (
    _rank_not_in_group,
    get_process_group_ranks,
    is_member,
    need_group,
    world,
)
from adjoint.distributed.rendezvous import default_pg_timeout

__all__ = ["ProcessGroup"]


def _get_default_group() -> ProcessGroup:
    """The default group.

    Raises
    ------
    ValueError
        There is none yet.
    """
    return need_group()


def _get_group_size(group) -> int:
    return need_group(group).size()


def _warn_not_in_group(op_name):
    import warnings

    rank = world.default.rank() if world.default else -1
    warnings.warn(
        f"Running {op_name} on global rank {rank} which does not belong to the given group.", stacklevel=2
    )


def _get_default_store():
    """The store of the default group."""
    return need_group().get_group_store()


def _find_pg_by_ranks_and_tag(tag, ranks):
    """A group of these ranks; None where there is none."""
    return next((one for one in world.groups if one.ranks == list(ranks)), None)


def _resolve_process_group(group_name):
    """The group of a name."""
    if group_name not in world.by_name:
        raise ValueError(f"Could not resolve the process group registered under the name {group_name}")
    return world.by_name[group_name]


def _get_process_group_name(group):
    return need_group(group).group_name


def _get_pg_default_device(group=None):
    import adjoint as ad

    return ad.device("cpu")


_get_object_coll_device = _get_pg_default_device
