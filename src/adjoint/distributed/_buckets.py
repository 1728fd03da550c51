"""`Reducer`: gradients of a module's parameters, averaged over ranks in buckets while the backward pass runs.

Each bucket is one piece of memory, in which each of its parameters' gradients has a place (where gradients stay there, their
home, to which the engine writes them). A large parameter is a bucket of its own, whose memory is that of its gradient: it is never
copied. A bucket whose gradients have all arrived is sent, in the same order on all ranks. The last one carries one number more, how many gradients are missing on its rank: so every rank
learns in the same message whether something is to be talked about, and which parameters those are is asked only then. Start reading at
`Reducer._arrived`.
"""

from __future__ import annotations

import enum
import threading
import warnings

import adjoint as ad
from adjoint import _C
from adjoint._switches import switches
from adjoint._types import Any
from adjoint.distributed import _functions as collectives
from adjoint.distributed._errors import DistBackendError

__all__ = ["BuiltinCommHookType", "GradBucket", "Reducer"]


class BuiltinCommHookType(enum.Enum):
    """Communication hooks that have a name.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributed.BuiltinCommHookType.FP16_COMPRESS.value
    1
    """

    ALLREDUCE, FP16_COMPRESS = range(2)


class GradBucket:
    """A bucket as a communication hook sees it.

    Parameters
    ----------
    index : int
        Which of a pass it is.
    bucket : Bucket
    last : bool
        Whether it is the last of a pass.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributed.init_process_group(store=ad.distributed.HashStore(), rank=0, world_size=1)
    >>> model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
    >>> def doubled(state, bucket):
    ...     work = ad.distributed.all_reduce(bucket.buffer(), async_op=True)
    ...     return work.get_future().then(lambda future: 2 * future.value()[0])
    >>> model.register_comm_hook(None, doubled)
    >>> model(ad.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[2., 2.]])
    >>> ad.distributed.destroy_process_group()
    """

    def __init__(self, index: int, bucket: Bucket, last: bool) -> None:
        self._index, self._bucket, self._last = index, bucket, last

    def index(self) -> int:
        """The index of the bucket in this pass."""
        return self._index

    def buffer(self) -> ad.Tensor:
        """All gradients in it, in one dimension."""
        return self._bucket.gradients

    def gradients(self) -> list:
        """The gradient of each parameter, in the memory of `buffer`."""
        if self._bucket.alone:
            return [self._bucket.gradients.view(self._bucket.parameters[0].shape)]
        return list(self._bucket.views)

    def parameters(self) -> list:
        """The parameters."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last of this pass."""
        return self._last

    def set_buffer(self, tensor: ad.Tensor) -> None:
        """Replace all gradients."""
        self._bucket.gradients.copy_(tensor.view(-1))


def bytes_of(p):
    """The bytes of a parameter's gradient."""
    return p.numel() * p.element_size()


class Bucket:
    """Parameters of one dtype, and memory for their gradients."""

    def __init__(self, parameters, last):
        self.parameters = parameters
        self.count = sum(p.numel() for p in parameters)
        self.dtype = parameters[0].dtype if parameters else ad.float32
        self.left = len(parameters)
        self.work = None
        self.alone = not last and is_alone(parameters)
        self.flat: Any = None
        self.gradients: Any = None
        self.views: list[Any] = [None]
        if self.alone:
            return
        self.flat = ad.zeros(self.count + last, dtype=self.dtype)
        self.gradients = self.flat[: self.count]
        self.views, at = [], 0
        for p in parameters:
            self.views.append(self.gradients[at : at + p.numel()].view(p.shape))
            at += p.numel()

    def borrow(self, gradient, whole):
        """Of a parameter alone: its gradient is the memory; or, if it is not of this pass, a copy."""
        if gradient is None:
            self.flat = ad.zeros(self.count, dtype=self.dtype)
        else:  # in the order of rows, which is the same on all ranks
            rows = gradient.detach().contiguous()
            self.flat = (rows if whole else rows.clone()).view(-1)
        self.gradients = self.flat


def is_alone(parameters):
    """Whether these are one parameter, too large to be put together with others."""
    return len(parameters) == 1 and bytes_of(parameters[0]) >= LARGE


#: From so many bytes on a message of its own costs little beside what it carries.
LARGE = 1 << 20


def assign(parameters, first, cap) -> list:
    """Buckets of parameters of one dtype, last parameters first (their gradients are ready first), up to a number of bytes each.

    The last has none that is alone: its message carries a number more.
    """
    buckets: list = []
    open_ones: dict = {}
    limits: dict = {}
    for p in reversed(parameters):
        if is_alone([p]):
            buckets.append([p])
            continue
        now = open_ones.setdefault(p.dtype, [])
        now.append(p)
        limit = limits.setdefault(p.dtype, first)
        if sum(map(bytes_of, now)) >= limit:
            buckets.append(open_ones.pop(p.dtype))
            limits[p.dtype] = cap
    buckets += open_ones.values()
    return [*buckets, []] if is_alone(buckets[-1]) else buckets


