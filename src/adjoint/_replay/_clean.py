"""Whether a program's own code in a backward pass, a Function's `backward` or a hook, does nothing but compute.

A pass through what was recorded is run once more to be recorded, which the program must not notice, and its code may run long after the
call. So such code is read, not tried: it may name modules of the library, functions that are clean themselves, plain values,
tensors that it alone holds; store nowhere, and write nothing. What it named is compared again when the pass is replayed
(`Clean.holds`). Start reading at `Clean.function`.
"""

from __future__ import annotations

import builtins
import dis
import sys
import types
import weakref

from adjoint import _C
from adjoint._replay._codes import LIBRARY
from adjoint._replay._results import PLAIN, Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Clean"]

_BUILTINS = frozenset(
    "abs all any bool complex dict enumerate float int isinstance len list map max min range reversed round set slice sorted str sum "
    "tuple zip ValueError RuntimeError TypeError NotImplementedError AssertionError".split()
)
#: Operations that leave something behind, or bring in what was not named.
_FORBIDDEN = frozenset(
    "STORE_GLOBAL STORE_NAME STORE_ATTR STORE_SUBSCR STORE_SLICE DELETE_GLOBAL DELETE_NAME DELETE_ATTR DELETE_SUBSCR IMPORT_NAME "
    "LOAD_BUILD_CLASS YIELD_VALUE SEND LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF LOAD_CLASSDEREF".split()
)
#: What asks for, or changes, what lies beside the elements of a tensor.
_NAMES = frozenset(
    "backward grad register_hook register_post_accumulate_grad_hook retain_grad data apply numpy".split()
)
_MODULES = frozenset(("math", "operator", "cmath"))


class Clean:
    """What code of a backward pass was found to refer to. `mine(tensor)`: whether the program has it, too."""

    def __init__(self, mine: Callable[[Any], bool]) -> None:
        self._mine = mine
        self._seen: set[int] = set()
        #: Where a value was found, a cell or a name in a module or class, and a test of what is there now.
        self._found: list[tuple[Any, str, Callable[[Any], bool]]] = []

    def holds(self) -> bool:
        """Whether all that was named is as it was."""
        for place, name, same in self._found:
            if isinstance(place, types.CellType):
                try:
                    now = place.cell_contents
                except ValueError:
                    return False
            else:
                now = getattr(place(), name, None)
            if not same(now):
                return False
        return True

    def backward(self, context: Any, kind: Any) -> None:
        """The rule of a Function, and what its context holds."""
        name = kind.__qualname__
        rule = kind.backward
        self._note(weakref.ref(kind), "backward", rule, name)
        self.function(rule, f"{name}.backward")
        for key, value in (getattr(context, "__dict__", None) or {}).items():
            self._value(value, f"ctx.{key} of {name}")

    def function(self, function: Any, name: str) -> None:
        """A function, or Unfit."""
        if not isinstance(function, types.FunctionType):
            raise Unfit(f"its graph holds {name}, which is no plain function")
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        library = code.co_filename.startswith(LIBRARY)
        for cell, variable in zip(function.__closure__ or (), code.co_freevars, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                raise Unfit(f"its graph holds {name}, and {variable} there is not set") from None
            self._note(cell, variable, value, name)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(value, f"a default of {name}")
        if not library:
            self._code(code, function.__globals__, name)

    def _code(self, code: types.CodeType, names: dict[str, Any], name: str) -> None:
        for step in dis.get_instructions(code):
            op, key = step.opname, step.argval
            if op in _FORBIDDEN or (op in ("STORE_DEREF", "DELETE_DEREF") and key in code.co_freevars):
                raise Unfit(f"its graph holds {name}, which stores or imports something")
            if op in ("LOAD_ATTR", "LOAD_METHOD") and (
                key in _NAMES or key.startswith(("_", "set_", "manual_")) or key.endswith("_")
            ):
                raise Unfit(f"its graph holds {name}, which uses .{key}")
            if op == "LOAD_GLOBAL":
                if key in names:
                    module = sys.modules.get(names.get("__name__", ""))
                    if module is None or vars(module) is not names:
                        raise Unfit(f"its graph holds {name}, whose globals are those of no module")
                    self._note(weakref.ref(module), key, names[key], name)
                elif key not in _BUILTINS or not hasattr(builtins, key):
                    raise Unfit(f"its graph holds {name}, which uses {key}")
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                self._code(const, names, name)
            elif type(const) is tuple and "out" in const:
                raise Unfit(f"its graph holds {name}, which writes a tensor")

    def _note(self, place: Any, key: str, value: Any, name: str) -> None:
        test = self._value(value, f"{key} in {name}")
        if not isinstance(value, _C.Tensor) and type(value) is not tuple:  # which would be held
            self._found.append((place, key, test))

    def _value(self, value: Any, name: str) -> Callable[[Any], bool]:
        """A test for the same value, or Unfit where the code could do something by it."""
        if isinstance(value, PLAIN):
            form = repr(value)
            return lambda now: type(now) is type(value) and repr(now) == form
        if type(value) is _C.Tensor and not self._mine(value):
            return lambda now: True  # the call's own
        if type(value) is tuple:
            for part in value:
                self._value(part, name)
            return lambda now: True
        if isinstance(value, types.ModuleType):
            file = getattr(value, "__file__", None) or ""
            if file.startswith(LIBRARY) or value.__name__ in _MODULES:
                return _same_as(value)
        elif isinstance(value, types.FunctionType):
            self.function(value, value.__qualname__)
            return _same_as(value)
        elif isinstance(value, (types.BuiltinFunctionType, type, type(_C.is_grad_enabled))):
            module = sys.modules.get(getattr(value, "__module__", None) or "")
            if value.__module__ in _MODULES or (getattr(module, "__file__", None) or "").startswith(LIBRARY):
                return _same_as(value)
        raise Unfit(f"its graph holds code that uses {name}, of type {type(value).__qualname__}")


def _same_as(value: Any) -> Callable[[Any], bool]:
    """Whether something is this object, which is not held; of a function, whether it has this code."""
    code = getattr(value, "__code__", None)
    if code is not None:
        return lambda now: getattr(now, "__code__", None) is code
    try:
        weak = weakref.ref(value)
    except TypeError:
        return lambda now: now is value  # one of C's, which is there for good
    return lambda now: now is weak()
