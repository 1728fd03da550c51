"""Differentiable collectives, with the names of torch.distributed.nn.functional.

They return new tensors and are recorded; forward mode, second derivatives and `vmap` go through them. A backward pass that runs on all
ranks gives each the gradient of **the sum of all ranks' losses**: the transpose of all_reduce is all_reduce, that of broadcast reduce,
of all_gather reduce_scatter, of send recv. All ranks must run the pass. Start reading at `all_reduce`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint.distributed import _functions as collectives
from adjoint.distributed._process_group import ProcessGroup
from adjoint.distributed._reduce_op import ReduceOp, reduce_op
from adjoint.distributed._world import group as group
from adjoint.distributed._world import need_group
from adjoint.distributed.nn import _rows

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "sendrecv",
]


def _of(group):
    """A group, the number by which rows know it, and the label of this call."""
    group = group if isinstance(group, ProcessGroup) else need_group(group)
    return group, _rows.number_of(group), _rows.next_label(group)


def _place(group, rank):
    """The rank within a group."""
    return collectives._root(group, rank, None, "rank")


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """Reduce the tensors of all ranks; each rank gets the result.

    Parameters
    ----------
    tensor : Tensor
    op : ReduceOp
        SUM and AVG are linear; PRODUCT, MIN and MAX gather, and share gradients as `prod`, `amin` and `amax` do.
    group : ProcessGroup

    Returns
    -------
    Tensor
    """
    group, number, label = _of(group)
    op = reduce_op(op, "all_reduce")
    if op.name in ("SUM", "AVG"):
        y = _rows.all_reduce(tensor, -1, number, label)
        return y / group.size() if op.name == "AVG" else y
    if op.name not in ("PRODUCT", "MIN", "MAX"):
        raise ValueError(f"all_reduce(): ReduceOp.{op.name} has no derivative")
    parts = _rows.all_gather(tensor, -1, number, label)
    return parts.prod(0) if op.name == "PRODUCT" else parts.amin(0) if op.name == "MIN" else parts.amax(0)


def broadcast(tensor, src, group=None):
    """Broadcast the tensor of rank `src`; those of the others give shape and dtype."""
    group, number, label = _of(group)
    return _rows.broadcast(tensor, _place(group, src), number, label)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """Sum the tensors of all ranks on rank `dst`; the others get zeros."""
    group, number, label = _of(group)
    if reduce_op(op, "reduce").name not in ("SUM", "AVG"):
        raise ValueError(f"reduce(): only SUM and AVG are supported, got {op}")
    y = _rows.reduce(tensor, _place(group, dst), number, label)
    return y / group.size() if op.name == "AVG" else y


def all_gather(tensor, group=None) -> tuple:
    """Gather the tensors of all ranks on every rank."""
    group, number, label = _of(group)
    return _rows.all_gather(tensor, -1, number, label).unbind(0)


def gather(tensor, dst=0, group=None) -> tuple:
    """Gather the tensors of all ranks on rank `dst`; the others get zeros."""
    group, number, label = _of(group)
    return _rows.gather(tensor, _place(group, dst), number, label).unbind(0)


def scatter(tensors, src=0, group=None):
    """Scatter ``tensors`` of rank `src`; those of the others give shapes and dtype."""
    group, number, label = _of(group)
    return _rows.scatter(_stack(tensors, group, "scatter"), _place(group, src), number, label)


@ignores("output", why="the result is a new tensor", warns=False)
def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """Sum the lists of all ranks and scatter: the result is the sum of all ranks' ``input_list[rank]``. `output` may be None."""
    group, number, label = _of(group)
    if reduce_op(op, "reduce_scatter").name not in ("SUM", "AVG"):
        raise ValueError(f"reduce_scatter(): only SUM and AVG are supported, got {op}")
    y = _rows.reduce_scatter(_stack(input_list, group, "reduce_scatter"), -1, number, label)
    return y / group.size() if op.name == "AVG" else y


def _stack(tensors, group, name):
    if len(tensors) != group.size():
        raise ValueError(f"{name}(): {len(tensors)} tensors for a group of {group.size()} ranks")
    return ad.stack(list(tensors))


def all_to_all(output_tensor_list, input_tensor_list, group=None) -> tuple:
    """Exchange tensors between all pairs of ranks: result r is ``input_tensor_list[rank]`` of rank r. The outputs give the shapes."""
    group, number, label = _of(group)
    sizes = [[t.numel() for t in tensors] for tensors in (output_tensor_list, input_tensor_list)]
    flat = ad.cat([t.reshape(-1) for t in input_tensor_list])
    y = _rows.all_to_all(flat, *sizes, number, label)
    return tuple(part.view(t.shape) for part, t in zip(y.split(sizes[0]), output_tensor_list))


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """`all_to_all` of pieces of one tensor along its first dimension, of equal size unless sizes are given; the received pieces are concatenated."""
    group, number, label = _of(group)
    size = group.size()
    even = [[t.shape[0] // size] * size for t in (output, input)]
    return _rows.all_to_all(input, output_split_sizes or even[0], input_split_sizes or even[1], number, label)


def sendrecv(tensor, dst, src, group=None):
    """Send a tensor to rank `dst` while receiving one of the same shape from rank `src`: a halo exchange.

    Parameters
    ----------
    tensor : Tensor
    dst, src : int or None
        None, at the edge of a domain: nothing goes there, or 0 comes from there.
    group : ProcessGroup

    Returns
    -------
    Tensor
    """
    group, number, label = _of(group)
    ranks = [-1 if rank is None else _place(group, rank) for rank in (dst, src)]
    return _rows.sendrecv(tensor, *ranks, number, label)


def send(tensor, dst, group=None, tag=0):
    """Send a tensor to rank `dst`, which calls `recv`.

    Returns
    -------
    Tensor
        A 0 to add to the loss: by it the backward pass comes here, and fetches the gradient.
    """
    group, number, _ = _of(group)
    return _rows.send(tensor, _place(group, dst), -1 - tag, number)


def recv(like, src, group=None, tag=0):
    """Receive a tensor of the shape and dtype of `like` from rank `src`; its gradient is sent back there."""
    group, number, _ = _of(group)
    anchor = like if like.requires_grad else like.detach().requires_grad_(ad.is_grad_enabled())
    return _rows.recv(anchor, _place(group, src), -1 - tag, number)
