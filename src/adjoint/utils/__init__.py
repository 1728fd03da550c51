"""Helpers around tensors and programs: data loading, checkpoints, hooks, exchange with other libraries, timing.

The modules are imported when they are first used: `adjoint.utils.data` needs no import of its own.
"""

from adjoint._publish.register import listing
from adjoint.utils._swapping import swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors"]
__dir__ = listing(__name__)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.utils import benchmark, checkpoint, data, dlpack, hooks
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module 'adjoint.utils' has no attribute {name!r}")
        from importlib import import_module

        return import_module("adjoint.utils." + name)
