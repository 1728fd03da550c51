"""The documentation of a composition or class: what its source says, completed from its signature. Start reading at `document`."""

from __future__ import annotations

import functools
import importlib
import inspect
import re

from adjoint import _C
from adjoint._help._arguments import described
from adjoint._help._operator import join, row_of, section, written_example
from adjoint._help._texts import entries, find, measured

__all__ = ["document", "document_class", "public_name"]

#: The order that NumPy's style gives to sections.
_ORDER = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
    "Examples",
)
_HEAD = re.compile(rf"^({'|'.join(_ORDER)})\n-+\n", re.M)


def public_name(public) -> str:
    """Under what name its text is found: `quantile`, `Tensor.backward`, `linalg.svd`, `nn.ReLU`."""
    if public.__qualname__.startswith("Tensor."):
        return public.__qualname__
    module = public.__module__.removeprefix("adjoint").removeprefix(".")
    package = module.partition("._")[0]
    if re.fullmatch(r"nn\.\w+\.(functions|fractional|ctc|grid)", module):
        # Functions beside their layers that are published elsewhere.
        return f"nn.functional.{public.__name__}"
    if not module or module.startswith(("_", "ops")) or module.endswith(("._toplevel", ".toplevel")):
        return public.__name__
    # Written in a module of a public package: nn.utils.clip for nn.utils.
    outer = f"{package.rpartition('.')[0]}.{public.__name__}"
    return outer if outer in entries() else f"{package}.{public.__name__}"


def document(public, written, published):
    """The documentation of a composition."""
    name = public_name(public)
    base = published.get(public.__name__[:-1]) if public.__name__.endswith("_") else None
    inplace = base is not None and name.startswith("Tensor.")
    # A function and a method of one name mean the same, and so do those of `nn.functional` and `special`.
    same = name.startswith(("Tensor.", "nn.functional.", "special."))
    outer = getattr(importlib.import_module("adjoint"), public.__name__, None)
    same = same or outer is not None and inspect.unwrap(outer) is inspect.unwrap(public)
    text = find(name, public.__name__) if same else find(name)
    if inplace and not text.examples:
        text, public, written = find(public_name(base)), base, written
    if not written:
        row = row_of("_" + public.__name__) or row_of(public.__name__)
        written = text.summary or (row["doc"] if row else "")
    sections = _sections(written)
    signature = _complete(sections, public, text, name, inplace)
    if signature is None:
        return written
    _complete_returns(sections, signature, text, inplace)
    _complete_notes(sections, public, name, text, published)
    return _joined(sections)


def document_class(cls, written, package):
    """The documentation of a class; `package` is the public module in which it is found."""
    name = f"{package}.{cls.__name__}"
    text = find(name)
    sections = _sections(written)
    if package == "nn" and not text.like and (function := _function_of_layer(cls.__name__)):
        text.like = f"nn.functional.{function}"
    _complete(sections, cls, text, name, False)
    for line in text.notes:
        sections.setdefault("Notes", []).append(line)
    sections.pop("Returns", None)
    return _joined(sections)


def _function_of_layer(name):
    """The function of `nn.functional` that a layer is named after: max_pool2d of MaxPool2d, cross_entropy of CrossEntropyLoss."""
    functional = importlib.import_module("adjoint.nn.functional")
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    for candidate in (snake, snake.removesuffix("_loss"), name.lower(), name.lower().removesuffix("loss")):
        if candidate in functional.__all__:
            return candidate
    return None


def _complete(sections, public, text, name, inplace):
    """Parameters, errors and examples; the signature, None where there is none."""
    try:
        signature = inspect.signature(public)
    except (TypeError, ValueError):
        return None
    if text.like and text.like != name:
        _borrow(sections, text, text.like, signature)
    _complete_parameters(sections, signature, text, name, inplace)
    for error, sentence, _ in text.raises:
        sections.setdefault("Raises", []).extend([error, f"    {sentence}"])
    if "Examples" not in sections and text.examples:
        sections["Examples"] = written_example(public.__name__, text, inplace)
    return signature


def _joined(sections):
    return join(sections.pop("").strip(), *(section(t, sections[t]) for t in _ORDER if sections.get(t)))


def _borrow(sections, text, name, signature):
    """Take over what another function says of arguments and results that nothing is said of here."""
    *packages, last = name.split(".")
    owner = functools.reduce(getattr, packages, importlib.import_module("adjoint"))
    found = _sections(getattr(owner, last).__doc__)
    for name, block in _blocks(found.get("Parameters", [])).items():
        written = _blocks(sections.get("Parameters", []))
        if name in signature.parameters and name not in text.arguments and name not in written:
            sections.setdefault("Parameters", []).extend(block)
    if not text.returns and "Returns" in found:
        sections.setdefault("Returns", found["Returns"])


