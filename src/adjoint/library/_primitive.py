"""Operators declared in Python: what a declaration says is read here, and made a row of the table by the core.

A signature is written as Python would write it, with the types of the arguments::

    "cumulate(x: Tensor, dim: int = -1, *, dtype: dtype | None = None) -> Tensor"

A rule says by the names of its parameters what it takes, so that nothing else is kept for it. Start reading at `primitive`;
the core's side is core/dispatch/declared.h.
"""

from __future__ import annotations

import ast
import copyreg

from adjoint import _C
from adjoint._types import Any, Callable

__all__ = ["declare", "primitive"]

#: What a signature may call the types of its arguments, and what the core calls them.
TYPES = {
    **{name: name for name in ("Tensor", "int", "float", "bool", "str", "dtype", "Dim", "Dims", "Sizes")},
    **dict.fromkeys(("Number", "Scalar", "complex", "int | float", "int | float | complex"), "Scalar"),
}
TYPES |= {
    form.format(element): f"{element}[]"
    for element in ("Tensor", "int", "float")
    for form in ("Sequence[{}]", "list[{}]", "tuple[{}, ...]", "List[{}]", "Tuple[{}, ...]")
}
TYPES |= dict.fromkeys(("Sequence[Tensor | None]", "list[Tensor | None]"), "Tensor?[]")

#: What arguments without a type are, by their defaults.
BY_DEFAULT = {bool: "bool", int: "int", float: "float", str: "str", tuple: "int[]", complex: "Scalar"}

# What a rule takes, as core/bind/primitive.cpp numbers it.
GIVEN, ARGUMENT, RESULT, SHAPE, NEEDS = range(5)


