"""Copies what the core is compiled against, where it came as Python packages, into a folder of the build.

    python tools/dependencies.py FOLDER

`pip` builds in a fresh environment each time, at another path and with other dates. Copies that keep their place, and
change only when their content does, let the next build find that nothing changed. oneTBB goes to FOLDER/tbb (headers,
library, CMake files, licence), nanobind to FOLDER/nanobind; what is not installed as a package is left out, and CMake
looks for it elsewhere.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import sys


def copy(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy a file unless its content is there already."""
    content = source.read_bytes()
    if target.is_file() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def files(package: str) -> list[pathlib.Path]:
    """The files that a package installed; none where it is not."""
    try:
        listed = importlib.metadata.distribution(package).files or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [pathlib.Path(str(file.locate())).resolve() for file in listed]


def wanted_of_tbb(path: pathlib.Path) -> pathlib.PurePath | None:
    """Where a file of oneTBB goes: as its CMake files expect to lie beside headers and libraries."""
    if "include" in path.parts:
        return pathlib.PurePath(*path.parts[len(path.parts) - 1 - path.parts[::-1].index("include") :])
    if path.name.startswith("TBBConfig"):
        return pathlib.PurePath("lib", "cmake", "tbb", path.name)
    if path.name in ("LICENSE.txt", "third-party-programs.txt"):
        return pathlib.PurePath("terms", path.name)
    if path.name.startswith(("libtbb.so.12", "libtbb.12")):
        return pathlib.PurePath("lib", path.name)
    return None


def main(folder: pathlib.Path) -> None:
    for path in files("tbb-devel") + files("tbb"):
        to = wanted_of_tbb(path)
        if to and path.is_file():
            copy(path, folder / "tbb" / to)
    for path in files("nanobind"):
        below = path.parts[path.parts.index("nanobind") + 1 :] if "nanobind" in path.parts else ()
        if below and below[0] in ("cmake", "ext", "include", "src"):
            copy(path, folder.joinpath("nanobind", *below))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
