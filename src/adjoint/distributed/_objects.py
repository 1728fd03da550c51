"""Collectives of Python objects, pickled into tensors of bytes; only ranks that know the group's secret can send them.

Start reading at `_packed`.
"""

from __future__ import annotations

import pickle

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint._publish.register import publish
from adjoint._types import Any, Device
from adjoint.distributed import _functions as collectives
from adjoint.distributed._world import is_member, need_group

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _packed(thing):
    """An object as bytes, and how many."""
    data = ad.frombuffer(bytearray(pickle.dumps(thing)), dtype=ad.uint8)
    return data, ad.tensor([data.numel()], dtype=ad.int64)


def _unpacked(data, size=None):
    return pickle.loads(memoryview(data[: size if size is not None else None]))


def _together(things):
    """Several objects as bytes, and how many each has."""
    packed = [_packed(thing)[0] for thing in things]
    sizes = ad.tensor([data.numel() for data in packed], dtype=ad.int64)
    return (ad.cat(packed) if packed else ad.empty(0, dtype=ad.uint8)), sizes


def _apart(data, sizes, things):
    for i, part in enumerate(data.split(sizes.tolist())):
        things[i] = _unpacked(part)


def all_gather_object(object_list: Any, obj: Any, group: Any = None) -> None:
    """Gather the objects of all ranks on every rank: ``object_list[r]`` becomes that of rank r."""
    if not is_member(group):
        return
    group = need_group(group)
    if len(object_list) != group.size():
        raise ValueError(
            f"all_gather_object(): {len(object_list)} places for a group of {group.size()} ranks"
        )
    data, size = _packed(obj)
    sizes = [ad.zeros(1, dtype=ad.int64) for _ in range(group.size())]
    collectives.all_gather(sizes, size, group)
    longest = max(int(s) for s in sizes)
    padded = ad.zeros(longest, dtype=ad.uint8)
    padded[: data.numel()] = data
    parts = [ad.empty(longest, dtype=ad.uint8) for _ in range(group.size())]
    collectives.all_gather(parts, padded, group)
    for i, (part, n) in enumerate(zip(parts, sizes)):
        object_list[i] = _unpacked(part, int(n))


def gather_object(
    obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
) -> None:
    """Gather the objects of all ranks on rank `dst`: ``object_gather_list[r]`` becomes that of rank r."""
    if not is_member(group):
        return
    group = need_group(group)
    root = collectives._root(group, dst, group_dst, "dst", default=group.ranks[0])
    mine = root == group.rank()
    if mine and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if not mine and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _packed(obj)
    sizes = [ad.zeros(1, dtype=ad.int64) for _ in range(group.size())]
    collectives.all_gather(sizes, size, group)
    longest = max(int(s) for s in sizes)
    padded = ad.zeros(longest, dtype=ad.uint8)
    padded[: data.numel()] = data
    parts = [ad.empty(longest, dtype=ad.uint8) for _ in range(group.size())] if mine else None
    collectives.gather(padded, parts, group=group, group_dst=root)
    if parts is not None:
        for i, (part, n) in enumerate(zip(parts, sizes)):
            object_gather_list[i] = _unpacked(part, int(n))


@ignores("device", why="ranks have the CPU")
def broadcast_object_list(
    object_list: Any,
    src: int | None = None,
    group: Any = None,
    device: Device | None = None,
    group_src: Any = None,
) -> None:
    """Broadcast the list of objects of rank `src` into the lists of all ranks."""
    if not is_member(group):
        return
    group = need_group(group)
    root = collectives._root(group, src, group_src, "src", default=group.ranks[0])
    mine = root == group.rank()
    if mine:
        data, sizes = _together(object_list)
    else:
        sizes = ad.empty(len(object_list), dtype=ad.int64)
    collectives.broadcast(sizes, group=group, group_src=root)
    if not mine:
        data = ad.empty(int(sizes.sum()), dtype=ad.uint8)
    collectives.broadcast(data, group=group, group_src=root)
    if not mine:
        _apart(data, sizes, object_list)


def scatter_object_list(
    scatter_object_output_list: Any,
    scatter_object_input_list: Any = None,
    src: int | None = None,
    group: Any = None,
    group_src: Any = None,
) -> None:
    """Scatter a list of objects from rank `src`: the first of the output list becomes ``scatter_object_input_list[rank]``."""
    if not is_member(group):
        return
    group = need_group(group)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = collectives._root(group, src, group_src, "src", default=group.ranks[0])
    mine = root == group.rank()
    longest, sizes, parts = ad.zeros(1, dtype=ad.int64), None, None
    if mine:
        if scatter_object_input_list is None or len(scatter_object_input_list) != group.size():
            found = None if scatter_object_input_list is None else len(scatter_object_input_list)
            raise ValueError(
                f"scatter_object_list(): {found} objects for a group of {group.size()}: the list needs one for each rank"
            )
        packed = [_packed(thing) for thing in scatter_object_input_list]
        sizes = [size for _, size in packed]
        longest = ad.tensor([max(int(size) for size in sizes)], dtype=ad.int64)
        parts = []
        for data, _ in packed:
            parts.append(ad.zeros(int(longest), dtype=ad.uint8))
            parts[-1][: data.numel()] = data
    collectives.broadcast(longest, group=group, group_src=root)
    size, data = ad.zeros(1, dtype=ad.int64), ad.empty(int(longest), dtype=ad.uint8)
    collectives.scatter(size, sizes, group=group, group_src=root)
    collectives.scatter(data, parts, group=group, group_src=root)
    scatter_object_output_list[0] = _unpacked(data, int(size))


@ignores("device", "use_batch", why="ranks have the CPU, and messages go one by one")
def send_object_list(
    object_list: Any,
    dst: Any = None,
    group: Any = None,
    device: Device | None = None,
    group_dst: Any = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank."""
    if not is_member(group):
        return
    data, sizes = _together(object_list)
    collectives.send(sizes, dst, group, group_dst=group_dst)
    collectives.send(data, dst, group, group_dst=group_dst)


@ignores("device", "use_batch", why="ranks have the CPU, and messages come one by one")
def recv_object_list(
    object_list: Any,
    src: int | None = None,
    group: Any = None,
    device: Device | None = None,
    group_src: Any = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from a rank or from any; returns the rank."""
    if not is_member(group):
        return -1
    sizes = ad.empty(len(object_list), dtype=ad.int64)
    source = collectives.recv(sizes, src, group, group_src=group_src)
    data = ad.empty(int(sizes.sum()), dtype=ad.uint8)
    collectives.recv(data, source, group)
    _apart(data, sizes, object_list)
    return source


publish(globals(), None, None)
