"""Where modules have moved: pickles name functions and classes by their modules, and those of earlier versions are to load.

A finder that comes after all others, so it is asked only for modules that nobody has. Start reading at `MOVED`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

__all__ = ["MOVED"]

#: By the folder where they are now: the modules, as they were called.
MOVED = {
    f"adjoint._{name}": f"adjoint.{folder}.{name}"
    for folder, names in (
        (
            "_tensor",
            "copying creation data device drawing dtypes making memory memory_format random segments storage typed_storage",
        ),
        ("_publish", "arguments register"),
    )
    for name in names.split()
}


class _Moved:
    """The finder, and the loader of what it finds."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, _Moved, origin=MOVED[name]) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        # The import system takes what it finds in sys.modules afterwards.
        name = module.__spec__.name
        sys.modules[name] = import_module(MOVED[name])


sys.meta_path.append(_Moved)  # type: ignore[arg-type]
