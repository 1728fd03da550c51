"""``torch.jit`` without a compiler: decorators that leave functions and modules as they are. Tracing is missing."""

from __future__ import annotations

from typing import Final

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "script_method",
    "unused",
]

_isinstance = isinstance


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The function, class or module itself: it runs as it is written."""
    return obj


def export(fn):
    """The function itself."""
    return fn


unused = script_method = script_if_tracing = _script_if_tracing = _overload_method = _overload = interface = (
    export
)


def ignore(drop=False, **keywords):
    """The function itself; with or without arguments, as in ``@torch.jit.ignore(drop=True)``."""
    return drop if callable(drop) else export


def is_scripting() -> bool:
    """Whether the code is being compiled: never."""
    return False


def is_tracing() -> bool:
    """Whether the code is being traced: never."""
    return False


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """As the built-in function, with `typing` generics by their origin."""
    from typing import get_origin

    targets = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(get_origin(t) or t for t in targets))
