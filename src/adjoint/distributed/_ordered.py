"""`OrderedGroup`: the base of backends that run collectives one after another.

Collectives are numbered as they are asked for, and done in that order: by the caller itself where it waits and nothing is under way
(handing it to a thread costs more than a small message), else by the group's thread. Tensors reach a backend as contiguous tensors of
one dimension. Start reading at `OrderedGroup._do`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import weakref

import adjoint as ad
from adjoint import _C
from adjoint._types import Any
from adjoint.distributed import _reduce_op
from adjoint.distributed._buffers import check, copy_back, for_reading, for_writing
from adjoint.distributed._call import Call
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._process_group import ProcessGroup
from adjoint.distributed._reduce_op import ReduceOp
from adjoint.distributed._stores import seconds
from adjoint.distributed._work import Done, Work

__all__ = ["OrderedGroup"]

_living: weakref.WeakSet = weakref.WeakSet()


class OrderedGroup(ProcessGroup):
    """A group that runs its collectives in the order of the calls.

    A backend has `_allreduce`, `_broadcast` and so on, over contiguous tensors of one dimension; the first argument of each
    is the `Call`.
    """

    _allgather: Any
    _allreduce: Any
    _alltoall: Any
    _barrier: Any
    _broadcast: Any
    _gather: Any
    _reduce: Any
    _reduce_scatter: Any
    _scatter: Any

    def __init__(self, rank, size, timeout, name):
        super().__init__(rank, size)
        self.group_name = name
        self._timeout = seconds(timeout)
        self._number = self._pending = 0
        self._order, self._running = threading.Lock(), threading.Lock()
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: Call | None = None
        self._last: Call | None = None
        self._failure: str | None = None
        self._closed = self._forked = False
        self._id = hash_of(name)
        _living.add(self)

    # --- order -------------------------------------------------------------------------------------------------------

    def _do(self, name, body, outputs, opts, dtype=None, count=0, reduce=None, root=None, gives=None) -> Work:
        """Run ``body(call)`` in its turn, to its end unless the options make it asynchronous."""
        self._check_usable(name)
        waits = opts is not None and not opts.asyncOp
        with self._order:
            self._number += 1
            label = opts.label if opts is not None else 0
            call = Call(self._id, self._number, name, dtype, count, reduce, root, label, gives)
            inline = waits and not self._pending and self._running.acquire(blocking=False)
            if not inline:
                work = Work(str(call), outputs)
                self._pending += 1
                self._queue.put((call, body, work))
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work_off, name="adjoint-collectives", daemon=True
                    )
                    self._thread.start()
        if not inline:
            waits and work.wait()
            return work
        before = _C._set_grad_enabled(False)
        try:
            self._run(call, body)
        finally:
            self._running.release()
            _C._set_grad_enabled(before)
        return Done(name, outputs)

    def _work_off(self):
        _C._set_grad_enabled(False)
        while (item := self._queue.get()) is not None:
            call, body, work = item
            error = None
            with self._running:
                try:
                    self._run(call, body)
                except BaseException as raised:  # noqa: BLE001 - re-raised in the waiting thread
                    error = raised
            with self._order:
                self._pending -= 1
            work._finish(error)
            del item, body, work

    def _run(self, call, body):
        if self._failure is not None:
            raise DistBackendError(f"{call}: the group has failed before: {self._failure}")
        self._current = call
        try:
            self._agree(call)
            body(call)
        except BaseException as error:
            self._failed(call, error)
            raise
        finally:
            self._current, self._last = None, call

    def _failed(self, call, error):
        """Make the group unusable on all ranks."""
        if not isinstance(error, DistBackendError):
            self._failure = self._abort_all(f"{call}: rank {self._rank} met {type(error).__name__}: {error}")
        elif self._failure is None:
            self._failure = str(error)

    def _agree(self, call):
        """Check that all ranks call the same collective, where the backend's messages do not show it."""

    def _check_usable(self, name):
        if self._forked:
            raise DistBackendError(
                f"{name}(): this process was forked from the one that made the group, whose connections it cannot use; call "
                "init_process_group in it, or start processes by 'spawn'"
            )
        if self._closed:
            raise DistBackendError(f"{name}(): the group was destroyed by destroy_process_group()")
        if (failure := self._failure or self._heard()) is not None:
            raise DistBackendError(f"{name}(): the group has failed before: {failure}")

    def _heard(self):
        """A failure that another rank has reported."""
        return None

    def _abort_all(self, text) -> str:
        """Fail on all ranks; returns the first reason."""
        return text

    def _doing(self) -> str:
        """Tell the ranks that wait for this one what it is doing."""
        if (call := self._current) is not None:
            return f"rank {self._rank} is in {call}"
        if (call := self._last) is not None:
            return f"rank {self._rank} has finished {call} and called nothing since"
        return f"rank {self._rank} has called nothing yet"

    # --- collectives -------------------------------------------------------------------------------------------------

    def allreduce(self, tensors, opts=None):
        op = opts.reduceOp if opts else ReduceOp.SUM
        if len(tensors) > 1:
            return self.allreduce_coalesced(tensors, opts)
        (tensor,) = tensors
        there, back = for_writing(tensor, "all_reduce")
        _reduce_op.check(op, there.dtype, "all_reduce")

        def body(call):
            _reduce_op.prepare(op, there)
            self._allreduce(call, there, op)
            _reduce_op.finish(op, there, self._size)
            copy_back(back)

        return self._do("all_reduce", body, [tensor], opts, there.dtype, there.numel(), op, gives=there)

    def allreduce_coalesced(self, tensors, opts=None):
        op = opts.reduceOp if opts else ReduceOp.SUM
        pairs = [for_writing(tensor, "all_reduce_coalesced") for tensor in tensors]
        dtypes = {there.dtype for there, _ in pairs}
        if len(dtypes) != 1:
            raise ValueError(
                f"all_reduce_coalesced: expected tensors of one dtype, found {sorted(map(str, dtypes))}"
            )
        _reduce_op.check(op, pairs[0][0].dtype, "all_reduce")
        together = ad.cat([there for there, _ in pairs])

        def body(call):
            _reduce_op.prepare(op, together)
            self._allreduce(call, together, op)
            _reduce_op.finish(op, together, self._size)
            for (there, back), part in zip(pairs, together.split([there.numel() for there, _ in pairs])):
                there.copy_(part)
                copy_back(back)

        return self._do("all_reduce", body, list(tensors), opts, together.dtype, together.numel(), op)

    def broadcast(self, tensors, opts=None):
        root = opts.rootRank if opts else 0
        (tensor,) = tensors
        if root == self._rank:
            there, back = for_reading(tensor, "broadcast"), None
        else:
            there, back = for_writing(tensor, "broadcast")

        def body(call):
            self._broadcast(call, there, root)
            copy_back(back)

        return self._do("broadcast", body, [tensor], opts, there.dtype, there.numel(), root=root, gives=there)

    def reduce(self, tensors, opts=None):
        op, root = (opts.reduceOp, opts.rootRank) if opts else (ReduceOp.SUM, 0)
        (tensor,) = tensors
        if root == self._rank:
            there, back = for_writing(tensor, "reduce")
        else:
            there, back = for_reading(tensor, "reduce").clone(), None
        _reduce_op.check(op, there.dtype, "reduce")

        def body(call):
            _reduce_op.prepare(op, there)
            self._reduce(call, there, op, root)
            if root == self._rank:
                _reduce_op.finish(op, there, self._size)
            copy_back(back)

        return self._do("reduce", body, [tensor], opts, there.dtype, there.numel(), op, root, there)

    def allgather(self, output_tensors, input_tensors, opts=None):
        (outputs,), (tensor,) = output_tensors, input_tensors
        mine, parts = for_reading(tensor, "all_gather"), self._parts(outputs, tensor, "all_gather", True)

        def body(call):
            self._allgather(call, [there for there, _ in parts], mine)
            for _, back in parts:
                copy_back(back)

        return self._do("all_gather", body, list(outputs), opts, mine.dtype, mine.numel(), gives=mine)

    def gather(self, output_tensors, input_tensors, opts=None):
        root = opts.rootRank if opts else 0
        (tensor,) = input_tensors
        outputs = output_tensors[0] if output_tensors else []
        if root == self._rank or outputs:
            parts = self._parts(outputs, tensor, "gather", True)
        else:
            parts = []
        mine = for_reading(tensor, "gather")

        def body(call):
            self._gather(call, [there for there, _ in parts], mine, root)
            for _, back in parts:
                copy_back(back)

        return self._do("gather", body, list(outputs), opts, mine.dtype, mine.numel(), root=root, gives=mine)

    def scatter(self, output_tensors, input_tensors, opts=None):
        root = opts.rootRank if opts else 0
        (tensor,) = output_tensors
        inputs = input_tensors[0] if input_tensors else []
        parts = self._parts(inputs, tensor, "scatter", False) if root == self._rank else []
        there, back = for_writing(tensor, "scatter")

        def body(call):
            self._scatter(call, there, [part for part, _ in parts], root)
            copy_back(back)

        return self._do("scatter", body, [tensor], opts, there.dtype, there.numel(), root=root)

    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        op = opts.reduceOp if opts else ReduceOp.SUM
        (tensor,), (inputs,) = output_tensors, input_tensors
        parts = self._parts(inputs, tensor, "reduce_scatter", False)
        there, back = for_writing(tensor, "reduce_scatter")
        _reduce_op.check(op, there.dtype, "reduce_scatter")
        pieces = [part.clone() if op.op is _reduce_op.PREMUL_SUM else part for part, _ in parts]

        def body(call):
            for piece in pieces:
                _reduce_op.prepare(op, piece)
            self._reduce_scatter(call, there, pieces, op)
            _reduce_op.finish(op, there, self._size)
            copy_back(back)

        return self._do("reduce_scatter", body, [tensor], opts, there.dtype, there.numel(), op)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        for tensors, what in ((output_tensors, "output"), (input_tensors, "input")):
            if len(tensors) != self._size:
                raise ValueError(f"all_to_all: {len(tensors)} {what} tensors for a group of {self._size}")
        dtypes = {t.dtype for t in (*output_tensors, *input_tensors)}
        if len(dtypes) > 1:
            raise ValueError(
                f"all_to_all: tensors of {', '.join(sorted(map(str, dtypes)))}, expected one dtype"
            )
        mine = [for_reading(t, "all_to_all") for t in input_tensors]
        parts = [for_writing(t, "all_to_all") for t in output_tensors]

        def body(call):
            self._alltoall(call, [there for there, _ in parts], mine)
            for _, back in parts:
                copy_back(back)

        return self._do("all_to_all", body, list(output_tensors), opts, mine[0].dtype)

    def barrier(self, opts=None):
        return self._do("barrier", self._barrier, [], opts)

    def _parts(self, tensors, like, name, writes):
        """The tensors of a list, one for each rank, each like the one that is its counterpart."""
        if len(tensors) != self._size:
            raise RuntimeError(
                f"{name}: invalid tensor list (expected length {self._size}, got length {len(tensors)}): a group of {self._size} ranks "
                "needs a tensor for each"
            )
        for i, tensor in enumerate(tensors):
            check(tensor, name)
            if tensor.dtype is not like.dtype:
                raise ValueError(
                    f"{name}: Invalid usage of tensors with different dtypes: tensor {i} of the list has {tensor.dtype}, its counterpart "
                    f"{like.dtype}"
                )
            if tensor.numel() != like.numel():
                raise ValueError(
                    f"{name}: tensor {i} of the list has shape {tuple(tensor.shape)}, its counterpart {tuple(like.shape)}"
                )
        return [for_writing(t, name) if writes else (for_reading(t, name), None) for t in tensors]

    # --- ends --------------------------------------------------------------------------------------------------------

    def set_timeout(self, timeout):
        self._timeout = seconds(timeout)

    def shutdown(self):
        if self._closed or self._forked:
            return
        # What was asked for is done first: it has a timeout of its own.
        if self._pending:
            done = threading.Event()
            self._queue.put((Call(self._id, 0, "barrier"), lambda call: done.set(), Work()))
            with self._order:
                self._pending += 1
            done.wait(self._timeout)
        self._closed = True
        self._queue.put(None)
        self._leave("has left the group by destroy_process_group()")

    def abort(self):
        if not self._closed:
            self._failure = self._abort_all(f"rank {self._rank} called abort()")
            self.shutdown()

    def _leave(self, how):
        """Close the connections, and say how."""

    def __reduce__(self):
        raise TypeError("a process group belongs to its process and cannot be pickled")


def hash_of(name) -> int:
    """A number of 32 bits for a group's name, the same in all processes."""
    import zlib

    return zlib.crc32(name.encode())


def _at_exit():
    error = getattr(sys, "last_value", None)
    how = (
        "has ended its program"
        if error is None
        else f"has ended by {type(error).__name__}: {str(error)[:300]}"
    )
    for group in list(_living):
        if not group._closed and not group._forked:
            with contextlib.suppress(Exception):
                group._closed = True
                group._leave(how)


# Threading's own exit handlers come first, so that no thread of a program is cut off in a collective.
atexit.register(_at_exit)


def _in_child():
    for group in list(_living):
        group._forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
