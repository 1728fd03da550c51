"""Operators' declarations as torch writes them: ``ns::name(Tensor x, int[] dims=[0], *, float? p=None) -> Tensor``.

Read into the `Argument`s of `_primitive`, or written from the annotations of a Python function (`infer_schema`). Start reading
at `Schema`.
"""

from __future__ import annotations

import functools
import re

from adjoint._publish.arguments import ignores
from adjoint._types import Any
from adjoint.library._primitive import Argument

__all__ = ["Schema", "infer_schema"]

#: torch's types, and what declared operators call them. Others are handed on as they are, by operators without a row.
TYPES = {
    "Tensor": "Tensor",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "Scalar": "Scalar",
    "ScalarType": "dtype",
}
_ARGUMENT = re.compile(
    r"(?P<type>\w+)(?:\((?P<alias>[^)]*)\))?(?P<suffix>[^\s=]*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.*))?$"
)


class Schema:
    """One operator's declaration.

    Attributes
    ----------
    name : str
        With its namespace, and its overload after a point where it has one.
    arguments : list of Argument
        `kind` is None where no row of the table can carry the type.
    mutated : list of str
        The names of arguments that are written.
    results : None or int
        How many results: None for one, 0 for a list of them. `returns` has their types.
    """

    def __init__(self, text: Any) -> None:
        self.text = " ".join(text.split())
        head, arrow, result = self.text.partition("->")
        found = re.match(r"([\w.:]+)\s*\((.*)\)$", head.strip())
        if not arrow or not found:
            raise RuntimeError(
                f"expected an operator's schema, such as 'name(Tensor x, int n=2) -> Tensor', but got {text!r}"
            )
        self.name = found[1]
        self.arguments: list[Any] = []
        self.mutated: list[Any] = []
        keyword_only = False
        for part in _split(found[2]):
            if part == "*":
                keyword_only = True
            else:
                self._read(part, keyword_only)
        self.returns = [
            r.partition(" ")[0] for r in _split(result.strip().removeprefix("(").removesuffix(")"))
        ]
        plain = [re.sub(r"\(.*?\)", "", r) for r in self.returns]
        self.results = None if plain == ["Tensor"] else 0 if plain == ["Tensor[]"] else len(plain)
        #: Whether a row of the table can stand for it.
        self.fits_row = (
            not self.mutated
            and all(a.kind for a in self.arguments)
            and any(a.kind.startswith("Tensor") for a in self.arguments)
            and sum(a.kind.startswith("Tensor") and "[]" in a.kind for a in self.arguments) < 2
            and bool(plain)
            and (plain == ["Tensor[]"] or {*plain} == {"Tensor"})
            and len(self.arguments) <= 16
        )

    def _read(self, part, keyword_only):
        found = _ARGUMENT.match(part)
        if not found:
            raise RuntimeError(f"{self.name}: cannot read the argument {part!r} of {self.text!r}")
        base, suffix = TYPES.get(found["type"]), re.sub(r"\[\d+\]", "[]", found["suffix"])
        kind = None
        if base is not None and suffix in ("", "?", "[]", "[]?", "?[]"):
            kind = base + suffix
            if suffix and kind not in _KINDS:
                kind = None
        if found["alias"] and "!" in found["alias"]:
            self.mutated.append(found["name"])
        value = None
        if found["default"] is not None:
            value = repr(_default(found["default"], kind))
        self.arguments.append(Argument(found["name"], kind, value, keyword_only))

    def __str__(self) -> str:
        return self.text

    @property
    def tensors(self) -> Any:
        """The names of the arguments that are tensors or lists of them."""
        return [a.name for a in self.arguments if a.kind and a.kind.startswith("Tensor")]

    def bind(self, args: Any, kwargs: Any) -> Any:
        """The arguments of a call: those by position, and those that have to be named, defaults filled in."""
        placed = [a for a in self.arguments if not a.keyword_only]
        if len(args) > len(placed):
            raise RuntimeError(
                f"{self.name}() expected at most {len(placed)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        given = dict(zip([a.name for a in placed], args))
        for name, value in kwargs.items():
            if name in given:
                raise RuntimeError(f"{self.name}() got argument {name!r} twice. Declaration: {self}")
            if name not in [a.name for a in self.arguments]:
                raise RuntimeError(
                    f"Unknown keyword argument {name!r} for operator {self.name!r}. Schema: {self}"
                )
            given[name] = value
        for a in self.arguments:
            if a.name not in given:
                if a.default is None:
                    raise RuntimeError(
                        f"{self.name}() is missing value for argument {a.name!r}. Declaration: {self}"
                    )
                given[a.name] = _plain(a.default)
        return tuple(given[a.name] for a in placed), {
            a.name: given[a.name] for a in self.arguments if a.keyword_only
        }


_KINDS = {
    f"{base}{suffix}"
    for base, suffixes in {
        "Tensor": ("?", "[]", "?[]"),
        **dict.fromkeys(("int", "float"), ("?", "[]", "[]?")),
        **dict.fromkeys(("bool", "str", "Scalar", "dtype"), ("?",)),
    }.items()
    for suffix in suffixes
}


def _split(text):
    """What stands between the commas outside of brackets."""
    parts, depth, word = [], 0, ""
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(word.strip())
            word = ""
        else:
            word += c
    return [p for p in [*parts, word.strip()] if p]


@functools.cache
def _plain(text):
    """The value that a text stands for, which is immutable where it is a default."""
    from ast import literal_eval

    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _default(text, kind):
    """A default as schemas write it."""
    value = _plain(text)
    if isinstance(value, list):
        return tuple(value)
    if kind in ("float", "float?") and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "int[]" and isinstance(value, int):
        return (value,)
    return value


# --- from annotations ------------------------------------------------------------------------------------------------


@ignores("tags", why="they are notes for compilers", warns=False)
def infer_schema(
    prototype_function: Any, /, *, mutates_args: Any, op_name: Any = None, tags: Any = ()
) -> str:
    """The schema of a function, from the types of its parameters.

    Parameters
    ----------
    prototype_function : callable
        Each parameter and the result have a type: Tensor, int, float, bool, str, dtype, device, sequences and unions with None
        of these.
    mutates_args : iterable of str, or "unknown"
        The names of the parameters that the function writes; "unknown": it may write all tensors.
    op_name : str, optional
        What stands in front.
    tags
        Taken, and of no effect.

    Returns
    -------
    str

    Examples
    --------
    >>> import adjoint as ad
    >>> def scaled(x: ad.Tensor, by: float = 2.0) -> ad.Tensor: ...
    >>> ad.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    from inspect import Parameter, signature
    from typing import get_type_hints

    found = signature(prototype_function)
    where = f"Got func with signature {found})"

    def fail(message):
        raise ValueError(f"infer_schema(func): {message} {where}")

    try:
        hints = get_type_hints(prototype_function)
    except NameError as error:
        fail(f"A type annotation cannot be read: {error}.")
    parts, star = [], False
    unknown = {*mutates_args} - {*found.parameters} if mutates_args != "unknown" else ()
    for name, p in found.parameters.items():
        if p.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is Parameter.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        if p.annotation is Parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        kind = _schema_type(hints[name])
        if kind is None:
            fail(
                f"Parameter {name} has unsupported type {p.annotation}. The valid types are: {', '.join(_VALID)}, sequences of these and unions with None."
            )
        if name in mutates_args or (mutates_args == "unknown" and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                fail(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            kind = kind.replace("Tensor", f"Tensor(a{len(parts) - star}!)", 1)
        parts.append(f"{kind} {name}" + ("" if p.default is Parameter.empty else f"={_written(p.default)}"))
    if unknown:
        fail(f"{sorted(unknown)} in mutates_args were not found in the function's signature.")
    if "return" not in hints and found.return_annotation is not None:
        fail("No return type annotation was provided. Please add one.")
    returns = _returned(hints.get("return"))
    if returns is None:
        fail(
            f"Return has unsupported type {found.return_annotation}. The valid types are: Tensor, list[Tensor], int, float, bool, and tuples of these."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


_VALID = ("Tensor", "int", "float", "bool", "str", "dtype", "device", "int | float | bool")


def _bases():
    from adjoint import Tensor, device, dtype

    return {
        Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        str: "str",
        dtype: "ScalarType",
        device: "Device",
    }


def _schema_type(hint):
    """The name of a type in a schema; None for those that it cannot name."""
    from collections.abc import Sequence
    from types import UnionType
    from typing import Union, get_args, get_origin

    name = _bases().get(hint)
    if name:
        return name
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        some = tuple(a for a in arguments if a is not type(None))
        optional = "?" * (len(some) < len(arguments))
        if {*some} == {int, float, bool}:
            return "Scalar" + optional
        inner = _schema_type(some[0]) if len(some) == 1 else None
        return inner and inner + optional
    if get_origin(hint) in (list, Sequence) or (get_origin(hint) is tuple and arguments[1:] == (...,)):
        inner = _schema_type(arguments[0])
        return inner and inner + "[]"
    return None


def _returned(hint):
    from typing import get_args, get_origin

    if hint is None or hint is type(None):
        return "()"
    if get_origin(hint) is tuple and get_args(hint)[1:] != (...,):
        kinds = [_schema_type(a) for a in get_args(hint)]
        return None if None in kinds else f"({', '.join(kinds)})"
    return _schema_type(hint)


def _written(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return repr(list(value))
    return str(value)
