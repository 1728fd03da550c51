"""Collectives as operators: linear maps of what all ranks put in, each with its transpose.

A row takes and gives one tensor; where there is a part for each rank, these are stacked along the first dimension. `group` is the
number of a group in this process, and `label` says which call of the program it is, and which derivative of that: it travels with the
message, so that ranks which meet in different derivatives notice. Convention: Note: what goes between processes. Start reading at
`all_reduce`.
"""

from __future__ import annotations

import weakref
from itertools import count

import adjoint as ad
from adjoint.distributed._process_group import BroadcastOptions
from adjoint.library import primitive

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "gather",
    "number_of",
    "reduce",
    "reduce_scatter",
    "scatter",
]

_groups: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_numbers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_next = count(1)


def number_of(group) -> int:
    """The number by which rows know a group."""
    if group not in _numbers:
        _numbers[group] = number = next(_next)
        _groups[number] = group
    return _numbers[group]


def group_of(number):
    """The group of a number."""
    if number not in _groups:
        raise RuntimeError("the process group of this graph was destroyed")
    return _groups[number]


def next_label(group) -> int:
    """Which differentiated collective of a group comes next: the same number on all ranks."""
    group._labels = getattr(group, "_labels", 0) + 1
    return group._labels % (1 << 16) << 8


def tangent(label):
    """The label of the same collective, of tangents."""
    return label + 1


def transposed(label):
    """The label of its transpose, of gradients."""
    return label + 16


def _do(label, root=0):
    return BroadcastOptions(root=root, async_op=False, label=label % (1 << 32))


def _own(x):
    """What may be written."""
    return x.detach().clone(memory_format=ad.contiguous_format)


def _leading(call):
    """The batching of a row that treats elements alike: one message for all samples."""

    def rule(info, in_dims, x, *rest):
        return call()(x.movedim(in_dims[0], 0), *rest), 0

    return rule


def _stacked(call, from_stack, to_stack):
    """The batching of a row whose first dimension counts ranks: that of the samples comes after it."""

    def rule(info, in_dims, x, *rest):
        return call()(x.movedim(in_dims[0], 1 if from_stack else 0), *rest), 1 if to_stack else 0

    return rule


@primitive(
    "distributed::all_reduce(x: Tensor, group: int, label: int) -> Tensor",
    vjp=lambda g, group, label: all_reduce(g, group, transposed(label)),
    jvp=lambda t, group, label: all_reduce(t, group, tangent(label)),
    batch=_leading(lambda: all_reduce),
)
def all_reduce(x, group, label):
    """The sum over ranks, on all of them."""
    y = _own(x)
    if not x.is_meta:
        group_of(group).allreduce([y], _do(label))
    return y


@primitive(
    "distributed::broadcast(x: Tensor, root: int, group: int, label: int) -> Tensor",
    vjp=lambda g, root, group, label: reduce(g, root, group, transposed(label)),
    jvp=lambda t, root, group, label: broadcast(t, root, group, tangent(label)),
    batch=_leading(lambda: broadcast),
)
def broadcast(x, root, group, label):
    """The root's tensor, on all ranks."""
    y = _own(x)
    if not x.is_meta:
        group_of(group).broadcast([y], _do(label, root))
    return y


@primitive(
    "distributed::reduce(x: Tensor, root: int, group: int, label: int) -> Tensor",
    vjp=lambda g, root, group, label: broadcast(g, root, group, transposed(label)),
    jvp=lambda t, root, group, label: reduce(t, root, group, tangent(label)),
    batch=_leading(lambda: reduce),
)
def reduce(x, root, group, label):
    """The sum over ranks at the root; 0 elsewhere."""
    y = _own(x)
    if not x.is_meta:
        made = group_of(group)
        made.reduce([y], _do(label, root))
        if made.rank() != root:
            y.zero_()
    return y


@primitive(
    "distributed::all_gather(x: Tensor, group: int, label: int) -> Tensor",
    vjp=lambda g, group, label: reduce_scatter(g, group, transposed(label)),
    jvp=lambda t, group, label: all_gather(t, group, tangent(label)),
    batch=_stacked(lambda: all_gather, False, True),
)
def all_gather(x, group, label):
    """The tensors of all ranks, stacked."""
    made = group_of(group)
    y = x.new_empty((made.size(), *x.shape))
    if not x.is_meta:
        made.allgather([list(y.unbind())], [x], _do(label))
    return y


@primitive(
    "distributed::reduce_scatter(x: Tensor, group: int, label: int) -> Tensor",
    vjp=lambda g, group, label: all_gather(g, group, transposed(label)),
    jvp=lambda t, group, label: reduce_scatter(t, group, tangent(label)),
    batch=_stacked(lambda: reduce_scatter, True, False),
)
def reduce_scatter(x, group, label):
    """Of a stack with a part for each rank: the sum over ranks of the part that is for this one."""
    y = x.new_empty(x.shape[1:])
    if not x.is_meta:
        group_of(group).reduce_scatter([y], [list(x.unbind())], _do(label))
    return y


