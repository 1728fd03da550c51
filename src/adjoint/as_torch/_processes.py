"""Child processes of `multiprocessing` find Adjoint as torch, too, before they import the program.

A forked process has it from its parent. One that is spawned is a new interpreter, which gets the program's functions and
tensors by pickle, and so imports torch as its first deed; what starts it is told to call `as_torch` before. The modules that
start processes take as long to import as all of Adjoint: where the program has not done so, they are changed when it does.

A program that ``python -m adjoint.as_torch`` runs may also start Python programs by `subprocess` (lightning starts its ranks so): what it
starts by its own interpreter runs the same way. Start reading at `reach_children`.
"""

from __future__ import annotations

import os
import re
import sys
from functools import wraps
from importlib.machinery import PathFinder

from adjoint.as_torch._changes import also, change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["reach_children", "reach_programs"]

#: Adjoint may be in a folder that only this process had on its path.
_PLACE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: What a new process runs first.
_FIRST = f"import sys; sys.path.append({_PLACE!r}); from adjoint.as_torch import as_torch; as_torch(); sys.path.pop(); "
#: What a Python program is run by.
_RUN = f"import sys; sys.path.append({_PLACE!r}); from adjoint.as_torch.__main__ import main; sys.path.pop(); main(sys.argv[1:])"


def _change_spawn(spawn):
    command_line = spawn.get_command_line

    def get_command_line(**keywords):
        command = command_line(**keywords)
        if "-c" in command:  # not of a frozen program, which brings its own start
            at = command.index("-c") + 1
            command[at] = _FIRST + command[at]
        return command

    change(spawn, "get_command_line", get_command_line)


def _change_forkserver(forkserver):
    # The server forks, so that it is enough that it has it; it imports what it is told to when it starts.
    forkserver.set_forkserver_preload(["adjoint.as_torch._start", "__main__"])
    also(lambda: forkserver.set_forkserver_preload(["__main__"]))


def _change_subprocess(subprocess):
    initialise = subprocess.Popen.__init__

    @wraps(initialise)
    def __init__(self, args, *rest, **keywords):
        initialise(self, through_as_torch(args), *rest, **keywords)

    change(subprocess.Popen, "__init__", __init__)


def through_as_torch(command: Any) -> Any:
    """Rewrite a command that runs a Python program so that it runs under `as_torch`; other commands are kept."""
    if not isinstance(command, (list, tuple)) or not command or not sys.executable:
        return command
    if os.fspath(command[0]) not in (sys.executable, os.fsencode(sys.executable)):
        return command
    at = 1
    while at < len(command) and isinstance(command[at], str) and _OPTION.fullmatch(command[at]):
        at += 1 + (command[at] in ("-W", "-X"))
    program = command[at : at + 2]
    if not program or program[0] in ("-V", "-VV", "--version", "-h", "--help"):
        return command
    if (
        list(program) == ["-m", "adjoint.as_torch"]
        or str(program[0]).startswith("-c")
        and "as_torch" in str(program)
    ):
        return command
    return [*command[:at], "-c", _RUN, *command[at:]]


#: Options of the interpreter that come before the program.
_OPTION = re.compile("-[bBdEiIOPqsSuvx]+|-[WX].*")
_CHANGES = {"multiprocessing.spawn": _change_spawn, "multiprocessing.forkserver": _change_forkserver}


class _WhenImported:
    @staticmethod
    def find_spec(name, path=None, target_module=None):
        change: Any = _CHANGES.get(name)
        spec: Any = PathFinder.find_spec(name, path) if change is not None else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


def reach_programs() -> None:
    """Let Python programs that `subprocess` starts with this interpreter run under `as_torch`, too."""
    _CHANGES["subprocess"] = _change_subprocess
    also(lambda: _CHANGES.pop("subprocess", None))
    if "subprocess" in sys.modules:
        _change_subprocess(sys.modules["subprocess"])


def reach_children() -> None:
    """Let spawned processes call `as_torch` first."""
    for name, reach in _CHANGES.items():
        if name in sys.modules:
            reach(sys.modules[name])
    sys.meta_path.insert(0, _WhenImported)
    also(lambda: sys.meta_path.remove(_WhenImported))
