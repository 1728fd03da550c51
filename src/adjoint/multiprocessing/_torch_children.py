"""Where a program finds Adjoint as torch, so do the processes that it spawns: they learn it before they import the program."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["follow"]


class _AsTorch:
    """What becomes a call of `as_torch` where it is unpickled."""

    def __reduce__(self) -> Any:
        from adjoint.as_torch import as_torch

        return as_torch, ()


def follow() -> None:
    """Send the word along with what a spawned process is told first, once."""
    if type(getattr(sys.modules.get("torch"), "__loader__", None)).__module__ != "adjoint.as_torch._finder":
        return
    from multiprocessing import spawn

    before = spawn.get_preparation_data
    if before.__module__ == __name__:
        return

    def get_preparation_data(name):
        return {"as_torch": _AsTorch(), **before(name)}

    spawn.get_preparation_data = get_preparation_data
