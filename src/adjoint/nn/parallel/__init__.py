"""One module on several devices or ranks, under torch's names.

There is one device here, the CPU, on whose threads operations run by themselves: `DataParallel` is its module. For ranks in several
processes there is `DistributedDataParallel`, which is imported when it is asked for.
"""

from __future__ import annotations

from adjoint._publish.register import listing

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
__dir__ = listing(__name__)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from .distributed import DistributedDataParallel
else:

    def __getattr__(name):
        if name == "DistributedDataParallel":
            from .distributed import DistributedDataParallel

            return DistributedDataParallel
        raise AttributeError(f"module 'adjoint.nn.parallel' has no attribute {name!r}")
