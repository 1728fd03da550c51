"""Compiles the module for each Python. What the core is made of knows no Python, so the second Python's module takes the
bindings alone: a target has one build folder, in which the interpreter is exchanged."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable

from releasing.targets import ROOT, Target, run, toolchain, zig_environment

#: Versions of Python that have wheels, as far as they are found.
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


@dataclasses.dataclass(frozen=True)
class Python:
    executable: str
    version: str
    include: str

    @property
    def tag(self) -> str:
        return "cp" + self.version.replace(".", "")


def find_pythons(versions: list[str], more: Iterable[str] = ()) -> dict[str, Python]:
    """The interpreters at hand: this one, those on the path, those that pyenv or a container of manylinux holds, and `more`."""
    ask = (
        "import sys, sysconfig, json; print(json.dumps(['%d.%d' % sys.version_info[:2], "
        "sysconfig.get_path('include'), bool(sysconfig.get_config_var('Py_GIL_DISABLED')), sys.executable]))"
    )
    found: dict[str, Python] = {}
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    for version in versions:
        candidates = [sys.executable, shutil.which(f"python{version}")]
        candidates += sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))
        candidates += sorted(
            map(str, pathlib.Path("/opt/python").glob(f"cp{version.replace('.', '')}-*/bin/python"))
        )
        for candidate in filter(None, [*candidates, *more]):
            try:
                said = json.loads(run([candidate, "-c", ask]))
            except (SystemExit, OSError, ValueError):
                continue  # a shim may stand for an interpreter that is not installed
            if said[0] == version and not said[2] and (pathlib.Path(said[1]) / "Python.h").is_file():
                # What a launcher starts does not know that it was.
                found[version] = Python(str(candidate) if candidate in more else said[3], version, said[1])
                break
    return found


def environment(target: Target, cache: bool = False) -> dict[str, str]:
    # With a zone, a language or flags of somebody's own the same sources would make another file.
    kept = {
        key: value
        for key, value in zig_environment(target).items()
        if key not in ("CFLAGS", "CXXFLAGS", "LDFLAGS")
    }
    # Headers are compiled beforehand, which is quicker than a compiler's cache that is empty. One that is full was filled with the
    # language as it is.
    return kept | {"TZ": "UTC"} | ({} if cache else {"LC_ALL": "C", "CCACHE_DISABLE": "1"})


def compile(
    target: Target,
    arguments: list[str | os.PathLike[str]],
    jobs: int,
    link: bool = True,
    cache: bool = False,
) -> pathlib.Path:
    """Configures and compiles; warnings are errors."""
    folder = target.folder
    command: list[str | os.PathLike[str]] = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        folder,
        "-G",
        "Ninja",
        *toolchain(target),
        *arguments,
    ]
    command += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER_LAUNCHER={'ccache' if cache else ''}"]
    run(command, env=environment(target, cache))
    log = target.folder / "build.log"
    known = "" if link else run(["ninja", "-C", folder, "-t", "targets", "all"])
    objects = re.findall(r"^(\S+\.o(?:bj)?): CXX", known, re.M)
    with log.open("w") as stream:
        command = ["ninja", "-C", folder, f"-j{jobs}", *objects]
        done = subprocess.run(
            command, env=environment(target, cache), stdout=stream, stderr=subprocess.STDOUT
        )
    words = log.read_text()
    if done.returncode or "warning:" in words:
        raise SystemExit(f"the build for {target.name} failed or has warnings ({log}):\n{words[-6000:]}")
    return folder


def build(target: Target, python: Python, jobs: int, cache: bool = False) -> pathlib.Path:
    """A folder with what the build installs into the package: the module and, where it can be imported, its stubs."""
    import nanobind

    arguments: list[str | os.PathLike[str]] = [
        "-U",
        "*Python_*",
        "-U",
        "NB_*",
        f"-DPython_EXECUTABLE={python.executable}",
    ]
    arguments += [f"-DPython_INCLUDE_DIR={python.include}", f"-Dnanobind_DIR={nanobind.cmake_dir()}"]
    folder, installed = compile(target, arguments, jobs, cache=cache), target.folder / "installed"
    shutil.rmtree(installed, ignore_errors=True)
    run(["cmake", "--install", folder, "--strip", "--prefix", installed], env=environment(target))
    return installed / "adjoint"


def build_core(target: Target, jobs: int) -> None:
    """The core alone, as a check that it compiles."""
    compile(target, ["-DADJOINT_PYTHON=OFF"], jobs)


def version_of(sources: pathlib.Path) -> str:
    """Of CPython's source package, or of a folder of its headers: 3.11.2."""
    if sources.is_dir():
        return stated_version((sources / "patchlevel.h").read_text())
    with tarfile.open(sources) as archive:
        name = next(name for name in archive.getnames() if name.endswith("/Include/patchlevel.h"))
        content = archive.extractfile(name)
        assert content
        return stated_version(content.read().decode())


def stated_version(patchlevel: str) -> str:
    (said,) = re.findall(r'^#define PY_VERSION\s+"([\d.]+)', patchlevel, re.M)
    return said


def headers(target: Target, sources: pathlib.Path) -> pathlib.Path:
    """CPython's headers for Windows, from its source package. For other systems configuring writes one of them: a folder has all."""
    if sources.is_dir():
        return sources
    folder = target.folder / "python"
    with tarfile.open(sources) as archive:
        for member in archive:
            path = pathlib.PurePath(*pathlib.PurePath(member.name).parts[1:])
            content = archive.extractfile(member)
            if content and (path.parts[0] == "Include" or path == target.headers):
                to = folder / (path.name if path == target.headers else path.relative_to("Include"))
                to.parent.mkdir(parents=True, exist_ok=True)
                # 64 bits, of which that file knows under Microsoft's compiler alone.
                begin = b"#define MS_WIN64\n" if path == target.headers else b""
                to.write_bytes(begin + content.read())
    return folder


def build_bindings(target: Target, python: Python, sources: pathlib.Path, jobs: int) -> None:
    """The core and the bindings; they are not linked, for want of Python's library."""
    import nanobind

    include = headers(target, sources)
    library = target.folder / f"{python.tag.replace('cp', 'python')}.lib"  # CMake wants one
    library.touch()
    arguments: list[str | os.PathLike[str]] = [f"-DPython_EXECUTABLE={python.executable}"]
    arguments += [f"-DPython_INCLUDE_DIR={include}", f"-DPython_LIBRARY={library}"]
    arguments += [f"-Dnanobind_DIR={nanobind.cmake_dir()}", "-DADJOINT_PYTHON=ON"]
    compile(target, arguments, jobs, link=False)
