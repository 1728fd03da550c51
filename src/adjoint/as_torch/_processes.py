"""Processes that `multiprocessing` starts afresh: they too find Adjoint as torch, before the program is imported there.

A forked process has it from its parent. One that is spawned is a new interpreter, which gets the program's functions and
tensors by pickle, and so imports torch as its first deed; what starts it is told to call `as_torch` before. The modules that
start processes take as long to import as all of Adjoint: where the program has not done so, they are changed when it does.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from adjoint.as_torch._changes import also, change

__all__ = ["reach_children"]

#: What a new process runs first. Adjoint may be in a folder that only this process had on its path.
_FIRST = "import sys; sys.path.append({place!r}); from adjoint.as_torch import as_torch; as_torch(); sys.path.pop(); "


def _change_spawn(spawn):
    command_line = spawn.get_command_line

    def get_command_line(**keywords):
        command = command_line(**keywords)
        if "-c" in command:  # not of a frozen program, which brings its own start
            at = command.index("-c") + 1
            place = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            command[at] = _FIRST.format(place=place) + command[at]
        return command

    change(spawn, "get_command_line", get_command_line)


def _change_forkserver(forkserver):
    # The server forks, so that it is enough that it has it; it imports what it is told to when it starts.
    forkserver.set_forkserver_preload(["adjoint.as_torch._start", "__main__"])
    also(lambda: forkserver.set_forkserver_preload(["__main__"]))


_CHANGES = {"multiprocessing.spawn": _change_spawn, "multiprocessing.forkserver": _change_forkserver}


class _WhenImported:
    @staticmethod
    def find_spec(name, path=None, target_module=None):
        change = _CHANGES.get(name)
        spec = PathFinder.find_spec(name, path) if change is not None else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)  # type: ignore[misc]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def reach_children() -> None:
    """Let processes that are spawned from now on call `as_torch` before they do anything else."""
    for name, reach in _CHANGES.items():
        if name in sys.modules:
            reach(sys.modules[name])
    sys.meta_path.insert(0, _WhenImported)
    also(lambda: sys.meta_path.remove(_WhenImported))
