"""Checks types as users meet them: every public name, typical programs, and wrong calls, each of which has to be rejected.

    python tools/check_types.py [mypy] [pyright]

Both type checkers read the sources with the stubs that `tools/stubs.py` makes of the compiled module, as they are installed.
Checked are the package itself (mypy), the examples, and as strictly as they can a file with every public name, made here of
what is there, the tour and `tests/typing/typical.py`. In `tests/typing/wrong.py` a checker finds an error in each line that ends
in ``# wrong``, and in no other. Start reading at `main`.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import stubs

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPING = ROOT / "tests" / "typing"
#: What is checked as strictly as can be, after the file of all names; and what has no types of its own.
STRICT = [ROOT / "docs" / "tour.py", TYPING / "typical.py"]
PLAIN = sorted((ROOT / "examples").glob("*.py"))
#: How users' programs are checked. The packages that examples use need not be there, nor typed.
COMMANDS = {
    "mypy": [
        "mypy",
        "--no-error-summary",
        "--no-pretty",
        "--ignore-missing-imports",
        "--follow-imports=silent",
    ],
    "pyright": ["pyright"],
}


def public_modules(package):
    """The package and its modules, as users import them. What torch's names alone need is checked by nobody."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None):
        parts = info.name.split(".")[1:]
        if not any(part.startswith("_") for part in parts) and parts[0] not in ("as_torch", "demo"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(info.name)


def public_names(package) -> str:
    """A program that imports every public name."""
    lines = []
    for module in public_modules(package):
        # Families of functions that the package publishes under its own name say nothing of their own.
        names = getattr(module, "__all__", dir(module) if "__dir__" in vars(module) else ())
        lines += [f"from {module.__name__} import {n} as name{len(lines) + i}" for i, n in enumerate(names)]
    return "\n".join(lines) + "\n"


def package_with_stubs(folder, package):
    """The sources as they are installed, stubs included."""
    target = folder / "src" / "adjoint"
    shutil.copytree(
        ROOT / "src" / "adjoint", target, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyi")
    )
    stubs.write(package, importlib.import_module("adjoint._C"), target)


def errors(checker, folder, files, *options) -> list[tuple[str, int, str]]:
    """What a checker finds in files: the file, the line, what is wrong."""
    source = str(folder / "src")
    done = subprocess.run(
        [*COMMANDS[checker], *options, *map(str, files)],
        cwd=folder,
        env=os.environ | {"MYPYPATH": source, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^\s*(\S+\.pyi?):(\d+)(?::\d+)?(?: -|:) error: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or bool(done.returncode) != bool(found):
        raise RuntimeError(f"{checker} failed:\n{done.stdout}{done.stderr}")
    # Packages that examples use need not be there.
    missing = re.compile(r'Import "(?!adjoint).*" could not be resolved')
    return [(file, int(line), text) for file, line, text in found if not missing.match(text)]


def wrong_lines(path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {i for i, line in enumerate(lines, 1) if line.endswith("# wrong")}


def check(checker, folder) -> list[str]:
    """What is not as it should be, a line each."""
    strict, wrong = [folder / "every_public_name.py", *STRICT], TYPING / "wrong.py"
    if checker == "mypy":
        found = errors(checker, folder, strict, "--strict", "--config-file", "")
        found += errors(checker, folder, PLAIN, "--check-untyped-defs")
        found += errors(checker, folder, [], "--config-file", str(ROOT / "pyproject.toml"))
    else:
        found = errors(checker, folder, [*strict, *PLAIN])
    said = [f"{checker}: {file}:{line}: {text}" for file, line, text in found]
    rejected = {line for _, line, _ in errors(checker, folder, [wrong])}
    said += [f"{checker}: wrong.py:{line}: is accepted" for line in sorted(wrong_lines(wrong) - rejected)]
    return said + [
        f"{checker}: wrong.py:{line}: is rejected" for line in sorted(rejected - wrong_lines(wrong))
    ]


def main(*checkers) -> int:
    import adjoint

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        package_with_stubs(folder, adjoint)
        (folder / "every_public_name.py").write_text(public_names(adjoint))
        said = [line for checker in checkers or COMMANDS for line in check(checker, folder)]
    print("\n".join(said) or "types: nothing to say")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
