"""What libraries import from ``torch.distributed.utils``. Start reading at `_sync_module_states`."""

from __future__ import annotations

import adjoint as ad
from adjoint import distributed as dist

__all__ = ["_sync_module_states", "_verify_param_shape_across_processes"]


def _sync_module_states(
    module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True
):
    """Broadcast the parameters and buffers of one rank."""
    with ad.no_grad():
        for named in (module.named_parameters(), module.named_buffers() if broadcast_buffers else ()):
            for name, tensor in named:
                if name not in params_and_buffers_to_ignore:
                    dist.broadcast(tensor.detach(), group=process_group, group_src=src)


def _verify_param_shape_across_processes(process_group, tensors, logger=None) -> bool:
    """Check that all ranks have tensors of the same shapes."""
    theirs: list = [None] * process_group.size()
    dist.all_gather_object(theirs, [tuple(t.shape) for t in tensors], group=process_group)
    if any(other != theirs[0] for other in theirs):
        raise RuntimeError(f"the shapes of tensors differ between ranks: {theirs}")
    return True