def primitive(
    signature: Any,
    *,
    vjp: Any = None,
    jvp: Any = None,
    batch: Any = None,
    samples: Any = None,
    linear: Any = None,
    types: Any = None,
    ordered: bool = False,
) -> Any:
    """Declare an operator whose parts are Python functions.

    The decorated function gets tensors, computes in any way it likes (by NumPy, or a library of its own), and returns new
    tensors; nothing of it is recorded. What results is an operator like those of the core: it has a row in their table, is
    recorded by a node of its name, seen by hooks, interpreters and selective checkpointing, and goes through forward mode and
    `vmap`.

    Parameters
    ----------
    signature : str
        Name, arguments with their types, and results: ``"fold(x: Tensor, n: int = 2) -> Tensor"``. Types are Tensor, int, float,
        bool, str, dtype, Number, ``list[int]``, ``list[float]``, ``list[Tensor]`` (one at most), each also ``| None``; and
        Dim, Dims and Sizes, which are ints that name or size dimensions, so that batching follows from them. What has no type is
        a Tensor, or what its default is. Results are Tensor, ``tuple[Tensor, Tensor]`` or ``list[Tensor]``. A name may stand in
        a namespace, ``mine::fold``.
    vjp : callable or dict, optional
        The reverse rule, written in recorded operations so that it can be differentiated again. Its first argument is the
        gradient of the result (a tuple, of several); the others it takes by their names: an argument of the operator, ``result``,
        ``x_shape`` for the shape of argument ``x``, ``needs_input_grad``, a bool for each tensor. A tensor that no rule names is
        not kept. It returns a gradient or None for each tensor among the arguments; a dict has one rule per argument, of which
        only those run, and keep what they name, whose gradient is asked for.
    jvp : callable, optional
        The forward rule: like `vjp`, with the tangents of the tensors first (zeros where there are none); it returns the results'.
        Without it the rule follows from `linear`, or from `vjp` by transposition.
    batch : callable or "leading", optional
        The rule for `vmap`: ``batch(info, in_dims, *args)``, as that of an `autograd.Function`, returns the results and the
        dimensions in which they have the batch. "leading" says that the function takes tensors with further dimensions in front.
        Without it, the operator runs for each sample, unless it has one tensor and its Dim, Dims or Sizes say enough.
    samples : str or sequence of str, optional
        Calls for tests that walk through the table, as Python would write them, with shapes instead of tensors.
    linear : str or sequence of str, optional
        The arguments in which it is linear, taken together: applied to their tangents, it gives the result's.
    types : sequence of dtype, optional
        The types of the tensors in its samples; float32 and float64 unless said.
    ordered : bool
        Whether its rule has effects that others see in their order, as messages between processes: several threads that share a
        pass backward run such rules one after another, in the order of a pass in one thread.
    Returns
    -------
    callable
        A decorator, which returns the operator.

    Raises
    ------
    NotImplementedError
        When an operator without a rule is differentiated; the error names it.

    Examples
    --------
    >>> import adjoint as ad, numpy as np
    >>> @ad.library.primitive("cube(x)", vjp=lambda g, x: 3 * g * x * x)
    ... def cube(x):
    ...     return ad.from_numpy(x.numpy() ** 3)
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    def decorate(function):
        operator = declare(
            read_signature(signature),
            function,
            vjp=vjp,
            jvp=jvp,
            batch=batch,
            samples=samples,
            linear=linear,
            types=types,
            ordered=ordered,
        )
        setattr(_C, operator.__name__, operator)
        _homes[operator] = function.__module__, getattr(function, "__qualname__", operator.__name__)
        return operator

    return decorate


#: Where operators that programs declare are found again, as functions are: module and name.
_homes: dict = {}


def _reduce(operator):
    """Pickle an operator by where it is found, for other processes."""
    home = _homes.get(operator)
    return operator.__reduce__() if home is None or "<locals>" in home[1] else (_found, home)


def _found(module, name):
    from functools import reduce
    from importlib import import_module

    return reduce(getattr, name.split("."), import_module(module))


copyreg.pickle(_C.Operator, _reduce)


def declare(
    signature: Any,
    function: Callable[..., Any],
    *,
    vjp: Any = None,
    jvp: Any = None,
    batch: Any = None,
    samples: Any = None,
    linear: Any = None,
    types: Any = None,
    ordered: bool = False,
    kernels: Any = None,
) -> Any:
    """The operator of a signature that has been read, in the table and nowhere else. `kernels`: gives the functions that it may come to,
    if they are others than `function`.
    """
    name, arguments, results = signature
    if any(row["name"] == name and row["family"] != "Declared" for row in _C.operators()):
        raise ValueError(f"primitive(): Adjoint has an operator {name!r} of its own; choose another name")
    _check_names(name, function, arguments)
    names = [a.name for a in arguments]
    tensors = [a for a in arguments if a.kind.startswith("Tensor")]
    if not tensors:
        raise ValueError(f"primitive(): {name} takes no tensor")
    if sum(a.kind.endswith("[]") for a in tensors) > 1:
        raise ValueError(f"primitive(): {name} takes more than one list of tensors")
    if batch is not None and batch != "leading" and not callable(batch):
        raise TypeError(f"primitive(): batch must be a function or 'leading', not {batch!r}")
    linear = (linear,) if isinstance(linear, str) else tuple(linear or ())
    for argument in linear:
        if argument not in [a.name for a in tensors]:
            raise ValueError(f"primitive(): {name} has no tensor {argument!r} to be linear in")
    row = {
        "name": name,
        "doc": " ".join((getattr(function, "__doc__", None) or "Declared by a program.").split()),
        "family": "Declared",
        "order": ", ".join(_written(arguments)),
        "samples": "\n".join([samples] if isinstance(samples, str) else samples or ()),
        "kinds": [a.kind for a in arguments],
        "types": types or (_C.float32, _C.float64),
        "results": results,
        "terms": [names.index(argument) for argument in linear],
        "factors": (),
        "ordered": ordered,
    }
    return _C._declare_operator(
        row,
        function,
        _rules(name, vjp, arguments, results),
        None if jvp is None else _rule(name, "jvp", jvp, arguments, results),
        batch,
        None if kernels is None and _is_ours(function) else Purity(kernels or (lambda: (function,))),
    )


def _is_ours(function):
    """Whether it is a function of the library itself, which does nothing but compute."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


