"""Differentiable collectives: see `functional`."""

from __future__ import annotations

from adjoint.distributed.nn import functional
from adjoint.distributed.nn.functional import *  # noqa: F403

__all__ = ["functional"]
__all__ += functional.__all__
