"""Unique names of values in a graph, and names of functions and types in generated code and printed graphs.

Start reading at `Namespace.create_name` and `qualified_name`.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
import sys
import types
from typing import Any

from adjoint._switches import switches
from adjoint.overrides import resolve_name

__all__ = ["Namespace", "function_name", "is_of_package", "qualified_name", "shown_target", "type_name"]

_REPLACED = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")
_WORD_BEGINS = re.compile(r"(?<=[a-z])([A-Z])")
#: What `Namespace` must not give to anything else: values by the names that generated code knows them by.
RESERVED: dict[str, Any] = {**dict.fromkeys(keyword.kwlist, keyword), **vars(builtins)}


class Namespace:
    """Creates unique names, never shadowing a builtin."""

    def __init__(self) -> None:
        #: By the address of an object, which is held: the object, and its name.
        self._names: dict[int, tuple[Any, str]] = {}
        self._used: set[str] = set()
        self._last: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A unique name based on `candidate`; the same as before for an `obj` that has one."""
        if obj is not None and id(obj) in self._names:
            return self._names[id(obj)][1]
        name = _REPLACED.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = "_" + name
        numbered = _NUMBERED.match(name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        if not numbered or name in self._used:
            number = self._last.get(base, 0)
            if name in RESERVED and RESERVED[name] is not obj:
                number += 1
                name = f"{base}_{number}"
        while name in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        self._last[base] = number
        if obj is not None:
            self._names[id(obj)] = obj, name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Associate a name with `obj`."""
        self._names[id(obj)] = obj, name

    def rename(self, obj: Any, name: str) -> None:
        self._names[id(obj)] = obj, name
        self._used.add(name)


def function_name(target: Any) -> str:
    """The base of the name of a node that calls `target`: ``max_pool2d`` for a function, ``conv_block_1`` for a path."""
    if callable(target):
        name = getattr(target, "__name__", None) or type(target).__name__
    else:
        name = target
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
    return _WORD_BEGINS.sub(r"_\1", name).lower()


def _package(name: str) -> str:
    """A dotted name of Adjoint's, with the name of the package that programs import."""
    head, dot, rest = name.partition(".")
    return switches.package + dot + rest if head == "adjoint" else name


def reached(name: str) -> Any:
    """Resolve a dotted name by attributes of an imported module; None if there is nothing."""
    head, *rest = name.split(".")
    value = sys.modules.get(head)
    for part in rest:
        value = getattr(value, part, None)
    return getattr(value, "_fx_wraps", value)  # another tracer may run


def qualified_name(f: Any) -> str:
    """The dotted name of a function or class; ``adjoint.nn.functional.relu``, ``len``, ``math.sqrt``."""
    name = getattr(f, "__name__", None)
    if name is None:
        raise RuntimeError(f"fx: cannot write a call of {f!r} as code: it has no __name__")
    if getattr(builtins, name, None) is f:
        return name
    known = resolve_name(f)
    if known:
        return _package(known.removesuffix(".__get__"))
    module = getattr(f, "__module__", None)
    if name == "<lambda>":
        try:
            name = inspect.getsource(f).split("=")[0].strip()
        except (OSError, TypeError) as error:
            raise RuntimeError(
                f"fx: cannot write a call of the lambda {f!r} as code: give it a name"
            ) from error
    if module is None:
        raise RuntimeError(f"fx: cannot find the module of {f!r}, to write a call of it as code")
    own = f"{switches.package}.{name}"
    if module.partition(".")[0] == "adjoint" and reached(own) is f:
        return own
    return _package(f"{module}.{name}")


def is_of_package(obj: Any, name: str) -> bool:
    """Whether generated code can reach `obj` by this dotted name from the package that it imports."""
    return name.partition(".")[0] in ("adjoint", "torch") and reached(name) is obj


def shown_target(target: Any) -> str:
    """A node's target as printed graphs write it."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if name is None:
        return repr(target)
    if module in ("builtins", "_operator"):
        return f"{module.lstrip('_')}.{name}"
    try:
        return qualified_name(target)
    except RuntimeError:
        return repr(target)


def type_name(t: Any) -> str:
    """A type as annotations write it."""
    if isinstance(t, type) and not isinstance(t, types.GenericAlias):
        if t.__module__ == "builtins":
            return t.__qualname__
        return _package(f"{t.__module__}.{t.__qualname__}").replace("adjoint._C.", "adjoint.")
    if t is ...:
        return "..."
    return t.__name__ if isinstance(t, types.FunctionType) else repr(t)
