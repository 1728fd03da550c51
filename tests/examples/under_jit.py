"""A program as it stands, with the functions that it calls often under `ad.jit`.

    python tests/examples/under_jit.py FILE ARGUMENTS...

runs it, and once more with each function and method that was called six times or more, wherever it is defined; the two must print
the same, but for times. Then it prints how often each was replayed, or why it was not. Functions inside of others that are
called as often, rules of a Function and generators stay as they are. Start reading at `jitted`.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import io
import os
import pathlib
import random
import re
import sys
import types
import warnings

import adjoint as ad

OFTEN = 6
#: How often each function ran, and what became of those under jit.
counts: collections.Counter[str] = collections.Counter()
made: dict[str, list] = collections.defaultdict(list)


class Decorate(ast.NodeTransformer):
    """Puts a decorator of this name before each function that `wanted` names, by its path."""

    def __init__(self, decorator, wanted=lambda path: True):
        self.decorator, self.wanted, self.path = decorator, wanted, ()

    def within(self, node):
        self.path = (*self.path, node.name)
        self.generic_visit(node)
        self.path = self.path[:-1]
        return node

    def visit_ClassDef(self, node):
        rules = any(ast.unparse(base).endswith("Function") for base in node.bases)
        return node if rules else self.within(node)

    def visit_FunctionDef(self, node):
        self.within(node)
        path = ".".join((*self.path, node.name))
        inner = [n for n in ast.walk(node) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        special = node.name.startswith("__") or node.decorator_list or inner
        if not special and self.wanted(path):
            call = ast.parse(f"{self.decorator}({path!r})", mode="eval").body
            node.decorator_list.append(call)
        return node


def count(path):
    def decorate(f):
        def counted(*args, **kwargs):
            counts[path] += 1
            return f(*args, **kwargs)

        counted.__name__, counted.__qualname__ = f.__name__, f.__qualname__
        return counted

    return decorate


def jit(path):
    def decorate(f):
        made[path].append(ad.jit(f))
        return made[path][-1]

    return decorate


def run(file, arguments, decorator, wanted=lambda path: True):
    """Run a program as `__main__`."""
    tree = Decorate(f"_{decorator.__name__}", wanted).visit(ast.parse(pathlib.Path(file).read_text()))
    program = types.ModuleType("__main__")
    vars(program).update({"__file__": str(file), f"_{decorator.__name__}": decorator})
    sys.modules["__main__"], sys.argv = program, [str(file), *arguments]
    sys.path.insert(0, str(pathlib.Path(file).parent))
    # A name outside of the library's folder: its own code is looked at otherwise.
    name = f"/programs/{pathlib.Path(file).name}"
    with contextlib.suppress(SystemExit):
        exec(compile(ast.fix_missing_locations(tree), name, "exec"), vars(program))


def output(file, arguments, decorator, wanted=lambda path: True):
    """What it prints, without times and names of files."""
    ad.manual_seed(0)
    random.seed(0)
    text = io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        run(file, arguments, decorator, wanted)
    lines = [
        line for line in text.getvalue().splitlines() if not line.lstrip().startswith(("replay", "picture"))
    ]
    return [re.sub(r"\b\d[\d.]* (s|ms|it/s|images/s)\b", "", line) for line in lines]


def jitted(file, arguments):
    """What a program prints, and that again under jit."""
    expected = output(file, arguments, count)

    def wanted(path):
        parts = path.split(".")
        outer = (".".join(parts[:k]) for k in range(1, len(parts)))
        return counts[path] >= OFTEN and not any(counts[p] >= OFTEN for p in outer)

    found = output(file, arguments, jit, wanted)
    for path, functions in sorted(made.items()):
        stats = [f.stats() for f in functions]
        calls, replayed = (sum(s[k] for s in stats) for k in ("calls", "replayed"))
        reasons = sorted({r for s in stats for r in s["reasons"]}, key=len)[:1] if not replayed else []
        print(f"{path}: {replayed} of {calls} replayed{': ' + reasons[0] if reasons else ''}")
    return expected, found


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    expected, found = jitted(pathlib.Path(sys.argv[1]), sys.argv[2:])
    for a, b in zip(expected, found):
        print(a if a == b else f"{a}\nunder jit\n{b}")
    sys.exit(expected != found or not expected)
