"""`Graph`: nodes in execution order, and methods that insert, move and erase them.

The nodes are a doubly linked list around a root; new ones come in at the insert point, which is the end unless
`Graph.inserting_before` or `inserting_after` says otherwise. A graph becomes a function by `Graph.python_code` (`_codegen`).
Start reading at `Graph.create_node`.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing
from adjoint.fx._codegen import CodeGen, PythonCode, _PyTreeCodeGen  # noqa: F401  # libraries import it from here
from adjoint.fx._names import Namespace, function_name
from adjoint.fx._places import InsertPoint, Nodes, check_path, is_there
from adjoint.fx.node import OPS, Annotation, Argument, Node, Target, Value, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]
__dir__ = listing(__name__)

_Namespace = Namespace


class Graph:
    """A function as a list of nodes, which can be inspected, edited and compiled to code.

    Parameters
    ----------
    owning_module : GraphModule, optional
        The module that runs it.
    tracer_cls : type, optional
        The class of the tracer that recorded it.
    tracer_extras : dict, optional
        Further arguments of ``tracer_cls.trace``, by which it is traced again when its module is loaded from a file.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(ad.sin, (x,))
    >>> node = graph.output(graph.call_method("mul", (y, 2)))
    >>> module = fx.GraphModule({}, graph)
    >>> module(ad.tensor(0.0))
    tensor(0.)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %sin : [num_users=1] = call_function[target=adjoint.sin](args = (%x,), kwargs = {})
        %mul : [num_users=1] = call_method[target=mul](args = (%sin, 2), kwargs = {})
        return mul
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: dict[str, Any] | None = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._length = 0
        self._positions: dict[Node, int] | None = None
        self._graph_namespace = Namespace()
        self._codegen: CodeGen = CodeGen()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._co_fields: dict[str, Any] = {}

    # ---- reading ---------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Nodes:
        """The nodes in execution order; ``reversed(graph.nodes)`` iterates backwards."""
        return Nodes(self)

    def output_node(self) -> Node:
        """The output node."""
        for node in reversed(self.nodes):
            if node.op == "output":
                return node
        raise RuntimeError("this Graph has no output node: add one by graph.output(value)")

    @ignores("sort", why="they come in order in any case", warns=False)
    def find_nodes(self, *, op: str, target: Target = None, sort: bool = True) -> list[Node]:
        """Find the nodes of an op, and of a target if one is given.

        Parameters
        ----------
        op : str
            One of ``placeholder``, ``get_attr``, ``call_function``, ``call_method``, ``call_module``, ``output``.
        target : optional
            A function, for ``call_function`` required, or a name.
        sort : bool, optional
            They come in the order of the graph in any case.

        Returns
        -------
        list of Node
        """
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def _moved(self) -> None:
        self._positions = None

    def _position(self, node: Node) -> int:
        if self._positions is None:
            self._positions = {n: k for k, n in enumerate(self.nodes)}
        return self._positions.get(node, len(self._positions))

    def __str__(self) -> str:
        names: list[str] = []
        kind = [""]
        lines = [node.format_node(names, kind) for node in self.nodes]
        return f"graph({', '.join(names)}){kind[0]}:" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, ["-" * w for w in widths])
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    # ---- making nodes ----------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Annotation = None,
    ) -> Node:
        """Create a node and insert it at the insert point.

        Parameters
        ----------
        op : str
            What it does: see `Node`.
        target : str or callable
            With what.
        args, kwargs : optional
            Its arguments.
        name : str, optional
            What its name is to be made of; without it, the target.
        type_expr : optional
            The annotation of its value.

        Returns
        -------
        Node
        """
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(
                f"create_node(): args is a tuple and kwargs a dict, not {type(args).__name__} and {type(kwargs).__name__}"
            )
        name = self._graph_namespace.create_name(function_name(target) if name is None else name)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        self._insert(node)
        self._length += 1
        return node

    def placeholder(
        self, name: str, type_expr: Annotation = None, default_value: Argument = inspect.Signature.empty
    ) -> Node:
        """Insert a placeholder node: an argument of the function, by its name (``*args`` and ``**kwargs`` for those)."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Annotation = None) -> Node:
        """Insert a node that reads a parameter, buffer or other attribute at a path of the module."""
        if self.owning_module is not None and not is_there(self.owning_module, qualified_name):
            warnings.warn(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule: {qualified_name!r}. "
                "Call GraphModule.add_submodule, or register the parameter or buffer, before the module runs",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Annotation = None,
    ) -> Node:
        """Insert a call of the module at a path."""
        if self.owning_module is not None and not is_there(self.owning_module, module_name):
            warnings.warn(
                f"Attempted to insert a call_module Node with no underlying reference in the owning GraphModule: {module_name!r}. "
                "Call GraphModule.add_submodule before the module runs",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Annotation = None,
    ) -> Node:
        """Insert a call of a method; ``args[0]`` is the object."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Annotation = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Annotation = None) -> Node:
        """Insert the output node: what the function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Insert a copy of a node, usually of another graph.

        Parameters
        ----------
        node : Node
        arg_transform : callable, optional
            Takes each node among the arguments, returns the node of this graph that stands for it.

        Returns
        -------
        Node
        """
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Insert copies of all nodes of another graph except its output.

        Parameters
        ----------
        g : Graph
        val_map : dict of Node
            For nodes of `g` that are not to be copied, what stands for them here; gets the copies of the others.
        return_output_node : bool, optional
            Whether the output node of `g` is returned, too.

        Returns
        -------
        nested containers of Node, or None
            What `g` returns, in nodes of this graph; None where it returns nothing.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        nodes: dict[Node, Node] = {}
        found = copied.graph_copy(self, nodes, return_output_node=True)
        copied._codegen = copy.deepcopy(self._codegen)
        copied._co_fields = dict(self._co_fields)
        if found is not None:
            result, old = found
            new = copied.output(result, old.type)
            new.meta = copy.copy(old.meta)
        if memo is not None:
            memo.update((id(old), new) for old, new in nodes.items())
        return copied

    # ---- where nodes come in, and taking them out ------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Set the insert point before `n`, or at the beginning: for a ``with`` block, or permanently."""
        if n is None:
            return self.inserting_after(self._root)
        return InsertPoint(self, self._own(n, "before").prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Set the insert point after `n`, or at the end: for a ``with`` block, or permanently."""
        if n is None:
            return self.inserting_before(self._root)
        return InsertPoint(self, self._own(n, "after").append)

    def _own(self, n: Node, where: str) -> Node:
        if n.graph is not self:
            raise AssertionError(f"Node to insert {where} is not in graph.")
        return n

    def erase_node(self, to_erase: Node) -> None:
        """Erase a node, which must have no users.

        Raises
        ------
        RuntimeError
            It has users, or is of another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._leave()
        to_erase._erased = True
        self._length -= 1
        for node in to_erase._input_nodes:
            node.users.pop(to_erase, None)
        to_erase._input_nodes = {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase all nodes without users and side effects.

        Parameters
        ----------
        is_impure_node : callable, optional
            Says of a node whether it stays in any case; `Node.is_impure` by default.

        Returns
        -------
        bool
            Whether a node was taken out.
        """
        self.lint()
        before = self._length
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node(node) if is_impure_node else node.is_impure()):
                self.erase_node(node)
        return self._length < before

    def lint(self) -> None:
        """Check that each node is of this graph and comes after what it takes, that names are unique, and that what the owning
        module is asked for is there.

        Raises
        ------
        RuntimeError
            With what is wrong.
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.op not in OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node._input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as an argument! Nodes of "
                        f"another graph are copied by node_copy(), with an arg_transform\n{self}"
                    )
                if arg not in seen:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! Nodes stand in the order in "
                        f"which they run\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                check_path(node)

    # ---- code ------------------------------------------------------------------------------------------------

    @ignores(
        "include_stride", "include_device", "colored", "expanded_def", why="shapes and dtypes are written"
    )
    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
    ) -> PythonCode:
        """Generate the source of the graph as a function.

        Parameters
        ----------
        root_module : str
            What the module is called there; ``self`` as a rule.
        verbose : bool, optional
            Whether shapes and places in the program that passes noted are written.
        include_stride, include_device, colored, expanded_def : bool, optional
            Without effect.

        Returns
        -------
        PythonCode
            With the source as `src` and the global names that it needs as `globals`.
        """
        namespace = Namespace()
        for node in self.nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, namespace, verbose=verbose)
        finally:
            for node in self.nodes:
                node._repr_fn = None

    def set_codegen(self, codegen: CodeGen) -> None:
        """Use another `CodeGen`."""
        self._codegen = codegen

    def on_generate_code(
        self,
        make_transformer: Callable[
            [Callable[[list[str]], list[str]] | None], Callable[[list[str]], list[str]]
        ],
    ) -> Any:
        """Register a function that transforms the lines of the code before they are compiled.

        Parameters
        ----------
        make_transformer : callable
            Takes the function that was there, or None; returns one that takes a list of lines and returns another.

        Returns
        -------
        context manager
            At its end, the function that was there is there again.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def block() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return block()

    def process_inputs(self, *args: Any) -> Sequence[Any]:
        """Map the arguments of a call to values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Argument) -> Value:
        """Map the value of the output node to the result of a call."""
        return self._codegen.process_outputs(out)
