"""``torch.distributed.rpc``: calls between processes are not available, as programs ask before they make one."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused, refusing

__all__ = ["is_available"]

_WHY = "there are no calls between processes; torch.distributed.rpc.is_available() is False, and says so beforehand"


def is_available() -> bool:
    """Whether functions can be called in other processes: no."""
    return False


globals().update(
    refused(
        "torch.distributed.rpc",
        "BackendType RRef RpcBackendOptions TensorPipeRpcBackendOptions WorkerInfo",
        _WHY,
    ),
    **refusing("torch.distributed.rpc", "get_worker_info init_rpc remote rpc_async rpc_sync shutdown", _WHY),
)
