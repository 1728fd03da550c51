"""Collectives as operators: linear maps of what all ranks put in, each with its transpose.

A row takes and gives one tensor; where there is a part for each rank, these are stacked along the first dimension. `group` is the
number of a group in this process, and `label` says which call of the program it is, and which derivative of that: it travels with the
message, so that ranks which meet in different derivatives notice. Convention: Note: what goes between processes. Start reading at
`_linear`.
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
    """The number that stands for a group in calls of operators."""
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
    """The sequence number of the next differentiable collective of a group, the same on all ranks."""
    group._labels = getattr(group, "_labels", 0) + 1
    return group._labels % (1 << 16) << 8


def tangent(label):
    """The label of the same collective, of tangents."""
    return label + 1


def transposed(label):
    """The label of its transpose, of gradients."""
    return label + 16


def _do(label, root=0):
    return BroadcastOptions(root=max(root, 0), async_op=False, label=label % (1 << 32))


def _row(signature, transpose, jvp, batch):
    """Declare an operator that talks to other ranks: all of them run its rules in one order."""
    return primitive(f"distributed::{signature} -> Tensor", vjp=transpose, jvp=jvp, batch=batch, ordered=True)


def _linear(transpose, from_stack=False, to_stack=False):
    """Declare ``f(x, group, options)``, a linear map, whose transpose is the row of that name.

    `from_stack` and `to_stack` say whether the first dimension of what goes in and comes out counts ranks: that of samples
    under `vmap`, for all of which one message goes, comes after it.
    """

    def decorate(function):
        name = function.__name__

        def samples(info, in_dims, x, *rest):
            return rows[name](x.movedim(in_dims[0], int(from_stack)), *rest), int(to_stack)

        def forward(x, root, group, label):
            # On meta, what comes is known but for its elements.
            return function(x, group_of(group), None if x.is_meta else _do(label, root))

        forward.__name__ = forward.__qualname__ = name
        forward.__doc__ = function.__doc__
        rows[name] = _row(
            f"{name}(x: Tensor, root: int, group: int, label: int)",
            lambda g, root, group, label: rows[transpose](g, root, group, transposed(label)),
            lambda t, root, group, label: rows[name](t, root, group, tangent(label)),
            samples,
        )(forward)
        return rows[name]

    return decorate


#: By name. The root of those that have none is -1.
rows: dict = {}


def _own(x):
    """Whether the argument may be written to."""
    return x.detach().clone(memory_format=ad.contiguous_format)


@_linear("all_reduce")
def all_reduce(x, group, options):
    """The sum over ranks, on all of them."""
    y = _own(x)
    options and group.allreduce([y], options)
    return y


@_linear("reduce")
def broadcast(x, group, options):
    """The root's tensor, on all ranks."""
    y = _own(x)
    options and group.broadcast([y], options)
    return y


@_linear("broadcast")
def reduce(x, group, options):
    """The sum over ranks at the root; 0 elsewhere."""
    y = _own(x)
    options and group.reduce([y], options)
    return y if options and group.rank() == options.rootRank else y.zero_()


@_linear("reduce_scatter", to_stack=True)
def all_gather(x, group, options):
    """The tensors of all ranks, stacked."""
    y = x.new_empty((group.size(), *x.shape))
    options and group.allgather([list(y.unbind())], [x], options)
    return y


@_linear("all_gather", from_stack=True)
def reduce_scatter(x, group, options):
    """Of a stack with a part for each rank: the sum over ranks of the part that is for this one."""
    y = x.new_empty(x.shape[1:])
    options and group.reduce_scatter([y], [list(x.unbind())], options)
    return y


@_linear("scatter", to_stack=True)
def gather(x, group, options):
    """The tensors of all ranks, stacked, at the root; 0 elsewhere."""
    y = x.new_zeros((group.size(), *x.shape))
    options and group.gather([list(y.unbind())] if group.rank() == options.rootRank else [], [x], options)
    return y


@_linear("gather", from_stack=True)
def scatter(x, group, options):
    """Of the root's stack: the part that is for this rank."""
    y = x.new_empty(x.shape[1:])
    options and group.scatter([y], [list(x.unbind())] if group.rank() == options.rootRank else [], options)
    return y


def _leading(name):
    """The batching of a row that treats elements alike: one message for all samples."""
    return lambda info, in_dims, x, *rest: (globals()[name](x.movedim(in_dims[0], 0), *rest), 0)


@_row(
    "all_to_all(x: Tensor, out_sizes: list[int], in_sizes: list[int], group: int, label: int)",
    lambda g, out_sizes, in_sizes, group, label: all_to_all(g, in_sizes, out_sizes, group, transposed(label)),
    lambda t, out_sizes, in_sizes, group, label: all_to_all(t, out_sizes, in_sizes, group, tangent(label)),
    lambda info, in_dims, x, *rest: (all_to_all(x.movedim(in_dims[0], 1), *rest), 1),
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


@_row(
    "sendrecv(x: Tensor, dst: int, src: int, group: int, label: int)",
    lambda g, dst, src, group, label: sendrecv(g, src, dst, group, transposed(label)),
    lambda t, dst, src, group, label: sendrecv(t, dst, src, group, tangent(label)),
    _leading("sendrecv"),
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


@_row(
    "send(x: Tensor, dst: int, tag: int, group: int)",
    lambda g, x_shape, dst, tag, group: recv(g.expand(x_shape), dst, tag - (1 << 20), group),
    lambda t, dst, tag, group: send(t, dst, tag - (1 << 24), group),
    lambda info, in_dims, x, *rest: (
        send(x.movedim(in_dims[0], 0), *rest).expand(info.batch_size),
        0,
    ),
)
def send(x, dst, tag, group):
    """Goes to a rank; the result is 0, and by it the gradient comes back."""
    if not x.is_meta:
        group_of(group).send([x], dst, tag).wait()
    return x.new_zeros(())


@_row(
    "recv(like: Tensor, src: int, tag: int, group: int)",
    lambda g, src, tag, group: send(g, src, tag - (1 << 20), group).expand(g.shape),
    lambda t, src, tag, group: recv(t, src, tag - (1 << 24), group),
    _leading("recv"),
)
def recv(like, src, tag, group):
    """Comes from a rank; the gradient goes back there, and that of `like` is 0."""
    y = like.new_empty(like.shape)
    if not like.is_meta:
        group_of(group).recv([y], src, tag).wait()
    return y
