"""Not the package (that is src/adjoint): what `import adjoint` finds first in a clone, where the core is not compiled.

It steps aside for the installed package, and where there is none, says what to do. It is never installed.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

_here = pathlib.Path(__file__).resolve().parent
_spec = importlib.machinery.PathFinder.find_spec(
    "adjoint", [folder for folder in sys.path if pathlib.Path(folder).resolve() != _here]
)
if _spec is None or _spec.loader is None:
    raise ImportError(
        f"Adjoint is not installed in this Python ({sys.executable}): its core has to be compiled first. "
        f"Run `pip install .` in {_here}, which takes some minutes.",
        name="adjoint",
    )
sys.modules["adjoint"] = _module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
