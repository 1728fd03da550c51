"""Patches that are active while a tracer runs: module calls, reads of parameters, and functions named by `wrap`.

The names are changed for the whole process, and do anything else than before only in a thread whose tracer runs. Start reading at
`Patches.enter`.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
from typing import Any

import adjoint
from adjoint import nn
from adjoint._C import _read_members_directly
from adjoint.fx.node import map_aggregate
from adjoint.fx.proxy import Proxy

__all__ = [
    "find_proxy",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "original_call",
    "patches",
    "running",
    "wrap",
]


class Running(threading.local):
    """The tracers that are running in this thread, innermost last."""

    def __init__(self) -> None:
        self.tracers: list[Any] = []


running = Running()


def is_fx_tracing() -> bool:
    """Whether a tracer runs in this thread."""
    return bool(running.tracers)


is_fx_symbolic_tracing = is_fx_tracing


def find_proxy(values: Any) -> Proxy | None:
    found: list[Proxy] = []

    def look(a: Any) -> Any:
        if isinstance(a, Proxy):
            found.append(a)
        return a

    map_aggregate(values, look)
    return found[0] if found else None


#: Globals of modules, and names in them, that `wrap` was told of.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function of a module as a single node, instead of tracing into it.

    Parameters
    ----------
    fn_or_name : callable or str
        The function, as it is defined at the top level of a module, or its name there; a builtin's, such as ``"len"``.

    Returns
    -------
    callable or str
        `fn_or_name` itself, so that this is a decorator, too.

    Raises
    ------
    RuntimeError
        `fn_or_name` is neither.
    NotImplementedError
        It is not called at the top level of a module.

    Examples
    --------
    >>> from adjoint import fx
    >>> fx.wrap(3)
    Traceback (most recent call last):
        ...
    RuntimeError: Unsupported type for global function! Must be either a callable or string name, not int
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, not {type(fn_or_name).__name__}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _as_node(f: Any) -> Any:
    """A function that records a node if an argument is a proxy."""

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return f(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", f, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    vars(wrapped)["_fx_wraps"] = f
    return wrapped


class Patches:
    """The patched names while tracers run: functions in the globals of modules, and two methods of `Module`.

    Only calls in a thread whose tracer runs do anything else than before.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.count = 0
        self.changed: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}

    def enter(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.call = nn.Module.__call__
                nn.Module.__call__ = _call  # type: ignore[method-assign]
                nn.Module.__getattr__ = _getattr  # type: ignore[method-assign]
            for (_, name), space in list(_wrapped.items()):
                self.put(space, name)

    def put(self, space: dict[str, Any], name: str) -> None:
        with self.lock:
            f = space.get(name, getattr(builtins, name, None))
            if (id(space), name) in self.changed or f is None:
                return
            self.changed[id(space), name] = space, space.get(name, self)
            space[name] = _as_node(f)

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count:
                return
            for (_, name), (space, before) in self.changed.items():
                if before is self:
                    space.pop(name, None)
                else:
                    space[name] = before
            self.changed.clear()
            nn.Module.__call__ = self.call  # type: ignore[method-assign]
            del nn.Module.__getattr__
            # Python has set the slots of all classes of modules; see core/bind/module_members.cpp.
            classes = [nn.Module]
            for c in classes:
                _read_members_directly(c)
                classes += c.__subclasses__()


patches = Patches()
_own_getattr: Any = nn.Module.__getattr__


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    tracers = running.tracers
    if not tracers:
        return patches.call(self, *args, **kwargs)
    return tracers[-1]._called(self, args, kwargs)


def _getattr(self: Any, name: str) -> Any:
    value = _own_getattr(self, name)
    tracers = running.tracers
    if not tracers or not isinstance(value, adjoint.Tensor):
        return value
    return tracers[-1].getattr(name, value, tracers[-1]._parameter_proxies)


def original_call(module: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a module without tracing."""
    return patches.call(module, *args, **kwargs)
