"""`symbolic_trace`: traces a module or function to a `GraphModule`."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.fx._patches import is_fx_symbolic_tracing, is_fx_tracing, wrap
from adjoint.fx._tracer import PH, PHBase, ProxyableClassMeta, Tracer
from adjoint.fx.graph_module import GraphModule

__all__ = [
    "PH",
    "PHBase",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """Trace a module or function to a graph, and return a module that runs it.

    It is run once, on proxies, for which each operation becomes a node: loops are unrolled, and branches must not depend on values.
    Modules of the package are single nodes. What has dropped out is found by `GraphModule.print_readable`.

    Parameters
    ----------
    root : Module or function
        What is traced.
    concrete_args : dict, optional
        Values of arguments that are fixed.

    Returns
    -------
    GraphModule
        With the parameters and modules of `root`, which are shared.

    Raises
    ------
    TraceError
        The program asks for what is known only when it runs.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> module = fx.symbolic_trace(lambda x: ad.sin(x) + x)
    >>> print(module.graph)
    graph():
        %x : [num_users=2] = placeholder[target=x]
        %sin : [num_users=1] = call_function[target=adjoint.sin](args = (%x,), kwargs = {})
        %add : [num_users=1] = call_function[target=operator.add](args = (%sin, %x), kwargs = {})
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
