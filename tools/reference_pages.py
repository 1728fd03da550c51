"""Writes docs/reference/: a page for each public module, with the whole documentation of what has an example that runs.

    python tools/reference_pages.py            # runs the examples, and says what is on no page
    python tools/reference_pages.py --write    # and writes the pages

docs/reference.md (tools/reference.py) is the index of all that is public; this is what `help` says of each. A function without
an example is not on a page, and where an example prints something else than it says, nothing is written: a claim on these pages
has a fence that runs. Start reading at `main`.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
import warnings

import adjoint

# By its file: tests have a module of the same name.
_spec = importlib.util.spec_from_file_location(
    "index_of_names", pathlib.Path(__file__).with_name("reference.py")
)
index = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(index)
MODULES = index.MODULES

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
SECTION = re.compile(
    r"^(Parameters|Attributes|Returns|Yields|Raises|Warns|See Also|Notes|References|Examples)\n-+\n", re.M
)


def members(module):
    """(name, value) of what is public; a name that means the same as one before is told there."""
    if module == "Tensor":
        found = [(n, inspect.getattr_static(adjoint.Tensor, n)) for n in dir(adjoint.Tensor)]
        # Functions are on their own page, and so is what is written by their forms in place.
        return [(n, v) for n, v in found if not hasattr(adjoint, n) and not hasattr(adjoint, n.rstrip("_"))]
    owner = importlib.import_module("adjoint" + ("." + module if module else ""))
    return [(n, getattr(owner, n)) for n in getattr(owner, "__all__", None) or dir(owner)]


def entries(module):
    """Yield (names, value, documentation) of the callables of a module, aliases together."""
    seen: dict = {}
    for name, value in members(module):
        if name.startswith("_") or not callable(value) or inspect.ismodule(value):
            continue
        row = getattr(value, "forms", None)
        seen.setdefault(row or id(value), ([], value))[0].append(name)
    for names, value in seen.values():
        own = next((n for n in names if n == getattr(value, "__name__", None)), names[0])
        doc = inspect.getdoc(value) or ""
        yield [own, *(n for n in names if n != own)], value, doc


def failures(name, doc):
    """What the examples print that they do not say."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(doc + "\n", {}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.run(test, out=said.append)
    return "".join(said) if runner.failures else ""


def written(names, value, doc):
    """An entry in Markdown."""
    head, *found = SECTION.split(doc)
    shown = index.signature(value).replace("\\|", "|") if getattr(value, "forms", None) is None else ""
    lines = [f"## {names[0]}", ""]
    if shown:
        lines += ["```text", names[0] + shown, "```", ""]
    if len(names) > 1:
        lines += [f"Also `{'`, `'.join(names[1:])}`.", ""]
    lines += [head.strip(), ""]
    for title, body in zip(found[::2], found[1::2]):
        lines += [f"**{title}**", ""]
        if title == "Examples":
            lines += ["```python", body.strip(), "```", ""]
        elif title in ("Parameters", "Attributes", "Returns", "Raises", "Yields", "Warns"):
            lines += [*items(body), ""]
        else:
            lines += [body.strip(), ""]
    return lines


def items(body):
    """`name : type` and its sentences, as a list."""
    for line in body.strip("\n").split("\n"):
        if line[:1].strip():
            name, colon, kind = line.partition(" : ")
            yield f"- `{name}`: {kind}" if colon else f"- {line}"
        elif line.strip():
            yield "  " + line.strip()


def page(module, run=True):
    """The text of a page, and what is not on it: names without an example, and examples that fail."""
    title = "adjoint" if not module else "adjoint." + module
    lines = [f"# {title}", "", "Written by `python tools/reference_pages.py --write`: do not edit.", ""]
    silent, wrong = [], []
    for names, value, doc in sorted(entries(module), key=lambda e: e[0][0].lower()):
        if ">>>" not in doc:
            silent.append(names[0])
            continue
        if run and (said := failures(f"{title}.{names[0]}", doc)):
            wrong.append(said)
        lines += written(names, value, doc)
    return "\n".join(lines).rstrip() + "\n", silent, wrong


def main(arguments):
    pages, wrong = {}, []
    for module in ["", "Tensor", *MODULES]:
        text, silent, failed = page(module)
        wrong += failed
        if "\n## " in text:
            pages[module or "adjoint"] = text
        if silent:
            print(f"{module or 'adjoint'}: no example: {', '.join(silent)}")
    if wrong:
        sys.exit("".join(wrong))
    if "--write" in arguments:
        FOLDER.mkdir(exist_ok=True)
        for file in FOLDER.glob("*.md"):
            file.unlink()
        for name, text in pages.items():
            (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
