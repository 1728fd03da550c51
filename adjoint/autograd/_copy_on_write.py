"""Saved tensors that may be written: who writes to one finds a copy made first. See `graph.allow_mutation_on_saved_tensors`.

Every saved tensor is packed as an `_Original`, which lies in the graph; `Originals` knows them by their memory, weakly.
An interpreter is told of each write before it happens, and has the originals over that memory copied.
"""

from __future__ import annotations

from threading import Lock, local
from weakref import WeakSet

from adjoint import _C
from adjoint.autograd.graph import saved_tensors_hooks

_here = local()


class _Original:
    """A saved tensor; None once it was let go."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor


def _memory(tensor):
    return _C._storage_bytes(tensor).data_ptr()


class Originals:
    """What was saved while the context is open."""

    def __init__(self):
        self._lock = Lock()
        self._by_memory: dict = {}
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)

    def clear(self):
        """Let go of all that was saved: the graphs recorded so far cannot be differentiated any more."""
        with self._lock:
            by_memory, self._by_memory = self._by_memory, {}
        for originals in by_memory.values():
            for original in list(originals):
                original.tensor = None

    def _pack(self, tensor):
        original = _Original(tensor)
        with self._lock:
            self._by_memory.setdefault(_memory(tensor), WeakSet()).add(original)
        return original

    def _unpack(self, original):
        if getattr(_here, "open", None) is not self or original.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
                "recorded. Call backward inside of it, and before its clear()"
            )
        return original.tensor

    def _before_write(self, tensor):
        with self._lock:
            originals = list(self._by_memory.pop(_memory(tensor), ()))
        # Those that lie at one place are the same values: one copy does.
        copies: dict = {}
        for original in originals:
            tensor = original.tensor
            if tensor is None:
                continue
            place = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
            if place not in copies:
                copies[place] = tensor.clone()
            original.tensor = copies[place]
            with self._lock:
                self._by_memory.setdefault(_memory(original.tensor), WeakSet()).add(original)

    def __enter__(self):
        if getattr(_here, "open", None) is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._hooks.__enter__()
        _C._push_interpreter(None, None, self._before_write)
        _here.open = self
        return self

    def __exit__(self, *exception):
        _here.open = None
        _C._pop_interpreter()
        self._hooks.__exit__(*exception)
        self.clear()
