"""Whether a program's own code in a backward pass, a Function's `backward` or a hook, does nothing but compute.

A pass through what was recorded is run once more to be recorded, which the program must not notice, and its code may run long after the
call. So such code is read, not tried: it may name modules of the library, functions that are clean themselves, plain values,
tensors that it alone holds; store nowhere, and write nothing. What it named is compared again when the pass is replayed
(`Clean.holds`). The functions of operators that programs declare are read likewise (`clean_kernels`): a replay calls them. Start reading at
`Clean.function`.
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

__all__ = ["Clean", "clean_kernels"]

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


def _defaults(function: Any) -> tuple[Any, ...]:
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _cells(function: Any) -> list[int]:
    return [id(cell) for cell in function.__closure__ or ()]


class Clean:
    """What code of a backward pass was found to refer to. `mine(tensor)`: whether the program has it, too."""

    #: Operations and names of attributes that it does without, packages whose functions only compute, and how errors begin.
    _forbidden = _FORBIDDEN
    _names = _NAMES
    _packages: frozenset[str] = frozenset()
    _whose = "its graph holds "

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
                now = place.get(name) if isinstance(place, dict) else getattr(place(), name, None)
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
            raise Unfit(f"{self._whose}{name}, which is no plain function")
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        if vars(function) and not function.__code__.co_filename.startswith(LIBRARY):
            raise Unfit(f"{self._whose}{name}, which has attributes")
        code = function.__code__
        library = code.co_filename.startswith(LIBRARY)
        for cell, variable in zip(function.__closure__ or (), code.co_freevars, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                raise Unfit(f"{self._whose}{name}, and {variable} there is not set") from None
            self._note(cell, variable, value, name)
        for value in _defaults(function):
            self._value(value, f"a default of {name}")
        if not library:
            self._code(code, function.__globals__, name)

    def _code(self, code: types.CodeType, names: dict[str, Any], name: str) -> None:
        for step in dis.get_instructions(code):
            op, key = step.opname, step.argval
            if op == "IMPORT_NAME" and key.partition(".")[0] in self._packages and key in sys.modules:
                continue
            if op in self._forbidden or (op in ("STORE_DEREF", "DELETE_DEREF") and key in code.co_freevars):
                raise Unfit(f"{self._whose}{name}, which stores or imports something")
            if op in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and (
                key in self._names or key.startswith(("_", "set_", "manual_")) or key.endswith("_")
            ):
                raise Unfit(f"{self._whose}{name}, which uses .{key}")
            if op == "LOAD_GLOBAL":
                if key in names:
                    self._note(self._namespace(names, name), key, names[key], name)
                elif key not in _BUILTINS or not hasattr(builtins, key):
                    raise Unfit(f"{self._whose}{name}, which uses {key}")
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                self._code(const, names, name)
            elif type(const) is tuple and "out" in const:
                raise Unfit(f"{self._whose}{name}, which writes a tensor")

    def _namespace(self, names: dict[str, Any], name: str) -> Any:
        """Where globals are found again, without holding them."""
        module = sys.modules.get(names.get("__name__", ""))
        if module is None or vars(module) is not names:
            raise Unfit(f"{self._whose}{name}, whose globals are those of no module")
        return weakref.ref(module)

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
        elif isinstance(value, _C.Operator) or hasattr(value, "_code_of_passes"):
            return self._operator(value, name)
        elif isinstance(value, types.FunctionType):
            self.function(value, value.__qualname__)
            return _same_as(value)
        elif isinstance(value, (types.BuiltinFunctionType, type, type(_C.is_grad_enabled))):
            module = sys.modules.get(getattr(value, "__module__", None) or "")
            if value.__module__ in _MODULES or (getattr(module, "__file__", None) or "").startswith(LIBRARY):
                return _same_as(value)
        raise Unfit(f"{self._whose}code that uses {name}, of type {type(value).__qualname__}")

    def _operator(self, value: Any, name: str) -> Callable[[Any], bool]:
        """An operator, whose calls are seen; or one that a program declared, and its rules."""
        for what, rule in () if isinstance(value, _C.Operator) else value._code_of_passes():
            if rule is not None:
                self.function(rule, f"{what} of {value}")
            self._found.append((lambda: value, what, lambda now: now is rule))
        return _same_as(value)


class Kernels(Clean):
    """What functions of declared operators refer to. They have no state that they could change, since they hold nothing but plain
    values; what they are given is compared after a replay has called them.
    """

    _forbidden = _FORBIDDEN - {"STORE_SUBSCR", "STORE_SLICE"}
    _names = (_NAMES - {"numpy"}) | frozenset(
        "random setflags seterr seterrcall printoptions errstate memmap save savez savez_compressed savetxt tofile dump io ctypes "
        "ctypeslib test show_config requires_grad grad_fn is_leaf data_ptr storage untyped_storage".split()
    )
    _packages = frozenset(("numpy", "scipy", "math", "cmath", "operator"))
    _whose = "its function calls "

    def __init__(self) -> None:
        super().__init__(lambda t: True)

    def _namespace(self, names: dict[str, Any], name: str) -> Any:
        return names  # which the operator holds, with its function

    def _value(self, value: Any, name: str) -> Callable[[Any], bool]:
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if isinstance(home, str) and home.partition(".")[0] in self._packages and ".random" not in home:
            if isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)):
                return _same_as(value)
        kind = type(value)
        if kind.__module__ == "numpy" and kind.__name__ in ("ufunc", "float64", "float32", "int64"):
            return _same_as(value)
        return super()._value(value, name)

    def _operator(self, value: Any, name: str) -> Callable[[Any], bool]:
        raise Unfit(f"{self._whose}code that uses {name}, an operator that a program declared")


def clean_kernels(functions: list[Any]) -> tuple[Kernels | None, str]:
    """What these functions refer to, and ""; or why they may do more than compute."""
    clean = Kernels()
    try:
        for function in functions:
            clean.function(function, getattr(function, "__qualname__", type(function).__qualname__))
    except Unfit as why:
        return None, str(why)
    return clean, ""


def _same_as(value: Any) -> Callable[[Any], bool]:
    """Whether something is this object, which is not held; of a function, whether it has this code and what that comes by."""
    if isinstance(value, types.FunctionType):
        code, cells, defaults = value.__code__, _cells(value), repr(_defaults(value))
        return lambda now: (
            isinstance(now, types.FunctionType)
            and now.__code__ is code
            and _cells(now) == cells
            and repr(_defaults(now)) == defaults
        )
    try:
        weak = weakref.ref(value)
    except TypeError:
        return lambda now: now is value  # one of C's, which is there for good
    return lambda now: now is weak()
