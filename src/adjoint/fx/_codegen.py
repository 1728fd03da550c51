"""The source code of a graph: one line per node, values dropped after their last use.

What a line names from outside (functions, types) is a global of the source. What the package holds is written by its dotted name,
``adjoint.nn.functional.relu``; anything else gets a name of its own. Start reading at `CodeGen._gen_python_code`.
"""

from __future__ import annotations

import enum
import inspect
import json
import keyword
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import adjoint
from adjoint._switches import switches
from adjoint.fx import _pytree
from adjoint.fx._names import RESERVED, Namespace, is_of_package, qualified_name, type_name
from adjoint.fx.node import Argument, Node, Value

__all__ = ["CUSTOM_BUILTINS", "CodeGen", "PythonCode"]

#: What all generated code may name: how it is imported, and what it is.
CUSTOM_BUILTINS: dict[str, tuple[str, Any]] = {
    "inf": ("from math import inf", math.inf),
    "nan": ("from math import nan", math.nan),
    "NoneType": ("NoneType = type(None)", type(None)),
    "device": ("from adjoint import device", adjoint.device),
    "fx_pytree": ("import adjoint.fx._pytree as fx_pytree", _pytree),
    "adjoint": ("import adjoint", adjoint),
}
RESERVED.update((name, value) for name, (_, value) in CUSTOM_BUILTINS.items())

_BINARY = {
    **{
        "add": "+",
        "sub": "-",
        "mul": "*",
        "floordiv": "//",
        "truediv": "/",
        "mod": "%",
        "matmul": "@",
        "pow": "**",
    },
    **{"lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^"},
    **{"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="},
}
_UNARY = {"pos": "+", "neg": "-", "invert": "~"}
#: How calls of functions of the module `operator` are written, with places for the arguments.
OPERATORS = {
    **{name: f"{{}} {sign} {{}}" for name, sign in _BINARY.items()},
    **{name: sign + "{}" for name, sign in _UNARY.items()},
    "getitem": "{}[{}]",
}
_WRITING = {f"i{name.rstrip('_')}": f"{{}} {sign}= {{}}" for name, sign in list(_BINARY.items())[:13]}
_COUNTER = re.compile(r"^# COUNTER: (\d+)$")


@dataclass
class PythonCode:
    """Source code and the globals that it needs."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)
    _prologue_start: int = 0


def attribute(base: str, path: str) -> str:
    """``base.a.b``, or ``getattr(base.a, "0")`` for a part that is a keyword or not an identifier."""
    for part in path.split("."):
        plain = part.isidentifier() and not keyword.iskeyword(part)
        base = f"{base}.{part}" if plain else f"getattr({base}, {json.dumps(part, ensure_ascii=False)})"
    return base


class _Globals:
    """The globals of generated code, and how it spells values."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.found: dict[str, Any] = {}
        for name, (_, value) in CUSTOM_BUILTINS.items():
            self.add(name, value)
        # A program for torch reads torch's names.
        self.package = switches.package
        if self.package in sys.modules:
            self.found[namespace.create_name(self.package, sys.modules[self.package])] = sys.modules[
                self.package
            ]

    def add(self, hint: str, value: Any) -> str:
        name = self.namespace.create_name(hint, value)
        self.found.setdefault(name, value)
        return name

    def function(self, f: Any) -> str:
        """The name that a function or class has in the source."""
        name = qualified_name(f)
        return name if is_of_package(f, name) else self.add(name, f)

    def type(self, t: Any) -> str:
        """An annotation."""
        if t == ():
            return "()"
        name = type_name(t)
        if isinstance(t, types.UnionType):
            return "|".join(map(self.type, typing.get_args(t)))
        origin = typing.get_origin(t)
        if origin is not None:
            # `typing.List` is written as such, not as the list that it stands for.
            alias = (
                getattr(typing, getattr(t, "_name", None) or "", None)
                if not isinstance(t, types.GenericAlias)
                else None
            )
            if origin is typing.Union:
                alias = typing.Union
            head = origin if alias is None else alias
            inner = ",".join(map(self.type, typing.get_args(t)))
            called = self.add(f"typing_{_last(head)}" if alias is not None else type_name(head), head)
            return f"{called}[{inner}]" if inner else called
        if isinstance(t, type) and is_of_package(t, name):
            return name
        return self.add(name, t)

    def value(self, a: Any) -> str:
        """An argument as source."""
        if isinstance(a, Node):
            return repr(a)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return f"{self.function(type(a))}({', '.join(map(self.value, a))})"
        if isinstance(a, adjoint.Size):
            return f"{self.package}.Size({[*a]})"
        if isinstance(a, tuple):
            return f"({', '.join(map(self.value, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.value, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({', '.join(map(self.value, (a.start, a.stop, a.step)))})"
        if isinstance(a, enum.Enum):
            return f"{self.add(type(a).__name__, type(a))}.{a.name}"
        if isinstance(a, adjoint.dtype):
            return f"{self.package}.{a.name}"
        if isinstance(a, (adjoint.memory_format, adjoint.layout)):
            return f"{self.package}.{str(a).rpartition('.')[2]}"
        if isinstance(a, (complex, float, str)):  # those of NumPy, too, which print otherwise
            plain: Any = next(t for t in (complex, float, str) if isinstance(a, t))
            a = plain(a)
        if isinstance(a, complex):
            # Of -0.0 and infinities the sum that is printed makes other numbers.
            exact = all(math.isfinite(p) and (p or math.copysign(1, p) > 0) for p in (a.real, a.imag))
            return repr(a) if exact else f"complex({a.real}, {a.imag})"
        if a is None or a is ... or isinstance(a, (bool, int, float, str, bytes, range, adjoint.device)):
            return repr(a)
        if isinstance(
            a,
            (
                type,
                types.FunctionType,
                types.BuiltinFunctionType,
                adjoint._C.Operator,
                adjoint._C.Composition,
            ),
        ):
            return self.function(a)
        # What has no source is known by a name, and cannot be written to a file.
        return self.add(f"_{type(a).__name__.lower()}_value", a)

    def arguments(self, args: Any, kwargs: Any) -> str:
        plain = {k: v for k, v in kwargs.items() if k.isidentifier() and not keyword.iskeyword(k)}
        given = [*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in plain.items())]
        rest = {k: v for k, v in kwargs.items() if k not in plain}
        return ", ".join([*given, f"**{self.value(rest)}"] if rest else given)


