"""`GraphModule`: a module whose `forward` is the code of a graph.

Each has a class of its own, which holds that function. The code is written anew by `recompile`, and when `graph` is assigned.
Copies copy the graph; files hold the code, from which the graph is traced when it is loaded. Start reading at `GraphModule.recompile`.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import weakref
from typing import Any

import adjoint
from adjoint import nn
from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint.fx._codegen import CUSTOM_BUILTINS, PythonCode, _PyTreeCodeGen
from adjoint.fx._tracer import Tracer
from adjoint.fx.graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]
__dir__ = listing(__name__)

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()


def _forward_from_src(src: str, names: dict[str, Any], co_fields: Any = None) -> Any:
    """Compile the function `forward` of a source, whose lines tracebacks show."""
    key = f"<eval_with_key>.{next(_numbers)}"
    space = dict(names)
    exec(compile(src, key, "exec", dont_inherit=True), space)
    forward = space["forward"]
    linecache.cache[key] = (len(src), None, src.splitlines(keepends=True), key)
    weakref.finalize(forward, linecache.cache.pop, key, None)
    return forward


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Copy the attribute at a path of one module to another, creating empty modules on the way."""
    *path, last = target.split(".")
    for part in path:
        inner = getattr(from_module, part)
        there = getattr(to_module, part, None)
        if there is inner:
            return  # one of its parents is shared, and all below with it
        if there is None:
            there = nn.Module()
            setattr(to_module, part, there)
        from_module, to_module = inner, there
    _assign_attr(getattr(from_module, last), to_module, last)


def _assign_attr(value: Any, to_module: Any, target: str) -> None:
    """Set the attribute at a path of a module; a tensor that is not a parameter becomes a buffer."""
    *path, last = target.split(".")
    for part in path:
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, nn.Module())
        to_module = getattr(to_module, part)
    if isinstance(value, adjoint.Tensor) and not isinstance(value, nn.Parameter):
        to_module.register_buffer(last, value)
    else:
        setattr(to_module, last, value)


def _get_attr(model: Any, attr_name: str) -> Any:
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


def _has_attr(model: Any, attr_name: str) -> bool:
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model: Any, attr_name: str) -> None:
    path, _, last = attr_name.rpartition(".")
    delattr(_get_attr(model, path) if path else model, last)


