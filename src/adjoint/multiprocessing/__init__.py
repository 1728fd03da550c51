"""Processes that share tensors: the standard library's `multiprocessing`, with tensors in memory that all of them see.

What goes through a `Queue` or `Pipe`, or is an argument of a `Process`, is moved to shared memory and arrives as the same
memory: what one process writes, the others read. Gradients and graphs are not sent. Start reading at `reductions`.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from adjoint._publish.register import listing
from adjoint._types import Any
from adjoint.multiprocessing import reductions
from adjoint.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
__all__ += multiprocessing.__all__
__dir__ = listing(__name__)

reductions.init_reductions()


def get_all_sharing_strategies() -> set:
    """How memory can be shared: by file descriptors, which leave nothing behind when the last process has gone.

    Returns
    -------
    set of str

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.multiprocessing.get_all_sharing_strategies()
    {'file_descriptor'}
    """
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The way in which memory is shared.

    Returns
    -------
    str

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return "file_descriptor"


def set_sharing_strategy(new_strategy: Any) -> None:
    """Choose the way in which memory is shared; there is one.

    Parameters
    ----------
    new_strategy : {'file_descriptor', 'file_system'}
        Both mean the first.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")
