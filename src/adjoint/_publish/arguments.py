"""Checks of arguments that many functions share: tensors, ``out=``, and options without effect.

Start reading at `give` and at `ignores`.
"""

from __future__ import annotations

import sys

from adjoint import _C
from adjoint._C import Tensor
from adjoint._types import Callable, F

__all__ = ["dimension", "give", "give_all", "ignores", "need_tensors", "whole"]


def whole(value, tensors=True, depth=3):
    """An `int` for a 0-d integer tensor (if `tensors`) or one of NumPy's integers; in sequences too, of sequences as well.

    What is no such integer is given back as it is. The core reads integers likewise (core/bind/convert.h).
    """
    kind = type(value)
    if kind is int or kind is float or kind is bool or value is None:
        return value
    if kind is tuple or kind is list:
        each = [whole(v, tensors, depth - 1) for v in value] if depth else value  # it may hold itself
        return value if all(a is b for a, b in zip(each, value)) else kind(each)
    if isinstance(value, Tensor):
        number = tensors and value.ndim == 0 and not (value.is_floating_point() or value.is_complex())
        return value.__index__() if number and value.dtype is not _C.bool else value
    return value.__index__() if hasattr(kind, "__index__") and not isinstance(value, int) else value


def dimension(dim, rank, scalar=True):
    """A dimension counted from the front; of a number, which has none, 0 and -1 count as one if `scalar`."""
    if not isinstance(dim, int):
        if not hasattr(type(dim), "__index__"):
            raise TypeError(f"a dimension must be an int, but found {type(dim).__name__}: {dim!r}")
        dim = dim.__index__()
    if rank == 0 and not scalar:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    among = rank or 1
    if not -among <= dim < among:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-among}, {among - 1}], but got {dim})"
        )
    return dim % among


def need_tensors(name, **given) -> None:
    """Refuse arguments that are not tensors; they are given in the order of their positions."""
    for position, (argument, value) in enumerate(given.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
            )


def refuse_pinned(name, pin_memory) -> None:
    """Memory is pinned for transfers to a device."""
    if pin_memory:
        raise RuntimeError(
            f"{name}(): pin_memory=True requires a CUDA or other accelerator backend, and there is none here; leave it out"
        )


def refuse_names(name, names) -> None:
    """Dimensions have no names here."""
    if names is not None:
        raise TypeError(
            f"{name}() got an unexpected keyword argument 'names': dimensions have no names; got {names!r}"
        )


#: What torch's `compile` knows by name.
_COMPILERS = ("aot_eager", "cudagraphs", "eager", "inductor", "onnxrt", "openxla", "tvm")


def need_compiler(backend) -> None:
    """Refuse a backend of `compile` that torch would not know: with any other, functions are replayed."""
    if not callable(backend) and backend not in _COMPILERS:
        raise RuntimeError(
            f"Invalid backend: {backend!r}: expected a callable or one of {', '.join(_COMPILERS)}; whichever it is, functions "
            "are replayed"
        )


def scalar_type(t):
    """What torch's messages call the dtype of a tensor: 'Float', 'Long'."""
    return t.type().rpartition(".")[2].removesuffix("Tensor")


def same_dtype(name, first, *others):
    """Refuse tensors of another dtype than the first one's; None are left out."""
    for t in others:
        if t is not None and t.dtype is not first.dtype:
            raise RuntimeError(
                f"{name}(): expected scalar type {scalar_type(first)} but found {scalar_type(t)}; convert it with .to({first.dtype})"
            )


