"""Helpers around tensors and programs: data loading, checkpoints, hooks, exchange with other libraries, timing.

The modules are imported when they are first used: `adjoint.utils.data` needs no import of its own.
"""

from adjoint.utils._swapping import swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'adjoint.utils' has no attribute {name!r}")
    from importlib import import_module

    return import_module("adjoint.utils." + name)


def __dir__():
    return sorted({*globals(), *__all__})