class Reducer:
    """Averages the gradients of parameters.

    Parameters
    ----------
    named : list of (str, Parameter)
    group : ProcessGroup
    first, cap : int
        The bytes of the first bucket, and of the others.
    views : bool
        Whether gradients stay in the buckets' memory.
    unused : bool
        Whether parameters without a gradient are expected.
    static : bool
        Whether every pass is as the first; a parameter may then get its gradient in several parts.
    """

    def __init__(self, named, group, first, cap, views, unused, static):
        self.group, self.size = group, group.size()
        self.names = {p: name for name, p in named}
        self.parameters = [p for _, p in named]
        self.views, self.unused, self.static = views, unused, static
        lists = assign(self.parameters, first, cap)
        self.buckets = [Bucket(ps, i == len(lists) - 1) for i, ps in enumerate(lists)]
        self.place = {p: (b, view) for b in self.buckets for p, view in zip(b.parameters, b.views)}
        self.hook = None
        #: Whether a pass is to be averaged: `prepare` says so, since a forward under no_sync() is not.
        self.expecting = False
        self.divide_by = self.size
        self.iterations = 0
        self.running = False
        self.arrived: dict = {}
        self.parts: dict = {}  # of a static graph: how often each parameter's gradient comes in a pass
        self.next = 0
        self.lock = threading.RLock()
        self.handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in self.parameters]
        if views:
            for p, (bucket, view) in self.place.items():
                if not bucket.alone:
                    _C._set_gradient_home(p, view)

    def remove(self):
        """Remove the hooks from the parameters, and free the memory of the buckets."""
        for handle in self.handles:
            handle.remove()
        for p in self.parameters:
            _C._set_gradient_home(p, None)

    def prepare(self):
        """Prepare to average the gradients of a forward pass."""
        if self.running:
            # The pass before ended by an error, in which no rank may have sent all.
            self._reset()
        self.expecting = True

    # --- during the pass ---------------------------------------------------------------------------------------------

    def begin(self):
        """Note that a backward pass has begun, and ask to be called at its end."""
        with self.lock:
            if not self.running:
                self.running = True
                _C._at_end_of_pass(self._end)

    def _arrived(self, p):
        """Take the gradient of a parameter, which is ready."""
        if not self.expecting:
            return
        with self.lock:
            if not self.running:
                self.begin()
            g = p.grad
            if g is None:
                return  # what came was the absence of one
            count = self.arrived[p] = self.arrived.get(p, 0) + 1
            bucket, view = self.place[p]
            if self.static:
                if count < self.parts.get(p, 1 << 30):
                    return  # in the first pass, everything is sent at its end
            elif count > 1:
                if bucket.work is not None or bucket.left == 0:
                    raise RuntimeError(
                        f"Expected to mark a variable ready only once: the gradient of {self.names[p]} was computed {count} times in one "
                        "pass, the last time after it was sent. Reentrant checkpointing does this to parameters that several segments share: use "
                        "checkpoint(…, use_reentrant=False), or DistributedDataParallel(…, static_graph=True)"
                    )
                self._take(p, view)
                return
            if g is not view:  # else it was written there
                self._take(p, view)
            bucket.left -= 1
            if not bucket.left:
                self._send_ready()

    def _take(self, p, view):
        """Copy a gradient into its bucket, unless it is there already."""
        g = p.grad
        if g.layout is not ad.strided:
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[p]} is sparse; use sparse=False, dense gradients are averaged"
            )
        if g.requires_grad:
            warnings.warn(
                "Using backward() with create_graph=True through DistributedDataParallel: gradients are averaged, and that is not "
                f"recorded. Use {switches.package}.distributed.nn.functional for derivatives of higher order over ranks",
                stacklevel=2,
            )
            g = g.detach()
        if view is None:
            return  # it is the bucket
        before = _C._set_grad_enabled(False)
        try:
            if g.data_ptr() != view.data_ptr() or g.stride() != view.stride():
                view.copy_(g)
        finally:
            _C._set_grad_enabled(before)
        if self.views and p.grad is not view:
            p.grad = view

    def _send_ready(self):
        # Threads that share a pass may be in a collective of the graph, too: which comes first would be chance.
        if _C._current_pass_is_shared():
            return
        while self.next < len(self.buckets) and self.buckets[self.next].left == 0:
            self._send(self.buckets[self.next], 0)

    def _send(self, bucket, missing, shadow=False):
        """Begin to average a bucket; `missing` travels with the last. A `shadow` has no gradients."""
        index, last = self.next, self.next == len(self.buckets) - 1
        self.next += 1
        before = _C._set_grad_enabled(False)
        try:
            if bucket.alone:
                (p,) = bucket.parameters
                bucket.borrow(None if shadow else p.grad, p in self.arrived)
            if self.hook is not None:
                if not bucket.parameters:
                    return
                state, hook = self.hook
                bucket.work = hook(state, GradBucket(index, bucket, last))
                return
            if self.size > 1:
                bucket.gradients.mul_(1 / self.divide_by)
            if last:
                bucket.flat[-1:].fill_(missing)
            if self.size > 1:
                bucket.work = collectives.all_reduce(bucket.flat, group=self.group, async_op=True)
        finally:
            _C._set_grad_enabled(before)

    # --- at its end --------------------------------------------------------------------------------------------------

    def _end(self):
        before = _C._set_grad_enabled(False)
        try:
            with self.lock:
                self._finish()
        finally:
            self._reset()
            _C._set_grad_enabled(before)

    def _finish(self):
        absent = [p for p in self.parameters if p not in self.arrived]
        for p in absent:
            bucket, view = self.place[p]
            if bucket.alone:
                continue
            if p.grad is None:
                view.zero_()
            else:  # what is there of earlier passes is added to by other ranks
                self._take(p, view)
        if self.static:
            for p, count in self.arrived.items():
                if count != self.parts.get(p, 0):
                    self._take(p, self.place[p][1])
                if self.parts and count != self.parts.get(p, 0):
                    raise RuntimeError(
                        f"DistributedDataParallel(static_graph=True): the gradient of {self.names[p]} came {count} times in this pass and "
                        f"{self.parts.get(p, 0)} times in the first: the graph is not static"
                    )
        while self.next < len(self.buckets):
            self._send(self.buckets[self.next], len(absent))
        for bucket in self.buckets:
            self._receive(bucket)
        missing = bool(self.buckets[-1].flat[-1]) if self.hook is None else None
        if missing is None:  # a hook may do with the buckets what it likes
            told = ad.tensor([len(absent)])
            collectives.all_reduce(told, group=self.group)
            missing = bool(told)
        used_nowhere = self._talk(absent) if missing else set()
        for p in self.parameters:
            bucket, view = self.place[p]
            if p in used_nowhere:
                continue
            if bucket.alone:
                view = bucket.gradients.view(p.shape)
                if p.grad is None:
                    p.grad = view
                elif p.grad.data_ptr() != view.data_ptr() or not p.grad.is_contiguous():
                    p.grad.detach().copy_(view)
            elif p.grad is None or self.views:
                p.grad = view if self.views else view.clone()
            elif p.grad is not view:
                p.grad.detach().copy_(view)
        if self.static and not self.parts:
            self.parts = dict(self.arrived)
        self.iterations += 1

    def _receive(self, bucket):
        if self.hook is None:
            if bucket.work is not None:
                bucket.work.wait()
            return
        if not bucket.parameters:
            return
        value = bucket.work.wait()
        value = value[0] if isinstance(value, (list, tuple)) else value
        if not isinstance(value, ad.Tensor) or value.numel() != bucket.gradients.numel():
            raise RuntimeError(
                "the communication hook must return a Future of one tensor like the bucket's buffer, but its value is "
                f"{type(value).__name__}{tuple(value.shape) if isinstance(value, ad.Tensor) else ''}"
            )
        if value.data_ptr() != bucket.gradients.data_ptr():
            bucket.gradients.copy_(value.view(-1))

    def _talk(self, absent):
        """Which parameters have no gradient on any rank; an error where that was not expected."""
        used = ad.ones(self.size, len(self.parameters), dtype=ad.uint8)
        mine = ad.tensor([p in self.arrived for p in self.parameters], dtype=ad.uint8)
        collectives.all_gather_into_tensor(used, mine, group=self.group)
        nowhere = {p for p, any_rank in zip(self.parameters, used.amax(0).tolist()) if not any_rank}
        if self.unused:
            return nowhere
        lines = []
        for rank, row in enumerate(used.tolist()):
            names = [self.names[p] for p, there in zip(self.parameters, row) if not there]
            if names:
                more = f" and {len(names) - 5} more" if len(names) > 5 else ""
                lines.append(f"rank {rank}: {', '.join(names[:5])}{more}")
        raise RuntimeError(
            "Expected to have finished reduction: this error indicates that your module has parameters that were not used in producing "
            "loss. Parameters which did not receive grad for "
            + "; ".join(lines)
            + ". Enable unused parameter detection by passing find_unused_parameters=True to DistributedDataParallel, or use all of them "
            "on every rank"
        )

    def _reset(self):
        self.arrived, self.next, self.running, self.expecting = {}, 0, False, False
        for bucket in self.buckets:
            bucket.left, bucket.work = len(bucket.parameters), None
            if bucket.alone:
                bucket.flat = bucket.gradients = None

    # --- for a rank that has no more inputs --------------------------------------------------------------------------

    def shadow(self):
        """Take part in the averaging of a pass with gradients of 0."""
        with ad.no_grad():
            for bucket in self.buckets:
                if not bucket.alone:
                    bucket.gradients.zero_()
            while self.next < len(self.buckets):
                self._send(self.buckets[self.next], 0, shadow=True)
            for bucket in self.buckets:
                self._receive(bucket)
            if self.hook is not None:
                collectives.all_reduce(ad.tensor([0]), group=self.group)
            elif bool(self.buckets[-1].flat[-1]):
                if not self.unused:
                    raise DistBackendError("gradients are missing on another rank; see its error")
                self._talk([])
            self._reset()
