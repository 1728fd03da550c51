"""What a function returned: containers, plain values, and tensors by number. Start reading at `Structure`."""

from __future__ import annotations

import sys

from adjoint import _C
from adjoint._tensor.device import device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["ALONE", "PLAIN", "Structure", "Tensors", "Unfit", "build", "counts", "plain"]

_Tensor = _C.Tensor
#: Values without parts that can be given again, since they are immutable.
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), _C.dtype, _C.Size, device)


class Unfit(Exception):
    """Why a call cannot be replayed, as a message."""


class Tensors(list):
    """A list of distinct tensors."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[int, int] = {}

    def number(self, t: Any) -> int:
        """The number of a tensor, which is added if it is new."""
        found = self._numbers.setdefault(id(t), len(self))
        if found == len(self):
            self.append(t)
        return found


def plain(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    return ("plain", kind, repr(value) if kind in (float, complex) else value, value)


class Structure:
    """What a function returned: containers, plain values, and tensors by number."""

    __slots__ = ("form",)

    def __init__(self, value: Any, tensors: Tensors) -> None:
        self.form = self._of(value, tensors, ())

    def _of(self, value: Any, tensors: Tensors, inside: tuple[Any, ...]) -> tuple[Any, ...]:
        kind = type(value)
        if isinstance(value, _Tensor):
            return ("tensor", tensors.number(value))
        if kind in PLAIN:
            return plain(value)
        if len(inside) > 50 or any(value is outer for outer in inside):
            raise Unfit("the result contains itself, or is nested too deeply")
        inside = (*inside, value)
        if kind in (tuple, list):
            return (kind, [self._of(v, tensors, inside) for v in value])
        if kind is dict:
            for k in value:
                if type(k) not in PLAIN:
                    raise Unfit(f"it returns a dict with a key of type {type(k).__qualname__}")
            return (dict, [(plain(k), self._of(v, tensors, inside)) for k, v in value.items()])
        if isinstance(value, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields")):
            return ("named", kind, [self._of(v, tensors, inside) for v in value])
        raise Unfit(f"it returns an object of type {kind.__qualname__}")

    def build(self, tensors: Any) -> Any:
        """The result with these tensors in it."""
        return build(self.form, tensors)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.form == other.form

    __hash__ = None  # type: ignore[assignment]


def build(form: tuple[Any, ...], tensors: Any) -> Any:
    kind = form[0]
    if kind == "tensor":
        return tensors[form[1]]
    if kind == "plain":
        return form[3]
    if kind is dict:
        return {k[3]: build(v, tensors) for k, v in form[1]}
    if kind == "named":
        values = [build(v, tensors) for v in form[2]]
        return form[1](*values) if hasattr(form[1], "_fields") else form[1](values)
    return kind(build(v, tensors) for v in form[1])


def counts(held: list[Any]) -> Iterator[int]:
    """How often each list and dict is referred to, that stands alone in `held`, and all within."""
    open_: list[Any] = [held]
    while open_:
        part = open_.pop()
        inner = part.values() if type(part) is dict else part
        for value in inner:
            if type(value) in (list, dict):
                yield sys.getrefcount(value)
            if isinstance(value, (list, dict, tuple)):
                open_.append(value)
        if len(open_) > 10_000:
            raise Unfit("the result contains itself, or is very large")


#: The reference count of a list that only its container holds.
ALONE = max(counts([[[], {"a": []}]]))
