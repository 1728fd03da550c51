"""The generated pages of the site: the reference by topic, the gallery, the source files. Start reading at `reference`.

What is documented, and how a docstring is taken apart, is said by reference_pages.py; here it becomes Markdown for Sphinx, in
which each public name is an object of its Python domain (an anchor, a line of the index and of objects.inv).
"""

from __future__ import annotations

import ast
import html
import importlib
import importlib.util
import inspect
import json
import pathlib
import re

import adjoint

ROOT = pathlib.Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location(
    "reference_pages", pathlib.Path(__file__).with_name("reference_pages.py")
)
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

#: Public modules beside those of the index in docs/reference.md, which has what most programs use.
MODULES = [*pages.MODULES, "overrides", "quasirandom", "utils.benchmark", "nn.utils.prune", "array_api"]
#: Topics of the functions in `adjoint` itself: names of files in src/adjoint/ops and core/ops, and their titles.
TITLES = {
    "creation": "Creating tensors",
    "arithmetic": "Arithmetic",
    "exponential": "Exponentials, logarithms and powers",
    "trigonometric": "Trigonometric and hyperbolic functions",
    "rounding": "Rounding and division with remainder",
    "comparison": "Comparison, logic and bits",
    "complex": "Complex numbers",
    "reduction": "Reductions",
    "scan": "Cumulative sums, products and extremes",
    "sorting": "Sorting, searching and sets",
    "shape": "Shapes and views",
    "rearranging": "Rearranging and joining",
    "indexing": "Indexing and selection",
    "product": "Products and linear algebra",
    "activation": "Neural network functions",
    "special": "Special functions",
    "random": "Random numbers",
    "grad": "Gradients and modes",
    "types": "Types",
    "settings": "Settings and conversions",
}
#: Families and files that have no topic of their own.
TOPIC_OF = {
    "power": "exponential",
    "division": "rounding",
    "bitwise": "comparison",
    "joining": "rearranging",
    "part": "indexing",
    "selection": "indexing",
    "writing": "indexing",
    "sampling": "random",
    "randomnumber": "random",
    "linearalgebra": "product",
    "linalg": "product",
    "einsum": "product",
    "distance": "product",
    "making": "creation",
    "data": "creation",
    "losse": "activation",
    "normalization": "activation",
    "softmax": "activation",
    "convolution": "activation",
    "pooling": "activation",
    "recurrence": "activation",
    "attentionfamily": "activation",
    "resampled": "activation",
    "block": "activation",
    "ctc": "activation",
    "bessel": "special",
    "incomplete": "special",
    "composed": "arithmetic",
    "spread": "arithmetic",
    "fourier": "special",
    "mode": "grad",
    "gradient": "grad",
}


def relative(file):
    return pathlib.Path(file).resolve().relative_to(ROOT).as_posix()


def _declared():
    """{operator: (file, line)} of the core's declarations."""
    found = {}
    for file in sorted((ROOT / "core" / "ops").glob("*.h")):
        for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if name := re.search(r'\bname = "(\w+)"', line):
                found.setdefault(name[1], (relative(file), n))
    return found


ROWS = {row["name"]: row for row in adjoint._C.operators()}
ROWS |= {a: row for row in ROWS.values() for a in row["aliases"].split(", ") if a}
DECLARED = _declared()
PACKAGE = pathlib.Path(adjoint.__file__).resolve().parent


def source(name, value):
    """(file, line) of a public callable below the root of the sources, or None."""
    row = ROWS.get(name) or ROWS.get(getattr(value, "__name__", ""))
    if getattr(value, "forms", None) is not None and row:
        return DECLARED.get(row["name"])
    try:
        plain = inspect.unwrap(value.fget if isinstance(value, property) else value)
        file = inspect.getsourcefile(plain)
    except (TypeError, ValueError):
        return None
    if file is None or not pathlib.Path(file).resolve().is_relative_to(PACKAGE):
        return None
    where = "src/adjoint/" + pathlib.Path(file).resolve().relative_to(PACKAGE).as_posix()
    code = getattr(plain, "__code__", None)
    if code is None:
        text = pathlib.Path(file).read_text(encoding="utf-8").splitlines()
        heads = [n for n, s in enumerate(text, 1) if re.match(rf"\s*class {plain.__name__}\b", s)]
        return where, heads[0] if heads else 1
    return where, code.co_firstlineno