def _last(x: Any) -> str:
    return getattr(x, "_name", None) or getattr(x, "__name__", None) or repr(x).rpartition(".")[2]


class CodeGen:
    """Generates the source of a graph. Subclasses change its parameters, its first line and its return.

    Examples
    --------
    >>> from adjoint import fx
    >>> class Doubled(fx.CodeGen):
    ...     def generate_output(self, output_args, *, repr_fn=repr):
    ...         return f"return 2 * {repr_fn(output_args)}"
    >>> module = fx.symbolic_trace(lambda x: x + 1)
    >>> module.graph.set_codegen(Doubled())
    >>> code = module.recompile()
    >>> module(3)
    8
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The first line: ``def forward(self, x):``."""
        names = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        return f"def {self._func_name}({', '.join(names)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """The line that returns."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        """Map the arguments of a call to values of the placeholders."""
        return args

    def process_outputs(self, outputs: Argument) -> Value:
        """Map the value of the output node to the result."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further globals of the source, as pairs of name and value."""
        return []

    def _gen_python_code(
        self, nodes: Any, root_module: str, namespace: Namespace, *, verbose: bool = False
    ) -> PythonCode:
        known = _Globals(namespace)
        parameters: list[str] = []
        wrapped: dict[str, None] = {}
        returned = ""
        body: list[str] = []
        last_uses = _last_uses(nodes)
        for k, node in enumerate(nodes):
            body.append(f"# COUNTER: {k}\n")
            if verbose and node.stack_trace:
                body.append(f"# {node.stack_trace.strip().splitlines()[0].strip()}\n")
            if node.op == "placeholder":
                default = f" = {known.value(node.args[0])}" if node.args else ""
                parameters.append(f"{node.target}{_annotation(node, known, verbose)}{default}")
                plain = node.target.replace("*", "")
                if plain != repr(node):
                    body.append(f"{node!r} = {plain}\n")
                continue
            if node.op == "output":
                if node.type is not None:
                    returned = f" -> {known.type(node.type)}"
                options = {"repr_fn": known.value}
                if "repr_fn" not in inspect.signature(self.generate_output).parameters:
                    options = {}
                body.append(self.generate_output(node.args[0], **options) + "\n")
                continue
            body.append(_line(node, root_module, known, _annotation(node, known, verbose)))
            if node.meta.get("is_wrapped"):
                wrapped[known.function(node.target)] = None
            dropped = [*last_uses.get(node, ()), *(() if node.users else (node,))]
            body.append(f";  {' = '.join(map(repr, dropped))} = None\n" if dropped else "\n")
        if not any(n.op != "placeholder" for n in nodes):
            body.append("pass\n")
        marks = "\n".join(f'{switches.package}.fx.wrap("{name}")' for name in wrapped if "." not in name)
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            known.add(name, value)
        head = self.gen_fn_def(parameters, returned)
        lines: list[str] = []
        of_line: dict[int, int | None] = {}
        current = None
        for line in "".join(body).split("\n"):
            if counter := _COUNTER.match(line):
                current = int(counter[1])
            else:
                of_line[len(lines) + head.count("\n") + 1] = current
                lines.append("    " + line)
        code = "\n".join(lines)
        return PythonCode(f"\n{marks}\n\n{head}\n{code}", known.found, of_line, marks.count("\n") + 4)


