"""``torch.types``: the names that annotations use."""

from __future__ import annotations

import builtins
import os
from typing import Any

from adjoint import Size, Tensor, device, dtype, layout

__all__ = ["Device", "FileLike", "Number", "Tensor"]

_bool, _float, _int, _complex = builtins.bool, builtins.float, builtins.int, builtins.complex
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[int] | tuple[int, ...]
_TensorOrTensors = Tensor | tuple[Tensor, ...] | list[Tensor]

Number = int | float | bool
Device = device | str | int | None
FileLike = str | os.PathLike | Any
Storage = Any
