"""Which code a run of a function executes, and which C functions it calls that do more than compute.

`Watching` sets a profile hook in C for the thread that enters it, and calls on to one that was there. What is pure is
listed here: methods of builtin containers, numbers and texts, functions of modules that only compute, and all of the
library, whose own rows are seen where they compute. Everything else that is written in C counts as impure: it may print,
read a clock, draw numbers or keep state. Other threads are not watched.
"""

from __future__ import annotations

import collections
import gc
import os
import re
import sys
import types

from adjoint import _C
from adjoint._replay._codes import facts_of, gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Watching"]

_PURE_TYPES = frozenset(
    (
        *(
            bool,
            bytearray,
            bytes,
            complex,
            dict,
            float,
            frozenset,
            int,
            list,
            memoryview,
            object,
            range,
            set,
            slice,
        ),
        *(str, super, tuple, type, type(None), property, staticmethod, classmethod, BaseException),
        *(collections.deque, collections.OrderedDict, collections.defaultdict),
        *(types.GeneratorType, types.CoroutineType, types.MappingProxyType, types.CodeType, types.CellType),
        *(type({}.keys()), type({}.values()), type({}.items()), types.SimpleNamespace),
        *(re.Pattern, re.Match),
        # What Functions of Python do is seen as they do it: their code runs here, and calls of the core are told.
        *(_C.Tensor, _C.Node, _C.Size, _C.dtype, _C.FunctionBase, _C.FunctionCtx),
    )
)
_PURE_MODULES = frozenset(
    "builtins math cmath _operator operator itertools functools _functools collections _collections _abc _weakref _bisect _heapq "
    "_struct _sre _copy _ast _string _typing _stat binascii zlib _json unicodedata _warnings _signature adjoint._C".split()
)
#: Functions of these modules that are not pure.
_IMPURE = frozenset("print input open exec eval compile breakpoint __import__ id hash globals locals".split())
#: But these are, where the library or the standard library calls them, for tables that they drop.
_INNER = frozenset("id hash globals locals exc_info getrecursionlimit".split())
#: And these, where the library itself calls them.
_LIBRARYS = frozenset(("get_ident", "__enter__", "__exit__", "acquire", "release"))
_FOLDERS = [
    os.path.dirname(path) + os.sep for path in (os.path.dirname(os.path.abspath(__file__)), os.__file__)
] + ["<frozen "]
_RULES = _C._Rules(_PURE_TYPES, _PURE_MODULES, _IMPURE, _INNER, _LIBRARYS, _FOLDERS)  # type: ignore[call-arg]


class Watching:
    """A context around one run. With `only`, other code than that and what is known, and what is impure, raises `_C._Ended` instead;
    garbage waits, since its finalizers are other code.

    Attributes
    ----------
    codes : list of (code, globals)
        What ran and was not among the `known`, each code once, in the order of first calls.
    impure : list of (str, str, int)
        What was called that is not known to be pure: a description such as ``print``, a file and a line.
    """

    def __init__(self, function: Any = None, only: Any = None, known: list[Any] | None = None) -> None:
        self.function = function
        self._collects = False
        self._tries = only is not None
        make: Any = _C._Watched
        if only is not None:
            only = {id(code) for code in (*only, _EXIT, _draws_by_numpy.__code__)}
        self._watched = make(_RULES, only, None if known is None else gather(known)[-1])
        self.codes: list[Any] = []
        self.impure: list[tuple[str, str, int]] = []

    def __enter__(self) -> Watching:
        if self._tries and gc.isenabled():
            self._collects = True
            gc.disable()
        self._watched.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._watched.stop()
        if self._collects:
            gc.enable()
        self.codes = [pair for pair in self._watched.codes if pair[0] is not _EXIT]
        self.impure = self._watched.impure
        if self._watched.replaced:
            self.impure.append(("sys.setprofile", __file__, 0))
        if "numpy.random" not in sys.modules:
            return
        # Functions that Cython made are no C functions for the hook.
        new = [pair for pair in self.codes if pair[1] is not None and not facts_of(pair[0]).library]
        for code, names in (*self._watched.others, *new):
            if _draws_by_numpy(code, names):
                self.impure.append(("numpy.random", code.co_filename, code.co_firstlineno))


_EXIT = Watching.__exit__.__code__


def _draws_by_numpy(code: types.CodeType, names: dict[str, Any]) -> bool:
    """Whether code with these globals may reach NumPy's generator: what it takes from a closure or imports may be NumPy."""
    used = code.co_names
    if "random" in used and ("numpy" in used or code.co_freevars) and "numpy.random" in sys.modules:
        return True
    for name in used:
        value = names.get(name)
        if isinstance(value, types.ModuleType):
            if value.__name__ == "numpy.random" or (value.__name__ == "numpy" and "random" in used):
                return True
        elif isinstance(value, (types.MethodType, types.BuiltinMethodType)):
            if type(value.__self__).__module__.startswith("numpy.random"):
                return True
    return False
