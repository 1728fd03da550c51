"""What is in use: the build, the processor's loops, threads, the BLAS. Start reading at `show_config`."""

from __future__ import annotations

import os
import platform
import sys

from adjoint import _C
from adjoint._version import __version__

__all__ = ["bug_report", "show_config"]


def _blas() -> str:
    try:
        return _C._blas_name()
    except RuntimeError as error:  # ADJOINT_BLAS names one that cannot be used
        return f"none: {error}"


def _configuration() -> dict[str, object]:
    return {
        "adjoint": __version__,
        "compiler": _C._compiler(),
        "loops for": _C.instruction_set(),
        "threads": _C.get_num_threads(),
        "BLAS": _blas(),
        "memory": "checked (ADJOINT_CHECKS)" if os.environ.get("ADJOINT_CHECKS") else "pooled",
    }


def _print(parts: dict[str, object]) -> None:
    width = max(map(len, parts))
    for name, value in parts.items():
        print(f"{name:{width}}  {value}")


def show_config() -> None:
    """Print how the core was built and what it uses here: version, compiler, instruction set, threads, BLAS.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.show_config()  # doctest: +ELLIPSIS
    adjoint    ...
    compiler   ...
    loops for  ...
    threads    ...
    BLAS       ...
    memory     ...
    """
    _print(_configuration())


def bug_report() -> None:
    """Print what a report of a bug should say: `show_config`, Python, the system, installed packages, the environment.

    Nothing is sent anywhere. Of the environment there are only variables that begin with ADJOINT_, OMP_ or OPENBLAS_.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.bug_report()  # doctest: +ELLIPSIS
    adjoint    ...
    """
    from importlib.metadata import PackageNotFoundError, version

    parts = _configuration()
    parts["Python"] = f"{sys.version.split()[0]} ({platform.python_implementation()})"
    parts["system"] = f"{platform.platform()}, {os.cpu_count()} processors"
    for package in ("numpy", "scipy", "scipy-openblas32", "torch", "optree", "safetensors", "mpi4py"):
        try:
            parts[package] = version(package)
        except PackageNotFoundError:
            continue
    for name, value in sorted(os.environ.items()):
        if name.startswith(("ADJOINT_", "OMP_", "OPENBLAS_")):
            parts[name] = value
    _print(parts)
