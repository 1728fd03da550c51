"""How long processes wait for each other unless a program says, under the names that libraries import."""

from __future__ import annotations

from adjoint.distributed.rendezvous import default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout = None