def topic(name, value):
    """The page of a function of `adjoint` itself."""
    if isinstance(value, type):
        return "types"
    if getattr(value, "forms", None) is not None and name in ROWS:
        stem = re.sub("Ops$", "", ROWS[name]["family"]).lower().removesuffix("s")
    else:
        where = source(name, value)
        stem = pathlib.Path(where[0]).stem.strip("_").removesuffix("s") if where else ""
        stem = stem.replace("creation_keyword", "creation").removeprefix("grad_").removesuffix("_mode")
    stem = TOPIC_OF.get(stem, stem)
    return stem if stem in TITLES else "settings"


def plain_signature(name, value):
    """`(x, dim=None)`: of an operator by its row, else Python's; one that is no Python is left open."""
    own = getattr(value, "forms", None) is not None and getattr(value, "overload", None) is None
    if own and name in ROWS:
        row = ROWS[name]
        text = re.sub(r"^\w+\(self\b", "(input", row["signature"])
        text = text[text.index("(") :]
        if row["out"]:
            text = text[:-1] + (", out=None)" if "*" in text else ", *, out=None)")
    else:
        text = pages.index.signature(getattr(value, "overload", None) or value).replace("\\|", "|")
    try:
        ast.parse(f"def f{text}: pass")
    except SyntaxError:
        return "(*args, **kwargs)"
    return text


def prose(text):
    """A docstring's sentences as Markdown: what looks like a tag outside of code is text."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if n % 2 else re.sub(r"<(?=[A-Za-z/!])", r"\\<", p) for n, p in enumerate(parts))


def body(doc):
    """The documentation below its signature."""
    head, *found = pages.SECTION.split(doc)
    lines = [*examples(head.strip()), ""]
    for title, text in zip(found[::2], found[1::2], strict=True):
        lines += [f"**{title}**", ""]
        if title in ("Parameters", "Attributes", "Returns", "Raises", "Yields", "Warns"):
            lines += [*items(text, title in ("Parameters", "Attributes")), ""]
        else:
            lines += [*examples(text.strip()), ""]
    return lines


def items(text, named):
    """`name : type` and its sentences as a list: - `name` (type): sentences. Results and errors have no names."""
    found: list[list[str]] = []
    for line in text.strip("\n").split("\n"):
        if line[:1].strip():
            name, colon, kind = line.partition(" : ")
            head = f"`{name}`" + (f" ({prose(kind)})" if colon else "") if named else prose(line)
            found.append([head])
        elif line.strip() and found:
            found[-1].append(prose(line.strip()))
    return [f"- {head}" + (": " if rest else "") + "\n  ".join(rest) for head, *rest in found]


def examples(text):
    """Sentences and the examples among them, these in fences."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.lstrip().startswith(">>>"):
            yield from ["```python", inspect.cleandoc(part), "```", ""]
        elif part.startswith("    "):
            yield from ["```text", inspect.cleandoc(part), "```", ""]
        else:
            yield from [prose(part), ""]


def link(name, value):
    where = source(name, value)
    if where is None:
        return []
    file, line = where
    SOURCES.add(file)
    return [f'<a class="source" href="../source/{file}.html#L{line}">{file}:{line}</a>', ""]


#: The files to which the pages link.
SOURCES: set[str] = set()


def member_entries(cls):
    """Methods and properties of a class's own."""
    for name, raw in sorted(vars(cls).items()):
        if name.startswith("_") or isinstance(raw, type) or not (doc := inspect.getdoc(raw)):
            continue
        value = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
        if isinstance(raw, property) or inspect.isgetsetdescriptor(raw):
            yield "property", name, "", value, doc
        elif callable(value):
            yield "method", name, plain_signature(name, value), value, doc


