"""Showing a graph: `explain` as a table, `draw` as a picture. Both walk the nodes from the last to the first."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Node, Tensor
from adjoint._switches import switches
from adjoint._types import Any, Params
from adjoint.autograd._drawing import HEAD, Drawing, quoted

__all__ = ["Drawing", "Explanation", "draw", "explain"]


def _roots(tensors):
    """The nodes where a graph ends: of tensors, edges or nodes."""
    if isinstance(tensors, (Tensor, Node)) or (
        isinstance(tensors, tuple) and len(tensors) in (2, 3) and isinstance(tensors[0], Node)
    ):
        tensors = [tensors]
    roots = []
    for t in tensors:
        if isinstance(t, tuple):
            t = t[0]
        if isinstance(t, Tensor):
            if not t.requires_grad:
                raise RuntimeError(
                    f"this tensor of shape {tuple(t.shape)} has no graph: it does not require a gradient"
                )
            t = _C._gradient_edge(t)[0]
        roots.append(t)
    return roots


def _walk(roots):
    """Nodes in the order in which a backward pass would come to them."""
    seen: dict[Any, Any] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = None
        stack += [n for n, _ in node.next_functions if n is not None]
    last = max((n._sequence_nr() for n in seen if type(n).__name__ != "AccumulateGrad"), default=0)
    return sorted(
        seen, key=lambda n: (type(n).__name__ == "AccumulateGrad", last - min(n._sequence_nr(), last))
    )


def _shape(node):
    sizes, dtype = node._result(0)
    return f"{str(dtype).rpartition('.')[2]}{list(sizes)}"


class Explanation:
    """The table that `explain` returns: prints itself; `rows` has one dict per operation.

    Attributes
    ----------
    rows : list of dict
        With keys ``operation``, ``result``, ``saved`` (names), ``bytes`` and ``line``.
    bytes : int
        What all saved tensors take, each storage counted as often as it is saved.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.bytes = sum(row["bytes"] for row in rows)

    def __str__(self) -> str:
        head = ["operation", "result", "saves", "bytes", "line"]
        table = [
            [row["operation"], row["result"], ", ".join(row["saved"]), f"{row['bytes']:,}", row["line"]]
            for row in self.rows
        ]
        table.append([f"{len(self.rows)} operations", "", "", f"{self.bytes:,}", ""])
        widths = [max(len(line[k]) for line in [head, *table]) for k in range(len(head))]
        rule = "  ".join("-" * w for w in widths)

        def text(line):
            return "  ".join(
                c.rjust(w) if k == 3 else c.ljust(w)
                for k, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()

        lines = [text(head), rule, *map(text, table[:-1]), rule, text(table[-1])]
        if not any(row["line"] for row in self.rows):
            lines.append(
                f"To see source lines, call {switches.package}.autograd.graph.set_record_lines(True) before the program."
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        """What a notebook shows: the same as a table."""
        from html import escape

        def line(cells, tag):
            parts = (
                f'<{tag} style="text-align: {"right" if k == 3 else "left"}">{escape(c)}</{tag}>'
                for k, c in enumerate(cells)
            )
            return "<tr>" + "".join(parts) + "</tr>"

        body = [
            line([r["operation"], r["result"], ", ".join(r["saved"]), f"{r['bytes']:,}", r["line"]], "td")
            for r in self.rows
        ]
        head = line(["operation", "result", "saves", "bytes", "line"], "th")
        foot = line([f"{len(self.rows)} operations", "", "", f"{self.bytes:,}", ""], "th")
        return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody><tfoot>{foot}</tfoot></table>"


def explain(tensor: Tensor) -> Explanation:
    """A table of the graph of a tensor: each operation with its result, what it saves in bytes, and its source line.

    Parameters
    ----------
    tensor : Tensor, Node, GradientEdge, or a sequence of them

    Returns
    -------
    Explanation

    Raises
    ------
    RuntimeError
        The tensor requires no gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(1000, requires_grad=True)
    >>> table = ad.autograd.graph.explain((x * 2).exp().sum())
    >>> [(row["operation"], row["bytes"]) for row in table.rows]
    [('SumBackward0', 0), ('ExpBackward0', 4000), ('MulBackward0', 4)]
    """
    rows = []
    for node in _walk(_roots(tensor)):
        if type(node).__name__ == "AccumulateGrad":
            continue
        saved = node._saved()
        rows.append(
            {
                "operation": node.name(),
                "result": _shape(node),
                "saved": [name for name, _, packed in saved],
                "bytes": sum(size for _, size, _ in saved),
                "line": node._line.strip().splitlines()[-1].strip() if node._line else "",
            }
        )
    return Explanation(rows)


def draw(tensor: Tensor, params: Params | None = None, trace: int | None = None) -> Drawing:
    """A picture of the graph of a tensor: operations, the shapes that flow between them, parameters by name; or of what is
    replayed of a jitted function.

    Parameters
    ----------
    tensor : Tensor, Node, GradientEdge, or a sequence of them; or a function that `jit` returned
        Of a function, a trace with its backward pass: instructions, inputs by their paths, constants, decisions and results.
    params : Module or dict of str to Tensor, optional
        Names for leaves.
    trace : int, optional
        Of a function's traces, which; 0 is the one that was replayed last.

    Returns
    -------
    Drawing
        ``.save(path)`` writes SVG, PNG, PDF or the source; notebooks show it. PNG and PDF need the program ``dot`` of
        Graphviz, which also lays the others out better.

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.ones(3, requires_grad=True)
    >>> picture = ad.autograd.graph.draw((w * 2).sum(), params={"w": w})
    >>> "SumBackward0" in picture.source and "float32[3]" in picture.source
    True
    """
    from adjoint._replay.jitted import of

    if (function := of(tensor)) is not None:
        from adjoint._replay._explain import draw

        if params is not None:
            raise TypeError("draw(): a trace names its inputs by their paths, and takes no params")
        return draw(function, trace or 0)
    if trace is not None:
        raise TypeError("draw(): trace= is for functions that jit() returned")
    members = getattr(params, "named_parameters", None)
    named = dict(params or {}) if members is None else dict(members())
    names = {id(t): name for name, t in named.items()}
    nodes = _walk(_roots(tensor))
    number = {node: i for i, node in enumerate(nodes)}
    lines = list(HEAD)
    for node, i in number.items():
        if type(node).__name__ == "AccumulateGrad":
            leaf = node.variable
            name = names.get(id(leaf)) or "leaf"
            lines.append(f'  n{i} [label="{quoted(name)}\\n{_shape(node)}" fillcolor="#d9ead3"];')
        else:
            lines.append(f'  n{i} [label="{quoted(node.name())}"];')
        for source, nr in node.next_functions:
            if source is None:
                continue
            sizes, _ = source._result(nr)
            lines.append(f'  n{number[source]} -> n{i} [label="{list(sizes)}"];')
    for root in _roots(tensor):
        lines.append(
            f'  r{number[root]} [label="{_shape(root)}" fillcolor="#fde9d0"];\n  n{number[root]} -> r{number[root]};'
        )
    return Drawing("\n".join([*lines, "}"]))


# --- what gradients look like ---------------------------------------------------------------------------------------------


class Result:
    """Shape and dtype of one result of a recorded call, and so of its gradient."""

    __slots__ = ("dtype", "shape")
    is_nested_tensor = is_cpp_nested_tensor = is_tensor_subclass = False

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"(shape={tuple(self.shape)}, dtype={self.dtype})"


def results(node):
    """Of each result of the call that `node` stands for, in order."""
    found: list[Result] = []
    while True:
        try:
            found.append(Result(*node._result(len(found))))
        except IndexError:
            return found
