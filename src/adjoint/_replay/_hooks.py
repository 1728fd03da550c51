"""Hooks that a function sets on its results, as forms of which a replay makes such hooks again.

A hook runs in the program's own backward passes, as Python, whatever it does. So no more is needed than the same function on the results
of each call: code, the module of its globals, and what its closure and its defaults hold. That is a plain value, a tensor of the call, or an
object that the call reaches, which is found again as the call finds it. Start reading at `form_of`.
"""

from __future__ import annotations

import dis
import sys
import types

from adjoint import _C
from adjoint._replay._results import Unfit, is_plain, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["form_of", "function_of", "refers_to"]


def form_of(value: Any, layout: Any, tensors: Any, where: str, depth: int = 0) -> tuple[Any, ...]:
    """The form of a hook, or of what it refers to; Unfit where another call could not find or make it again. `where`: for people."""

    def refuse(what: str) -> Unfit:
        return Unfit(f"it sets a hook on its result that {what}{where}")

    if depth > 10:
        raise refuse("refers to itself, or to functions in functions too deep")

    def form(inner: Any) -> tuple[Any, ...]:
        return form_of(inner, layout, tensors, where, depth + 1)

    if is_plain(value):
        return plain(value)
    if isinstance(value, _C.Tensor):
        known = len(tensors)
        number = tensors.number(value)
        if number == known and (
            type(value) is not _C.Tensor or value.__dict__ or value.requires_grad or value._is_view()
        ):
            raise refuse("keeps a view, or a tensor with a history, that it does not return")
        return ("tensor", number)
    if (node := layout._number_of(value)) >= 0:
        return ("node", node)
    if type(value) is types.MethodType:
        return ("method", form(value.__func__), form(value.__self__))
    if type(value) is types.BuiltinMethodType and layout._number_of(value.__self__) >= 0:
        return ("builtin", value.__name__, form(value.__self__))
    if type(value) is not types.FunctionType:
        raise refuse(f"refers to an object of type {type(value).__qualname__} that it makes")
    code, names = value.__code__, value.__globals__
    module = names.get("__name__", "")
    if vars(value) or vars(sys.modules.get(module, types)) is not names:
        raise refuse("has attributes, or globals that are those of no module")
    cells = []
    for cell, name in zip(value.__closure__ or (), code.co_freevars, strict=True):
        if (node := layout._number_of(cell)) >= 0:
            cells.append(("node", node))
            continue
        if _stores(code, name):
            raise refuse(f"stores {name}")
        try:
            cells.append(("cell", form(cell.cell_contents)))
        except ValueError:
            raise refuse(f"reads {name}, which is not set") from None
    defaults = tuple(form(v) for v in value.__defaults__ or ())
    named = tuple((k, form(v)) for k, v in (value.__kwdefaults__ or {}).items())
    return ("function", code, module, value.__name__, value.__qualname__, tuple(cells), defaults, named)


def _stores(code: types.CodeType, name: str) -> bool:
    """Whether code, or code in it, stores a variable of its closure."""
    if name not in code.co_freevars:
        return False
    if any(
        s.opname in ("STORE_DEREF", "DELETE_DEREF") and s.argval == name for s in dis.get_instructions(code)
    ):
        return True
    return any(_stores(c, name) for c in code.co_consts if isinstance(c, types.CodeType))


def refers_to(form: tuple[Any, ...]) -> set[int]:
    """The nodes of the layout that a form refers to."""
    if form[0] == "node":
        return {form[1]}
    if form[0] in ("cell", "method", "builtin"):
        return set().union(*(refers_to(part) for part in form[1:] if isinstance(part, tuple)))
    if form[0] == "function":
        return set().union(*map(refers_to, (*form[5], *form[6], *(part for _, part in form[7]))))
    return set()


def function_of(form: tuple[Any, ...], made: list[Any], objects: dict[int, Any]) -> Any:
    """What a form stands for, in a call that made these tensors and found these objects."""
    kind = form[0]
    if kind == "plain":
        return form[3]
    if kind == "tensor":
        return made[form[1]]
    if kind == "node":
        return objects[form[1]]
    if kind == "cell":
        return types.CellType(function_of(form[1], made, objects))
    if kind == "method":
        return types.MethodType(function_of(form[1], made, objects), function_of(form[2], made, objects))
    if kind == "builtin":
        return getattr(function_of(form[2], made, objects), form[1])
    _, code, module, name, qualname, cells, defaults, named = form
    closure = tuple(function_of(part, made, objects) for part in cells)
    given = tuple(function_of(part, made, objects) for part in defaults)
    function = types.FunctionType(code, vars(sys.modules[module]), name, given or None, closure)
    function.__qualname__ = qualname
    function.__kwdefaults__ = {k: function_of(part, made, objects) for k, part in named} or None
    return function
