"""Running programs that were written for torch: for this process, `import torch` finds Adjoint.

    python -m adjoint.as_torch script.py arguments …
    python -m adjoint.as_torch -m module arguments …
    python -m adjoint.as_torch -c "import torch; print(torch.ones(2))"

or, inside a program and before anything imports torch, ``adjoint.as_torch()``. It never happens unasked: importing this
package changes nothing. The modules are the same objects under a second name (``torch.nn is adjoint.nn``); what has no
counterpart, such as `torch.cuda`, is stood in for in `standins`; what Adjoint does not have raises an error that names
it. Start reading at `as_torch`, then `_finder`.
"""

from __future__ import annotations

import sys
import types

__all__ = ["as_torch", "undo"]


def as_torch() -> types.ModuleType:
    """Let `import torch`, and imports of its submodules, find Adjoint in this process from now on.

    The package is callable: ``adjoint.as_torch()`` is this function. A second call changes nothing. From then on the
    types print as torch's do (``torch.float32``). Processes that `multiprocessing` starts do the same; others are not touched.

    Returns
    -------
    module
        What ``import torch`` gives.

    Raises
    ------
    RuntimeError
        The real torch has been imported already.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "import adjoint; adjoint.as_torch(); import torch; print(torch.nn.Linear is adjoint.nn.Linear)"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/").stdout
    'True\\n'
    """
    from adjoint.as_torch import _finder

    return _finder.install()


def undo() -> None:
    """Take back what `as_torch` changed: `import torch` finds what it found before, types print as Adjoint's again.

    For tests and notebooks. What a program has imported stays what it is: its `torch` is Adjoint, under the name that it gave it.

    Examples
    --------
    >>> import adjoint as ad
    >>> torch = ad.as_torch()
    >>> print(torch.float32)
    torch.float32
    >>> ad.as_torch.undo()
    >>> print(torch.float32)
    adjoint.float32
    """
    from adjoint.as_torch import _changes

    _changes.undo()


class _Callable(types.ModuleType):
    """A package that is a function as well."""

    def __call__(self):
        return as_torch()


sys.modules[__name__].__class__ = _Callable
