"""A picture of a graph where Graphviz is not installed: rows by distance from the result, arrows between them.

Each node stands one row below the last of those that use it, and within its row below their middle. Start reading at `svg_of`.
"""

from __future__ import annotations

import re
from html import escape

__all__ = ["svg_of"]

_NODE = re.compile(r'^  (\w+) \[label="((?:[^"\\]|\\.)*)"(?: fillcolor="(#\w+)")?\];$')
_EDGE = re.compile(r'^  (\w+) -> (\w+)(?: \[label="((?:[^"\\]|\\.)*)"\])?;$')
_LETTER, _LINE, _ROW, _GAP = 7, 15, 84, 24


def _read(source):
    """({node: (lines of text, colour)}, [(from, to, label)]) of a graph in Graphviz's language, as `draw` writes it."""
    nodes, edges = {}, []
    for line in source.splitlines():
        if found := _EDGE.match(line):
            edges.append((found[1], found[2], found[3] or ""))
        elif found := _NODE.match(line):
            lines = [re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\)\\n|(?<=\\\\)\\n", found[2])]
            nodes[found[1]] = lines, found[3] or "#eef2f7"
    return nodes, edges


def _ranks(nodes, edges):
    """The row of each node, the results' 0: one below the lowest of its users."""
    users: dict[str, list[str]] = {n: [] for n in nodes}
    inputs: dict[str, list[str]] = {n: [] for n in nodes}
    for a, b, _ in edges:
        users[a].append(b)
        inputs[b].append(a)
    waiting = {n: len(users[n]) for n in nodes}
    ready, rank = [n for n in nodes if not users[n]], dict.fromkeys(nodes, 0)
    while ready:
        node = ready.pop()
        for other in inputs[node]:
            rank[other] = max(rank[other], rank[node] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return rank, users


def svg_of(source: str) -> str:
    """The graph as SVG."""
    nodes, edges = _read(source)
    rank, users = _ranks(nodes, edges)
    width = {n: max(map(len, lines)) * _LETTER + 16 for n, (lines, _) in nodes.items()}
    rows: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node in nodes:
        rows[rank[node]].append(node)
    x: dict[str, float] = {}
    for row in rows:
        middle = {n: sum(x[u] for u in users[n]) / len(users[n]) if users[n] else 0.0 for n in row}
        row.sort(key=middle.__getitem__)
        total = sum(width[n] + _GAP for n in row) - _GAP
        at = sum(middle.values()) / len(row) - total / 2
        for n in row:
            x[n] = at + width[n] / 2
            at += width[n] + _GAP
    left = min((x[n] - width[n] / 2 for n in nodes), default=0.0) - 8
    right = max((x[n] + width[n] / 2 for n in nodes), default=0.0) + 8
    height = {n: len(lines) * _LINE + 8 for n, (lines, _) in nodes.items()}
    y = {n: rank[n] * _ROW + 28 for n in nodes}
    size = f"{right - left:.0f} {len(rows) * _ROW}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} 0 {size}" width="{size.split()[0]}" height="{size.split()[1]}" '
        'font-family="Helvetica, sans-serif" font-size="11" text-anchor="middle">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7f"/></marker></defs>',
    ]
    for a, b, label in edges:
        ends = x[a], y[a] - height[a] / 2, x[b], y[b] + height[b] / 2
        out.append(
            '<line class="edge" x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="#5b6b7f" '
            'marker-end="url(#tip)"/>'.format(*ends)
        )
        if label:
            out.append(
                f'<text x="{(ends[0] + ends[2]) / 2 + 4:.0f}" y="{(ends[1] + ends[3]) / 2 + 3:.0f}" fill="#5b6b7f" '
                f'font-size="9" text-anchor="start">{escape(label)}</text>'
            )
    for n, (lines, colour) in nodes.items():
        top = y[n] - height[n] / 2
        out.append(
            f'<g class="node"><rect x="{x[n] - width[n] / 2:.0f}" y="{top:.0f}" width="{width[n]}" height="{height[n]}" rx="5" '
            f'fill="{colour}" stroke="#5b6b7f"/>'
        )
        for k, line in enumerate(lines):
            out.append(
                f'<text x="{x[n]:.0f}" y="{top + 15 + k * _LINE:.0f}" fill="#1b2430">{escape(line)}</text>'
            )
        out.append("</g>")
    return "\n".join([*out, "</svg>"])
