"""``torch.nn.modules``: the layers, and below it the files that torch keeps them in (see `RENAMED` in `_finder`)."""

from __future__ import annotations

from types import ModuleType

from adjoint import nn

__all__ = [name for name in nn.__all__ if not isinstance(getattr(nn, name), ModuleType)]

globals().update({name: getattr(nn, name) for name in __all__})
