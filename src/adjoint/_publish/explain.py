"""What a composition says when it fails: the function that was called, and the argument that was wrong.

A composition is Python over other functions, and an argument of a wrong type fails somewhere inside it: ``'list' object has
no attribute 'shape'``, or in a function that the caller never called. Nothing is checked before a call, so that calls cost
nothing; `explain` looks at what failed. It takes NumPy's keywords (``axis=``) for torch's, too, and integers that are no `int`
(`_with_ints`). Start reading at `explain`.
"""

from __future__ import annotations

import re

from adjoint._C import Tensor
from adjoint._publish.arguments import whole
from adjoint._types import Any

__all__ = ["explain"]

#: NumPy's names for torch's, as torch takes them.
_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}
#: Errors whose text may be completed; others mean something by their type.
_PLAIN = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
#: How an error of a function that the composition called begins, or speaks of itself; the last is a binding's own word.
_BEGINS = re.compile(r"(?:linalg\.|special\.)?(_?[a-z]\w*)\(\): ")
_WAS_GIVEN = re.compile(r"\b_?[a-z]\w*(?=\(\) was given\b)")
_RECEIVED = re.compile(
    r"(?:linalg\.|special\.)?(_?[a-z]\w*)\(\) received an invalid combination of arguments"
)
_BINDINGS = "incompatible function arguments"
_PYTHONS_INDEX_ERRORS = re.compile(r"(tuple|list|string|range object|deque)\b.*index|pop from")


def explain(published, args, kwargs, error):
    """Called with an error of a composition: a tuple of the result, an error of its own, or None to leave it as it is."""
    traceback = error.__traceback__
    outermost = (
        traceback is None or traceback.tb_next is None and _wraps(published, traceback.tb_frame.f_code)
    )
    if outermost and type(error) is TypeError:
        return _with_known_names(published, args, kwargs, error) or _with_ints(published, args, kwargs, error)
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    # What a user's own function raised, such as a distance passed in, is the user's.
    if not traceback.tb_frame.f_globals.get("__name__", "").startswith("adjoint."):
        return None
    if (answer := _with_ints(published, args, kwargs, error)) is not None:
        return answer
    name = published.__name__
    if type(error) is AttributeError:
        where = _where(published, args, kwargs, getattr(error, "obj", None))
        if where and hasattr(Tensor, str(error.name)):
            raise _refused(f"{name}(): {where}", where) from None
    text = str(error)
    if isinstance(error, (AttributeError, KeyError, NameError)) or (
        type(error) is IndexError and _PYTHONS_INDEX_ERRORS.match(text)
    ):
        raise _refused(_got(name, args, kwargs, text), text) from None
    if type(error) in _PLAIN and error.args:
        plain = _without_inner(getattr(error, "_plain", text), name)
        # The outermost function is the one that was called.
        said = re.search(rf"\b{re.escape(name.rstrip('_'))}_?\b", plain)
        pythons = (
            type(error) is TypeError
            and not any(f"'{p}'" in plain for p in _parameters(published))
            and not said
        )
        error.args = (
            _got(name, args, kwargs, plain) if pythons else plain if said else f"{name}(): {plain}",
        )
        error._plain = plain
    return None


def _without_inner(text, name):
    """What was wrong, without the names of functions that the user did not call."""
    own = name.rstrip("_")
    while (begin := _BEGINS.match(text)) and begin[1].rstrip("_") != own:
        text = text[begin.end() :]
    if (begin := _RECEIVED.match(text)) and begin[1].rstrip("_") != own:
        return _BINDINGS
    return _WAS_GIVEN.sub(name, text)


def _refused(text, plain):
    """The error that replaces another, whose own text it keeps."""
    error: Any = TypeError(text)
    error._plain = plain
    return error


def _with_known_names(published, args, kwargs, error):
    """The arguments fit no parameters: perhaps they are called as NumPy calls them."""
    if type(error) is not TypeError:
        return None
    parameters = _parameters(published)
    renamed: dict[str, Any] = {}
    for key, value in kwargs.items():
        other = _NAMES.get(key, key) if key not in parameters else key
        renamed[other if other in parameters and other not in kwargs else key] = value
    return (published(*args, **renamed),) if renamed.keys() != kwargs.keys() else None


def _with_ints(published, args, kwargs, error):
    """The call once more with `int` for integers of other types, where there are any: Python asks them for more than
    ``__index__``. A tensor that fails by its value rather than by its type is data, and stays."""
    if not isinstance(error, (*_PLAIN, OverflowError)):
        return None
    by_type = isinstance(error, (TypeError, OverflowError))
    try:
        ints, named = [whole(a, by_type) for a in args], {k: whole(v, by_type) for k, v in kwargs.items()}
        if all(a is b for a, b in zip(ints, args)) and all(named[k] is kwargs[k] for k in named):
            return None
        return (published(*ints, **named),)
    except Exception:
        return None  # the error that was there says more


def _wraps(published, code):
    """Whether the code is that of a function which only hands arguments on, such as `creation` makes."""
    return code is published.__code__ and hasattr(published.__wrapped__, "__wrapped__")


def _codes(published):
    """The code that a call runs, from the outermost function to the one that names the arguments by position."""
    function, codes = published, []
    while (function := getattr(function, "__wrapped__", None)) is not None:
        codes.append(function.__code__)
    return codes


def _parameters(published):
    return [
        name
        for code in _codes(published)
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]


def _where(published, args, kwargs, wrong):
    """The argument that is `wrong`, or holds it, and what torch says of it."""
    code = _codes(published)[-1]
    names = code.co_varnames[: code.co_argcount]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else "?"
    given: list[Any] = [(names[i] if i < len(names) else rest, i + 1, value) for i, value in enumerate(args)]
    given += [(key, None, value) for key, value in kwargs.items()]
    for name, position, value in given:
        place = f" (position {position})" if position else ""
        if value is wrong:
            return f"argument '{name}'{place} must be Tensor, not {_kind(wrong)}"
        if isinstance(value, (list, tuple)):
            for i, element in enumerate(value):
                if element is wrong:
                    return (
                        f"expected Tensor as element {i} in argument '{name}'{place}, but got {_kind(wrong)}"
                    )
    return None


def _kind(value):
    return type(value).__name__


def _got(name, args, kwargs, text):
    if text.startswith(_BINDINGS):  # its list of forms is that of the function inside
        text = "no form of it takes these types"
    kinds = [_kind(a) for a in args] + [f"{key}={_kind(value)}" for key, value in kwargs.items()]
    return f"{name}() received an invalid combination of arguments - got ({', '.join(kinds)}): {text}"
