"""The memory behind some tensors, kept to be put back or compared. Start reading at `State`."""

from __future__ import annotations

from adjoint import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["State", "history", "same"]


def same(a: Any, b: Any) -> bool:
    from adjoint import equal

    return a.shape == b.shape and equal(a, b)


def history(t: Any) -> Any:
    """The node that made a tensor, and which of its results it is; None for a leaf."""
    try:
        return _C._gradient_edge(t) if t is not None and t.grad_fn is not None else None
    except RuntimeError:  # a view that may not be brought up to date
        return None


class State:
    """The memory behind some tensors, as bytes where the processor has it, with versions, and generators: that of this thread, and others."""

    def __init__(self, tensors: list[Any], generators: list[Any]) -> None:
        #: Who wrote to a tensor in a graph gave it another history.
        self.histories = [(t, history(t)) for t in tensors if type(t) is _C.Tensor and not t._is_view()]
        leaves = (t for t in tensors if t is not None and not t._is_view() and t.is_leaf)
        self.required = [(t, t.requires_grad) for t in leaves]
        first: dict[int, Any] = {}
        for t in tensors:
            if t is not None:
                first.setdefault(t.untyped_storage().data_ptr(), t)
        self.tensors: list[Any] = [*first.values()]
        self.memory = [_C._bytes_of(t) for t in self.tensors]
        for k, t in enumerate(self.tensors):
            if self.memory[k] is None:
                from adjoint.autograd import no_grad

                with no_grad():
                    self.memory[k] = _whole(t).clone()
        # Tensors on one memory may count writes apart (`x.data`).
        self.versions = [(t, t._version) for t in tensors if t is not None and not t.is_inference()]
        self.generators = [(g, g.get_state()) for g in (_C._default_generator(), *generators)]

    def put_back(self) -> None:
        for t, bytes_before in zip(self.tensors, self.memory, strict=True):
            if isinstance(bytes_before, bytes):
                _C._put_bytes(t, bytes_before)
            elif not same(now := _whole(t), bytes_before):
                from adjoint.autograd import no_grad

                with no_grad():
                    now.copy_(bytes_before)
        for t, version in self.versions:
            _C._set_version(t, version)
        for t, edge in self.histories:
            if history(t) != edge:
                _C._put_history(t, *(edge or (None, 0)))
        for t, required in self.required:
            if t.requires_grad != required:
                t.requires_grad_(required)
        for generator, state in self.generators:
            generator.set_state(state)

    def difference(self, after: State, names: dict[int, str]) -> str:
        """Where a later state of the same tensors differs from this one; empty where it does not."""
        for t, a, b in zip(self.tensors, self.memory, after.memory, strict=True):
            if not (a == b if isinstance(a, bytes) else same(a, b)):
                return f"{names[id(t)]} has other elements"
        for (t, v), (_, w) in zip(self.versions, after.versions, strict=True):
            if v != w:
                return f"{names[id(t)]} has version {v}, and eagerly {w}"
        states = zip(self.generators, after.generators, strict=True)
        return "" if all(same(a, b) for (_, a), (_, b) in states) else "a generator is elsewhere"


def _whole(t: Any) -> Any:
    """All bytes of the memory under a tensor, shared."""
    from adjoint import empty, uint8

    version = t._version if not t.is_inference() else None
    whole = empty(0, dtype=uint8).set_(t.untyped_storage())
    if version is not None:
        _C._set_version(t, version)
    return whole
