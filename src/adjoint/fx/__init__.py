"""``torch.fx``: modules as graphs, which programs read and rewrite.

    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> class Model(ad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = ad.nn.Linear(4, 5)
    ...
    ...     def forward(self, x):
    ...         return ad.relu(self.linear(x) + 1)
    >>> traced = fx.symbolic_trace(Model())
    >>> print(traced.graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})
        %add : [num_users=1] = call_function[target=operator.add](args = (%linear, 1), kwargs = {})
        %relu : [num_users=1] = call_function[target=adjoint.relu](args = (%add,), kwargs = {})
        return relu

A tracer runs the module on proxies, which make nodes (`proxy`, `_tracer`); a graph holds the nodes (`node`, `graph`), and
becomes code (`_codegen`) that is the `forward` of a module (`graph_module`). `Interpreter` runs a graph node by node, `replace_pattern`
finds and replaces parts of it, and `passes` holds some passes that libraries use. Imported by who uses it. Start reading at
`_tracer.Tracer.trace`.
"""

from adjoint._publish.register import listing
from adjoint.fx import immutable_collections
from adjoint.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from adjoint.fx.graph import CodeGen, Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.interpreter import Interpreter, Transformer
from adjoint.fx.node import Node, has_side_effect, map_arg
from adjoint.fx.proxy import Proxy
from adjoint.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
__dir__ = listing(__name__)
