"""`DistributedDataParallel`: a module on every rank, whose gradients are averaged while they are computed.

Start reading at `DistributedDataParallel.forward`, then `adjoint.distributed._buckets`.
"""

from __future__ import annotations

import contextlib
import warnings

import adjoint as ad
from adjoint import _C
from adjoint import distributed as dist
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Callable, Mapping
from adjoint.distributed._buckets import Reducer
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook

from ..module import Module

__all__ = ["DistributedDataParallel"]


class _Hook(JoinHook):
    """What a rank without inputs does while others have some."""

    def __init__(self, ddp: Any, divide_by_initial_world_size: Any) -> None:
        self.ddp = ddp
        ddp._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self):
        ddp = self.ddp
        averaged = ddp._all_average(joined=True)
        ddp.reducer.divide_by = ddp._active()
        if ddp.will_sync_module_buffers():
            ddp._sync_buffers()
        if averaged:
            ddp.reducer.shadow()
        ddp.require_forward_param_sync = averaged

    def post_hook(self, is_last_joiner: Any):
        root = self.ddp._find_common_rank(self.ddp._distributed_rank, is_last_joiner)
        self.ddp._broadcast_state(root)


class DistributedDataParallel(Module, Joinable):
    """A module on every rank of a group, each with its part of the data; gradients are averaged over the ranks.

    Parameters and buffers start as those of rank 0. After `backward`, each parameter's gradient is the mean over ranks, with the
    same bits on all of them, so that optimisers of the ranks stay alike.

    Parameters
    ----------
    module : Module
    device_ids, output_device, dim
        Taken without effect: there is the CPU.
    broadcast_buffers : bool
        Whether buffers become those of rank 0 before each forward.
    init_sync : bool
        Whether parameters and buffers become those of rank 0 at the start.
    process_group : ProcessGroup
    bucket_cap_mb : float
        How much is sent in one message; the first has 1 MB, so that sending begins early.
    find_unused_parameters : bool
        Whether some parameters may have no gradient on some ranks, which then count as 0; those without one on all ranks keep theirs.
    gradient_as_bucket_view : bool
        Whether gradients lie in the memory that is sent, which spares a copy.
    static_graph : bool
        Whether every pass is as the first. Parameters may then get their gradients in several parts, as by reentrant checkpoints.
    check_reduction, delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh, skip_all_reduce_unused_params
        Options of torch's that have no effect here, or are refused.

    Raises
    ------
    RuntimeError
        Ranks have parameters of other names, shapes or dtypes; or, in `backward`, a parameter has a gradient on some ranks only.

    Notes
    -----
    Only `backward` averages: what `autograd.grad` returns is this rank's. A state begins its names with ``module.``.

    Examples
    --------
    >>> import adjoint as ad, adjoint.distributed as dist
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(3, 2))
    >>> model(ad.ones(4, 3)).sum().backward()
    >>> model.module.bias.grad
    tensor([4., 4.])
    >>> dist.destroy_process_group()
    """

    @ignores(
        "check_reduction",
        "output_device",
        "param_to_hook_all_reduce",
        "skip_all_reduce_unused_params",
        why="ranks have the CPU, and every gradient is reduced",
    )
    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: Any = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        if (
            mixed_precision is not None
            or device_mesh is not None
            or delay_all_reduce_named_params is not None
        ):
            raise NotImplementedError(
                "DistributedDataParallel: mixed_precision, device_mesh and delay_all_reduce_named_params are not provided; use autocast, "
                "and process_group"
            )
        if device_ids and len(device_ids) > 1:
            raise ValueError(f"device_ids can only be None or contain a single element: found {device_ids}")
        object.__setattr__(self, "process_group", dist._world.need_group(process_group))
        self.module = module
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.device, self.device_type = ad.device("cpu"), "cpu"
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.gradient_as_bucket_view = (
            find_unused_parameters,
            gradient_as_bucket_view,
        )
        self.static_graph = static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 2**20)
        first = min(1 << 20, self.bucket_bytes_cap) if bucket_cap_mb is None else self.bucket_bytes_cap
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [
            (n, p)
            for n, p in module.named_parameters()
            if p.requires_grad and n not in self.parameters_to_ignore
        ]
        for name, p in named:
            if isinstance(p, ad.nn.UninitializedParameter):
                raise RuntimeError(
                    f"Modules with uninitialized parameters can't be used with `DistributedDataParallel`: {name}. Run a dummy forward "
                    "pass to correctly initialize the modules"
                )
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        self._compare(named)
        if init_sync:
            self._broadcast_state(0)
        self._divide_by_initial_world_size = True
        object.__setattr__(self, "_warned", False)
        reducer = Reducer(
            named,
            self.process_group,
            first,
            self.bucket_bytes_cap,
            gradient_as_bucket_view,
            find_unused_parameters,
            static_graph,
        )
        object.__setattr__(self, "reducer", reducer)

    # --- what ranks start with ---------------------------------------------------------------------------------------

    def _compare(self, named):
        """All ranks must have the same parameters."""
        mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in named]
        size = self.process_group.size()
        theirs: list = [None] * size
        dist.all_gather_object(theirs, mine, group=self.process_group)
        for rank, other in enumerate(theirs):
            if other != theirs[0]:
                at = next(
                    (i for i, (a, b) in enumerate(zip(theirs[0], other)) if a != b),
                    min(len(other), len(theirs[0])),
                )
                said = [
                    f"rank {r} has {t[at] if at < len(t) else 'no more'}"
                    for r, t in ((0, theirs[0]), (rank, other))
                ]
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but parameter {at} differs: {', '.join(said)} ({len(theirs[0])} and "
                    f"{len(other)} parameters)"
                )

    def _state(self):
        module, ignored = self.module, self.parameters_to_ignore
        return [
            t.detach() for n, t in (*module.named_parameters(), *module.named_buffers()) if n not in ignored
        ]

    def _broadcast_state(self, root):
        self._broadcast(self._state(), root)

    def _broadcast(self, tensors, root):
        """Tensors of one rank go to all, many in a message."""
        group = self.process_group
        if group.size() == 1:
            return
        with ad.no_grad():
            by_dtype: dict = {}
            for t in tensors:
                by_dtype.setdefault(t.dtype, []).append(t)
            for some in by_dtype.values():
                together = ad.cat([t.reshape(-1) for t in some])
                dist.broadcast(together, group=group, group_src=root)
                if group.rank() != root:
                    for t, part in zip(some, together.split([t.numel() for t in some])):
                        t.copy_(part.view(t.shape))

    def _buffers_to_sync(self):
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def will_sync_module_buffers(self) -> bool:
        """Whether buffers become those of one rank before the next forward."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_sync())

    def _sync_buffers(self):
        root = 0
        if self._join_config.enable:
            root = self._find_common_rank(self._distributed_rank, not self._joined)
        self._broadcast(self._buffers_to_sync(), root)

    # --- a step ------------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's forward; gradients of what it returns are averaged."""
        averages = _C.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config.enable:
            Join.notify_join_context(self)
            self._all_average(joined=False)
            self.reducer.divide_by = self._active()
        if self.will_sync_module_buffers():
            self._sync_buffers()
        if averages:
            self.reducer.prepare()
        elif _C.is_grad_enabled():
            self.reducer.expecting = False
        output = self.module(*inputs, **kwargs)
        if averages:
            self._listen(output)
        self.require_forward_param_sync = averages
        return output

    def _listen(self, output):
        """Learn when a pass goes through what the module returned: it may reach no parameter, and inner passes end before it."""
        if isinstance(output, ad.Tensor):
            if output.requires_grad:
                output.register_hook(self._reached)
            return
        from adjoint.tree import leaves as tree_leaves

        for leaf in tree_leaves(output):
            if isinstance(leaf, ad.Tensor) and leaf.requires_grad:
                leaf.register_hook(self._reached)

    def _reached(self, gradient):
        if not _C._current_pass_accumulates():
            if not self._warned:
                object.__setattr__(self, "_warned", True)
                warnings.warn(
                    "autograd.grad() through DistributedDataParallel returns this rank's gradients: only backward() averages over ranks",
                    stacklevel=2,
                )
        elif self.reducer.expecting:
            self.reducer.begin()

    @contextlib.contextmanager
    def no_sync(self) -> Any:
        """For its scope, forward and backward add to this rank's gradients; the first pass after it averages all.

        Returns
        -------
        context manager
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # --- ranks with fewer inputs -------------------------------------------------------------------------------------

    _joined = False

    def _all_average(self, joined):
        """Whether the ranks that still have inputs average this step."""
        object.__setattr__(self, "_joined", joined)
        told = ad.tensor([int(not joined and self.require_backward_grad_sync and _C.is_grad_enabled())])
        dist.all_reduce(told, group=self.process_group)
        return bool(told)

    def _active(self):
        size = self.process_group.size()
        if self._divide_by_initial_world_size:
            return size
        told = ad.tensor([int(not self._joined)])
        dist.all_reduce(told, group=self.process_group)
        return int(told)

    def _find_common_rank(self, rank, condition):
        """The highest rank for which a condition holds."""
        told = ad.tensor([rank if condition else -1])
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=self.process_group)
        if int(told) < 0:
            raise ValueError("BUG! Expected rank_cond to be true for at least one process.")
        return int(told)

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """A context in which ranks may have different numbers of inputs.

        Returns
        -------
        Join
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> Any:
        """What `Join` calls on a rank without inputs."""
        return _Hook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of what `Join` sends."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group that `Join` asks."""
        return self.process_group

    @property
    def _distributed_rank(self):
        return self.process_group.rank()

    # --- hooks, logs, states -----------------------------------------------------------------------------------------

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let ``hook(state, bucket)`` average buckets; it returns a Future of a tensor. Ranks must register the same.

        Parameters
        ----------
        state : object
            The hook's first argument.
        hook : callable
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type):
        from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks

        name = {"ALLREDUCE": "allreduce_hook", "FP16_COMPRESS": "fp16_compress_hook"}[comm_hook_type.name]
        self.register_comm_hook(None, getattr(default_hooks, name))

    def _set_static_graph(self):
        self.static_graph = self.reducer.static = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def _get_ddp_logging_data(self) -> dict:
        """What describes this module and its buckets."""
        reducer = self.reducer
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "backend_name": self.process_group.name(),
            "device_ids": "",
            "output_device": -1,
            "broadcast_buffers": int(self.broadcast_buffers),
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "bucket_sizes": ", ".join(
                str(b.count * b.dtype.itemsize) for b in reducer.buckets if b.parameters
            ),
            "dtypes": ", ".join(sorted({b.dtype.name for b in reducer.buckets})),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
            "num_parameter_tensors": len(reducer.parameters),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in reducer.parameters),
            "iteration": reducer.iterations,
            "comm_hook": getattr(reducer.hook and reducer.hook[1], "__qualname__", ""),
        }

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state whose names begin with ``module.``."""
        if strict and state_dict and not any(name.startswith("module.") for name in state_dict):
            raise RuntimeError(
                "Error(s) in loading state_dict for DistributedDataParallel: no name begins with 'module.': this is the state of the "
                "module itself; load it by model.module.load_state_dict(…)"
            )
        return super().load_state_dict(state_dict, strict, assign)

    def __getstate__(self) -> Any:
        raise TypeError(
            "a DistributedDataParallel belongs to the group of its process: pickle or copy its .module, or save its state_dict()"
        )
