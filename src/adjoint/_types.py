"""What arguments may be, for annotations: names that cost nothing when a program runs, so that `typing.get_type_hints` finds them.

`typing` is not imported for them: at run time `Any` and type variables are `object`, and protocols are those of
`_collections_abc`, which the interpreter has loaded. The stubs of the compiled module use the same names (tools/stubs.py), so
that ``ad.zeros`` and ``ad.nn.Linear`` agree on what a device is.
"""

# ruff: noqa: F401 - all are for other modules.
from __future__ import annotations

from adjoint._C import Generator, Node, Size, Tensor, dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Hashable,
        ItemsView,
        Iterable,
        Iterator,
        KeysView,
        Mapping,
        MutableMapping,
        MutableSequence,
        Sequence,
        ValuesView,
    )
    from typing import Any, NamedTuple, SupportsIndex, TypeAlias, TypeVar

    from typing_extensions import Self

    #: A decorator that leaves the type as it is: ``def published(function: F) -> F``.
    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")
else:
    from _collections_abc import (
        Awaitable,
        Callable,
        Collection,
        Hashable,
        ItemsView,
        Iterable,
        Iterator,
        KeysView,
        Mapping,
        MutableMapping,
        MutableSequence,
        Sequence,
        ValuesView,
    )

    Any = Self = NamedTuple = SupportsIndex = F = T = object

Number: TypeAlias = bool | int | float | complex
#: One number for all dimensions, or one for each.
Ints: TypeAlias = int | Sequence[int]
#: Dimensions, of which None is all.
Dims: TypeAlias = int | Sequence[int] | None
#: Sizes of a tensor.
Shape: TypeAlias = Size | Sequence[int]
Padding: TypeAlias = str | int | Sequence[int]
DType: TypeAlias = dtype | type[bool] | type[int] | type[float] | type[complex]
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

# Last: that module uses the names above.
from adjoint._tensor.device import Device, Layout, MemoryFormat, device, layout, memory_format  # noqa: E402