def entry(module, names, value, doc, kind=None):
    """An object of the Python domain, aliases with it."""
    # A page of a module has said its name, which Sphinx puts before those of its objects.
    owner = {"": "adjoint.", "Tensor": "adjoint.Tensor."}.get(module, "")
    is_class = isinstance(value, type)
    kind = kind or ("class" if is_class else "function")
    signature = "" if kind == "property" else plain_signature(names[0], value)
    lines = [f"``````{{py:{kind}}} {owner}{names[0]}{signature}", ""]
    lines += link(names[0], value)
    if is_class and (
        bases := [b.__name__ for b in value.__bases__ if b is not object and b.__name__[0] != "_"]
    ):
        lines += [f"Bases: `{'`, `'.join(bases)}`.", ""]
    lines += body(doc)
    if is_class and value is not adjoint.Tensor:
        for what, name, text, member, member_doc in member_entries(value):
            lines += [f"`````{{py:{what}}} {name}{text}", "", *body(member_doc), "`````", ""]
    lines += ["``````", ""]
    full = "adjoint." + (module + "." if module else "") + names[0]
    for name in names[1:]:
        lines += [
            f"``````{{py:{kind}}} {owner}{name}{signature}",
            "",
            f"The same as {{py:obj}}`~{full}`.",
            "``````",
            "",
        ]
    return lines


def constants(module):
    owner = importlib.import_module("adjoint" + ("." + module if module else ""))
    for name in sorted(getattr(owner, "__all__", None) or dir(owner)):
        value = getattr(owner, name)
        if (
            name[0] == "_"
            or callable(value)
            or inspect.ismodule(value)
            or name in ("annotations", "TYPE_CHECKING")
        ):
            continue
        shown = repr(value)
        if " at 0x" not in shown and len(shown) < 80 and (module == "" or "__all__" in vars(owner)):
            yield name, shown