def _last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """For each node, the nodes whose value it uses last."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


def _annotation(node: Node, known: _Globals, verbose: bool) -> str:
    meta: Any = None
    if verbose:
        meta = node.meta.get("tensor_meta", node.meta.get("val", node.meta.get("example_value")))
    if hasattr(meta, "shape") and hasattr(meta, "dtype"):
        return f': "{_short(meta.dtype)}[{", ".join(map(str, meta.shape))}]"'
    return "" if node.type is None else f" : {known.type(node.type)}"


def _short(dtype: Any) -> str:
    """``f32`` for float32."""
    name = dtype.name
    if name == "bool":
        return "b8"
    kinds = {"uint": "u", "int": "i", "bfloat": "bf", "float": "f", "complex": "c"}
    kind = name.rstrip("0123456789")
    return kinds.get(kind, kind) + name[len(kind) :]


def _line(node: Node, root: str, known: _Globals, annotation: str) -> str:
    """The statement of a node."""
    head = f"{node!r}{annotation} = "
    args, kwargs = node.args, node.kwargs
    if node.op == "get_attr":
        return head + attribute(root, node.target)
    if node.op == "call_module":
        return f"{head}{attribute(root, node.target)}({known.arguments(args, kwargs)})"
    if node.op == "call_method":
        called = attribute(_object(args[0], known), node.target)
        return f"{head}{called}({known.arguments(args[1:], kwargs)})"
    name = getattr(node.target, "__name__", "")
    if getattr(node.target, "__module__", "") == "_operator" and not kwargs:
        if name in OPERATORS:
            first, *rest = args
            return head + OPERATORS[name].format(_object(first, known), *map(known.value, rest))
        if name in _WRITING:
            return f"{_WRITING[name].format(*map(known.value, args))};  {head}{known.value(args[0])}"
    if node.target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
        return head + attribute(_object(args[0], known), args[1])
    return f"{head}{known.function(node.target)}({known.arguments(args, kwargs)})"


def _object(a: Any, known: _Globals) -> str:
    """The left operand of an operator or a dot: negative numbers are parenthesised, since ``-2 ** x`` differs."""
    text = known.value(a)
    return f"({text})" if isinstance(a, (int, float, complex)) and text.startswith("-") else text


class _Tree(NamedTuple):
    """How the arguments and result of a function are flattened: the names of its parameters, and tree structures."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


_PyTreeInfo = _Tree


class _PyTreeCodeGen(CodeGen):
    """Code for a function traced with containers in `concrete_args`: the function takes them, the graph their leaves."""

    def __init__(self, pytree_info: _Tree) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        return _pytree.tree_flatten_spec(args, self.pytree_info.in_spec)

    def process_outputs(self, outputs: Argument) -> Value:
        spec = self.pytree_info.out_spec
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        return outputs if spec is None else _pytree.tree_unflatten(outputs, spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = list(self.pytree_info.orig_args)
        head = super().gen_fn_def(names, maybe_return_annotation)
        taken = [name for name in names if name != "self"]
        if not free_vars:
            return head
        parts = ", ".join(v.lstrip("*").partition(" ")[0].partition(":")[0] for v in free_vars)
        return f"{head}\n    {parts}, = fx_pytree.tree_flatten_spec(({', '.join(taken)},), self._in_spec)"

    def generate_output(self, output_args: Argument, *, repr_fn: Callable[[Any], str] = repr) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return fx_pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
