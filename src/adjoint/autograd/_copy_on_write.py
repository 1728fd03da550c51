"""Saved tensors that may be written: before a write to one, a copy is made. See `graph.allow_mutation_on_saved_tensors`.

Every saved tensor is packed as an `_Original`, which lies in the graph; `Originals` knows them by their memory, weakly.
An interpreter is told of each write before it happens, and has the originals over that memory copied: once for all that
are the same part of it. Start reading at `Originals._before_write`.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import Lock
from weakref import WeakSet, WeakValueDictionary

from adjoint import _C
from adjoint._types import Any

# The context that is open here. A context variable, since those follow a pass onto the engine's own threads.
_open: ContextVar = ContextVar("adjoint.allow_mutation_on_saved_tensors", default=None)


class _Original:
    """A saved tensor, None once it was let go; whether it is a copy; and the others over its memory."""

    __slots__ = ("__weakref__", "copied", "neighbours", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.copied = False


class _Neighbours:
    """The originals over one piece of memory. They keep it, so it goes with the last of them."""

    __slots__ = ("__weakref__", "originals")

    def __init__(self) -> None:
        self.originals: WeakSet = WeakSet()


def _memory(tensor):
    return _C._storage_bytes(_C._whole(tensor)).data_ptr()


class Originals:
    """What was saved while the context is open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_memory: WeakValueDictionary = WeakValueDictionary()

    @property
    def cloned(self) -> dict:
        """The copies that stand in graphs now, by number, because what was saved has been written since."""
        with self._lock:
            tensors = [o.tensor for o in self._originals() if o.copied and o.tensor is not None]
        return {id(t): t for t in tensors}

    def clear(self):
        """Let go of all that was saved: the graphs recorded so far cannot be differentiated any more."""
        with self._lock:
            originals = self._originals()
            self._by_memory.clear()
        for original in originals:
            original.tensor = None

    def _originals(self):
        return [o for neighbours in list(self._by_memory.values()) for o in list(neighbours.originals)]

    def _place(self, original):
        memory = _memory(original.tensor)
        neighbours = self._by_memory.get(memory)
        if neighbours is None:
            self._by_memory[memory] = neighbours = _Neighbours()
        neighbours.originals.add(original)
        original.neighbours = neighbours

    def _pack(self, tensor):
        original = _Original(tensor)
        with self._lock:
            self._place(original)
        return original

    def _unpack(self, original):
        if _open.get() is not self or original.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
                "recorded. Call backward inside of it, and before its clear()"
            )
        return original.tensor

    def _before_write(self, tensor):
        with self._lock:
            neighbours = self._by_memory.pop(_memory(tensor), None)
        if neighbours is None:
            return
        copies: dict = {}
        for original in list(neighbours.originals):
            part = original.tensor
            if part is None:
                continue
            key = (part.dtype, tuple(part.shape), part.stride(), part.storage_offset())
            if key not in copies:
                copies[key] = part.clone()
            original.tensor = copies[key]
            original.copied = True
            with self._lock:
                self._place(original)

    def __enter__(self) -> Any:
        if _open.get() is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        _C._push_saved_tensors_hooks(self._pack, self._unpack)
        self._interpreter = _C._push_observer(None, None, self._before_write)
        _open.set(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        if _open.get() is self:
            _open.set(None)
        _C._pop_interpreter(self._interpreter)
        _C._pop_saved_tensors_hooks()
        self.clear()
