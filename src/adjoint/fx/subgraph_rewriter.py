"""`replace_pattern`: replaces the occurrences of one function in a graph by another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from adjoint import nn
from adjoint._publish.register import listing
from adjoint.fx._symbolic_trace import symbolic_trace
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule, _copy_attr, _has_attr
from adjoint.fx.node import Node
from adjoint.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
__dir__ = listing(__name__)


class Match(NamedTuple):
    """An occurrence of a pattern: its last node, and a map from the nodes of the pattern to those of the graph."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """Like `Match`, with the replacement nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace all occurrences of a pattern in a module's graph, both given as functions.

    Parameters
    ----------
    gm : GraphModule
        What is changed.
    pattern, replacement : function, GraphModule or Graph
        They take the same arguments, which stand for anything, and return as many values.

    Returns
    -------
    list of Match
        What was replaced. Occurrences that share nodes are replaced once.

    Raises
    ------
    RuntimeError
        Pattern and replacement take or return different numbers of values.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> module = fx.symbolic_trace(lambda x, y: ad.exp(x + y).log())
    >>> matches = fx.replace_pattern(module, lambda a: ad.exp(a).log(), lambda a: a * 1)
    >>> print(module.code.strip())
    def forward(self, x, y):
        add = x + y;  x = y = None
        mul = add * 1;  add = None
        return mul
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` for the occurrences that pass all filters.

    Parameters
    ----------
    gm, pattern, replacement
        As for `replace_pattern`.
    match_filters : list of callable, optional
        Each takes a match, the graph and the pattern, and says whether it is to be replaced.
    ignore_literals : bool, optional
        Whether numbers and strings may be others than the pattern's.
    replacement_callback : callable, optional
        Takes the same, and returns the graph that takes the place, instead of `replacement`.
    node_name_match : str, optional
        Nodes whose name has this in it are taken for any that the pattern returns.

    Returns
    -------
    list of ReplacedPatterns
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
    )


def _traced(what: Any) -> tuple[Graph, Any]:
    """The graph of a function or module, and the module that holds its attributes."""
    if isinstance(what, Graph):
        return what, what.owning_module
    module = what if isinstance(what, GraphModule) else symbolic_trace(what)
    return module.graph, module


def _replace_pattern(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: Any = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph = gm.graph
    pattern_graph, _ = _traced(pattern)
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    by, holder = (None, None) if replacement is None else _traced(replacement)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    #: What took the place of nodes that earlier replacements took out.
    moved: dict[Node, Node] = {}
    done = []
    for match in matcher.match(graph, node_name_match):
        if not all(keep(match, graph, pattern_graph) for keep in match_filters or ()):
            continue
        new = by if replacement_callback is None else replacement_callback(match, graph, pattern_graph)
        assert new is not None
        done.append(_replace(gm, pattern_graph, match, new, moved))
    if holder is not None:
        for node in graph.nodes:
            missing = node.op in ("get_attr", "call_module") and not _has_attr(gm, node.target)
            if missing and _has_attr(holder, node.target):
                _copy_attr(holder, gm, node.target)
    if isinstance(replacement, nn.Module):
        gm.delete_all_unused_submodules()
    gm.recompile()
    return done


def _replace(
    gm: GraphModule, pattern: Graph, match: InternalMatch, new: Graph, moved: dict[Node, Node]
) -> ReplacedPatterns:
    graph = gm.graph

    def now(value: Any) -> Any:
        while isinstance(value, Node) and value in moved:
            value = moved[value]
        return value

    match.nodes_map = {p: now(g) for p, g in match.nodes_map.items()}
    match.placeholder_nodes = [now(g) for g in match.placeholder_nodes]
    taken = [n for n in new.nodes if n.op == "placeholder"]
    if len(taken) != len(match.placeholder_nodes):
        raise RuntimeError(
            f"replace_pattern(): the pattern takes {len(match.placeholder_nodes)} values, and its replacement {len(taken)}"
        )
    copies: dict[Node, Any] = dict(zip(taken, match.placeholder_nodes, strict=True))
    users = [user for n in match.returning_nodes for user in n.users]
    # Before who uses it first; without users, after the last node of the match.
    where = min(users) if users else max(match.returning_nodes).next
    with graph.inserting_before(where):
        returned = graph.graph_copy(new, copies)
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(results) != len(match.returning_nodes):
        raise RuntimeError(
            f"replace_pattern(): the pattern returns {len(match.returning_nodes)} values, and its replacement {len(results)}"
        )
    for old, result in zip(match.returning_nodes, results, strict=True):
        if not isinstance(result, Node):
            raise RuntimeError(
                f"replace_pattern(): the replacement returns {result!r}, which it does not compute"
            )
        old.replace_all_uses_with(result)
        moved[old] = result
    for p in reversed(pattern.nodes):
        if p.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[p])
    made = [n for p, n in copies.items() if p.op != "placeholder"]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)
