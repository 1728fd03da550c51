"""``torch.distributed`` of one process: it is not available, as programs ask before they use it.

What programs name before they ask, in annotations, defaults and ``isinstance``, is there by name: types that nothing is an
instance of, and functions; calling one is refused. Start reading at `is_available`; the submodules are in `SUBMODULES`.
"""

from __future__ import annotations

import enum
import sys
from types import ModuleType

from adjoint.as_torch.standins._refused import refused, refusing

__all__ = ["Backend", "ReduceOp", "group", "is_available", "is_initialized"]


def is_available() -> bool:
    """Whether processes can be joined: no."""
    return False


def is_initialized() -> bool:
    """Whether they are: never."""
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_xccl_available = is_ucc_available = is_backend_available = is_available

_ALONE = "there is one process; torch.distributed.is_available() is False, and says so beforehand"


def get_rank(group=None) -> int:
    """The number of this process among several: refused with torch's words, which programs catch."""
    raise ValueError(
        "Default process group has not been initialized, please make sure to call init_process_group. "
        "Adjoint has none: there is one process"
    )


get_world_size = get_backend = get_rank


class ReduceOp(enum.Enum):
    """How values of several processes become one; a name only."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class Backend(str):
    """The name of a library that joins processes."""

    __slots__ = ()
    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class group:
    """The processes together: there are none."""

    WORLD = None


class GroupMember(group):
    """What programs compare a group with."""

    NON_GROUP_MEMBER = -100


globals().update(
    refused("torch.distributed", "ProcessGroup ProcessGroupGloo ProcessGroupNCCL Work Store TCPStore", _ALONE)
)
# What libraries import by name before they ask whether there are several processes.
globals().update(
    refusing(
        "torch.distributed",
        "init_process_group destroy_process_group new_group barrier monitored_barrier broadcast all_reduce reduce "
        "all_gather all_gather_into_tensor all_gather_object gather gather_object scatter scatter_object_list "
        "reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single broadcast_object_list send recv isend irecv",
        _ALONE,
    )
)

#: By module: the types, then the functions, that libraries import from it whether processes can be joined or not.
SUBMODULES = {
    "_composable": ("", ""),
    "_composable.fsdp": ("FSDPModule MixedPrecisionPolicy CPUOffloadPolicy", "fully_shard"),
    "_tensor": ("DTensor", ""),
    "_tensor.experimental": ("", "implicit_replication"),
    "algorithms": ("", ""),
    "algorithms._checkpoint": ("", ""),
    "algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl CheckpointWrapper",
        "apply_activation_checkpointing checkpoint_wrapper offload_wrapper",
    ),
    "algorithms.join": ("Join Joinable JoinHook", ""),
    "checkpoint": ("FileSystemReader FileSystemWriter", "load save load_state_dict save_state_dict"),
    "checkpoint.state_dict": ("StateDictOptions", "get_model_state_dict set_model_state_dict"),
    "device_mesh": ("DeviceMesh", "init_device_mesh"),
    "distributed_c10d": ("ProcessGroup", "_get_default_group"),
    "elastic": ("", ""),
    "elastic.multiprocessing": ("", ""),
    "elastic.multiprocessing.errors": ("ChildFailedError", ""),
    "fsdp": (
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullStateDictConfig FullyShardedDataParallel "
        "MixedPrecision MixedPrecisionPolicy OffloadPolicy ShardedStateDictConfig ShardingStrategy StateDictType",
        "fully_shard register_fsdp_forward_method",
    ),
    "fsdp.wrap": (
        "ModuleWrapPolicy",
        "size_based_auto_wrap_policy transformer_auto_wrap_policy wrap enable_wrap",
    ),
    "nn": ("", "all_gather all_reduce"),
    "nn.functional": ("", "all_gather all_reduce"),
    "optim": ("DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer", ""),
    "tensor": ("DTensor DeviceMesh Partial Placement Replicate Shard", "distribute_module distribute_tensor"),
    "tensor.parallel": (
        "ColwiseParallel ParallelStyle PrepareModuleInput RowwiseParallel SequenceParallel",
        "loss_parallel parallelize_module",
    ),
    "utils": ("", "_sync_module_states"),
}


def _submodules(own):
    made = {"": own}
    for path, (types, functions) in SUBMODULES.items():
        module = made[path] = ModuleType(f"{__name__}.{path}", "Names only: there is one process.")
        full = f"torch.distributed.{path}"
        vars(module).update(refused(full, types, _ALONE), **refusing(full, functions, _ALONE))
        holder, _, last = path.rpartition(".")
        setattr(made[holder], last, module)
    # The decorator of programs that others start: the function itself.
    made["elastic.multiprocessing.errors"].record = lambda fn=None, error_handler=None: fn or (lambda f: f)


_submodules(sys.modules[__name__])
