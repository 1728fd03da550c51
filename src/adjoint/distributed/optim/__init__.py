"""Optimisers over ranks: `ZeroRedundancyOptimizer`, `PostLocalSGDOptimizer`."""

from __future__ import annotations

from adjoint.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from adjoint.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
