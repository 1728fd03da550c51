"""`Interpreter` runs a graph node by node, with hooks for subclasses; `Transformer` rewrites a graph in the same way.

Start reading at `Interpreter.run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint._publish.register import listing
from adjoint.fx._tracer import Tracer
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Argument, Node, Target, Value, map_aggregate, map_arg
from adjoint.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]
__dir__ = listing(__name__)


class Interpreter:
    """Runs a module's graph, node by node. Subclasses override `run_node`, or the method of an op.

    Parameters
    ----------
    module : GraphModule
        Whose graph runs, and whose members it takes.
    garbage_collect_values : bool, optional
        Whether values are dropped after their last use.
    graph : Graph, optional
        Another graph, which runs instead.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> class Printing(fx.Interpreter):
    ...     def run_node(self, n):
    ...         value = super().run_node(n)
    ...         print(n.name, value)
    ...         return value
    >>> result = Printing(fx.symbolic_trace(lambda x: ad.sqrt(x) + 1)).run(ad.tensor(4.0))
    x tensor(4.)
    sqrt tensor(2.)
    add tensor(3.)
    output tensor(3.)
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes):
            for node in user._input_nodes:
                if node not in seen:
                    seen.add(node)
                    self.user_to_last_uses.setdefault(user, []).append(node)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """Run the graph.

        Parameters
        ----------
        *args
            What the module takes, by place.
        initial_env : dict of Node, optional
            Values of nodes that are not to run.
        enable_io_processing : bool, optional
            Whether arguments and result are taken apart as the module's code does.

        Returns
        -------
        object
            What the module returns.

        Raises
        ------
        Exception
            What a node raises; its message says which node.
        """
        self.env = dict(initial_env) if initial_env is not None else {}
        if enable_io_processing:
            args = tuple(self.graph.process_inputs(*args))
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _add_place(error, node)
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Value:
        """Like `run`, with the arguments in a list, which is cleared so that only the interpreter holds them."""
        taken = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(taken):
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(taken)} arguments for placeholders but received {len(args_list)}"
            )
        env = dict(zip(taken, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Value:
        """Compute the value of a node, by the method of its op."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """The next argument of `run`; all that are left for ``*args``."""
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """The attribute at a path of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A call of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A call of a method of ``args[0]``."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A call of the module at a path."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Value:
        """The attribute at a path of the module.

        Raises
        ------
        RuntimeError
            Nothing does.
        """
        at = self.module
        parts = target.split(".")
        for k, part in enumerate(parts):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: k + 1])}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Value:
        """Replace nodes by their values in arguments, in mutable containers."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return _plain(map_arg(args, lambda node: _Value(value(node))))


class _Value:
    """A value of a node, wrapped so that it is not traversed."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _plain(a: Any) -> Any:
    if isinstance(a, _Value):
        return a.value
    if isinstance(a, tuple):
        parts = [_plain(x) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [_plain(x) for x in a]
    if isinstance(a, dict):
        return {k: _plain(v) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*map(_plain, (a.start, a.stop, a.step)))
    return a


def _add_place(error: Exception, node: Node) -> None:
    """Append the node that raised an error to its message."""
    if len(error.args) == 1 and isinstance(error.args[0], str) and not isinstance(error, KeyError):
        place = f"While executing {node.format_node()}"
        if node.stack_trace:
            place += f"\nOriginal traceback:\n{node.stack_trace}"
        error.args = (f"{error.args[0]}\n\n{place}",)


class Transformer(Interpreter):
    """Rewrites a graph: the method of each op is called with proxies, and what it does with them is the new graph.

    Parameters
    ----------
    module : GraphModule
        What is transformed; it stays as it is.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> class Negated(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(ad.neg if target is ad.relu else target, args, kwargs)
    >>> module = Negated(fx.symbolic_trace(lambda x: ad.relu(x))).transform()
    >>> module(ad.tensor(2.0))
    tensor(-2.)
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class KeepModules(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph

            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return True

        self.tracer = KeepModules(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """An argument of the new graph."""
        default = (args[0],) if args else ()
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A read of the attribute at a path."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A call of the module at a path, as a leaf."""
        return self.tracer.call_module(self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """A call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the transformation; returns the module of the new graph.

        Returns
        -------
        GraphModule
        """
        result = super().run(enable_io_processing=False)
        if result is not None:
            node = self.new_graph.output(
                map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            )
            old = [n for n in self.graph.nodes if n.op == "output"]
            node.type = old[0].type if old else None
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
