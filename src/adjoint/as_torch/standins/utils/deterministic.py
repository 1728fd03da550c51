"""``torch.utils.deterministic``: whether memory is filled that `empty` and its like give.

It is while ``torch.use_deterministic_algorithms(True)`` holds, unless `fill_uninitialized_memory` is False.
"""

from __future__ import annotations

import sys
from types import ModuleType

from adjoint.as_torch import _top


class _Module(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        return _top._Determinism.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"fill_uninitialized_memory: expected a bool, but got {type(mode).__name__}")
        _top._Determinism.fill = mode
        _top._switch_filling()


sys.modules[__name__].__class__ = _Module
