"""A call made to see what Python does with numbers that change, and undone: see Note: replay.

Numbers that were others than in an earlier recording stand where they were as objects that note what is computed with them
(core/bind/replay_numbers.cpp), and so do elements that are read. What the call does is put back: memory, versions,
the generator, Python's state. It runs only code that is known, and ends where it would do anything else. Start reading at
`follow`.
"""

from __future__ import annotations

import os
import sys
import threading

from adjoint import _C
from adjoint._replay._codes import facts_of
from adjoint._replay._memory import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from adjoint._replay._paths import Change, Layout

__all__ = ["follow", "may_follow", "numbers_of", "stood"]

#: Of the memory that a call reaches and may write, this much is kept to be put back.
_MOST = 512 << 20
_POOLS = (os.path.join("futures", "thread.py"), os.path.join("multiprocessing", "pool.py"))
_PLACES = frozenset(("argument", "keyword", "item", "value", "attribute", "slot", "content", "name"))


#: What is stored to, by what is read.
_STORES = {"value": "key", "content": "cell", "name": "global"}


def numbers_of(before: Any, layout: Layout) -> list[int] | None:
    """The numbers that are others than in an earlier recording, which is else the same; None where nothing is to be found
    out.
    """
    which = before.layout._others(layout)
    edges = layout._number_edges
    if not which and not (before.recording and before.recording.items):
        return None
    if any(layout._place(edges[k])[1] not in _PLACES for k in which):
        return None
    return None if before.layout._difference(layout, [edges[k] for k in which]) else which


def may_follow(layout: Layout) -> bool:
    """Whether a call may be made twice, with objects instead of numbers."""
    return not layout._tells and 0 <= _C._bytes_reached(layout.tensors) <= _MOST and not _others_run()


def _others_run() -> bool:
    """Whether another thread may run the program's code, which would meet the objects, or whose writes would be undone."""
    me = threading.get_ident()
    return any(_may_run(frame) for thread, frame in sys._current_frames().items() if thread != me)


def _may_run(frame: Any) -> bool:
    """Threads of packages do not, and those that the standard library keeps for itself, but for pools."""
    alone = True
    while frame is not None:
        file = frame.f_code.co_filename
        packaged = "site-packages" in file or "dist-packages" in file
        if (facts_of(frame.f_code).own and not packaged) or file.endswith(_POOLS):
            return True
        alone = alone and file == threading.__file__
        frame = frame.f_back
    return alone


class _Placed:
    """A block with objects instead of numbers; afterwards all is as it was before, whatever changed within it."""

    def __init__(self, layout: Layout, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layout = layout
        self.args, self.kwargs = list(args), dict(kwargs)
        self.state = State(layout.tensors, layout._generators)

    def put(self, edge: int, value: Any) -> None:
        parent, kind, key = self.layout._place(edge)
        if kind == "argument":
            self.args[key] = value
        elif kind == "keyword":
            self.kwargs[key] = value
        else:
            _C._store(_STORES.get(kind, kind), self.layout._object(parent), key, value)

    def put_back(self) -> None:
        tensors = self.layout.tensors
        for change in reversed(self.layout.changes()):
            if change.reason and "hook" in change.reason:
                continue  # one that was taken away, as the function does when it is called in earnest
            holder = tensors[change.key] if change.kind == "grad" else self.layout._object(change._node)
            _C._store(change.kind, holder, change.key, change.before, absent=change.added)
        self.state.put_back()


def follow(
    layout: Layout,
    which: list[int],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Callable[..., Any],
) -> Any:
    """What `call(objects, function, args, kwargs)` gives; None where it could not be made."""
    placed = _Placed(layout, args, kwargs)

    def place(objects: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for k, value in zip(which, objects, strict=True):
            placed.put(layout._number_edges[k], value)
        return tuple(placed.args), placed.kwargs

    # Handlers would meet objects instead of numbers, and see what is undone.
    signals: Any = _C._WithoutSignals()
    signals.begin()
    try:
        return call(place, function)
    except (Exception, _C._Ended):
        return None
    finally:
        placed.put_back()
        signals.end()


def hidden(layout: Layout, which: list[int], changes: list[tuple[Change, tuple[Any, ...]]]) -> bool:
    """Whether a number was stored where its object stood, and no change is seen, since it equals what was there before."""
    told = [(c._node, c.key) for c, _ in changes]
    for k in which:
        node, kind, key = layout._place(layout._number_edges[k])
        if kind in ("argument", "keyword") or (node, key) in told:
            continue
        holder: Any = layout._object(node)
        now = (
            holder.cell_contents
            if kind == "content"
            else _C._stands(_STORES.get(kind, kind), holder, key, None)
        )
        if _C._node_of(now) < 0:
            return True
    return False


def stood(layout: Layout, changes: list[tuple[Change, tuple[Any, ...]]]) -> dict[Any, int]:
    """Of the places where numbers are stored, which numbers of the layout stood there."""
    stored = {(c._node, c.key): c.place for c, form in changes if form[0] == "number"}
    places = map(layout._place, layout._number_edges)
    # Keys that tensors are, say, cannot be compared.
    found = (
        (stored.get((node, key)), k) for k, (node, _, key) in enumerate(places) if type(key) in (str, int)
    )
    return {place: k for place, k in found if place}
