"""The collectives as programs call them: torch's signatures, checks and words. Start reading at `_go`.

`async_op=True` returns a `Work`, else they return when they are done. A process that is not in the group returns at once.
"""

from __future__ import annotations

import contextlib

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint._publish.register import publish
from adjoint._switches import switches
from adjoint._types import Any, Sequence, Tensor
from adjoint.distributed._process_group import (
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from adjoint.distributed._reduce_op import ReduceOp, reduce_op
from adjoint.distributed._work import Work
from adjoint.distributed._world import is_member, need_group, world

__all__ = [
    "P2POp",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]


def _go(work, async_op):
    """Return the work if the call is asynchronous, else wait for it."""
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def _tensor(value, name):
    if not isinstance(value, ad.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type {switches.package}.Tensor\n             but got {type(value)} instead."
        )


def _tensors(value, name):
    if not isinstance(value, (list, tuple)) or not all(isinstance(t, ad.Tensor) for t in value):
        kinds = sorted({type(t).__name__ for t in value}) if isinstance(value, (list, tuple)) else type(value)
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[{switches.package}.Tensor]\n             but got {kinds} instead."
        )


def _root(group, rank, group_rank, name, default=None) -> int:
    """A root within the group, given by its rank among all or by that within."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"group_{name} {group_rank} is not in the group of {group.size()} ranks")
        return group_rank
    if rank is None:
        if default is None:
            raise ValueError(f"Must specify {name} or group_{name}")
        rank = default
    if rank not in group.ranks:
        raise ValueError(
            f"Global rank {rank} is not part of group {group.group_name}, whose ranks are {group.ranks}"
        )
    return group.ranks.index(rank)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: Any = None,
) -> Any:
    """Broadcast the tensor of rank `src` to all ranks.

    Parameters
    ----------
    tensor : Tensor
        What is sent, or where it arrives.
    src, group_src : int
        The rank among all, or within the group.
    group : ProcessGroup
    async_op : bool

    Returns
    -------
    Work or None
    """
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    root = _root(group, src, group_src, "src")
    return _go(group.broadcast([tensor], BroadcastOptions(root=root, async_op=async_op)), async_op)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce the tensors of all ranks; each rank gets the result, identical bit for bit.

    Parameters
    ----------
    tensor : Tensor
    op : ReduceOp
    group : ProcessGroup
    async_op : bool

    Returns
    -------
    Work or None

    Raises
    ------
    RuntimeError
        The tensor is being recorded: `distributed.nn.functional.all_reduce` is differentiated.
    """
    if group is None and not async_op and isinstance(op, ReduceOp) and (default := world.default) is not None:
        if default._at_once(tensor, op):
            return None
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    options = AllreduceOptions(reduce_op(op, "all_reduce"), async_op=async_op)
    return _go(need_group(group).allreduce([tensor], options), async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors of one dtype in one message."""
    tensors = [tensors] if isinstance(tensors, ad.Tensor) else tensors
    _tensors(tensors, "tensors")
    if not is_member(group):
        return None
    options = AllreduceOptions(reduce_op(op, "all_reduce_coalesced"), async_op=async_op)
    work = need_group(group).allreduce_coalesced(list(tensors), options)
    return work.get_future() if async_op else _go(work, False)


def reduce(
    tensor: Tensor,
    dst: Any = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Reduce the tensors of all ranks into the tensor of rank `dst`."""
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    options = ReduceOptions(reduce_op(op, "reduce"), _root(group, dst, group_dst, "dst"), async_op=async_op)
    return _go(group.reduce([tensor], options), async_op)


def all_gather(tensor_list: Any, tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """Gather the tensors of all ranks on every rank: ``tensor_list[r]`` becomes that of rank r."""
    _tensors(tensor_list, "tensor_list")
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    return _go(
        need_group(group).allgather([tensor_list], [tensor], GatherOptions(async_op=async_op)), async_op
    )


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """`all_gather` of several tensors."""
    _tensors(input_tensor_list, "input_tensor_list")
    works = []
    for i, tensor in enumerate(input_tensor_list):
        outputs = [tensors[i] for tensors in output_tensor_lists]
        works.append(all_gather(outputs, tensor, group, True))
    if async_op:
        return works[-1].get_future() if works and works[-1] else None
    for work in works:
        _go(work, False)
    return None


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Gather the tensors of all ranks into one, concatenated along the first dimension or stacked."""
    _tensor(output_tensor, "output_tensor")
    _tensor(input_tensor, "input_tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    _fits("all_gather_into_tensor", output_tensor, input_tensor, group.size())
    return _go(group._allgather_base(output_tensor, input_tensor, GatherOptions(async_op=async_op)), async_op)


def _fits(name, whole, part, size):
    if whole.numel() != part.numel() * size or whole.dtype is not part.dtype:
        raise ValueError(
            f"{name}(): the whole has shape {tuple(whole.shape)} and {whole.dtype}; for {size} ranks it must have {size} times the "
            f"elements of the part, which has shape {tuple(part.shape)} and {part.dtype}"
        )


_all_gather_base = all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: Any = None,
    dst: Any = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Gather the tensors of all ranks on rank `dst`: ``gather_list[r]`` becomes that of rank r."""
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    root = _root(group, dst, group_dst, "dst", default=group.ranks[0])
    mine = root == group.rank()
    if mine and not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not mine and gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    if gather_list:
        _tensors(gather_list, "gather_list")
    outputs = [gather_list] if mine else []
    return _go(group.gather(outputs, [tensor], GatherOptions(root=root, async_op=async_op)), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: Any = None,
) -> Any:
    """Scatter a list from rank `src`: the tensor of each rank becomes ``scatter_list[rank]``."""
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    root = _root(group, src, group_src, "src", default=group.ranks[0])
    mine = root == group.rank()
    if mine and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if not mine and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    if scatter_list:
        _tensors(scatter_list, "scatter_list")
    inputs = [scatter_list] if mine else []
    return _go(group.scatter([tensor], inputs, ScatterOptions(root=root, async_op=async_op)), async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce the lists of all ranks and scatter: the output is the reduction of all ranks' ``input_list[rank]``."""
    _tensor(output, "output")
    _tensors(input_list, "input_list")
    if not is_member(group):
        return None
    options = ReduceScatterOptions(reduce_op(op, "reduce_scatter"), async_op=async_op)
    return _go(need_group(group).reduce_scatter([output], [input_list], options), async_op)


def reduce_scatter_tensor(
    output: Any, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`reduce_scatter` of the parts of one tensor."""
    _tensor(output, "output")
    _tensor(input, "input")
    if not is_member(group):
        return None
    group = need_group(group)
    _fits("reduce_scatter_tensor", input, output, group.size())
    options = ReduceScatterOptions(reduce_op(op, "reduce_scatter_tensor"), async_op=async_op)
    return _go(group._reduce_scatter_base(output, input, options), async_op)


_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Exchange tensors between all pairs of ranks: ``output_tensor_list[r]`` becomes ``input_tensor_list[rank]`` of rank r."""
    _tensors(output_tensor_list, "output_tensor_list")
    _tensors(input_tensor_list, "input_tensor_list")
    if not is_member(group):
        return None
    options = AllToAllOptions(async_op=async_op)
    return _go(
        need_group(group).alltoall(list(output_tensor_list), list(input_tensor_list), options), async_op
    )


def all_to_all_single(
    output: Any,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_to_all` of pieces of one tensor along its first dimension, of equal size unless sizes are given."""
    _tensor(output, "output")
    _tensor(input, "input")
    if not is_member(group):
        return None
    group = need_group(group)
    for tensor, sizes, name in ((output, output_split_sizes, "output"), (input, input_split_sizes, "input")):
        first = tensor.shape[0] if tensor.dim() else 1
        if sizes is None or not len(sizes):
            if first % group.size():
                raise RuntimeError(
                    f"Tensor's dim 0 does not divide equally across group size: {name} has {first} rows for {group.size()} ranks"
                )
        elif len(sizes) != group.size():
            raise RuntimeError(
                f"Number of tensor splits not equal to group size: {len(sizes)} {name} splits, {group.size()} ranks"
            )
        elif sum(sizes) != first or min(sizes) < 0:
            raise RuntimeError(
                f"Split sizes doesn't match total dim 0 size: {list(sizes)} for {first} rows of {name}"
            )
    work = group.alltoall_base(
        output, input, output_split_sizes or [], input_split_sizes or [], AllToAllOptions(async_op=async_op)
    )
    return _go(work, async_op)


@ignores("device_ids", why="ranks have the CPU")
def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Any:
    """Wait until all ranks have called it."""
    if not is_member(group):
        return None
    work = need_group(group).barrier(BarrierOptions(async_op=async_op or timeout is not None))
    if timeout is not None and not async_op:
        work.wait(timeout)
        return None
    return _go(work, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
    """A barrier whose error lists the ranks that did not reach it within `timeout`."""
    if is_member(group):
        need_group(group).monitored_barrier(timeout, wait_all_ranks)


# --- from rank to rank ---------------------------------------------------------------------------------------------------


def _peer(group, rank, group_rank, name, what):
    peer = _root(group, rank, group_rank, name)
    if peer == group.rank():
        raise ValueError(
            f"Invalid {'destination' if name == 'dst' else 'source'} rank: {'destination' if name == 'dst' else 'source'} rank should "
            "not be the same as the rank of the current process."
        )
    return peer


def isend(
    tensor: Tensor, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None
) -> Work | None:
    """Send a tensor asynchronously; it must not be modified until the work is done."""
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    return group.send([tensor], _peer(group, dst, group_dst, "dst", "send"), tag)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: Any = None
) -> Work | None:
    """Receive a tensor asynchronously, from a rank or from any."""
    _tensor(tensor, "tensor")
    if not is_member(group):
        return None
    group = need_group(group)
    if src is None and group_src is None:
        return group.recv_anysource([tensor], tag)
    return group.recv([tensor], _peer(group, src, group_src, "src", "recv"), tag)


def send(tensor: Tensor, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> None:
    """Send a tensor; it may be modified after the call."""
    _go(isend(tensor, dst, group, tag, group_dst), False)


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: Any = None
) -> int:
    """Receive a tensor; returns the rank that it came from."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    if src is None and group_src is None:
        return need_group(group).ranks[work.source_rank()]
    return src if src is not None else need_group(group).ranks[group_src]


class P2POp:
    """A point-to-point operation for `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: Any = None,
        group: Any = None,
        tag: int = 0,
        group_peer: Any = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                f"Invalid ``op``. Expected ``op`` to be of type ``{switches.package}.distributed.isend`` or ``{switches.package}.distributed.irecv``."
            )
        _tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        made = need_group(group)
        self.group_peer = _root(made, peer, group_peer, "peer")
        self.peer = made.ranks[self.group_peer]

    def __repr__(self):
        return f"P2POp({self.op.__name__} {tuple(self.tensor.shape)}, peer {self.peer}, tag {self.tag})"


def batch_isend_irecv(p2p_op_list: Any) -> list:
    """Start several sends and receives at once."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            f"Invalid ``p2p_op_list``. Each op is expected to to be of type ``{switches.package}.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv(): the list is empty")
    return [
        op.op(
            op.tensor,
            group=op.group,
            tag=op.tag,
            **{"group_dst" if op.op is isend else "group_src": op.group_peer},
        )
        for op in p2p_op_list
    ]


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """A scope whose collectives may be coalesced; here each runs when it is called."""
    yield


publish(globals(), None, None)