@primitive(
    "distributed::gather(x: Tensor, root: int, group: int, label: int) -> Tensor",
    vjp=lambda g, root, group, label: scatter(g, root, group, transposed(label)),
    jvp=lambda t, root, group, label: gather(t, root, group, tangent(label)),
    batch=_stacked(lambda: gather, False, True),
)
def gather(x, root, group, label):
    """The tensors of all ranks, stacked, at the root; 0 elsewhere."""
    made = group_of(group)
    y = x.new_zeros((made.size(), *x.shape))
    if not x.is_meta:
        made.gather([list(y.unbind())] if made.rank() == root else [], [x], _do(label, root))
    return y


@primitive(
    "distributed::scatter(x: Tensor, root: int, group: int, label: int) -> Tensor",
    vjp=lambda g, root, group, label: gather(g, root, group, transposed(label)),
    jvp=lambda t, root, group, label: scatter(t, root, group, tangent(label)),
    batch=_stacked(lambda: scatter, True, False),
)
def scatter(x, root, group, label):
    """Of the root's stack: the part that is for this rank."""
    made = group_of(group)
    y = x.new_empty(x.shape[1:])
    if not x.is_meta:
        made.scatter([y], [list(x.unbind())] if made.rank() == root else [], _do(label, root))
    return y


@primitive(
    "distributed::all_to_all(x: Tensor, out_sizes: list[int], in_sizes: list[int], group: int, label: int) -> Tensor",
    vjp=lambda g, out_sizes, in_sizes, group, label: all_to_all(
        g, in_sizes, out_sizes, group, transposed(label)
    ),
    jvp=lambda t, out_sizes, in_sizes, group, label: all_to_all(
        t, out_sizes, in_sizes, group, tangent(label)
    ),
    batch=lambda info, in_dims, x, *rest: (all_to_all(x.movedim(in_dims[0], 1), *rest), 1),
)
def all_to_all(x, out_sizes, in_sizes, group, label):
    """Pieces along the first dimension, each for one rank; those that come are put together."""
    y = x.new_empty((sum(out_sizes), *x.shape[1:]))
    if not x.is_meta:
        group_of(group).alltoall(list(y.split(list(out_sizes))), list(x.split(list(in_sizes))), _do(label))
    return y


# --- from rank to rank. A rank of -1 is none: nothing goes there, and what comes from there is 0 --------------------------


def _tag(label):
    """Tags of derivatives are no program's own: they are negative."""
    return -(label % (1 << 30)) - 1


@primitive(
    "distributed::sendrecv(x: Tensor, dst: int, src: int, group: int, label: int) -> Tensor",
    vjp=lambda g, dst, src, group, label: sendrecv(g, src, dst, group, transposed(label)),
    jvp=lambda t, dst, src, group, label: sendrecv(t, dst, src, group, tangent(label)),
    batch=_leading(lambda: sendrecv),
)
def sendrecv(x, dst, src, group, label):
    """Goes to one rank, while another's comes."""
    y = x.new_zeros(x.shape)
    made = group_of(group)
    if not x.is_meta:
        works = [made.send([x], dst, _tag(label))] if dst >= 0 else []
        works += [made.recv([y], src, _tag(label))] if src >= 0 else []
        for work in works:
            work.wait()
    return y


@primitive(
    "distributed::send(x: Tensor, dst: int, tag: int, group: int) -> Tensor",
    vjp=lambda g, x_shape, dst, tag, group: recv(g.expand(x_shape), dst, tag - (1 << 20), group),
    jvp=lambda t, dst, tag, group: send(t, dst, tag - (1 << 24), group),
    batch=lambda info, in_dims, x, *rest: (
        send(x.movedim(in_dims[0], 0), *rest).expand(info.batch_size),
        0,
    ),
)
def send(x, dst, tag, group):
    """Goes to a rank; the result is 0, and by it the gradient comes back."""
    if not x.is_meta:
        group_of(group).send([x], dst, tag).wait()
    return x.new_zeros(())


@primitive(
    "distributed::recv(like: Tensor, src: int, tag: int, group: int) -> Tensor",
    vjp=lambda g, src, tag, group: send(g, src, tag - (1 << 20), group).expand(g.shape),
    jvp=lambda t, src, tag, group: recv(t, src, tag - (1 << 24), group),
    batch=_leading(lambda: recv),
)
def recv(like, src, tag, group):
    """Comes from a rank; the gradient goes back there, and that of `like` is 0."""
    y = like.new_empty(like.shape)
    if not like.is_meta:
        group_of(group).recv([y], src, tag).wait()
    return y
