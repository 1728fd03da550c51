"""How what is written in Python reaches users: compositions as functions and methods, alternates of operators, members.

A composition is a function of the core's operators, with derivatives, batching and tracing that follow from theirs. An
alternate is what an operator turns to for forms of a call that its own signature does not take. Start reading at
`composition`.
"""

from __future__ import annotations

import sys

from adjoint import _C
from adjoint._C import Tensor

__all__ = [
    "Members",
    "alternate",
    "composition",
    "document_classes",
    "extend",
    "functions",
    "listing",
    "publish",
    "published",
]

#: What the package publishes, by name.
functions: dict[str, Any] = {}

# What `typing` calls so; importing it takes time. Type checkers let a list of members use what Tensor has.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, overload

    from adjoint._types import F, T

    Members: Any
else:
    Members = object

    def overload(function):
        return function


def _explain(*arguments):
    from adjoint._publish.explain import explain

    return explain(*arguments)


def published(function: F, explain: Any = _explain, consults: bool | None = True, row: Any = None) -> F:
    """The function as it is published: a call costs the same, and an error names it and the argument that was wrong.

    Parameters
    ----------
    explain : function, optional
        What is asked of an error; None leaves errors as they are.
    consults : bool, optional
        Whether the call is dispatched to overrides of its arguments, or to modes alone (see `adjoint.overrides`); None: no override
        is consulted for this call, only for calls made inside it.
    row : Operator, optional
        What does the calls whose arguments it takes as they are; the function is for others, and for errors.
    """
    public: Any = _C.Composition(function, explain, consults, row)
    vars(public).update(
        vars(function),
        __module__=function.__module__,
        __name__=function.__name__,
        __qualname__=function.__qualname__,
        __doc__=function.__doc__,
        __wrapped__=function,
    )
    return public


# What adds parameters to a function says which in `_signature`: `inspect` asks for it, and is not imported before.
_C.Composition.__signature__ = property(lambda public: public._signature())


def _documentation(public):
    from adjoint._help import of_composition

    return of_composition(public, vars(public).get("__doc__"), functions)


# What is written, completed when it is read; it can be set, as that of a function can.
_of_compositions: Any = _C.Composition
_of_compositions.__doc__ = property(
    _documentation, lambda public, text: vars(public).__setitem__("__doc__", text)
)


class Documentation:
    """The `__doc__` of a class, completed when it is read (adjoint/_help)."""

    __slots__ = ("package", "written")

    def __init__(self, written, package):
        self.written, self.package = written, package

    def __get__(self, instance, owner=None):
        from adjoint._help import of_class

        return of_class(owner, self.written, self.package)


def document_classes(namespace) -> None:
    """Let the documentation of a public module's classes be completed: called at its end, with its ``globals()``."""
    package = namespace["__name__"].removeprefix("adjoint.")
    for name in namespace["__all__"]:
        cls = namespace[name]
        if (
            isinstance(cls, type)
            and cls.__module__ != "adjoint._C"
            and isinstance(vars(cls).get("__doc__"), str)
        ):
            cls.__doc__ = Documentation(cls.__doc__, package)  # type: ignore[assignment]


def publish(namespace, explain=_explain, consults=True) -> None:
    """`published` for each public function that a module defines: called at its end, with its ``globals()``."""
    module = namespace["__name__"]
    for name, value in list(namespace.items()):
        if type(value) is type(publish) and not name.startswith("_") and value.__module__ == module:
            namespace[name] = published(value, explain, consults)


def listing(module: str, *submodules: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: the names that it publishes and those of its submodules, and not what it imports."""
    return lambda: sorted({*vars(sys.modules[module])["__all__"], *submodules})


@overload
def composition(function: F) -> F: ...
@overload
def composition(*, method: bool = ..., inplace: bool = ..., consults: bool = ...) -> Callable[[F], F]: ...
def composition(
    function: Any = None, *, method: bool = True, inplace: bool = False, consults: bool = True
) -> Any:
    """Publish a composition of operators as ``adjoint.name`` and ``Tensor.name``.

    Parameters
    ----------
    method : bool
        Whether it becomes a method too; the first parameter is then the tensor itself.
    inplace : bool
        Whether there is a method with a trailing underscore that writes the result into its tensor.
    consults : bool
        Whether arguments with `__torch_function__` may answer.
    """
    if function is None:
        return lambda f: _compose(f, method, inplace, consults)
    return _compose(function, method, inplace, consults)


def _compose(function: Any, method: bool, inplace: bool, consults: bool) -> Any:
    function = published(function, consults=consults)
    # Pickles know it by the name under which users do, wherever it is defined.
    function.__module__ = "adjoint"
    name = function.__name__
    functions[name] = function
    if method:
        setattr(Tensor, name, function)
    if inplace:
        become = _C._become

        def write(self, *args, **kwargs):
            # What a derivative saves must outlive the write: recorded operations read a copy.
            recorded = _C.is_grad_enabled() and any(
                isinstance(x, Tensor) and x.requires_grad for x in (self, *args, *kwargs.values())
            )
            return become(self, function(self.clone() if recorded else self, *args, **kwargs), name)

        write.__name__, write.__qualname__ = name + "_", f"Tensor.{name}_"
        write.__doc__ = f"`{name}` in place: the tensor is written and returned."
        setattr(Tensor, name + "_", published(write))
    return function


def alternate(function: F) -> F:
    """Publish the alternate of the operator of the same name, which stays what users call.

    It is called for arguments that fit none of the operator's own signatures.
    """
    name = function.__name__
    operator: Any = getattr(_C, name, None) or getattr(Tensor, name)
    operator.overload = published(function)
    return operator


#: Methods that consult no override: what they call does so, or they say what class a tensor has.
_OWN = ("__iter__", "as_subclass")


def member(name: str, value: Any) -> None:
    """Make a function or property a member of Tensor."""
    if isinstance(value, property):
        get: Any
        set_: Any
        get, set_ = (f and published(f, None) for f in (value.fget, value.fset))
        value = property(get, set_, value.fdel, value.__doc__)
        for function, accessor in ((get, "__get__"), (set_, "__set__")):
            if function is not None:
                function._asked_as = getattr(value, accessor)
    elif type(value) is type(extend) and name not in _OWN:
        # Python's own methods, and the way into a backward pass, fail as they are.
        value = published(value, None if name.startswith("_") or name == "backward" else _explain)
    setattr(Tensor, name, value)


def extend(members: T) -> T:
    """Move what a class body defines into Tensor: the class is only a list of members."""
    for name, value in vars(members).items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__"):
            function = value
            while getattr(function, "__module__", None) == members.__module__:
                function.__qualname__ = "Tensor." + name
                function = getattr(function, "__wrapped__", None)
            member(name, value)
    return members
