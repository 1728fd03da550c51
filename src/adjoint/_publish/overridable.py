"""Which functions dispatch to `__torch_function__`, under which names, and with which parameters.

Nothing is listed here: an operator or composition that is published is found in its module, and its parameters are those
of its signature. Start reading at `get_overridable_functions`.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from adjoint import _C
from adjoint._C import Tensor

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "is_tensor_method_or_property",
    "resolve_name",
]

#: Modules with functions of tensors, in the order in which a function is looked for; '' is the package.
MODULES = ("", "nn.functional", "nn.init", "linalg", "special", "fft", "masked", "autograd")


def _is_published(value) -> bool:
    return isinstance(value, (_C.Operator, _C.Composition))


def _consults(value) -> bool:
    return not isinstance(value, _C.Composition) or value._consults == 2


def _modules():
    # Under as_torch() the package goes by that name.
    names = [f"adjoint.{name}" if name else Tensor.__module__ for name in MODULES]
    return [import_module(name) for name in names]


def _public(module):
    """The published functions of a module by name, those that are imported later included."""
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    # What the package uses among itself consults no override, whatever a module calls it.
    return {name: f for name, f in found.items() if _is_published(f) and not f.__name__.startswith("_")}


def _is_python_s(value) -> bool:
    """Whether a member is one of Python's own protocols, as the type fills it in."""
    return inspect.ismethoddescriptor(value) and not isinstance(value, (classmethod, staticmethod))


#: Python's methods that are no business of a tensor's.
_OBJECT_S = frozenset(dir(object)) - {
    "__repr__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__format__",
    "__reduce_ex__",
}


def _members():
    """The methods of Tensor that ask, and its attributes, by name."""
    methods, attributes = {}, {}
    for name, value in sorted(vars(Tensor).items()):
        if name in _OBJECT_S or name in (
            "__init_subclass__",
            "__torch_function__",
            "_storage",
            "_is_view",
            "_bump_version",
        ):
            continue
        if isinstance(value, property) or inspect.isgetsetdescriptor(value):
            if name != "__dict__":
                attributes[name] = value
        elif _is_published(value) or _is_python_s(value):
            methods[name] = value
    return methods, attributes


@lru_cache(None)
def _functions():
    """Every function that can be asked about, with its holder: (holder, its path, name, function)."""
    rows = []
    for module, path in zip(_modules(), MODULES, strict=True):
        rows += [(module, path, name, value) for name, value in sorted(_public(module).items())]
    methods, attributes = _members()
    rows += [(Tensor, "Tensor", name, value) for name, value in methods.items()]
    for name, value in attributes.items():
        rows.append((value, f"Tensor.{name}", "__get__", value.__get__))
        # Where it cannot be set, there is a `__set__` that says so.
        if getattr(value, "fset", True) is not None:
            rows.append((value, f"Tensor.{name}", "__set__", value.__set__))
    return rows


def get_overridable_functions() -> dict[Any, list]:
    """The functions that dispatch to `__torch_function__`, by their holder: a module, Tensor, an attribute.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.add in ad.overrides.get_overridable_functions()[ad]
    True
    """
    found: dict[Any, list] = {}
    for holder, _, name, function in _functions():
        if _consults(function) and name != "__set__":
            found.setdefault(holder, []).append(function)
    return found


def get_ignored_functions() -> set:
    """The public functions that consult modes only, because they take no tensor or take it as it is."""
    return {function for *_, function in _functions() if not _consults(function)}


@lru_cache(None)
def _names():
    names: dict[Any, str] = {}
    for _, path, name, function in _functions():
        names.setdefault(function, f"{path}.{name}".lstrip("."))
    return names


def resolve_name(f) -> str | None:
    """The name under which programs know a function, None for one that is not of this package.

    One object serves as function and as method here; it has the function's name.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.overrides.resolve_name(ad.Tensor.grad.__get__)
    'adjoint.Tensor.grad.__get__'
    """
    if isinstance(f, ModuleType):
        return None
    try:
        name = _names().get(f)
    except TypeError:  # it cannot be hashed
        return None
    return name and f"{Tensor.__module__}.{name}"


def is_tensor_method_or_property(func) -> bool:
    """Whether a function is a method of Tensor, or reads an attribute of it."""
    if getattr(func, "__name__", "") == "__get__":
        return True
    try:
        return func in _methods()
    except TypeError:
        return False


@lru_cache(None)
def _methods():
    return frozenset(_members()[0].values())


def get_testing_overrides() -> dict:
    """For each overridable function one that takes the same parameters and returns -1.

    Examples
    --------
    >>> import adjoint as ad, inspect
    >>> inspect.signature(ad.overrides.get_testing_overrides()[ad.outer])
    <Signature (input, vec2, *, out=None)>
    """
    return {
        function: _stand_in(function)
        for functions in get_overridable_functions().values()
        for function in functions
    }


def _stand_in(function):
    parameters, defaults = [], []
    starred = False
    for p in _parameters(function):
        if p.kind is p.VAR_POSITIONAL:
            parameters.append("*" + p.name)
            starred = True
        elif p.kind is p.VAR_KEYWORD:
            parameters.append("**" + p.name)
        else:
            if p.kind is p.KEYWORD_ONLY and not starred:
                parameters.append("*")
                starred = True
            if p.default is not p.empty:
                defaults.append(p.default)
            parameters.append(p.name + ("" if p.default is p.empty else f"=_given[{len(defaults) - 1}]"))
    return eval(f"lambda {', '.join(parameters)}: -1", {"_given": defaults})


def _parameters(function):
    from inspect import Parameter

    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__"):
        return [
            Parameter(n, Parameter.POSITIONAL_OR_KEYWORD)
            for n in ("self", "value")[: 1 + (name == "__set__")]
        ]
    if isinstance(function, _C.Operator):
        return _operator_parameters(function)
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [
            Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("args", Parameter.VAR_POSITIONAL),
        ]


def _operator_parameters(operator):
    """As the table states them."""
    text = operator.__text_signature__[1:-1]
    scope: dict[str, Any] = {}
    names = text.replace("self", "input", 1) if text.startswith("self") else text
    exec(f"def stand_in({names}): pass", {"inf": float("inf"), "nan": float("nan")}, scope)
    parameters = list(inspect.signature(scope["stand_in"]).parameters.values())
    row = next(r for r in _C.operators() if r["name"] == operator.forms[0])
    if not (row["view"] or row["writes"] or operator.__name__.endswith("_")) and "out" not in [
        p.name for p in parameters
    ]:
        parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    return parameters
