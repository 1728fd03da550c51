"""What arguments may be, for annotations: imported under `TYPE_CHECKING` alone, and never when a program runs.

The stubs of the compiled module use the same names (tools/stubs.py), so that ``ad.zeros`` and ``ad.nn.Linear`` agree on what a
device is.
"""

# ruff: noqa: F401 - some names are for the stubs.
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, TypeVar

from adjoint._C import Generator, Node, Size, Tensor, dtype
from adjoint._device import device, layout, memory_format

__all__ = [
    "Args",
    "Closure",
    "Device",
    "Dims",
    "DType",
    "F",
    "Generator",
    "Ints",
    "Kwargs",
    "Layout",
    "MemoryFormat",
    "Node",
    "Number",
    "Padding",
    "Params",
    "Pytree",
    "Shape",
    "StateDict",
    "T",
    "TensorDict",
    "Tensors",
]

#: A decorator that leaves the type as it is: ``def published(function: F) -> F``.
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Number: TypeAlias = bool | int | float | complex
#: One number for all dimensions, or one for each.
Ints: TypeAlias = int | Sequence[int]
#: Dimensions, of which None is all.
Dims: TypeAlias = int | Sequence[int] | None
#: Sizes of a tensor.
Shape: TypeAlias = Size | Sequence[int]
Padding: TypeAlias = str | Ints
DType: TypeAlias = dtype | type[bool] | type[int] | type[float] | type[complex]
Device: TypeAlias = device | str | int
Layout: TypeAlias = layout
MemoryFormat: TypeAlias = memory_format
#: One tensor, or several.
Tensors: TypeAlias = Tensor | Sequence[Tensor]
#: Tensors in tuples, lists and dicts of any depth.
Pytree: TypeAlias = Any
TensorDict: TypeAlias = dict[str, Tensor]
StateDict: TypeAlias = Mapping[str, Any]
#: What an optimiser is given: parameters, with names or without, or groups of them.
Params: TypeAlias = Iterable[Any]
Closure: TypeAlias = Callable[[], Any]
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
