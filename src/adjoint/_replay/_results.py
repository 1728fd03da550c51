"""What a function returned: containers, plain values, and tensors by number. Start reading at `Structure`."""

from __future__ import annotations

import sys
from enum import EnumMeta

from adjoint import _C
from adjoint._tensor.device import device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "ALONE",
    "PLAIN",
    "TRACKED",
    "Structure",
    "Tensors",
    "Unfit",
    "build",
    "counts",
    "held_by",
    "is_plain",
    "merged",
    "number",
    "plain",
    "with_numbers",
]

_Tensor = _C.Tensor
TRACKED = (_C._TrackedFloat, _C._TrackedInt)
#: Values without parts that can be given again, since they are immutable.
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), _C.dtype, _C.Size, device)


def is_plain(value: Any) -> bool:
    """Whether it can be given again as it is: of such a type, or a member of an enumeration."""
    kind = type(value)
    return kind in PLAIN or type(kind) is EnumMeta


class Unfit(Exception):
    """Why a call cannot be replayed, as a message. What has no form in UTF-8 (names of files, say) is escaped."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason.encode("utf-8", "backslashreplace").decode())


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


class _Plain(tuple):
    """The form of a plain value, of which NaN is one."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and tuple.__eq__(self[:3], other[:3])

    def __ne__(self, other: object) -> bool:
        return not self == other


def plain(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    return _Plain(("plain", kind, repr(value) if kind in (float, complex) else value, value))


def number(value: Any) -> tuple[Any, ...]:
    """A number that was tracked: which, and its value then."""
    return ("number", _C._node_of(value), plain(_C._plain(value)))


def merged(
    one: Any, other: Any, tracked: Any, returned: list[tuple[int, Any]], of_number: Callable[[int], Any]
) -> Any:
    """The form that two recordings have, with those numbers that the same call with its numbers tracked has: `of_number`
    gives a form for each, and `returned` gets which, and the value in the first recording. Unfit where they differ.
    """
    if tracked[0] == "number":
        if one[0] != "plain" or other != tracked[2]:
            raise Unfit("it returns or stores something else at each call")
        returned.append((tracked[1], one[3]))
        return of_number(tracked[1])
    if (
        one[0] != tracked[0]
        or other[0] != tracked[0]
        or len(one) != len(tracked)
        or len(other) != len(tracked)
    ):
        raise Unfit("it returns or stores something else at each call")
    if tracked[0] in ("tensor", "plain"):
        if not one == other == tracked:
            raise Unfit("it returns or stores something else at each call")
        return tracked
    if not len(one[-1]) == len(other[-1]) == len(tracked[-1]) or (
        tracked[0] == "named" and not one[1] is other[1] is tracked[1]
    ):
        raise Unfit("it returns or stores something else at each call")
    parts = list(zip(one[-1], other[-1], tracked[-1], strict=True))
    if tracked[0] is dict:
        if not all(a[0] == b[0] == c[0] for a, b, c in parts):
            raise Unfit("it returns or stores something else at each call")
        inner = [(c[0], merged(a[1], b[1], c[1], returned, of_number)) for a, b, c in parts]
    else:
        inner = [merged(a, b, c, returned, of_number) for a, b, c in parts]
    return (*tracked[:-1], inner)


class Structure:
    """What a function returned: containers, plain values, and tensors by number."""

    __slots__ = ("form",)

    def __init__(self, value: Any, tensors: Tensors) -> None:
        self.form = self._of(value, tensors, ())

    def _of(self, value: Any, tensors: Tensors, inside: tuple[Any, ...]) -> tuple[Any, ...]:
        kind = type(value)
        if isinstance(value, _Tensor):
            return ("tensor", tensors.number(value))
        if is_plain(value):
            return plain(value)
        if kind in TRACKED:
            return number(value)
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

    @staticmethod
    def of_form(form: Any) -> Structure:
        """One that has this form."""
        structure: Structure = object.__new__(Structure)
        structure.form = form
        return structure

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


def with_numbers(form: Any, outputs: int, made: Any) -> Any:
    """The form with the numbers that a replay gave after its tensors."""
    if form[0] == "tensor":
        return plain(made[form[1]]) if form[1] >= outputs else form
    if form[0] == "plain":
        return form
    if form[0] is dict:
        return (dict, [(k, with_numbers(v, outputs, made)) for k, v in form[1]])
    return (*form[:-1], [with_numbers(v, outputs, made) for v in form[-1]])


def counts(held: list[Any], but: int = 0) -> Iterator[int]:
    """How often each list and dict is referred to, that stands alone in `held`, and all within; `but` the first few."""
    open_: list[Any] = [held]
    while open_:
        part = open_.pop()
        inner = part.values() if type(part) is dict else part
        for value in inner:
            if type(value) in (list, dict):
                if but:
                    but -= 1
                else:
                    yield sys.getrefcount(value)
            if isinstance(value, (list, dict, tuple)):
                open_.append(value)
        if len(open_) > 10_000:
            raise Unfit("the result contains itself, or is very large")


def held_by(change: Any) -> int:
    """How often a change's value is referred to."""
    return sys.getrefcount(change.value) if type(change.value) in (list, dict) else 0


#: The reference count of a list that only its container holds.
ALONE = max(counts([[[], {"a": []}]]))
