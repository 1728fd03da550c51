"""What a jitted function reads of Python, and what it does to Python's state.

`collect` walks from a call's arguments, the function's closure, its defaults and the globals that code names which ran
(`_watch` tells which), through attributes whose names occur in that code and through all items of containers. What it
finds is a `Layout`: tensors, which are inputs, by their geometry; plain values by value; functions by their code; classes
by version. ``layout.match(function, args, kwargs)`` reaches all of it again, runs no code of the program, and gives the
tensors that are there now, or None and the reason in `why`. `Layout.changes` says what a run stored where. The walks
are in C++ (core/bind/replay_paths.h). Start reading at `collect`.
"""

from __future__ import annotations

import functools
import sys
import types

from adjoint._C import Tensor, _Layout
from adjoint._replay._codes import LIBRARY, gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["LIBRARY", "Change", "Layout", "collect", "reasons"]


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of positional parameters, for messages."""
    skipped = 0
    while True:
        if type(function) is types.MethodType:
            function, skipped = function.__func__, skipped + 1
        elif isinstance(function, types.FunctionType):
            code = function.__code__
            return code.co_varnames[skipped : code.co_argcount]
        else:
            call = getattr(type(function), "forward", None)
            if not isinstance(call, types.FunctionType):
                return ()
            function, skipped = call, skipped + 1


class Change:
    """One thing that a run left in Python's state.

    Attributes
    ----------
    kind : str
        ``attribute``, ``slot``, ``item``, ``key``, ``cell``, ``global``, ``class attribute``: something got another
        object, was added or, with `removed`, taken away; ``append``: a list got more items, `value` is the list of them;
        ``grad``: the gradient of a tensor; and others, which have a `reason`.
    holder_path, key
        Where: the name of what holds it, and the attribute, name, position or key.
    before, value
        What was there, and what is.
    reason : str or None
        Why it cannot be done again, whatever the value is.
    """

    __slots__ = (
        "_layout",
        "_node",
        "added",
        "before",
        "holder_path",
        "key",
        "kind",
        "reason",
        "removed",
        "value",
    )

    _AGAIN = frozenset(("attribute", "slot", "item", "key", "cell", "global", "class attribute", "append"))

    def __init__(self, layout: Layout, found: tuple[Any, ...]) -> None:
        self._layout = layout
        self.kind, self._node, self.holder_path, self.key, self.before, self.value, was, now = found
        self.added, self.removed = not was, not now
        self.reason = None
        if self.kind not in self._AGAIN and self.kind != "grad":
            self.reason = f"{self.where} changed: {_WHAT.get(self.kind, self.kind)}"

    @property
    def where(self) -> str:
        """The path as source code: ``self.count``, ``cache['x']``."""
        path, key = self.holder_path, self.key
        if self.kind in ("attribute", "slot", "class attribute"):
            return f"{path}.{key}" if path else str(key)
        if self.kind in ("item", "key"):
            return f"{path}[{key!r}]"
        if self.kind == "global":
            return str(key)
        return f"{path}.grad" if self.kind == "grad" else path or "the function"

    @property
    def place(self) -> tuple[Any, ...]:
        """A key that distinguishes it from others of the same name, such as variables of two closures."""
        return self.kind, self._node, self.where, self.key if self.kind == "grad" else None

    def sentence(self, line: str = "") -> str:
        """For the user, where the value is nothing that a replay can store again."""
        at = f" in {line}" if line else ""
        if self.reason:
            return self.reason + at
        if self.removed:
            return f"{self.where} was taken away{at}: it is there again before each call, or the next call differs"
        if self.kind == "append":
            return f"{self.where} got {len(self.value)} more items{at}: it grows at each call"
        if self.added:
            return f"{self.where} became {_short(self.value)}{at}: it was not there before"
        return f"{self.where} was {_short(self.before)} and became {_short(self.value)}{at}: it changes at each call"

    def holder(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What holds it in this call, or None."""
        return self._layout._reach(self._node, function, args, kwargs)

    def store(self, form: tuple[Any, ...]) -> tuple[Any, ...]:
        """How a replay does it again: where, what it leaves there (see `Structure`)."""
        removed = self.removed and self.kind != "grad"
        tensor = self.key if self.kind == "grad" else self._node
        return self.kind, tensor, self.key, form, removed

    def __repr__(self) -> str:
        return f"Change({self.kind!r}, {self.holder_path!r}, {self.key!r}, {_short(self.value)})"


#: What kinds mean that cannot be done again.
_WHAT = {
    "class": "it is of another class",
    "code": "its code is another",
    "defaults": "its defaults are others",
    "order": "its entries are in another order",
    "set": "its elements are others",
    "shorten": "items were taken away",
    "hooks": "a hook came or went",
    "attribute of a tensor": "it got attributes",
}


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        return "a tensor"
    if type(value) in (int, float, bool, str, bytes, complex, type(None)):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {type(value).__name__}"


class Layout(_Layout):
    """What one call reads. See core/bind/replay_paths.h.

    Attributes
    ----------
    tensors : list of Tensor or None
        Each once; None where there is no gradient. Empty once `release_tensors` was called.
    names : list of str
        Their paths: ``x``, ``self.layers[0].weight``, ``w.grad``.
    values, numbers : list of (path, value)
        Plain values that are compared, and the floats and ints among them.
    unknown : list of (path, why)
        What cannot be followed: a function that reads this is not to be replayed.
    why : str
        Why the last `match` found no tensors.
    """

    #: Whether the program's code may tell an object that stands for a number from a number.
    _tells = False

    def changes(self) -> list[Change]:
        """What has changed since this layout was collected; asked right after the run."""
        return [Change(self, found) for found in self._changes()]

    def same_structure(self, other: Layout) -> bool | str:
        """True, or a sentence about where the other differs."""
        return self._difference(other) or True


def collect(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    codes: Iterable[tuple[types.CodeType, dict[str, Any] | None]],
) -> Layout:
    """What the call reads, if this code runs in it: pairs of code and the globals that it ran with."""
    codes = codes if isinstance(codes, list) else [*codes]
    facts, spaces, imports, through, *_ = gather(codes)
    layout = Layout()
    layout._tells = facts["tells"]
    own = {
        "codes": codes,
        "spaces": spaces,
        "through": [*through.now(codes), (sys.modules, imports)] if imports else through.now(codes),
        "parameters": _parameters(function),
        "imports": [m for m in map(sys.modules.get, imports) if isinstance(m, types.ModuleType)],
    }
    layout._collect(function, args, kwargs, facts, own)
    return layout


def reasons(function: Any) -> list[str]:
    """Why a function cannot be replayed at all, as sentences; usually none."""
    found = []
    if not callable(function):
        return [f"expected a function, but got a {type(function).__name__}"]
    inner = function
    while type(inner) in (types.MethodType, functools.partial):
        inner = inner.__func__ if type(inner) is types.MethodType else inner.func
    if not isinstance(inner, (types.FunctionType, type)):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004
    flags = getattr(getattr(inner, "__code__", None), "co_flags", 0)
    if flags & 0x20:
        found.append("it is a generator function: its body runs later, during iteration")
    if flags & (0x80 | 0x100):
        found.append("it is a coroutine function: its body runs later, when it is awaited")
    if flags & 0x200:
        found.append("it is an asynchronous generator function: its body runs later")
    return found
