"""Copies what the core is compiled against, where it came as Python packages, into a folder of the build.

    python tools/dependencies.py FOLDER

`pip` builds in a fresh environment each time, at another path and with other dates. Copies that keep their place, and
change only when their content does, let the next build find that nothing changed. nanobind goes to FOLDER/nanobind; where
it is not installed as a package, CMake looks for it elsewhere.
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


def main(folder: pathlib.Path) -> None:
    for path in files("nanobind"):
        below = path.parts[path.parts.index("nanobind") + 1 :] if "nanobind" in path.parts else ()
        if below and below[0] in ("cmake", "ext", "include", "src"):
            copy(path, folder.joinpath("nanobind", *below))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
