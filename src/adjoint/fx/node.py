"""`Node`: one step of a graph; and `map_arg`, which maps over the arguments of a node.

A node is what a line of the generated code does. `op` says what kind of line: ``placeholder`` (an argument of the
function, `target` its name), ``get_attr`` (`target` a path from the module), ``call_function`` (`target` the function),
``call_method`` (`target` the method's name, ``args[0]`` the object), ``call_module`` (`target` a path), ``output`` (what is
returned, in ``args[0]``). Arguments are nested containers of nodes and plain values; a node knows who uses it.
Start reading at `Node`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing
from adjoint.fx._names import function_name, qualified_name, shown_target, type_name
from adjoint.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Annotation", "Argument", "Node", "Target", "Value", "has_side_effect", "map_aggregate", "map_arg"]
__dir__ = listing(__name__)

#: A function, the name of a method, or a path in a module.
Target = Any
#: What an argument of a node may be: a node, a plain value, or tuples, lists, dicts and slices of these.
Argument = Any
#: What a node stands for when its graph runs.
Value = Any
#: A type, as annotations have it.
Annotation = Any
OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

_side_effectful_functions: set[Any] = {operator.setitem}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as having side effects, so that dead-code elimination keeps its calls.

    Parameters
    ----------
    fn : callable
        The function.

    Returns
    -------
    callable
        `fn` itself, so that this is a decorator, too.

    Examples
    --------
    >>> from adjoint import fx
    >>> fx.has_side_effect(print) is print
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to the leaves of nested tuples, lists, dicts, slices and ranges; containers become immutable."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        # A named tuple takes its parts one by one.
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    if isinstance(a, range):
        return a
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply `fn` to each node in nested arguments; other values are kept.

    Parameters
    ----------
    a : nested containers
        Arguments of a node.
    fn : callable
        Takes a `Node`, returns what takes its place.

    Returns
    -------
    nested containers
        Like `a`.

    Examples
    --------
    >>> from adjoint import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> fx.map_arg((x, [x, 2]), lambda node: node.name)
    ('x', ['x', 2])
    """
    if not callable(fn):
        raise TypeError(f"map_arg(): expected a function of nodes, not {type(fn).__name__}")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """A step of a `Graph`; made by its methods, such as `Graph.call_function`.

    Parameters
    ----------
    graph : Graph
        The graph that it is a step of.
    name : str
        Its name, which no other node of the graph has.
    op, target : str, str or callable
        What it does, and with what: see `adjoint.fx.node`.
    args, kwargs : tuple, dict
        Its arguments, in containers that cannot be changed. Assigning others keeps `users` right.
    return_type : optional
        The annotation of its value.

    Attributes
    ----------
    users : dict of Node
        The nodes that take its value.
    type
        The annotation of its value, or None.
    meta : dict
        What passes note about it.

    Examples
    --------
    >>> from adjoint import fx
    >>> graph = fx.symbolic_trace(lambda x: (x + 1).relu()).graph
    >>> [(n.op, n.name) for n in graph.nodes]
    [('placeholder', 'x'), ('call_function', 'add'), ('call_method', 'relu'), ('output', 'output')]
    """

    graph: Any

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"fx: a node's op is one of {', '.join(OPS[:-1])}, not {op!r}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a "
                    "Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a str is "
                "expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._set_arguments(args, kwargs)

    # ---- arguments -------------------------------------------------------------------------------------------

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        if not isinstance(args, tuple):
            raise TypeError(f"Node {self.name!r}: args must be a tuple, not {type(args).__name__}")
        if not isinstance(kwargs, dict):
            raise TypeError(f"Node {self.name!r}: kwargs must be a dict, not {type(kwargs).__name__}")
        for node in self._input_nodes:
            node.users.pop(self, None)
        found: dict[Node, None] = {}

        def note(node: Node) -> Node:
            found[node] = None
            return node

        self._args = map_arg(args, note)
        self._kwargs = map_arg(kwargs, note)
        self._input_nodes = found
        for node in found:
            node.users[self] = None

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set_arguments(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set_arguments(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before `idx`."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_arg(): the place is between 0 and {len(self._args)}, not {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the argument of a keyword."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace `old_input` by another node in the arguments."""
        self._set_arguments(
            *map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n)
        )

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replace this node by another in all of its users.

        Parameters
        ----------
        replace_with : Node
            The other node, of the same graph.
        delete_user_cb : callable, optional
            Asked of each user whether it is to change.
        propagate_meta : bool, optional
            Whether `replace_with`, which has none, gets this node's `meta`.

        Returns
        -------
        list of Node
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    f"replace_all_uses_with(propagate_meta=True): {replace_with} has meta already"
                )
            replace_with.meta.update(self.meta)
        changed = [n for n in self.users if delete_user_cb is None or delete_user_cb(n)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- place in the graph ----------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one; after the last, the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move a node of the graph directly before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x._erased:
            raise RuntimeError(f"Node {x} was erased: put in a copy of it by graph.node_copy(node)")
        at = self
        while at._erased:  # what stood there since is between its neighbours of then
            at = at._next
        if x is at:
            return
        x._leave()
        before = at._prev
        before._next, x._prev = x, before
        x._next, at._prev = at, x
        self.graph._moved()

    def append(self, x: Node) -> None:
        """Move a node of the graph directly after this one."""
        if x is not self:
            self._next.prepend(x)

    def _leave(self) -> None:
        # Its own references stay: an iterator that stands here goes on.
        self._prev._next, self._next._prev = self._next, self._prev
        self.graph._moved()

    def __lt__(self, other: Node) -> bool:
        """Whether this node comes first."""
        return self.graph._position(self) < other.graph._position(other)

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ---- what it is ------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where in the program it was recorded, if that was kept."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it has side effects, so that it is kept without users.

        Known are arguments and results, functions that `has_side_effect` marks, writes by ``out=``, ``inplace=True`` and
        the underscore, and random draws.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError(
                    "is_impure() of a call_module node needs the graph's owning_module: make a GraphModule"
                )
            return bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
        if self.op == "call_function":
            if self.target in _side_effectful_functions:
                return True
            if self._kwargs.get("out") is not None or self._kwargs.get("inplace") is True:
                return True
            name = getattr(self.target, "__name__", "")
            if name.endswith("_") and not name.endswith("__"):
                return True
            return impure_random and _draws(self.target)
        # Torch lets a method that writes in place go as well as any other when its result has no users; that would
        # change what the function computes, so such a method stays.
        return self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__")

    def normalized_arguments(
        self,
        root: Any,
        arg_types: Any = None,
        kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments by the names of the target's signature, or None if it has none.

        Parameters
        ----------
        root : Module
            Where the path of a ``call_module`` begins.
        arg_types, kwarg_types : optional
            Not needed: a function has one signature here.
        normalize_to_only_use_kwargs : bool, optional
            Whether all arguments become keywords.

        Returns
        -------
        ArgsKwargsPair or None
            With `args` and `kwargs`.
        """
        from adjoint.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self._args, self._kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate)
            self.graph._graph_namespace.rename(self, self.name)

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        return shown_target(target)

    @ignores("include_tensor_metadata", why="a line says the type that is annotated")
    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of a printed graph.

        Parameters
        ----------
        placeholder_names : list of str, optional
            Gets the name of a placeholder, where it is not empty.
        maybe_return_typename : list of str, optional
            Its only element becomes the annotation of the output.
        include_tensor_metadata : bool, optional
            Without effect.

        Returns
        -------
        str or None
            None for a placeholder whose name went to `placeholder_names`.
        """
        kind = f"{type_name(self.type)} " if self.type is not None else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={shown_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(self.target)
                return None
            return head + (f"(default={self._args[0]})" if self._args else "")
        if self.op == "get_attr":
            return head
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self._args[0]}"
        return f"{head}(args = {_shown(self._args)}, kwargs = {_shown(self._kwargs)})"


def _draws(target: Any) -> bool:
    """Whether a function of the package draws random numbers."""
    name = getattr(target, "__name__", "")
    return name in ("bernoulli", "multinomial", "normal", "poisson", "dropout") or name.startswith("rand")


def _shown(a: Any) -> str:
    if isinstance(a, tuple):
        return f"({', '.join(map(_shown, a))}{',' if len(a) == 1 else ''})"
    if isinstance(a, list):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in a.items()) + "}"
    return f"%{a}" if isinstance(a, Node) else str(a)


#: By the names that libraries import.
_get_qualified_name = qualified_name
_type_repr = type_name
_format_arg = _shown
_function_name = function_name
