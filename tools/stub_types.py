"""Types in stubs: annotations as the sources write them, in names that nothing in the stub can hide.

A module of tensors has dtypes called `bool`, `int` and `float`, and its tensors have methods of these names: in a stub, a plain
`int` would be one of those. So every name of a type is imported under a private one, ``from builtins import int as _int``.
Start reading at `Names`.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import pathlib
import re
from functools import lru_cache

#: The module of what arguments may be.
TYPES = "adjoint._types"
#: Types without their arguments, as signatures of compiled functions have them.
BARE = {
    "list": "list[Any]",
    "dict": "dict[str, Any]",
    "tuple": "tuple[Any, ...]",
    "object": "Any",
    "collections.abc.Callable": "Any",
}


@lru_cache(None)
def imported(module: str) -> dict[str, tuple[str, str | None]]:
    """Where the names of a module come from: (module, name there), those that only type checkers import included."""
    tree = ast.parse(pathlib.Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8"))
    found = {}
    body = [*tree.body]
    while body:
        node = body.pop(0)
        if isinstance(node, ast.If):
            body += node.body
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name.partition(".")[0]: (a.name, None) for a in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = (module, node.name)
        elif isinstance(node, ast.Assign):
            found |= {t.id: (module, t.id) for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = (module, node.target.id)
    return found


class Names:
    """The types that a stub has used, each under a private name, and where it imports them from."""

    def __init__(self, stub: str, own: set[str] = frozenset(), taken: set[str] = frozenset()):
        self.stub = stub
        #: What the stub defines itself and nothing in it hides.
        self.own = own
        #: Private names that it defines.
        self.taken = taken
        self.used: dict[str, tuple[str, str | None]] = {}

    def use(self, name: str, home: tuple[str, str | None]) -> str:
        """What `name` of a module is called here."""
        if home == ("adjoint._C", name) and name in self.own:
            return name
        alias = "_" + name
        while alias in self.taken or self.used.setdefault(alias, home) != home:
            alias = "_" + alias
        return alias

    def of(self, annotation: str, module: str = TYPES) -> str:
        """An annotation that stands in `module`, in names of this stub."""
        if not isinstance(annotation, str):
            annotation = getattr(annotation, "__name__", None) or str(annotation)
        names, stub = imported(TYPES) | imported(module), self

        class Rename(ast.NodeTransformer):
            def visit_Name(self, node):
                if node.id in names:
                    home = names[node.id]
                elif hasattr(builtins, node.id):
                    home = ("builtins", node.id)
                else:
                    raise NameError(f"{module}: the annotation {annotation!r} has no name {node.id}")
                return ast.copy_location(ast.Name(stub.use(node.id, home), node.ctx), node)

            def visit_Constant(self, node):
                # A name in quotes is one of the module too.
                return self.visit(ast.parse(node.value, mode="eval").body) if quoted(node) else node

        def quoted(node):
            return isinstance(node.value, str) and not literal

        literal = "Literal" in annotation
        return ast.unparse(Rename().visit(ast.parse(annotation, mode="eval")))

    def lines(self) -> list[str]:
        """The imports at the head of the stub."""
        lines = []
        for alias, (module, name) in sorted(self.used.items(), key=lambda item: (item[1][0], item[0])):
            if module == self.stub:
                lines.append(f"{alias} = {name}")
            elif name is None:
                lines.append(f"import {module} as {alias}")
            else:
                lines.append(f"from {module} import {name} as {alias}")
        return lines


def parameters(function) -> tuple[list[inspect.Parameter], str, str]:
    """The parameters of a Python function, what it returns, and the module whose names its annotations use."""
    signature = inspect.signature(function)
    inner = inspect.unwrap(function)
    returns = signature.return_annotation
    if returns is signature.empty:
        returns = getattr(inner, "__annotations__", {}).get("return", "Any")
    # What is published says that it is of the package; its globals are those of where it is written.
    module = getattr(inner, "__globals__", {}).get("__name__", TYPES)
    return list(signature.parameters.values()), returns, module


def python_signature(function, names: Names, method: bool, result: str | None = None) -> str:
    """A Python function's own parameters and types; what has none is Any."""
    own, returns, module = parameters(function)
    any_, parts, star, only = names.of("Any"), [], False, False
    for i, p in enumerate(own):
        kind = any_ if p.annotation is p.empty else names.of(p.annotation, module)
        default = "" if p.default is p.empty else f" = {literal(p.default)}"
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: {kind}")
            star = True
            continue
        if p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {kind}")
            continue
        if only and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        only = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append("self" if method and i == 0 else f"{p.name}: {kind}{default}")
    if only:
        parts.append("/")
    returns = result or (any_ if returns in (None, "Any") else names.of(returns, module))
    return f"({', '.join(parts)}) -> {'None' if returns == '_None' else returns}"


def literal(value) -> str:
    """A default as a stub shows it."""
    return repr(value) if value is None or isinstance(value, (bool, int, str)) else "..."


def compiled_signature(function, names: Names) -> str | None:
    """The signature of a function that nanobind has bound, which says the types of its parameters."""
    said = getattr(function, "__nb_signature__", ())
    if len(said) != 1:
        return None
    text, _, defaults = said[0]
    text = re.sub(r"\b(pass|from|in)\b(?=:)", r"\1_", text)
    for i in range(len(defaults or ())):
        text = text.replace(f"\\{i}", literal(defaults[i]))
    node = ast.parse(text.replace("adjoint._C.", "") + ": ...").body[0]

    def kind(annotation):
        """What is not known here, and what nanobind calls an object, is Any."""
        written = ast.unparse(annotation) if annotation else "Any"
        written = BARE.get(written, written)
        used = {n.id for n in ast.walk(ast.parse(written)) if isinstance(n, ast.Name)}
        if "object" in used or any(n not in imported(TYPES) and not hasattr(builtins, n) for n in used):
            written = "Any"
        if "dtype" in used and annotation is not node.returns:
            written = written.replace("dtype", "DType")
        return names.of(written)

    own = node.args
    for argument in [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]:
        argument.annotation = ast.Name(kind(argument.annotation))
    returns = kind(node.returns) if node.returns else "None"
    return f"({ast.unparse(own)}) -> {returns}"
