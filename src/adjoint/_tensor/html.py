"""How notebooks show a tensor: a line about it, and a table of its elements. Start reading at `html_of`."""

from __future__ import annotations

from html import escape

from adjoint import _C
from adjoint._tensor.printing import _edges, _format_for, _options, text_of

__all__ = ["html_of"]

_CELL = ' style="text-align: right; font-family: monospace"'


def html_of(tensor: _C.Tensor) -> str:
    """The tensor as HTML: its type, shape, and what it carries; then its elements, those at the ends if there are many.

    Tensors of more than two dimensions, and those without elements in memory, are shown as their text.
    """
    _C._tell_recorders("it writes a tensor as text, and how may be set")
    said = [f"shape {tuple(tensor.shape)}", str(tensor.dtype).rpartition(".")[2], str(tensor.device)]
    if tensor.grad_fn is not None:
        said.append(f"grad_fn {type(tensor.grad_fn).__name__}")
    elif tensor.requires_grad:
        said.append("requires_grad")
    head = f"<div><b>{escape(type(tensor).__name__)}</b> {escape(', '.join(said))}</div>"
    plain = tensor.detach()
    in_memory = not (plain._layout_number or plain.is_meta or _C._is_batched(tensor))
    if tensor.ndim not in (1, 2) or not in_memory or not tensor.numel():
        return f"{head}<pre>{escape(text_of(tensor))}</pre>"
    edge, rows = _options.edgeitems, plain if tensor.ndim == 2 else plain.unsqueeze(0)
    shorten = plain.numel() > _options.threshold
    values = _edges(rows) if shorten else rows.tolist()
    form = _format_for(values, plain)
    lines = [[escape(form(v)) for v in row] for row in values]
    if shorten and rows.shape[1] > 2 * edge:
        lines = [[*line[:edge], "…", *line[edge:]] for line in lines]
    if shorten and rows.shape[0] > 2 * edge:
        lines.insert(edge, ["⋮"] * len(lines[0]))
    body = "".join("<tr>" + "".join(f"<td{_CELL}>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"{head}<table>{body}</table>"
