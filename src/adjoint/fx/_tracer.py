"""`Tracer`: traces a module or function by running it on proxies, and decides what becomes a node.

While a tracer runs, calls of modules and readings of their parameters come to it (`_patches`). Start reading at `Tracer.trace`.
"""

from __future__ import annotations

import collections
import functools
import inspect
import math
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import adjoint
from adjoint import nn, tree
from adjoint._C import Composition
from adjoint._tensor import creation as _creation
from adjoint._tensor import random as _random
from adjoint.fx._codegen import _PyTreeCodeGen, _Tree
from adjoint.fx._patches import find_proxy, original_call, patches, running
from adjoint.fx.graph import Graph
from adjoint.fx.node import Value
from adjoint.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase, base_types

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer"]

_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """A placeholder for an argument that is not fixed, within `concrete_args`."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class ProxyableClassMeta(type):
    """A metaclass that records construction as a node if an argument is a proxy.

    Examples
    --------
    >>> from adjoint import fx
    >>> class Pair(metaclass=fx.ProxyableClassMeta):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> module = fx.symbolic_trace(lambda x: Pair(x, 2).a)
    >>> [node.name for node in module.graph.nodes]
    ['x', 'pair', 'getattr_1', 'output']
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


# ---- the tracer --------------------------------------------------------------------------------------------------


#: Functions that make tensors of sizes and numbers, which may be proxies.
_MAKING = [f for m in (_creation, _random) for k in m.__all__ if isinstance(f := getattr(m, k), Composition)]


def _assert_equal(value: Any, wanted: Any, msg: str) -> None:
    """Raised by code that was traced for one value of an argument, and got another."""
    if value is not wanted and value != wanted:
        raise AssertionError(msg)


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


