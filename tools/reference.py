"""Writes the reference of functions, docs/reference.md, from the package itself: its operator table, signatures, docstrings.

    python tools/reference.py            # prints it
    python tools/reference.py --write    # writes docs/reference.md, which a test compares with what this prints

Nothing is listed here: what is published is in the reference, with the first line of its documentation. Start reading at
`main`.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys

import adjoint

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference.md"
HEAD = """\
# Reference

Every public function, method and class, with the first line of its documentation; `help(name)` shows the rest, and so does a
page per module in [reference/](reference/). Written by
`python tools/reference.py --write` from the package itself.

∂: it has a derivative. `name_`: there is a form that writes its tensor. *m*: it is a method of tensors too; *method*: it is
that alone. Functions that return tensors take `out=` where torch's do. `import adjoint as ad`.
"""
#: Modules whose public functions and classes have a section of their own.
MODULES = (
    "amp func fx hub library linalg fft signal.windows special sparse distributions masked scipy models nn nn.functional "
    "nn.init nn.utils nn.utils.rnn nn.attention utils.data autograd.forward_ad "
    "nn.utils.parametrize nn.utils.parametrizations "
    "optim optim.lr_scheduler optim.swa_utils autograd autograd.functional autograd.graph "
    "distributed distributed.nn.functional nn.parallel utils.checkpoint utils.hooks random multiprocessing serialization testing"
).split()


def escape(text):
    return text.replace("|", "\\|").replace("\n", " ")


def summary(value):
    """The first sentence or line of the documentation."""
    doc = inspect.getdoc(value) or ""
    return escape(" ".join(doc.partition("\n\n")[0].split()))


def signature(value):
    """The parameters, as they are written; defaults that are objects by their name."""
    try:
        found = inspect.signature(value)
        # Types are in the docstrings, and would make the lines of the tables long.
        plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
        text = str(found.replace(parameters=plain, return_annotation=found.empty))
    except (TypeError, ValueError):  # of enumerations Python gives none, or one that it refuses itself
        return "(…)"
    text = re.sub(r"<(?:function|class|module) '?([\w.]+)'?[^>]*>", r"\1", text)
    return escape(re.sub(r"\((self|cls)(?:, )?", "(", re.sub(r" at 0x\w+", "", text)))


def table(lines, heads, rows):
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]


def operators(lines):
    """The rows of the operator table, by family; the names that they take."""
    families, names = {}, set()
    for row in adjoint._C.operators():
        aliases = [a for a in row["aliases"].split(", ") if a]
        # What programs declare is theirs.
        if not row["name"].startswith("_") and row["family"] != "Declared":
            families.setdefault(row["family"], []).append((row, aliases))
            names.update([row["name"], *aliases])
    for family, members in families.items():
        title = "".join(" " + c.lower() if c.isupper() else c for c in family).strip().capitalize()
        rows = []
        for row, aliases in sorted(members, key=lambda m: m[0]["name"]):
            given = getattr(adjoint._C, row["name"], None) or getattr(adjoint.Tensor, row["name"])
            # Python's half of the operator, where it has one, takes more than the core's.
            more = given.overload if isinstance(given, adjoint._C.Operator) else given
            own = re.sub(r"^\w+\(self\b", "(input", row["signature"]).removeprefix(row["name"])
            shown = signature(more) if more is not None else escape(own)
            also = f", also `{'`, `'.join(aliases)}`" if aliases else ""
            where = "*m*" if row["method"] and row["function"] else "*method*" if row["method"] else ""
            rows.append(
                (
                    f"`{row['name']}{shown}`{also}",
                    escape(row["doc"]),
                    "∂" if row["differentiable"] else "",
                    f"`{row['name']}_`" if row["inplace"] else "",
                    where,
                )
            )
        lines += [f"### {title.removesuffix(' ops')}", ""]
        table(lines, ("operator", "what it does", "∂", "in place", ""), rows)
    return names


def functions(lines, names):
    """The functions of the package that are no operators: compositions, and what makes tensors."""
    rows = []
    for name in dir(adjoint):
        value = getattr(adjoint, name)
        if name in names or name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if isinstance(value, type):
            continue
        rows.append(
            (f"`{name}{signature(value)}`", summary(value), "*m*" if hasattr(adjoint.Tensor, name) else "")
        )
        names.add(name)
    table(lines, ("function", "what it does", ""), rows)


def methods(lines, names):
    rows = []
    for name in dir(adjoint.Tensor):
        value = inspect.getattr_static(adjoint.Tensor, name)
        if name.startswith("_") or name in names or (name.endswith("_") and name[:-1] in names):
            continue
        shown = name if isinstance(value, property) or not callable(value) else name + signature(value)
        rows.append((f"`{shown}`", summary(value)))
    table(lines, ("member", "what it does"), rows)


def module(lines, name):
    found = importlib.import_module("adjoint." + name)
    public = getattr(found, "__all__", None) or [n for n in dir(found) if n[0] != "_"]
    rows = []
    for key in sorted(public):
        value = getattr(found, key)
        if inspect.ismodule(value) or not callable(value):
            continue
        rows.append((f"`{key}{signature(value)}`", summary(value)))
    lines += [f"## adjoint.{name}", "", summary(found), ""]
    table(lines, ("name", "what it does"), rows)


def text() -> str:
    """The whole page."""
    lines = [HEAD, "## Operators", ""]
    names = operators(lines)
    lines += ["## Functions", ""]
    functions(lines, names)
    lines += ["## Tensor", "", "Besides the methods of the same names as the functions above:", ""]
    methods(lines, names)
    for name in MODULES:
        module(lines, name)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments):
    if "--write" in arguments:
        PAGE.write_text(text(), encoding="utf-8")
    else:
        print(text(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
