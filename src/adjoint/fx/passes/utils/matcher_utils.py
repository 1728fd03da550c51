"""Subgraph matching: finds the occurrences of a pattern in a graph.

A match begins at a node that the pattern returns and goes on to what that takes, in both graphs at once. Placeholders of the pattern
stand for anything. Start reading at `SubgraphMatcher.match`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import adjoint
from adjoint._publish.register import listing
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import _get_attr
from adjoint.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]
__dir__ = listing(__name__)


@dataclass
class InternalMatch:
    """One occurrence: a map from the nodes of the pattern to nodes of the graph."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Parameters
    ----------
    pattern : Graph
        What is looked for; all that it computes is returned or used.
    match_output : bool, optional
        Whether its output has to be the graph's.
    match_placeholder : bool, optional
        Whether its placeholders stand for placeholders alone.
    remove_overlapping_matches : bool, optional
        Whether a match that shares a node with an earlier one is left out.
    ignore_literals : bool, optional
        Whether plain values may be others.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError(
                    f"SubgraphMatcher cannot be initialized with an pattern with dead code: {node} has no users"
                )
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = (
            [output] if match_output else [n for n in self.pattern_returning_nodes if len(n.users) == 1]
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences of the pattern, in the order of the graph. Values inside an occurrence are not used outside.

        Parameters
        ----------
        graph : Graph
        node_name_match : str, optional
            Nodes of the graph whose name has this in it are taken for any of the pattern's that is returned.

        Returns
        -------
        list of InternalMatch
        """
        found = []
        taken: set[Node] = set()
        for nodes in self._anchored(graph, 0, {}, node_name_match):
            inside = {g for p, g in nodes.items() if p.op not in ("placeholder", "output")}
            if not self._contained(nodes, inside) or not _is_convex(inside):
                continue
            if self.remove_overlapping_matches and not taken.isdisjoint(inside):
                continue
            taken |= inside
            found.append(
                InternalMatch(
                    list(self.pattern_anchors),
                    nodes,
                    [nodes[p] for p in self.pattern_placeholder_nodes if p in nodes],
                    [nodes[p] for p in self.pattern_returning_nodes],
                )
            )
        return found

    def _anchored(
        self, graph: Graph, which: int, nodes: dict[Node, Any], name: str
    ) -> Iterator[dict[Node, Any]]:
        """All ways to find the pattern's anchors from number `which` on."""
        if which == len(self.pattern_anchors):
            if nodes:
                yield nodes
            return
        for g in list(graph.nodes):
            tried = dict(nodes)
            if self._nodes(self.pattern_anchors[which], g, tried, name):
                yield from self._anchored(graph, which + 1, tried, name)

    def _nodes(self, p: Node, g: Node, nodes: dict[Node, Any], name: str = "") -> bool:
        if p in nodes:
            return nodes[p] is g
        wild = p.op == "placeholder" and not self.match_placeholder
        if not wild and any(g is other for q, other in nodes.items() if q.op != "placeholder"):
            return False
        if not wild and not (name and name in g.name) and not self._same_call(p, g):
            return False
        nodes[p] = g
        if p.op == "placeholder":
            return True
        if len(p.args) != len(g.args) or set(p.kwargs) != set(g.kwargs):
            return False
        return self._values(p.args, g.args, nodes) and all(
            self._values(p.kwargs[k], g.kwargs[k], nodes) for k in p.kwargs
        )

    def _same_call(self, p: Node, g: Node) -> bool:
        if p.op != g.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            mine, its = (_get_attr(n.graph.owning_module, n.target) for n in (p, g))
            return type(mine) is type(its) and isinstance(mine, adjoint.Tensor)
        return p.target == g.target

    def _values(self, p: Any, g: Any, nodes: dict[Node, Any]) -> bool:
        if isinstance(p, Node):
            if isinstance(g, Node):
                return self._nodes(p, g, nodes)
            # A placeholder stands for a plain value, too.
            if p.op != "placeholder" or self.match_placeholder:
                return False
            if p in nodes:
                return type(nodes[p]) is type(g) and nodes[p] == g
            nodes[p] = g
            return True
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return len(p) == len(g) and all(self._values(a, b, nodes) for a, b in zip(p, g, strict=True))
        if isinstance(p, dict) and isinstance(g, dict):
            return list(p) == list(g) and all(self._values(p[k], g[k], nodes) for k in p)
        if isinstance(p, slice) and isinstance(g, slice):
            return self._values((p.start, p.stop, p.step), (g.start, g.stop, g.step), nodes)
        return not isinstance(g, Node) and (self.ignore_literals or type(p) is type(g) and p == g)

    def _contained(self, nodes: dict[Node, Any], inside: set[Node]) -> bool:
        returned = {nodes[p] for p in self.pattern_returning_nodes if p in nodes}
        return all(
            user in inside or g in returned or user.op == "output" and self.match_output
            for g in inside
            for user in g.users
        )


def _is_convex(inside: set[Node]) -> bool:
    """Whether no path leaves these nodes and returns, so that they can be fused."""
    seen: set[Node] = set()
    open_ = [user for node in inside for user in node.users if user not in inside]
    while open_:
        node = open_.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            open_ += node.users
    return True
