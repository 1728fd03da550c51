"""Collectives that are differentiated: see `functional`."""

from __future__ import annotations

from adjoint.distributed.nn import functional
from adjoint.distributed.nn.functional import *  # noqa: F403
from adjoint.distributed.nn.functional import __all__ as _names

__all__ = ["functional", *_names]