def table(title, heads, rows):
    return [f"## {title}", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + [
        "| " + " | ".join(row) + " |" for row in rows
    ]


def page(title, module, found, intro=""):
    lines = [f"# {title}", "", *([intro, ""] if intro else [])]
    found = sorted(found, key=lambda e: e[0][0].lower())
    owner = "adjoint." + (module + "." if module else "")
    lines += ["| name | what it does |", "|---|---|"]
    lines += [
        f"| {{py:obj}}`~{owner}{names[0]}` | {prose(pages.index.summary(v))} |" for names, v, _ in found
    ]
    lines.append("")
    for names, value, doc in found:
        lines += entry(module, names, value, doc)
    return lines


def tensor_page():
    found = list(pages.entries("Tensor"))
    lines = page("Tensor", "Tensor", found, "Methods and attributes that are functions of no module.")
    doc = inspect.getdoc(adjoint.Tensor) or ""
    lines[2:2] = ["``````{py:class} adjoint.Tensor", "", *body(doc), "``````", ""]
    for name in dir(adjoint.Tensor):
        raw = inspect.getattr_static(adjoint.Tensor, name)
        if name[0] != "_" and not callable(raw):
            lines += entry("Tensor", [name], raw, inspect.getdoc(raw) or "", "property")
    shared = [n for n in dir(adjoint.Tensor) if n[0] != "_" and hasattr(adjoint, n.rstrip("_"))]
    said = {n for names, _, _ in found for n in names}
    rows = [
        (f"`x.{n}()`", f"{{py:obj}}`adjoint.{n.rstrip('_')}`" + (", in place" if n.endswith("_") else ""))
        for n in shared
        if n not in said and callable(getattr(adjoint, n.rstrip("_")))
    ]
    return [*lines, *table("Methods that are functions, too", ("method", "function"), rows)]


def reference():
    """{path: text} of the reference: its first page, one of each topic of `adjoint`, one of each module."""
    written, by_topic = {}, {}
    for names, value, doc in pages.entries(""):
        if value is adjoint.Tensor:
            continue
        by_topic.setdefault(topic(names[0], value), []).append((names, value, doc))
    first = [
        "# Reference",
        "",
        "Every public name, by topic and by module. `import adjoint as ad` first; the",
    ]
    first += ["[index](genindex) lists all names, and `help(name)` says what stands here.", ""]
    parts: dict[str, list[str]] = {"Functions": [], "Modules": []}
    for key, title in TITLES.items():
        if key in by_topic:
            written[f"reference/functions-{key}.md"] = page(title, "", by_topic[key])
            parts["Functions"].append(f"functions-{key}")
    written["reference/Tensor.md"] = tensor_page()
    parts["Functions"].insert(0, "Tensor")
    parts["Functions"].append("constants")
    rows = [(f"`{name}`", f"`{shown}`") for name, shown in constants("")]
    written["reference/constants.md"] = [
        "# Dtypes and constants",
        "",
        *table("In `adjoint`", ("name", "value"), rows),
    ]
    for module in sorted(MODULES):
        intro = (inspect.getdoc(importlib.import_module("adjoint." + module)) or "").partition("\n\n")[0]
        lines = page(f"adjoint.{module}", module, pages.entries(module), prose(intro))
        if rows := [(f"`{name}`", f"`{shown}`") for name, shown in constants(module)]:
            lines += table("Constants", ("name", "value"), rows)
        lines.insert(2, f"```{{py:module}} adjoint.{module}\n```\n")
        written[f"reference/{module}.md"] = lines
        parts["Modules"].append(module)
    for title, names in parts.items():
        first += [f"## {title}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```", ""]
    written["reference/index.md"] = first
    return {path: "\n".join(lines) + "\n" for path, lines in written.items()}


def gallery():
    """{path: text}: a page of each example, with its picture, its measured time and its source."""
    times = json.loads((ROOT / "docs" / "numbers" / "gallery.json").read_text(encoding="utf-8"))
    rows = {row[0]: row for row in times["rows"]}
    written = {}
    for file in sorted((ROOT / "examples").glob("*.py")):
        code = file.read_text(encoding="utf-8")
        doc = ast.get_docstring(ast.parse(code)) or ""
        title, _, rest = doc.partition("\n\n")
        name = file.stem
        SOURCES.add(relative(file))
        lines = [f"# {name.replace('_', ' ').capitalize()}", "", title.replace("\n", " "), ""]
        if (ROOT / "docs" / "pictures" / f"{name}.png").exists():
            lines += [f"![What the program draws](../pictures/{name}.png)", ""]
        printed = []
        if name in rows:
            lines += [f"Time: {rows[name][1]} ([all times](../gallery.md#times-beside-torchs)).", ""]
            printed = ["## What it prints", "", "```text", rows[name][4], "```", ""]
        lines += [*examples(rest), *printed, "## The program", ""]
        lines += [
            f'<a class="source" href="../source/examples/{file.name}.html">examples/{file.name}</a>',
            "",
        ]
        lines += ["````python", code.rstrip(), "````", ""]
        written[f"gallery/{name}.md"] = "\n".join(lines)
    return written


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{file}</title><link rel="stylesheet" href="{up}_static/source.css"></head>
<body><h1>{file}</h1><p><a href="{up}index.html">Adjoint</a></p><main><pre tabindex="0" aria-label="{file}">{lines}</pre></main></body></html>
"""


def write_sources(folder):
    """A page of each file that is linked to, with a number and an anchor for each line."""
    for file in sorted(SOURCES):
        text = (ROOT / file).read_text(encoding="utf-8").splitlines()
        lines = "\n".join(
            f'<a id="L{n}" href="#L{n}">{n:4}</a> {html.escape(line, quote=False)}'
            for n, line in enumerate(text, 1)
        )
        target = folder / "source" / (file + ".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (file.count("/") + 1)
        target.write_text(PAGE.format(file=file, up=up, lines=lines), encoding="utf-8")
