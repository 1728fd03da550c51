"""What `as_torch` has changed in this process, so that it can be taken back. Start reading at `change`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["also", "change", "undo"]

_back: list[Callable[[], Any]] = []


def change(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module, a class or an object."""
    if name in vars(owner):
        before = vars(owner)[name]
        _back.append(lambda: setattr(owner, name, before))
    else:
        _back.append(lambda: delattr(owner, name))
    setattr(owner, name, value)


def also(step: Callable[[], Any]) -> None:
    """Register an undo step for another kind of change."""
    _back.append(step)


def undo() -> None:
    """Undo all changes, last first."""
    while _back:
        _back.pop()()