class Purity:
    """Says why functions may do more than compute from their arguments, as they are now; an empty text where they do not."""

    def __init__(self, kernels: Callable[[], tuple[Any, ...]]) -> None:
        self._kernels = kernels
        self._looked_at: list[Any] | None = None
        self._clean: Any = None
        self._why = ""

    def __call__(self) -> str:
        now = [(f, getattr(f, "__code__", None)) for f in self._kernels()]
        if self._looked_at != now or (self._clean is not None and not self._clean.holds()):
            from adjoint._replay._clean import clean_kernels

            self._clean, self._why = clean_kernels([f for f, _ in now])
            self._looked_at = now
        return self._why


# --- signatures ------------------------------------------------------------------------------------------------------


class Argument:
    """One argument of a signature. `default` is its text, None where there is none."""

    def __init__(self, name: Any, kind: Any, default: Any = None, keyword_only: Any = False) -> None:
        self.name, self.kind, self.default, self.keyword_only = name, kind, default, keyword_only


def read_signature(text):
    """Name, arguments, and how many results: None for one Tensor, 0 for a list of them."""
    name, bracket, rest = text.partition("(")
    name = name.strip()
    try:
        if not bracket or not all(part.isidentifier() for part in name.replace(".", "::").split("::")):
            raise SyntaxError
        tree: Any = ast.parse(f"def f({rest}: pass").body[0]
    except SyntaxError:
        raise ValueError(
            f"primitive(): expected a signature such as 'name(x: Tensor, n: int = 2) -> Tensor', but got {text!r}"
        ) from None
    given = tree.args
    if given.vararg or given.kwarg:
        raise ValueError(f"primitive(): {name} must name each of its arguments, without * and **")
    placed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(placed) - len(given.defaults)) + given.defaults
    arguments = [_argument(name, a, d, False) for a, d in zip(placed, defaults)]
    arguments += [_argument(name, a, d, True) for a, d in zip(given.kwonlyargs, given.kw_defaults)]
    if len(arguments) > 16:
        raise ValueError(f"primitive(): {name} has {len(arguments)} arguments, which is more than 16")
    return name, arguments, _results(name, tree.returns)


def _argument(name, node, default, keyword_only):
    value = None
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except ValueError:
            raise ValueError(
                f"primitive(): the default of {node.arg!r} in {name} must be a number, a text, a bool, None or a tuple of ints"
            ) from None
        if isinstance(value, list):
            value = tuple(value)
    written = None if default is None else repr(value)
    if node.annotation is None:
        kind = "Tensor" if default is None else BY_DEFAULT.get(type(value))
        if kind is None:
            raise ValueError(
                f"primitive(): argument {node.arg!r} of {name} needs a type, such as 'Tensor | None'"
            )
        return Argument(node.arg, kind, written, keyword_only)
    annotation, optional = _annotation(node.annotation)
    kind = TYPES.get(annotation)
    if kind is None:
        raise ValueError(
            f"primitive(): argument {node.arg!r} of {name} has the type {annotation!r}; it must be one of "
            f"{', '.join(sorted(TYPES))}, or one of these | None"
        )
    return Argument(node.arg, kind + "?" * optional, written, keyword_only)


def _annotation(node):
    """The text of a type without ``| None``, and whether None was there."""
    written = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    text = str(written).replace("ad.", "").replace("torch.", "").replace("adjoint.", "")
    if text.startswith("Optional[") and text.endswith("]"):
        return text[9:-1], True
    if text.endswith(" | None"):
        return text[:-7], True
    return text, False