def _need_out(out, result, name, converts):
    if _C.is_grad_enabled() and any(_C._requires_grad_anywhere(t) for t in (result, out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _C._need_out_type(result, out, name, converts)


def give(out, result, name, stacklevel=3, *, converts=True, warns=True):
    """The result; written to `out` where there is one, which takes its shape.

    Parameters
    ----------
    converts : bool
        Whether `out` may be of another dtype, to which the result is converted.
    warns : bool
        Whether a warning says that an `out` of another shape, which has elements, takes that of the result.
    """
    if out is None:
        return result
    _need_out(out, result, name, converts)
    return _put(out, result, stacklevel + 1, warns)


def _put(out, result, stacklevel, warns=True):
    """The result in an `out` that may have it."""
    if out.shape == result.shape:
        return out.copy_(result)
    if warns and out.numel():
        from warnings import warn

        warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(result.shape)}. You can explicitly reuse an out tensor t by resizing it, "
            "inplace, to zero elements with t.resize_(0).",
            stacklevel=stacklevel,
        )
    if _C._is_batched(result) or _C._tangent(result) is not None:
        # What stands for many, or has a tangent, is written as the program would.
        out.data = _C._empty(result.shape, dtype=out.dtype)
        return out.copy_(result)
    # Never the result's own memory, which may be that of an input.
    return out.resize_(result.shape).copy_(result)


def give_all(out, results, name, *, converts=True):
    """A tuple of results, named or not, written to a tuple of tensors where there is one: to all or, where one is refused, none."""
    if out is None:
        return results
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
    for to, result in zip(out, results):
        _need_out(to, result, name, converts)
    given = []
    # A comprehension would be a frame of its own in some Pythons, which a warning counts.
    for to, result in zip(out, results):
        given.append(_put(to, result, 4))
    return type(results)(*given) if hasattr(results, "_fields") else tuple(given)


#: The parameters of which a call has said that they have no effect.
told: set[tuple] = set()


def ignores(*parameters: str, why: str, warns: bool = True) -> Callable[[F], F]:
    """Declare parameters that a function takes and never reads, for programs that give them.

    A value other than the default, None and False is answered by one warning in a process that it has no effect.

    Parameters
    ----------
    why : str
        Ends the sentence of the warning.
    warns : bool
        Not where the parameter is a permission, such as `non_blocking`, or says what holds in any case: the function is
        marked and left as it is.
    """

    def decorate(function):
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(function.__kwdefaults__ or {})
        if function.__defaults__:
            defaults.update(
                zip(names[code.co_argcount - len(function.__defaults__) :], function.__defaults__)
            )
        for name in parameters:
            assert name in names, f"{function.__qualname__}() has no parameter {name}"
        function._ignored = getattr(function, "_ignored", ()) + parameters
        if not warns:
            return function
        places = [(name, names.index(name), defaults.get(name)) for name in parameters]

        def checked(*args, **keywords):
            for name, place, default in places:
                value = args[place] if place < len(args) else keywords.get(name)
                if value is None or value is False or value is default or (function, name) in told:
                    continue
                if not isinstance(value, Tensor) and value == default:
                    continue
                told.add((function, name))
                from warnings import warn

                title = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
                warn(f"{title}(): {name}={value!r} has no effect: {why}", UserWarning, stacklevel=2)
            return function(*args, **keywords)

        return wraps(function)(checked)

    return decorate


#: What says what a function is (in Python 3.14 its annotations are not evaluated for that).
_NAMES = (
    "__module__",
    "__name__",
    "__qualname__",
    "__annotate__" if sys.version_info >= (3, 14) else "__annotations__",
    "__type_params__",
)
_WITH_PAGE = (*_NAMES, "__doc__")
#: Their pages are written when they are asked for.
_OPERATORS = (_C.Operator, _C.Composition)


def wraps(function):
    """`functools.wraps` without its import, which takes time; for an operator, the page is not written."""

    def with_names(wrapper):
        for name in _NAMES if isinstance(function, _OPERATORS) else _WITH_PAGE:
            value = getattr(function, name, wraps)
            if value is not wraps:
                setattr(wrapper, name, value)
        wrapper.__dict__.update(getattr(function, "__dict__", ()), __wrapped__=function)
        return wrapper

    return with_names
