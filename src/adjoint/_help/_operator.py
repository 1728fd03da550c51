"""The documentation of an operator, from its row. Start reading at `document`."""

from __future__ import annotations

import ast
import functools

from adjoint import _C
from adjoint._help._arguments import described, type_of_kind
from adjoint._help._texts import find
from adjoint._types import Any

__all__ = ["document", "join", "row_of", "section", "written_example"]

_TYPES = {
    "bool": ("bool",),
    "integer": ("uint8", "int8", "int16", "int32", "int64"),
    "floating-point": ("float16", "bfloat16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}
_RESULTS = {
    "same": "of their common dtype",
    "bool": "of bool",
    "real": "real where they are complex, else of their common dtype",
    "complex": "complex",
}
_IMPORT = ">>> import adjoint as ad"


@functools.cache
def _table():
    return {row["name"]: row for row in _C.operators()}


def row_of(name):
    """The row of that name. Programs add rows, so that a name that is not there is looked for once more."""
    if name not in _table():
        _table.cache_clear()
    return _table().get(name)


def document(operator) -> str:
    name = operator.__name__
    rows = [row_of(form) for form in operator.forms]
    signatures = list(dict.fromkeys(_signature(name, row) for row in rows))
    inplace = name.endswith("_") and not rows[0]["name"].endswith("_")
    base = name[:-1] if inplace else name
    if name.startswith("_") or rows[0]["family"] == "Declared":
        return "\n\n".join(["\n".join(signatures), *dict.fromkeys(row["doc"] for row in rows)])
    text = find(base, rows[0]["name"])
    docs = [_paragraphs(text.summary or rows[0]["doc"])]
    if inplace:
        docs.insert(0, f"Write the result of `{base}` to the tensor itself, and return it.")
    if len(signatures) > 1:
        said = {_signature(name, row): row["doc"] for row in reversed(rows)}
        docs.append("\n".join(f"    {s}\n        {said[s]}" for s in signatures))
    returns = [f"`{rows[0]['arguments'][0]}`, written"] if inplace else _returns(rows, text)
    return join(
        *docs,
        section("Parameters", _parameters(rows, text, inplace)),
        section("Returns", returns),
        section("Raises", _raises(rows, text, inplace)),
        section("Notes", _notes(base, rows, text)),
        section("Examples", written_example(base, text, inplace)),
    )


def join(*parts) -> str:
    return "\n\n".join(part for part in parts if part)


def section(title, lines) -> str:
    return "\n".join([title, "-" * len(title), *lines]) if lines else ""


def _paragraphs(doc):
    """The first sentence stands alone, as docstrings have it."""
    first, _, rest = doc.partition(". ")
    return f"{first}.\n\n{rest}" if rest and rest[0].isupper() else doc


def _signature(name, row):
    return name + row["signature"][row["signature"].index("(") :]


def _defaults(row):
    """The default of each argument as it is written, None for those without."""
    parsed: Any = ast.parse(f"def f{_signature('', row)}: 0").body[0]
    arguments = parsed.args
    given = [
        *[None] * (len(arguments.args) - len(arguments.defaults)),
        *arguments.defaults,
        *arguments.kw_defaults,
    ]
    return [None if value is None else ast.unparse(value) for value in given]


def takes_out(rows) -> bool:
    return not any(row["view"] or row["writes"] for row in rows) and any(row["function"] for row in rows)


def _parameters(rows, text, inplace):
    lines, seen = [], set()
    first = rows[0]["arguments"][0]
    for row in rows:
        for i, (name, kind, default) in enumerate(zip(row["arguments"], row["kinds"], _defaults(row))):
            if name not in seen:
                seen.add(name)
                kind = "Tensor" if i == 0 and kind == "Tensor | Number" else type_of_kind(kind)
                lines += described(name, text, first, kind, default)
    if takes_out(rows) and not inplace and "out" not in seen:
        several = {row["several"] for row in rows}
        kind = (
            "Tensor or tuple of Tensors"
            if len(several) > 1
            else "tuple of Tensors"
            if True in several
            else "Tensor"
        )
        lines += described(
            "out" if several == {False} else "outs", text, first, kind + ", optional", shown_as="out"
        )
    return lines


def _returns(rows, text):
    if text.returns:
        said, after = text.returns
        return [said, f"    {after}"] if after else [said]
    row = rows[0]
    if row["kind"] == "elementwise":
        one = row["arity"] == 1
        shape = "of the input's shape" if one else "of the shape to which the inputs broadcast"
        dtype = "of its dtype" if one and row["result"] == "same" else _RESULTS[row["result"]]
        if one:
            dtype = dtype.replace("they are", "it is").replace("their common", "its")
        if row["promotes_integers"]:
            dtype += "; for integers and bool of the default dtype"
        return ["Tensor", f"    A new one, {shape}, {dtype}."]
    if row["returns"]:
        return [f"named tuple of Tensors ({row['returns']})"]
    return ["tuple of Tensors" if row["several"] else "Tensor"]


def _raises(rows, text, inplace):
    row, found = rows[0], {}
    dims = [n for n, m in zip(row["arguments"], row["meanings"]) if m in ("Dim", "Dims")]
    if dims:
        found["IndexError"] = [f"If {' or '.join(f'`{n}`' for n in dims)} is out of range."]
    if row["kind"] == "elementwise" and row["arity"] > 1:
        found["RuntimeError"] = ["If the shapes do not broadcast."]
    if inplace:
        found.setdefault("RuntimeError", []).append(
            "If the tensor is a leaf that requires grad, or shares elements with itself."
        )
    if len(row["types"]) < 12:
        found.setdefault("RuntimeError", []).append("If the input has another dtype than those below.")
    for error, sentence, _ in text.raises:
        found.setdefault(error, []).append(sentence)
    return [line for error, said in sorted(found.items()) for line in (error, *(f"    {s}" for s in said))]


def _notes(name, rows, text):
    row = rows[0]
    return [
        *(line for note in text.notes for line in (note, "")),
        f"Element types: {_types(row['types'])}.",
        "",
        f"Derivatives: {text.derivatives or _derivatives(row)}",
        "",
        f"Forms: {', '.join(_forms(name, rows))}.",
    ]


def _types(types):
    if len(types) == 12:
        return "all"
    return ", ".join(
        kind if set(members) <= set(types) else ", ".join(t for t in members if t in types)
        for kind, members in _TYPES.items()
        if set(members) & set(types)
    )


def _derivatives(row):
    if not row["differentiable"]:
        return "none; the result does not require grad. Batched by `vmap`."
    if row["gradients"] == []:
        return "zero everywhere. Batched by `vmap`."
    by = "" if row["gradients"] is None else _by(row)
    return f"reverse and forward mode, to any order{by}. Batched by `vmap`."


def _by(row):
    """With respect to which arguments, unless to all tensors there are."""
    tensors = [n for n, m in zip(row["arguments"], row["meanings"]) if m in ("Tensor", "Tensors")]
    given = [n for n in row["gradients"] if n in tensors]
    return "" if tensors == given else f", with respect to {' and '.join(f'`{n}`' for n in given)}"


def _forms(name, rows):
    row, names = rows[0], [a for a in rows[0]["aliases"].split(", ") if a and a != name]
    others = "..." if len(row["arguments"]) > 1 else ""
    if row["name"] != name and not row["name"].startswith("_"):
        names.append(row["name"])
    if row["function"]:
        yield f"`ad.{name}(x{', ...' * bool(others)})`"
    if row["method"]:
        yield f"`x.{name}({others})`"
    if row["inplace"]:
        yield f"in place `x.{name}_({others})`"
    if takes_out(rows):
        yield "`out=`"
    if row["python"]:
        yield f"Python's operator `{row['python']}`"
    for other in names:
        yield f"also `{other}`"


def written_example(name, text, inplace):
    """The lines of the example; of the form that writes, one made of that of the function: `x.sin_()` of `ad.sin(x)`."""
    if not text.examples:
        return []
    if not inplace:
        own = "\n".join(text.examples).strip()
        return ([_IMPORT] if "import adjoint" not in own else []) + [own]
    for line in text.examples:
        if not line.startswith(">>> "):
            continue
        call = ast.parse(line[4:]).body[0]
        call = call.value if isinstance(call, ast.Expr) else None
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Call):
            rest = ", ".join(ast.unparse(a) for a in [*call.args[1:], *call.keywords])
            return [_IMPORT, f">>> x = {ast.unparse(call.args[0])}", f">>> x.{name}_({rest}) is x", "True"]
    return []