def _sections(doc):
    """What stands before the first section, under "", and the lines of each."""
    head, *found = _HEAD.split(inspect.cleandoc(doc or ""))
    return {"": head, **{title: body.strip("\n").split("\n") for title, body in zip(found[::2], found[1::2])}}


def _complete_parameters(sections, signature, text, name, inplace):
    """Every parameter, in the order of the signature: as it is written, else as the texts or all functions have it."""
    written = _blocks(sections.get("Parameters", []))
    parameters = list(signature.parameters.values())
    first = parameters[0].name if parameters else ""
    lines: list[str] = []
    blocks: list[list[str]] = []  # `a, b : Tensor` is the block of both
    for i, p in enumerate(parameters):
        # The tensor of a method, and what the form that writes has no use for.
        if i == 0 and name.startswith("Tensor.") and p.name == "self" or inplace and p.name == "out":
            continue
        if p.name in written:
            if not any(block is written[p.name] for block in blocks):
                blocks.append(written[p.name])
                lines += written[p.name]
            continue
        default = None if p.default is p.empty else _written(p.default)
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = None if p.annotation is p.empty else _type(p.annotation)
        lines += described(stars + p.name, text, first, kind, default)
    # What is written of parameters that the signature does not spell out.
    for block in written.values():
        if not any(block is other for other in blocks) and not text.like:
            blocks.append(block)
            lines += block
    sections["Parameters"] = lines


def _blocks(lines):
    """The lines of each parameter, by its name; `a, b : Tensor` is the block of both."""
    found: dict[str, list] = {}
    block: list = []
    for line in lines:
        if line[:1].strip():
            block = []
            found.update(dict.fromkeys((n.strip("* ") for n in line.partition(" :")[0].split(",")), block))
        block.append(line)
    return found


def _written(default):
    if isinstance(default, (_C.dtype, _C.Tensor)) or callable(default):
        return _name(default)
    return repr(default)


#: Names of `adjoint._types` and others in annotations, as users know them.
_WORDS = {
    "Device": "device, str or int",
    "Dims": "int or sequence of ints",
    "DType": "dtype",
    "Ints": "int or sequence of ints",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Number": "number",
    "Closure": "callable",
    "Params": "iterable of Tensors, of pairs (name, Tensor), or of dicts",
    "tuple[float | Tensor, float | Tensor]": "pair of floats",
    "Sequence[int]": "sequence of ints",
    "Sequence[Tensor]": "sequence of Tensors",
    "Shape": "sequence of ints",
    "Tensors": "Tensor or sequence of Tensors",
    "Any": "",
}


def _type(annotation):
    """`int | None` as documentation says it."""
    shown = "None" if annotation is None else annotation if isinstance(annotation, str) else _name(annotation)
    words = "|".join(re.escape(word) for word in _WORDS)
    shown = re.sub(rf"(?<![\w\[])({words})(?![\w\[])", lambda found: _WORDS[found[1]], shown)
    parts = [p.strip() for p in shown.split("|")] if "[" not in shown else [shown]
    kinds = [p for p in parts if p != "None"]
    return " or ".join(filter(None, kinds)) + ", optional" * (len(kinds) < len(parts)) if kinds else "None"


def _name(annotation):
    return getattr(annotation, "__name__", str(annotation))


def _complete_returns(sections, signature, text, inplace):
    if "Returns" in sections or "Yields" in sections:
        return
    if inplace:
        sections["Returns"] = [f"`{next(iter(signature.parameters))}`, written"]
    elif text.returns:
        said, after = text.returns
        first = next(iter(signature.parameters), "")
        after = after.replace("`self`", f"`{first}`")
        sections["Returns"] = [said, f"    {after}"] if after else [said]
    elif signature.return_annotation is not signature.empty:
        sections["Returns"] = [_type(signature.return_annotation)]


def _complete_notes(sections, public, name, text, published):
    notes = sections.setdefault("Notes", [])
    known = measured().get(name, []) if name.rpartition(".")[2] == public.__name__ else []
    derivatives = [f"Derivatives: {text.derivatives}"] if text.derivatives else known[1:]
    added = [*text.notes, *known[:1], *derivatives]
    own = public.__name__
    if published.get(own) is public:
        forms = [f"`ad.{own}(...)`"]
        if own in vars(_C.Tensor):
            forms.append(f"`x.{own}(...)`")
        if own + "_" in vars(_C.Tensor):
            forms.append(f"in place `x.{own}_(...)`")
        if len(forms) > 1:
            added.append(f"Forms: {', '.join(forms)}.")
    for line in added:
        notes += [""] * bool(notes) + [line]