class Tracer(TracerBase):
    """Traces a module or function to a `Graph`. Subclasses decide what is a node: `is_leaf_module`, `create_arg`, `call_module`.

    Parameters
    ----------
    autowrap_modules : tuple of modules
        Modules of Python whose functions are nodes where they get a proxy.
    autowrap_functions : tuple of callables
        Further such functions.
    param_shapes_constant : bool
        Whether shapes of parameters are numbers, on which the program may branch.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU())
    >>> class Inside(fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> [n.name for n in Inside().trace(model).nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', 'relu', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        self._autowrapped = {
            id(f)
            for m in autowrap_modules
            for k, f in vars(m).items()
            if not k.startswith("_") and callable(f)
        }
        self._autowrapped.update(map(id, (*autowrap_functions, *_MAKING)))
        self._searched: set[int] = set()
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.root_module_name = ""
        self.submodule_paths: dict[Any, str] | None = None
        self.tensor_attrs: dict[Any, str] = {}
        self._parameter_proxies: dict[str, Proxy] = {}
        self.num_calls: dict[str, int] = {}
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}

    # ---- what subclasses decide ------------------------------------------------------------------------------

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is a single node: by default for modules of the package, except `Sequential`."""
        return type(m).__module__.startswith(("adjoint.nn", "torch.nn")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """The path of a module from the root.

        Raises
        ------
        NameError
            It is no module of the root.
        """
        paths = self.submodule_paths
        if paths is None:
            paths = {m: name for name, m in self.root.named_modules()}
        if mod not in paths:
            raise NameError(
                f"module is not installed as a submodule: {type(mod).__name__} is called, and no attribute of the root leads to it"
            )
        return paths[mod]

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Value:
        """Record a call of a module as one node, or trace its `forward`."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{path}@{count}" if count else path
            self.module_stack[key] = path, type(m)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, Proxy]) -> Value:
        """The value of an attribute of a module while it is traced: a proxy for a parameter."""
        if isinstance(attr_val, nn.Parameter):
            where = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, adjoint.Tensor):
            where = self.root.named_buffers()
        else:
            return attr_val
        for name, value in where:
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    options: dict[str, Any] = {}
                    if self.param_shapes_constant and isinstance(attr_val, nn.Parameter):
                        options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, attr_val)
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
                return parameter_proxy_cache[name]
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """What stands for a value among the arguments of a node; parameters, buffers and modules of the root by their paths, other
        tensors by an attribute that the root gets.
        """
        if isinstance(a, adjoint.Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a), (), {})
        if isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if module is a:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(map(self.create_arg, a)), {})
        if isinstance(type(a), ProxyableClassMeta):
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _path_of_tensor(self, a: Any) -> str:
        if isinstance(a, nn.Parameter):
            for name, value in self.root.named_parameters():
                if value is a:
                    return name
            raise NameError("parameter is not a member of this module")
        for name, value in self.root.named_buffers():
            if value is a:
                return name
        if a not in self.tensor_attrs:
            name = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[a] = name
            setattr(self.root, name, a)
        return self.tensor_attrs[a]

    def get_fresh_qualname(self, prefix: str) -> str:
        """`prefix` with the first number that makes it a new attribute of the root."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # ---- tracing ---------------------------------------------------------------------------------------------

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """Trace a module or function to a graph.

        Parameters
        ----------
        root : Module or function
            What is traced. `self.root` is the module afterwards; for a function, one that holds what it needs.
        concrete_args : dict, optional
            Values of arguments that are fixed; nested containers may hold `PH` where they are not.

        Returns
        -------
        Graph

        Raises
        ------
        TraceError
            The program asks for what is known only when it runs.
        """
        is_module = isinstance(root, nn.Module)
        if is_module:
            self.root = root
            fn = getattr(type(root), self.traced_func_name, None)
            if fn is None:
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            self.root_module_name = type(root).__name__
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            if not callable(root):
                raise TypeError(f"trace(): expected a Module or a function, not {type(root).__name__}")
            self.root, fn = nn.Module(), root
        if not isinstance(fn, FunctionType):
            raise TypeError(
                f"trace(): expected a function written in Python, not {fn!r}; wrap it in one: lambda x: f(x)"
            )
        self.graph = Graph(tracer_cls=type(self))
        self._parameter_proxies = {}
        self.tensor_attrs = {
            value: f"{path}.{name}" if path else name
            for path, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, adjoint.Tensor)
        }
        packages = [sys.modules[name] for name in ("adjoint", "torch") if name in sys.modules]
        spaces = [fn.__globals__, *(vars(m) for m in (*self._autowrap_search, *packages))]
        annotations = _annotations(inspect.unwrap(fn))
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        patches.enter()
        running.tracers.append(self)
        try:
            for space in spaces:
                self._autowrap(space)
            result = self.create_arg(fn(*args))
            self.create_node("output", "output", (result,), {}, type_expr=annotations.get("return"))
        finally:
            running.tracers.remove(self)
            patches.leave()
            self.submodule_paths = None
        return self.graph

    def _called(self, module: Any, args: Any, kwargs: Any) -> Any:
        """Handle a call of a module while this tracer runs."""
        self._autowrap(getattr(getattr(module, "forward", None), "__globals__", {}))
        return self.call_module(module, functools.partial(original_call, module), args, kwargs)

    def _autowrap(self, space: dict[str, Any]) -> None:
        if id(space) in self._searched:
            return
        self._searched.add(id(space))
        for name, value in list(space.items()):
            if not name.startswith("_") and id(value) in self._autowrapped and callable(value):
                patches.put(space, name)

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """The function, so that it takes all of its arguments by place, and these: a placeholder for each."""
        plain = inspect.unwrap(root_fn)
        code = plain.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        if is_module and total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        names = list(code.co_varnames[:total])
        signature = inspect.signature(plain)
        taken = names[1:] if is_module else names
        if isinstance(concrete_args, tuple):
            if len(concrete_args) != len(taken):
                raise RuntimeError(
                    f"Tracing expected {len(taken)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(taken, concrete_args, strict=True))
        unknown = [n for n in concrete_args or () if n not in taken]
        if unknown:
            raise RuntimeError(f"concrete_args names {unknown}, and {plain.__name__} takes {taken}")
        args: list[Any] = [self.root] if is_module else []
        args += [self._placeholder(name, concrete_args, signature, plain) for name in taken]
        if code.co_kwonlyargcount or code.co_flags & _VARIABLE:
            rest = iter(code.co_varnames[total:])
            for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
                if code.co_flags & flag:
                    args.append(self._placeholder(stars + next(rest), None, signature, plain))
            root_fn = _all_by_place(plain, len(args))
        nested = [
            a
            for a in args
            if a is not self.root and not isinstance(a, (Proxy, *base_types)) and a is not None
        ]
        if not any(tree.structure(a).num_children for a in nested):
            return root_fn, args
        parts, spec = tree.flatten(tuple(args[is_module:]))
        self.graph._codegen = _PyTreeCodeGen(_Tree(names, spec, None))

        def apart(*parts: Any) -> Any:
            whole = ([self.root] if is_module else []) + list(tree.unflatten(parts, spec))
            found, out_spec = tree.flatten(root_fn(*whole))
            codegen = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return found

        return apart, parts

    def _placeholder(self, name: str, concrete_args: Any, signature: Any, f: Any) -> Any:
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name])
        parameter = signature.parameters.get(name.lstrip("*"))
        star = name.startswith("*")
        default: tuple[Any, ...] = ()
        if not star and parameter is not None and parameter.default is not inspect.Parameter.empty:
            default = (parameter.default,)
        annotation = None if star else _annotations(f).get(name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _concrete(self, name: str, value: Any) -> Any:
        """Create placeholders for the leaves of a fixed argument, whose values the code checks."""
        counter = 0

        def of_part(x: Any) -> Any:
            nonlocal counter
            counter += 1
            proxy = self.create_proxy("placeholder", f"{name}_{counter}", (), {})
            if isinstance(x, PHBase):
                proxy.node.meta.update(vars(x))
                return proxy
            words = f"{name} has been specialized to have value {x} but got another value"
            if x is None:
                self.create_proxy("call_function", _assert_is_none, (proxy, words), {})
            elif isinstance(x, base_types) and not isinstance(x, adjoint.Tensor):
                self.create_proxy("call_function", _assert_equal, (proxy, x, words), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the "
                    "user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=4,
                )
            return x

        return tree.map(of_part, value)


def _annotations(f: Any) -> dict[str, Any]:
    """The annotations of a function; the package's own are texts, which say nothing to who reads the code."""
    found = getattr(f, "__annotations__", {})
    return {} if (f.__module__ or "").startswith("adjoint.") else found


def _all_by_place(f: Any, count: int) -> Any:
    """The function with all of its parameters by place, those after stars as well."""
    code: CodeType = f.__code__
    changed = code.replace(
        co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=code.co_flags & ~_VARIABLE
    )
    return FunctionType(changed, f.__globals__, f.__name__, None, f.__closure__)
