"""`Proxy`: a symbolic value that records each operation on it as a node, through its `TracerBase`.

Functions of the package come to `Proxy.__torch_function__`, operators and methods to its own. A proxy has no elements: what asks
for its truth, its length or its parts one by one is an error that says so. Start reading at `Proxy`.
"""

from __future__ import annotations

import dis
import enum
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import Any

import adjoint
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint.fx._codegen import OPERATORS
from adjoint.fx._names import function_name
from adjoint.fx.node import Node, map_aggregate, map_arg
from adjoint.overrides import is_tensor_method_or_property, resolve_name

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]
__dir__ = listing(__name__)

#: Plain values, which are arguments of nodes as they are.
base_types = (
    *(str, int, float, bool, complex, bytes),
    *(adjoint.dtype, adjoint.device, adjoint.Tensor, adjoint.memory_format, adjoint.layout),
)


class TraceError(ValueError):
    """A traced program depends on a value that is known only at run time."""


class Scope:
    """The module that is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A context with another scope."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = Scope(scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """Records operations on proxies as nodes; the base of `Tracer`."""

    graph: Any
    record_stack_traces = False
    #: Whether ``assert proxy`` becomes a node.
    trace_asserts = False
    #: Whether buffers are proxies when they are read from a module, as parameters are.
    proxy_buffer_attributes = False
    #: The method that is traced of a module.
    traced_func_name = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a node from arguments that are nodes already."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Create a node from arguments that may be proxies; returns a proxy."""
        node = self.create_node(
            kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr
        )
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _place()
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """Convert a value to an argument of a node.

        Raises
        ------
        NotImplementedError
            It is of a type that cannot be written as code.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*map(self.create_arg, (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            parts_of = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), parts_of)
        if a is None or a is ... or isinstance(a, (Node, enum.Enum, *base_types)):
            return a
        if isinstance(
            a, (type, FunctionType, BuiltinFunctionType, adjoint._C.Operator, adjoint._C.Composition)
        ):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}: it cannot be an argument of a node")

    def _key(self, key: Any) -> Any:
        def refuse(node: Node) -> Any:
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
            )

        return key if isinstance(key, str) else map_arg(self.create_arg(key), refuse)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth value of a proxy: an error unless a subclass overrides it."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: the branch would be decided once and for "
            "all. Give the argument that it depends on by concrete_args, or move the branch into a function under fx.wrap"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Iteration over a proxy: an error unless a subclass overrides it."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
            "function argument: its length is not known before it runs. Loop over a range of a known length, or move the loop into "
            "a function under fx.wrap"
        )

    def keys(self, obj: Proxy) -> Proxy:
        """The result of ``proxy.keys()``."""
        return Attribute(obj, "keys")()


def _place() -> str:
    """Where in the program the outermost code of this package was called from."""
    frame: FrameType | None = sys._getframe(1)
    own = adjoint.__path__[0]
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"File {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class GraphAppendingTracer(TracerBase):
    """Appends nodes to an existing graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """The traced form of ``assert x``."""
    if not x:
        raise AssertionError("Assertion failed")


def _instruction(frame: FrameType) -> tuple[list[Any], int]:
    found = list(dis.get_instructions(frame.f_code))
    return found, next(k for k, i in enumerate(found) if i.offset == frame.f_lasti)


def _is_assertion(code: list[Any], at: int) -> bool:
    """Whether the truth that is asked for there is an assertion's: unless it is true, the error of assertions is loaded next."""
    rest = iter(code[at:])
    # Since 3.13 an operation of its own asks, or the comparison does.
    jump = next(i for i in rest if i.opname not in ("TO_BOOL", "COMPARE_OP"))
    after = next((i for i in rest if i.opname != "NOT_TAKEN"), None)  # which 3.14 has
    if after is None or jump.opname not in ("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE"):
        return False
    return after.opname in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")


class Proxy:
    """A value of a graph in the traced program: operators, methods and functions of it record nodes.

    Parameters
    ----------
    node : Node
        The node whose value it is.
    tracer : TracerBase, optional
        What makes the nodes; without it, they are added to the node's graph.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> graph = fx.Graph()
    >>> x = fx.Proxy(graph.placeholder("x"))
    >>> node = graph.output((ad.cos(x) * 2).node)
    >>> fx.GraphModule({}, graph)(ad.tensor(0.0))
    tensor(2.)
    """

    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # Who looks for a protocol of Python's, such as that of copies, must not find one that tensors do not have.
        if k.startswith("__") and k.endswith("__") and not hasattr(adjoint.Tensor, k):
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TypeError(
            f"fx: {self!r} cannot be copied: it stands for a value of the graph that is being traced"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        code, at = _instruction(frame)
        if code[at].opname == "UNPACK_SEQUENCE":  # a, b = proxy: how many is known
            return (
                self.tracer.create_proxy("call_function", operator.getitem, (self, i), {})
                for i in range(code[at].argval)
            )
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            if _is_assertion(*_instruction(sys._getframe(1))):
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Proxy:
        """The keys, which ``**proxy`` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            f"{switches.package}.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Proxy:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def look(a: Any) -> Any:
            if isinstance(a, Proxy):
                tracers[a.tracer] = None
            return a

        map_aggregate((args, kwargs), look)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        name = resolve_name(orig_method) or ""
        if name.endswith(".einsum") and len(args) == 2 and isinstance(args[1], (tuple, list)):
            args = (args[0], *args[1])  # one form, which who rewrites einsums reads
        # What is a function, too, is called as one: the same object serves as both.
        if is_tensor_method_or_property(orig_method) and (".Tensor." in name or not name):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=function_name(orig_method)
        )


class Attribute(Proxy):
    """``proxy.name``: a method if it is called, else a node that reads the attribute, created on demand."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads it."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter with a constant shape, so that programs may branch on it: ``Tracer(param_shapes_constant=True)``."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self, *dim: Any) -> Any:
        """Its sizes, or one of them."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """The number of its dimensions."""
        return self.param.dim()

    def numel(self) -> int:
        """The number of its elements."""
        return self.param.numel()

    nelement = numel


def _operator(name: str, target: Any) -> Any:
    def method(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (self, *args), {})

    method.__name__ = method.__qualname__ = name
    return method


def _reflected(name: str, target: Any) -> Any:
    def method(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    method.__name__ = method.__qualname__ = name
    return method


_COMPARED = ("eq", "ne", "lt", "gt", "le", "ge", "getitem", "pos", "neg", "invert")
for _name in OPERATORS:
    _target = getattr(operator, _name)
    _word = _name.rstrip("_")
    setattr(Proxy, f"__{_word}__", _operator(f"__{_word}__", _target))
    if _name not in _COMPARED:
        setattr(Proxy, f"__r{_word}__", _reflected(f"__r{_word}__", _target))
Proxy.__abs__ = _operator("__abs__", operator.abs)  # type: ignore[attr-defined]
# Comparisons make nodes, so what a proxy is known by is itself.
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
