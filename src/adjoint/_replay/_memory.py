"""The memory behind some tensors, kept to be put back or compared. Start reading at `State`."""

from __future__ import annotations

from adjoint import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["State", "same"]


def same(a: Any, b: Any) -> bool:
    from adjoint import equal

    return a.shape == b.shape and equal(a, b)


class State:
    """The memory behind some tensors, with versions, histories and flags (core/bind/replay_state.cpp), and generators: that of this
    thread, and others. What is not the processor's is copied here.
    """

    def __init__(self, tensors: list[Any], generators: list[Any]) -> None:
        self._kept = _C._State(tensors)  # type: ignore[call-arg]
        self._others = [(t, _copied(t)) for t in self._kept.others()]
        self.generators = [(g, g.get_state()) for g in (_C._default_generator(), *generators)]

    def put_back(self) -> None:
        for t, before in self._others:
            if not same(now := _whole(t), before):
                from adjoint.autograd import no_grad

                with no_grad():
                    now.copy_(before)
        self._kept.put_back()
        for generator, state in self.generators:
            generator.set_state(state)

    def difference(self, after: State, names: dict[int, str]) -> str:
        """Where a later state of the same tensors differs from this one; empty where it does not."""
        for (t, a), (_, b) in zip(self._others, after._others, strict=True):
            if not same(a, b):
                return f"{names[id(t)]} has other elements"
        if found := self._kept.difference(after._kept):
            t, versions = found
            if versions is None:
                return f"{names[id(t)]} has other elements"
            return "{} has version {}, and eagerly {}".format(names[id(t)], *versions)
        states = zip(self.generators, after.generators, strict=True)
        return "" if all(same(a, b) for (_, a), (_, b) in states) else "a generator is elsewhere"


def _copied(t: Any) -> Any:
    from adjoint.autograd import no_grad

    with no_grad():
        return _whole(t).clone()


def _whole(t: Any) -> Any:
    """All bytes of the memory under a tensor, shared."""
    from adjoint import empty, uint8

    version = t._version if not t.is_inference() else None
    whole = empty(0, dtype=uint8).set_(t.untyped_storage())
    if version is not None:
        _C._set_version(t, version)
    return whole