def _results(name, node):
    if node is None:
        return None
    text, _ = _annotation(node)
    if text in ("Tensor", "None"):
        return None
    if TYPES.get(text) == "Tensor[]":
        return 0
    if text.startswith(("tuple[", "Tuple[", "(")):
        elements = text[text.index("[") + 1 if "[" in text else 1 : -1].rstrip(",").split(", ")
        if all(element == "Tensor" for element in elements):
            return len(elements)
    raise ValueError(f"primitive(): {name} must return Tensor, tuple[Tensor, …] or list[Tensor], not {text}")


def _written(arguments):
    star = False
    for a in arguments:
        if a.keyword_only and not star:
            star = True
            yield "*"
        yield a.name if a.default is None else f"{a.name}={a.default}"


# --- functions -------------------------------------------------------------------------------------------------------


def _parameters(function):
    """The names of a function's parameters, and how many of them have defaults; None where they cannot be known."""
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(getattr(function, "__call__", None), "__code__", None)
        if code is None or code.co_flags & 12:
            return None
        return code.co_varnames[1 : code.co_argcount], len(function.__call__.__defaults__ or ())
    first = 1 if hasattr(function, "__self__") else 0
    return code.co_varnames[first : code.co_argcount], len(function.__defaults__ or ())


def _check_names(name, function, arguments):
    if not callable(function):
        raise TypeError(f"primitive(): {name} must be a function, not {type(function).__name__}")
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & 12 or hasattr(function, "__self__"):
        return
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if list(own) != [a.name for a in arguments]:
        raise ValueError(
            f"primitive(): the signature of {name} has the arguments ({', '.join(a.name for a in arguments)}), but its function "
            f"has ({', '.join(own)})"
        )


def _rules(name, vjp, arguments, results):
    """What the core takes for `vjp`: None, one rule for all, or a dict of rules by the number of the argument."""
    if vjp is None:
        return None
    tensors = {a.name: i for i, a in enumerate(arguments) if a.kind.startswith("Tensor")}
    if not isinstance(vjp, dict):
        if len(tensors) == 1 and "[]" not in arguments[next(iter(tensors.values()))].kind:
            return {next(iter(tensors.values())): _rule(name, "vjp", vjp, arguments, results)}
        return _rule(name, "vjp", vjp, arguments, results)
    for argument in vjp:
        if argument not in tensors:
            raise ValueError(
                f"primitive(): {name} has no tensor {argument!r} for which vjp could have a rule"
            )
        if "[]" in arguments[tensors[argument]].kind:
            raise ValueError(
                f"primitive(): {argument!r} of {name} is a list, for which vjp must be one rule for all tensors"
            )
    return {tensors[argument]: _rule(name, "vjp", rule, arguments, results) for argument, rule in vjp.items()}


def _rule(name, what, rule, arguments, results):
    """A rule, and what it takes."""
    found = _parameters(rule) if callable(rule) else None
    if found is None or not found[0]:
        raise TypeError(
            f"primitive(): {what} of {name} must be a function whose parameters have names: the gradient or tangent first, then "
            "what else it takes"
        )
    parameters, defaults = found
    known = {a.name: (ARGUMENT, i) for i, a in enumerate(arguments)}
    known |= {
        f"{a.name}_shape": (SHAPE, i) for i, a in enumerate(arguments) if a.kind in ("Tensor", "Tensor?")
    }
    known |= {"needs_input_grad": (NEEDS, 0)}
    if results != 0:
        known |= {"result": (RESULT, 0)}
    sources = [(GIVEN, 0)]
    for number, parameter in enumerate(parameters[1:], 1):
        if parameter in known:
            sources.append(known[parameter])
        elif number >= len(parameters) - defaults:
            break
        else:
            raise ValueError(
                f"primitive(): {what} of {name} takes {parameter!r}, which is not one of {', '.join(sorted(known))}"
            )
    return rule, sources
