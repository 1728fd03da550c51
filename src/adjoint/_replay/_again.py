"""Restores Python's state as it was at a replayed call while the function runs again.

A backward pass may ask for what was not recorded with the call: a graph of itself, say. Then the function runs again, and the
program may have changed what it reads: an option, a weight, a flag. What the call found is known, since it was compared:
plain values from the layout, objects and tensors from the call's node. `as_it_was` puts them back where others are, and
takes them out again afterwards. Start reading there.
"""

from __future__ import annotations

import contextlib
import weakref

from adjoint import _C
from adjoint._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from adjoint._replay._paths import Change, Layout

__all__ = ["as_it_was", "drawing_from", "is_one", "unchanged", "with_default"]

_MISSING: Any = object()


def is_one(a: Any, b: Any) -> bool:
    """Whether these are the same tensor to the graph."""
    if a is b or a is None or b is None:
        return a is b
    return a.grad_fn is not None and a.grad_fn is b.grad_fn and a.data_ptr() == b.data_ptr()


class _Past:
    """The state at the call: the layout, the objects that were read, the tensors, and the numbers that vary."""

    def __init__(self, layout: Layout, held: list[Any], tensors: list[Any], numbers: list[Any]) -> None:
        self.layout = layout
        self.tensors = tensors
        self.numbers = numbers
        self.held = [o() if type(o) is weakref.ref else o for o in held]
        self.undo: list[Callable[[], Any]] = []
        self.edges: dict[int, list[Any]] = {}
        for i, edge in enumerate(layout._edges):
            self.edges.setdefault(edge[0], []).append((i, *edge[1:]))

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """What the function was called with."""
        edges = self.edges.get(0, [])
        given = [e for e in edges if e[1] == "argument"]
        named = {e[2]: e for e in edges if e[1] == "keyword"}
        return (
            tuple(self.wanted(e, a) for e, a in zip(given, args, strict=True)),
            {k: self.wanted(named[k], a) if k in named else a for k, a in kwargs.items()},
        )

    def put_back(self) -> None:
        for parent, edges in self.edges.items():
            holder = self.held[parent]
            if parent and holder is not None:
                self._node(holder, edges)
        for k, t in enumerate(self.tensors):
            if t is not None and t.is_leaf:
                self._tensor(t, *self.layout._of_tensor(k))

    def wanted(self, edge: tuple[Any, ...], now: Any) -> Any:
        """What was there, where `now` is."""
        i, _, _, guard, node, expected = edge
        if guard == "node":
            found = self.held[node]
            return now if found is None else self._whole(node, found)
        if guard == "tensor":
            found = self.tensors[node]
            return now if isinstance(now, Tensor) and is_one(now, found) else found
        if guard == "absent":
            return _MISSING
        if guard == "number":
            return self.numbers[node]
        if guard == "any" or (now is not _MISSING and self.layout._passes(i, now)):
            return now
        if guard == "weak":
            return expected()
        if guard == "unknown":
            raise LookupError
        return expected

    def _whole(self, node: int, holder: Any) -> Any:
        """An object that was looked into: a tuple with what was in it, which may have been written since."""
        if not isinstance(holder, tuple):
            return holder
        edges = [e for e in self.edges.get(node, ()) if e[1] == "item"]
        values = [self.wanted(e, v) for e, v in zip(edges, holder, strict=False)]
        if all(a is b for a, b in zip(values, holder, strict=False)):
            return holder
        return type(holder)(*values) if hasattr(holder, "_fields") else type(holder)(values)

    def _node(self, holder: Any, edges: list[Any]) -> None:
        by = {access: [e for e in edges if e[1] == access] for access in {e[1] for e in edges}}
        if "item" in by and isinstance(holder, list):
            self._items(holder, by["item"])
        elif "value" in by and isinstance(holder, dict):
            self._entries(holder, by["key"], by["value"])
        for edge in by.get("element", ()):
            if not any(self.layout._passes(edge[0], v) or edge[3] != "value" for v in holder):
                raise LookupError
        if "attribute" in by:
            table = _C._attributes_of(holder)
            names = [e[2] for e in by["attribute"]]
            self._table(table, names, [self.wanted(e, table.get(e[2], _MISSING)) for e in by["attribute"]])
        for edge in by.get("name", ()):
            self._set(edge, holder.get(edge[2], _MISSING), *_of_dict(holder, edge[2]))
        for edge in by.get("slot", ()):
            now = getattr(holder, edge[2], _MISSING)
            self._set(edge, now, *_of_object(object, holder, edge[2]))
        for edge in by.get("class", ()):
            now = getattr(holder, edge[2], _MISSING)
            if edge[3] in ("value", "number", "absent") and edge[2] in vars(holder):
                self._set(edge, now, *_of_object(type, holder, edge[2]))
        for name in ("__defaults__", "__kwdefaults__"):
            for edge in by.get(name, ()):
                self._set(edge, getattr(holder, name), *_of_object(object, holder, name))
        for edge in by.get("content", ()):
            if hasattr(type(holder), "cell_contents"):
                try:
                    now = holder.cell_contents
                except ValueError:
                    now = _MISSING
                self._set(edge, now, *_of_object(object, holder, "cell_contents"))

    def _set(self, edge: Any, now: Any, put: Callable[[Any], Any], take: Callable[[], Any]) -> None:
        value = self.wanted(edge, now)
        if value is now:
            return
        take() if value is _MISSING else put(value)
        self.undo.append(take if now is _MISSING else lambda: put(now))

    def _items(self, holder: list[Any], edges: list[Any]) -> None:
        now = list.copy(holder)
        value = [self.wanted(e, now[k] if k < len(now) else _MISSING) for k, e in enumerate(edges)]
        if len(now) != len(value) or any(a is not b for a, b in zip(now, value, strict=True)):
            list.__setitem__(holder, slice(None), value)
            self.undo.append(lambda: list.__setitem__(holder, slice(None), now))

    def _entries(self, holder: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        there = list(dict.keys(holder))
        names = [self.wanted(e, there[k] if k < len(there) else _MISSING) for k, e in enumerate(keys)]
        self._table(
            holder,
            names,
            [self.wanted(e, dict.get(holder, k, _MISSING)) for k, e in zip(names, values, strict=True)],
        )

    def _table(self, table: dict[Any, Any], names: list[Any], values: list[Any]) -> None:
        now = dict(dict.items(table))
        value = dict(zip(names, values, strict=True))
        if list(now) == list(value) and all(now[k] is v for k, v in value.items()):
            return

        def put(content: dict[Any, Any]) -> None:
            dict.clear(table)
            dict.update(table, {k: v for k, v in content.items() if v is not _MISSING})

        put(value)
        self.undo.append(lambda: put(now))

    def _tensor(self, t: Any, requires_grad: bool, grad: int) -> None:
        if t.requires_grad != requires_grad:
            t.requires_grad_(requires_grad)
            self.undo.append(lambda: t.requires_grad_(not requires_grad))
        now, value = t.grad, self.tensors[grad] if grad >= 0 else None
        if now is not value and grad >= 0:
            t.grad = value
            self.undo.append(lambda: setattr(t, "grad", now))


def _of_dict(table: dict[Any, Any], key: Any) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    return lambda value: dict.__setitem__(table, key, value), lambda: dict.pop(table, key, None)


def _of_object(kind: Any, holder: Any, key: str) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    return lambda value: kind.__setattr__(holder, key, value), lambda: kind.__delattr__(holder, key)


@contextlib.contextmanager
def as_it_was(
    layout: Layout,
    held: list[Any],
    tensors: list[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    numbers: list[Any],
) -> Iterator[tuple[Any, Any]]:
    """A context with the state that the call had; it gives the arguments."""
    past = _Past(layout, held, tensors, numbers)
    try:
        try:
            past.put_back()
            given = past.arguments(args, kwargs)
        except (LookupError, AttributeError, TypeError) as error:
            raise RuntimeError(
                "jit: this backward pass has to run the function again, but something that it reads was replaced and "
                "cannot be restored; differentiate before that changes, or call the function without jit"
            ) from error
        yield given
    finally:
        for undo in reversed(past.undo):
            undo()


def _as_it_is(change: Change, holder: Any) -> Callable[[], Any]:
    """What puts the place of a change back to what is there now."""
    kind, key = change.kind, list.__len__(holder) if change.kind == "append" else change.key
    value = _C._stands(kind, holder, key, _MISSING)
    return lambda: _C._store(kind, holder, key, value, value is _MISSING)


@contextlib.contextmanager
def unchanged(
    changes: list[tuple[Change, Any]], inputs: list[Any], function: Any, args: Any, kwargs: Any
) -> Iterator[None]:
    """A context that may change these places, and restores them."""
    undo = []
    for change, _ in changes:
        holder = inputs[change.key] if change.kind == "grad" else change.holder(function, args, kwargs)
        if holder is None:
            raise RuntimeError(
                f"jit: this backward pass has to run the function again, but {change.where}, which it changes, is gone; "
                "differentiate before that changes, or call the function without jit"
            )
        undo.append(_as_it_is(change, holder))
    try:
        yield
    finally:
        for put_back in reversed(undo):
            put_back()


@contextlib.contextmanager
def drawing_from(state: Any) -> Iterator[None]:
    """A context in which this thread draws from a generator in that state."""
    if state is None:
        yield
        return
    generator = _C.Generator().set_state(state)  # held here: the thread does not
    before = _C._use_generator(generator)
    try:
        yield
    finally:
        _C._use_generator(before)


@contextlib.contextmanager
def with_default(dtype: Any) -> Iterator[None]:
    """A context with this default dtype."""
    now = _C.get_default_dtype()
    if now is dtype:
        yield
        return
    _C.set_default_dtype(dtype)
    try:
        yield
    finally:
        _C.set_default_dtype(now)
