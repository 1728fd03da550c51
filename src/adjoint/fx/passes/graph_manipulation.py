"""Small utilities for graphs, under the names that libraries use."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint._publish.register import listing
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node, map_arg

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]
__dir__ = listing(__name__)


class size_bytes(NamedTuple):
    """Bytes of a node's parameters and value, and of its value alone."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: Any, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Replace op and target of all nodes that have them.

    Parameters
    ----------
    fx_module : GraphModule
    old_op, old_target, new_op, new_target
        What is replaced, and by what.
    """
    graph, copies = Graph(), dict[Node, Node]()
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, node.kwargs), copies.__getitem__)
            copies[node] = graph.create_node(new_op, new_target, args, dict(kwargs), node.name)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    fx_module.graph = graph


def get_tensor_meta(node: Node) -> Any:
    """The tensor metadata that `ShapeProp` recorded for a node.

    Raises
    ------
    RuntimeError
        It noted nothing.
    """
    if not node.meta.get("tensor_meta"):
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Run ShapeProp(module).propagate(...) first"
        )
    return node.meta["tensor_meta"]


def get_size_of_node(fx_module: Any, node: Node) -> size_bytes:
    """Bytes of a node's value, and with the parameters and buffers of the module that it calls."""
    total = 0
    if node.op == "call_module":
        called = fx_module.get_submodule(node.target)
        total = sum(t.nbytes for t in (*called.parameters(), *called.buffers()))
    meta = get_tensor_meta(node)
    output = meta.dtype.itemsize * meta.shape.numel()
    return size_bytes(output, total + output)


def get_size_of_all_nodes(fx_module: Any, args: Any = None) -> None:
    """Note `get_size_of_node` of all nodes as ``node.size_bytes``, after `ShapeProp` where arguments are given."""
    from adjoint.fx.passes.shape_prop import ShapeProp

    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)
