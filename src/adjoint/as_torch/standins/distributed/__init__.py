"""What of ``torch.distributed`` is not in `adjoint.distributed`: sharding of parameters, remote calls, devices of several kinds.

Programs and libraries name these in annotations, defaults and ``isinstance`` before any use; making one, or calling one, is refused.
Start reading at `SUBMODULES`.
"""

from __future__ import annotations

import enum
from types import ModuleType

from adjoint.as_torch.standins._refused import refused, refusing
from adjoint.as_torch.standins.distributed import _placements
from adjoint.distributed._socket_group import SocketGroup as ProcessGroupGloo

__all__ = ["DebugLevel", "ProcessGroupGloo", "get_debug_level", "modules", "set_debug_level"]

_WHOLE = "every rank has the whole model; there is DistributedDataParallel, and ZeroRedundancyOptimizer for what optimisers keep"


class DebugLevel(enum.Enum):
    """How much torch checks; here everything is checked always."""

    OFF, INFO, DETAIL = range(3)


def get_debug_level() -> DebugLevel:
    """What is checked beyond the usual: nothing is left."""
    return DebugLevel.OFF


def set_debug_level(level=None) -> None:
    """Taken, and of no effect."""


set_debug_level_from_env = set_debug_level
globals().update(
    refused(
        "torch.distributed",
        "DeviceMesh ProcessGroupMPI ProcessGroupNCCL ProcessGroupUCC ProcessGroupXCCL Reducer Logger",
        _WHOLE,
    )
)

_FSDP = (
    "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel LocalStateDictConfig "
    "MixedPrecision OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType"
)

#: By module: the types, then the functions, that libraries import from it whether they use them or not.
SUBMODULES = {
    "_composable": ("", ""),
    "_composable.fsdp": ("FSDPModule MixedPrecisionPolicy CPUOffloadPolicy", "fully_shard"),
    "_tensor": ("DTensor", ""),
    "_tensor.experimental": ("", "implicit_replication"),
    "tensor.experimental": ("", "context_parallel implicit_replication"),
    "tensor.experimental._attention": ("", "set_rotate_method"),
    "_shard": ("", ""),
    "_shard.sharded_tensor": ("ShardedTensor", ""),
    "algorithms._checkpoint": ("", ""),
    "algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl CheckpointWrapper",
        "apply_activation_checkpointing checkpoint_wrapper offload_wrapper",
    ),
    "algorithms._optimizer_overlap": ("", ""),
    "algorithms.ddp_comm_hooks.optimizer_overlap_hooks": ("", ""),
    "algorithms.ddp_comm_hooks.powerSGD_hook": ("PowerSGDState", "powerSGD_hook batched_powerSGD_hook"),
    "checkpoint": ("FileSystemReader FileSystemWriter", "load save load_state_dict save_state_dict"),
    "checkpoint._consolidate_hf_safetensors": ("", "consolidate_safetensors_files"),
    "checkpoint.default_planner": ("DefaultLoadPlanner DefaultSavePlanner", ""),
    "checkpoint.format_utils": ("_EmptyStateDictLoadPlanner", "dcp_to_torch_save torch_save_to_dcp"),
    "checkpoint.hf_storage": ("HuggingFaceStorageReader HuggingFaceStorageWriter", ""),
    "checkpoint.state_dict": (
        "StateDictOptions",
        "get_model_state_dict get_optimizer_state_dict set_model_state_dict set_optimizer_state_dict",
    ),
    "checkpoint.optimizer": ("", "load_sharded_optimizer_state_dict"),
    "checkpoint.state_dict_loader": ("", "load _load_state_dict"),
    "device_mesh": ("DeviceMesh", "init_device_mesh"),
    "fsdp": (
        _FSDP + " CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy",
        "fully_shard register_fsdp_forward_method",
    ),
    "fsdp.api": (_FSDP, ""),
    "fsdp.fully_sharded_data_parallel": (_FSDP, ""),
    "fsdp.wrap": (
        "ModuleWrapPolicy",
        "size_based_auto_wrap_policy transformer_auto_wrap_policy wrap enable_wrap",
    ),
    "fsdp.sharded_grad_scaler": ("ShardedGradScaler", ""),
    "pipelining": ("PipelineStage Schedule1F1B ScheduleGPipe SplitPoint", "pipeline"),
    "tensor": ("DTensor DeviceMesh", "distribute_module distribute_tensor"),
    "tensor._utils": ("", "compute_local_shape_and_global_offset"),
    "tensor.placement_types": ("_StridedShard", ""),
    "tensor.parallel": (
        "ColwiseParallel ParallelStyle PrepareModuleInput RowwiseParallel SequenceParallel",
        "loss_parallel parallelize_module",
    ),
}


def _made():
    made: dict = {}
    for path, (types, functions) in SUBMODULES.items():
        module = made[path] = ModuleType(f"{__name__}.{path}", "Names only.")
        full = f"torch.distributed.{path}"
        vars(module).update(refused(full, types, _WHOLE), **refusing(full, functions, _WHOLE))
        if path in ("tensor", "tensor.placement_types"):
            vars(module).update({name: getattr(_placements, name) for name in _placements.__all__})
        holder, _, last = path.rpartition(".")
        if holder in made:
            setattr(made[holder], last, module)
    return made


#: The modules, by the path below ``torch.distributed``.
modules = _made()
