"""How operations written in Python reach users: one decorator makes a function and a method of them."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor

__all__ = ["door", "doors", "functions", "overload"]

#: What the package publishes, by name.
functions: dict = {}


def _explain(*arguments):
    from adjoint._explain import explain

    return explain(*arguments)


_ATTRIBUTES = ("__module__", "__name__", "__qualname__", "__doc__")


def door(function):
    """The function as it is published: a call costs the same, and an error names it and the argument that was wrong."""
    published = _C.Composition(function, _explain)
    for name in _ATTRIBUTES:
        setattr(published, name, getattr(function, name))
    published.__wrapped__ = function
    vars(published).update(vars(function))
    return published


def doors(namespace) -> None:
    """`door` for each public function that a module defines: called at its end, with its ``globals()``."""
    module = namespace["__name__"]
    for name, value in list(namespace.items()):
        if type(value) is type(door) and not name.startswith("_") and value.__module__ == module:
            namespace[name] = door(value)


def overload(function=None, *, method=True, inplace=False):
    """Publish a composition of operators as ``adjoint.name`` and ``Tensor.name``.

    Where the core has an operator of that name, the operator stays what users call, and the function is what it turns
    to when the arguments fit none of the operator's own signatures.

    Parameters
    ----------
    method : bool
        Whether it becomes a method too; the first parameter is then the tensor itself.
    inplace : bool
        Whether there is a method with a trailing underscore that writes the result into its tensor.
    """
    if function is None:
        return lambda f: overload(f, method=method, inplace=inplace)
    function = door(function)
    name = function.__name__
    primitive = vars(_C).get(name)
    if isinstance(primitive, _C.Operator):
        primitive.overload = function
        return primitive
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
        setattr(Tensor, name + "_", door(write))
    return function
