"""``torch._tensor_str``: the text of a tensor in parts, which libraries put together for types of their own."""

from __future__ import annotations

from adjoint._tensor import printing as _printing

__all__: list[str] = []

PRINT_OPTS = _printing._options


def _tensor_str(self, indent):
    """The values alone, where a line begins `indent` characters in."""
    plain = self.detach()
    if plain.numel() == 0:
        return "[]"
    shorten = plain.numel() > PRINT_OPTS.threshold
    values = _printing._edges(plain) if shorten else plain.tolist()
    return _printing._layout(
        values, tuple(plain.shape), indent, shorten, _printing._format_for(values, plain)
    )


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """The text and what follows it, up to the parenthesis."""
    pieces = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            pieces.append(",\n" + " " * indent + suffix)
            length, force_newline = indent + len(suffix), False
        else:
            pieces.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(pieces) + ")"


def _str_intern(inp, *, tensor_contents=None):
    return _printing.text_of(inp, tensor_contents)


_str = _str_intern
