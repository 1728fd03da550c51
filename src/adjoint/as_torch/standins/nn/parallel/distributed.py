"""``torch.nn.parallel.distributed``: a name, for ``isinstance``; there is one process."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused

__all__ = ["DistributedDataParallel"]

DistributedDataParallel = refused(
    "torch.nn.parallel", "DistributedDataParallel", "there is one process, in which a module runs as it is"
)["DistributedDataParallel"]