class _CodeOnlyModule(nn.Module):
    """Restore the members of a loaded module, around code without a graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _import_line(name: str, value: Any) -> str:
    if name in CUSTOM_BUILTINS:
        return CUSTOM_BUILTINS[name][0]
    if name == switches.package:
        return f"import {name}"
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    own = sys.modules.get(module or "")
    if (
        module is None
        or path is None
        or "<" in path
        or not _has_attr(own, path)
        or _get_attr(own, path) is not value
    ):
        found = getattr(value, "_name", None)
        if module == "typing" and found:
            return f"from typing import {found} as {name}"
        raise RuntimeError(
            f"fx: the generated code names {value!r}, which cannot be imported by a name, so that the module cannot be written to a "
            "file: define it at the top level of a module"
        )
    if "." in path:
        return f"import {module}\n{name} = {module}.{path}"
    return f"from {module} import {path} as {name}"


def _import_block(names: dict[str, Any]) -> str:
    return "\n".join(sorted({_import_line(name, value) for name, value in names.items()}))


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Any:
    """Restore a module from a file: its code is traced, with all modules as leaves, to recover the graph."""
    forward = _forward_from_src(import_block + body["_code"], {})
    tracer_class: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_class):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    holder = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    root = holder(body)
    graph = KeepModules().trace(root, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_class
    made = GraphModule(root, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


class GraphModule(nn.Module):
    """A module that runs a graph.

    Parameters
    ----------
    root : Module or dict
        Where the paths of the graph lead: what they name is shared with `root`. A dict has it by path.
    graph : Graph
        The graph that `forward` runs.
    class_name : str, optional
        The name of its class.
    *args, **kwargs
        Of a subclass, what its ``__init__`` takes.

    Attributes
    ----------
    graph : Graph
        Assigning another writes the code anew; after changing it, call `recompile`.
    code : str
        The source of `forward`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> module = fx.symbolic_trace(lambda x: ad.relu(x) + 1)
    >>> print(module.code.strip())
    def forward(self, x):
        relu = adjoint.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> for node in module.graph.nodes:
    ...     if node.target is ad.relu:
    ...         node.target = ad.tanh
    >>> code = module.recompile()
    >>> module(ad.tensor(0.0))
    tensor(1.)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # A class of its own for each, which holds `forward`; made of the class that programs know.
        base = next((c for c in cls.__mro__ if not c.__dict__.get("_generated")), cls)
        own = type(
            base.__name__,
            (base,),
            {"_generated": True, "__module__": base.__module__, "__doc__": base.__doc__},
        )
        return object.__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        if isinstance(root, nn.Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):
                for members in (root.named_children(), root.named_buffers(), root.named_parameters()):
                    for name, _ in members:
                        _copy_attr(root, self, name)
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
            for target in sorted(dict.fromkeys(targets), key=lambda t: t.count(".")):
                if target not in root:
                    raise RuntimeError(
                        f"Node referenced target {target} but that target was not provided in ``root``, which has {sorted(root)}"
                    )
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(
                f"Unsupported type {type(root).__name__} passed for root: expected a Module or a dict"
            )
        self.meta: dict[str, Any] = {}
        self._create_node_hooks: list[Any] = []
        self._erase_node_hooks: list[Any] = []
        tracer = graph._tracer_cls
        self._tracer_cls = tracer if tracer is not None and "<locals>" not in tracer.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph that `forward` runs."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Regenerate `forward` after changes of the graph.

        Returns
        -------
        PythonCode
        """
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            self._in_spec = self._graph._codegen.pytree_info.in_spec
            self._out_spec = self._graph._codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        type(self).forward = _forward_from_src(made.src, made.globals)  # type: ignore[method-assign]
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return made

    # ---- members ---------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Add a module at a path, creating empty modules on the way; False if something else is on the way."""
        *path, last = target.split(".")
        at: nn.Module = self
        for part in path:
            inner = getattr(at, part, None)
            if inner is None:
                inner = nn.Module()
                setattr(at, part, inner)
            if not isinstance(inner, nn.Module):
                return False
            at = inner
        at.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path; False if there is none."""
        path, _, last = target.rpartition(".")
        if not _has_attr(self, target) or not isinstance(_get_attr(self, target), nn.Module):
            return False
        delattr(_get_attr(self, path) if path else self, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete all modules that the graph neither calls nor reads."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
            if node.op == "call_module" and _has_attr(self, node.target):
                used.update(
                    f"{node.target}.{name}"
                    for name, _ in self.get_submodule(node.target).named_modules()
                    if name
                )
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies and files ------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        body = dict(self.__dict__)
        body["_graphmodule_cls_name"] = type(self).__name__
        names = self.recompile().globals
        body["_code"] = self._code
        del body["_graph"]
        return reduce_graph_module, (body, _import_block(names))

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        body = {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k != "_graph"}
        body["_graph"] = graph = copy.deepcopy(self._graph, memo)
        copied.__dict__.update(body)
        type(copied).__name__ = type(copied).__qualname__ = type(self).__name__
        copied.graph = graph
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        return copied

    def __copy__(self) -> GraphModule:
        copied = GraphModule(self, self._graph, type(self).__name__)
        copied.meta = self.meta
        return copied

    # ---- printing --------------------------------------------------------------------------------------------

    @ignores(
        "include_stride", "include_device", "colored", "expanded_def", why="shapes and dtypes are written"
    )
    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        expanded_def: bool = False,
    ) -> str:
        """The module as a class with its code, with the shapes that `ShapeProp` noted, and those of its modules that have graphs.

        Parameters
        ----------
        print_output : bool, optional
            Whether it is printed, too.
        include_stride, include_device, colored, expanded_def : bool, optional
            Without effect.

        Returns
        -------
        str
        """
        text = self._readable(type(self).__name__)
        if print_output:
            print(text)
        return text

    def _readable(self, name: str) -> str:
        code = self._graph.python_code(root_module="self", verbose=True).src.lstrip("\n")
        parts = [f"class {name}({switches.package}.nn.Module):\n{_indented(code)}"]
        parts += [_indented(c._readable(n)) for n, c in self.named_children() if isinstance(c, GraphModule)]
        return "\n".join(parts)

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])


def _indented(text: str) -> str:
    return "\n".join("    " + line if line.strip() else line for line in text.split("\n"))
