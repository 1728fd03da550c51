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

# ruff: noqa: F401 - names of torch that begin with an underscore are published, too.
from __future__ import annotations

from adjoint._publish.register import document_classes, listing
from adjoint.distributed import (
    _errors,
    _functions,
    _objects,
    _process_group,
    _world,
)
from adjoint.distributed._backend import (
    Backend,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
)
from adjoint.distributed._errors import *  # noqa: F403
from adjoint.distributed._file_store import FileStore
from adjoint.distributed._functions import *  # noqa: F403
from adjoint.distributed._functions import _all_gather_base, _coalescing_manager, _reduce_scatter_base
from adjoint.distributed._objects import *  # noqa: F403
from adjoint.distributed._process_group import *  # noqa: F403
from adjoint.distributed._reduce_op import ReduceOp, _make_nccl_premul_sum, supports_complex
from adjoint.distributed._stores import HashStore, PrefixStore, Store
from adjoint.distributed._tcp_store import TCPStore
from adjoint.distributed._work import Work
from adjoint.distributed._world import *  # noqa: F403
from adjoint.distributed._world import _rank_not_in_group
from adjoint.distributed.rendezvous import default_pg_timeout, register_rendezvous_handler, rendezvous

__all__ = [
    "Backend",
    "BuiltinCommHookType",
    "FileStore",
    "GradBucket",
    "HashStore",
    "PrefixStore",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "default_pg_timeout",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_ucc_available",
    "is_xccl_available",
    "register_rendezvous_handler",
    "rendezvous",
    "supports_complex",
]
__all__ += _errors.__all__ + _functions.__all__ + _objects.__all__ + _process_group.__all__ + _world.__all__
__dir__ = listing(__name__)
_LATER = ("BuiltinCommHookType", "GradBucket")
document_classes({**globals(), "__all__": [name for name in __all__ if name not in _LATER]})

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

        if name in _LATER:
            return getattr(import_module("adjoint.distributed._buckets"), name)
        if name == "reduce_op":  # torch's name before ReduceOp
            return ReduceOp
        if name in _LAZY:
            return import_module(f"adjoint.distributed.{name}")
        raise AttributeError(f"module 'adjoint.distributed' has no attribute {name!r}")
