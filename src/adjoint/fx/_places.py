"""Iteration over nodes, insert points, and checks of the paths that nodes name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.fx.node import Node
from adjoint.nn import Module

__all__ = ["InsertPoint", "Nodes", "check_path", "is_there"]


class Nodes:
    """The nodes of a graph in order or reversed; they may be erased, moved and added during iteration."""

    def __init__(self, graph: Any, step: str = "_next") -> None:
        self.graph = graph
        self.step = step

    def __len__(self) -> int:
        return self.graph._length

    def __iter__(self) -> Iterator[Node]:
        root = node = self.graph._root
        while (node := getattr(node, self.step)) is not root:
            if not node._erased:
                yield node

    def __reversed__(self) -> Nodes:
        return Nodes(self.graph, "_prev" if self.step == "_next" else "_next")


class InsertPoint:
    """Sets the insert point, for a ``with`` block or permanently."""

    def __init__(self, graph: Any, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


def is_there(module: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def check_path(node: Node) -> None:
    """Raise if the path of a node does not exist in the graph's module."""
    at = node.graph.owning_module
    parts = node.target.split(".")
    for k, part in enumerate(parts):
        at = getattr(at, part, None)
        if at is None:
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(parts[:k])}"
            )
    if node.op == "call_module" and not isinstance(at, Module):
        raise RuntimeError(f"Node {node} target {node.target} does not reference an nn.Module")
