"""The texts of families: what no row and no signature says of a function.

    | # gather
    | index: integer Tensor | As many dimensions as `self`; no size exceeds that of `self` but along `dim`.
    | returns: Tensor | The shape of `index` and the dtype of `self`.
    | raises RuntimeError: If an index is out of range. | ad.gather(ad.zeros(2), 0, ad.tensor([2]))
    | derivatives: With respect to `self`; …
    | like: take_along_dim
    | note: Duplicate indices are allowed.
    | >>> ad.gather(ad.tensor([[1, 2], [3, 4]]), 1, ad.tensor([[0], [1]]))
    | tensor([[1],
    |         [4]])

A line for an argument gives its type, a bar, and a sentence; where there is no bar the type is what the row or the signature
says. `like` names a function whose arguments and result mean the same. After the bar of `raises` stands a call that raises it, which tests run and help does not show. Examples are the lines from
the first `>>>` on. An entry may have several names, `# lstm, gru`; those of subpackages are written out, `# linalg.svd`.
"""

from __future__ import annotations

import functools
import pathlib

__all__ = ["Text", "entries", "find", "measured"]


class Text:
    """What a file says of one function."""

    def __init__(self):
        self.arguments, self.raises, self.notes, self.examples = {}, [], [], []
        self.summary = self.returns = self.derivatives = self.like = None

    def fill(self, other):
        """Take what is missing from another text."""
        self.arguments = {**other.arguments, **self.arguments}
        for part in ("raises", "notes", "examples", "summary", "returns", "derivatives", "like"):
            setattr(self, part, getattr(self, part) or getattr(other, part))

    def read(self, line):
        if self.examples or line.startswith(">>>"):
            self.examples.append(line)
            return
        name, _, rest = line.partition(": ")
        said, _, after = (s.strip() for s in f" {rest}".partition(" | "))
        if not rest:
            raise ValueError(f"expected 'name: text', but got {line!r}")
        if name.startswith("raises "):
            self.raises.append((name[7:], said, after))
        elif name == "note":
            self.notes.append(rest)
        elif name in ("summary", "derivatives", "like"):
            setattr(self, name, rest)
        elif name == "returns":
            self.returns = (said, after)
        else:
            self.arguments[name] = (said, after) if after else (None, said)


@functools.cache
def entries() -> dict[str, Text]:
    """What all files say, by public name."""
    found: dict[str, Text] = {}
    for file in sorted(pathlib.Path(__file__).parent.glob("*.txt")):
        text = Text()
        for line in file.read_text(encoding="utf-8").split("\n"):
            if line.startswith("# "):
                text = Text()
                for name in line[2:].split(", "):
                    if name in found:
                        raise ValueError(f"{file.name}: {name} has a text already")
                    found[name] = text
            elif line.strip() or text.examples:
                text.read(line)
    return found


@functools.cache
def measured() -> dict[str, list[str]]:
    """What compositions were seen to take and to give, by public name (tools/composition_types.py): sentences for their notes."""
    found = {}
    for line in pathlib.Path(__file__).with_name("compositions.table").read_text("utf-8").splitlines():
        types, modes, names = line.split(" | ")
        if modes == "none":
            said = ["Derivatives: none; the result does not require grad."]
        elif modes == "unknown":
            said = []
        else:
            how = "reverse and forward mode" if "forward" in modes else "reverse mode"
            said = [f"Derivatives: {how}, those of the operators that it calls."]
        found.update(dict.fromkeys(names.split(), [f"Element types: {types}.", *said]))
    return found


def find(*names) -> Text:
    """What is said under the names, an earlier one before a later one; an empty text where nothing is."""
    found = Text()
    for name in dict.fromkeys(names):
        if name in entries():
            found.fill(entries()[name])
    return found
