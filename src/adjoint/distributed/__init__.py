"""Several processes: groups, collectives, gradients over ranks, data-parallel training; torch.distributed's names.

    python -m adjoint.distributed.run --nproc-per-node=2 program.py

    import adjoint as ad, adjoint.distributed as dist
    dist.init_process_group()
    x = ad.full((3,), float(dist.get_rank()))
    dist.all_reduce(x)                       # the same bits on all ranks
    y = dist.group.WORLD.sum(x * x)          # and differentiated

Ranks of one machine are joined by sockets (backend "gloo"), those of several by MPI ("mpi"). What each rank calls must agree with
the others; where it does not, or a rank ends or does not come, all others get an error that says so. See docs/distributed.md and
Note: what goes between processes. Start reading at `_world.init_process_group`, then `_functions`, `_ordered`, `_mesh`.
"""

# ruff: noqa: F401 - what is imported here is published, names of torch that begin with an underscore too.
from __future__ import annotations

from adjoint._register import listing
from adjoint.distributed._backend import (
    Backend,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
)
from adjoint.distributed._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from adjoint.distributed._file_store import FileStore
from adjoint.distributed._functions import (
    P2POp,
    _all_gather_base,
    _coalescing_manager,
    _reduce_scatter_base,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    send,
)
from adjoint.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from adjoint.distributed._process_group import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ProcessGroup,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from adjoint.distributed._reduce_op import ReduceOp, _make_nccl_premul_sum, supports_complex
from adjoint.distributed._stores import HashStore, PrefixStore, Store
from adjoint.distributed._tcp_store import TCPStore
from adjoint.distributed._work import Work
from adjoint.distributed._world import (
    GroupMember,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    is_torchelastic_launched,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from adjoint.distributed.rendezvous import default_pg_timeout, register_rendezvous_handler, rendezvous

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
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
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "supports_complex",
]
__dir__ = listing(__name__)

_LAZY = ("algorithms", "constants", "distributed_c10d", "elastic", "launch", "nn", "optim", "run", "utils")


TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.distributed import (
        algorithms,
        constants,
        distributed_c10d,
        elastic,
        launch,
        nn,
        optim,
        run,
        utils,
    )
    from adjoint.distributed._buckets import BuiltinCommHookType, GradBucket

    reduce_op = ReduceOp
else:

    def __getattr__(name):
        from importlib import import_module

        if name in ("GradBucket", "BuiltinCommHookType"):
            return getattr(import_module("adjoint.distributed._buckets"), name)
        if name == "reduce_op":  # torch's name before ReduceOp
            return ReduceOp
        if name in _LAZY:
            return import_module(f"adjoint.distributed.{name}")
        raise AttributeError(f"module 'adjoint.distributed' has no attribute {name!r}")
