"""Backward passes in several threads: `set_parallel_backward`, and `set_multithreading_enabled`, which can forbid it."""

from __future__ import annotations

from threading import local

from adjoint._C import _set_parallel_backward
from adjoint._types import Any

__all__ = ["is_multithreading_enabled", "set_multithreading_enabled", "set_parallel_backward"]


class _Switches(local):
    """What this thread asked for. Its backward passes run in several threads when both are on."""

    parallel = False
    allowed = True

    def apply(self):
        _set_parallel_backward(self.parallel and self.allowed)


_switches = _Switches()


class _Switch:
    """At once, and back at the end when used as a context manager or decorator."""

    name = ""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.before = getattr(_switches, self.name)
        self._set(self.mode)

    def _set(self, mode):
        setattr(_switches, self.name, mode)
        _switches.apply()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._set(self.before)

    def __call__(self, function: Any) -> Any:
        from functools import wraps

        # What was switched belongs to the calls.
        self._set(self.before)

        @wraps(function)
        def wrapper(*args, **kwargs):
            with type(self)(self.mode):
                return function(*args, **kwargs)

        return wrapper


class set_parallel_backward(_Switch):
    """Run independent branches of a graph on several threads in the backward passes of this thread, from now on or until
    the context is left. The results are the same, bit for bit.

    Parameters
    ----------
    mode : bool

    Notes
    -----
    The number of threads is that of `set_num_threads`. It pays where branches are long and their operations too small to
    keep several threads busy themselves. Passes with ``create_graph=True`` run on one thread. Hooks and Functions may be
    called from any of the threads, one at a time as Python has it.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> with ad.autograd.set_parallel_backward(True):
    ...     (x.exp() + x.sin()).sum().backward()
    """

    name = "parallel"


class set_multithreading_enabled(_Switch):
    """Whether the backward passes of this thread may use several threads; they may unless it is forbidden. A pass runs on
    the thread that asks for it anyway, except where `set_parallel_backward` is on. A function, context manager and
    decorator.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> with ad.autograd.set_parallel_backward(True), ad.autograd.set_multithreading_enabled(False):
    ...     (x.exp() + x.sin()).sum().backward()
    """

    name = "allowed"


def is_multithreading_enabled() -> bool:
    """Whether `set_multithreading_enabled` allows the backward passes of this thread to use several threads.

    Returns
    -------
    bool

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.set_multithreading_enabled(False):
    ...     ad.autograd.is_multithreading_enabled()
    False
    """
    return _switches.allowed
