"""``python -m adjoint.as_torch``: run a program with `import torch` finding Adjoint.

The program sees what it would see when the interpreter ran it alone: its arguments, its folder on the path, and itself
as ``__main__``. Start reading at `main`.
"""

from __future__ import annotations

import os
import sys
import types

USAGE = """\
usage: python -m adjoint.as_torch script.py [argument …]
       python -m adjoint.as_torch -m module [argument …]
       python -m adjoint.as_torch -c code [argument …]
       python -m adjoint.as_torch torchrun [option …] script.py [argument …]
       python -m adjoint.as_torch - [argument …]      the program comes from standard input

Runs a program that was written for torch; `import torch` finds Adjoint."""


def main(arguments) -> None:
    """Run what the command line names."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    first, *rest = arguments
    if first in ("-m", "-c"):
        if not rest:
            print(f"argument expected for the {first} option\n{USAGE}", file=sys.stderr)
            raise SystemExit(2)
        what, *rest = rest
    elif first.startswith("-") and first != "-":
        print(f"unknown option: {first}\n{USAGE}", file=sys.stderr)
        raise SystemExit(2)

    from adjoint.as_torch import as_torch
    from adjoint.as_torch._processes import reach_programs

    as_torch()
    reach_programs()
    if first == "torchrun" and not os.path.exists(first):
        _run_module("torch.distributed.run", rest)
    elif first == "-m":
        _run_module(what, rest)
    elif first == "-c":
        sys.argv[:] = ["-c", *rest]
        _search_first("")
        _run(what, "<string>", None)
    elif first == "-":
        sys.argv[:] = ["-", *rest]
        _search_first("")
        _run(sys.stdin.read(), "<stdin>", None)
    else:
        _run_file(first, rest)


def _search_first(folder):
    # With `python -P` and `python -I` the first entry is no folder of the program's.
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = folder


def _run_module(name, rest):
    from runpy import run_module

    from adjoint.as_torch._finder import target

    sys.argv[:] = [name, *rest]
    if name.startswith("torch."):
        name = target(name) or name  # such as torch.distributed.run
    run_module(name, run_name="__main__", alter_sys=True)


def _run_file(path, rest):
    from runpy import run_path

    sys.argv[:] = [path, *rest]
    if os.path.isdir(path) or _is_archive(path):
        del sys.path[0]
        run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"python -m adjoint.as_torch: can't open file {path!r}: {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    _search_first(os.path.dirname(os.path.realpath(path)))
    _run(source, path, path)


def _is_archive(path):
    from zipfile import is_zipfile

    return os.path.isfile(path) and is_zipfile(path)


def _run(source, name, path):
    # A module of its own, that stays: threads, pickles and what runs at exit look for it in sys.modules.
    module = types.ModuleType("__main__")
    names = {"__builtins__": __builtins__, "__file__": path} if path else {"__builtins__": __builtins__}
    vars(module).update(names)
    sys.modules["__main__"] = module
    # Not with the future statements of this file.
    exec(compile(source, name, "exec", dont_inherit=True), vars(module))


if __name__ == "__main__":
    main(sys.argv[1:])
