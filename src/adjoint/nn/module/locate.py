"""Where in a model a call failed: a note on the error with the module's name, its parameters' shapes and what it was given.

An error passes the calls of modules from the inside out. Each adds itself, and the note is written anew. Start reading at
`locate`.
"""

from __future__ import annotations

import sys

from adjoint import Tensor

__all__ = ["PLAIN", "locate"]

#: Errors that users read; others mean something to programs by their type.
PLAIN = frozenset({RuntimeError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError})


def locate(error, module, args) -> None:
    """Add a module to those that an error has passed; from the second on, the note says where it began."""
    passed = vars(error).setdefault("_passed", [])
    if not passed:
        passed.append((module, _facts(module, args)))
        return
    if passed[-1][0] is module:
        return  # a call of itself by way of another name
    passed.append((module, ""))
    inner, facts = passed[0]
    _write(error, f"In the module {_name(passed)!r} of {type(module).__name__}: {_title(inner)}{facts}")


def _name(passed):
    """The dotted name of the first module in the last, as far as the modules between have it as a child."""
    names = []
    for (inner, _), (outer, _) in zip(passed, passed[1:], strict=False):
        found = (name for name, module in outer.named_modules() if module is inner)
        names.append(next(found, None) or type(inner).__name__)
    return ".".join(reversed(names))


def _title(module):
    first, _, rest = repr(module).partition("\n")
    return f"{type(module).__name__}(…)" if rest else first


def _facts(module, args):
    parts = [
        f"its {name} has shape {tuple(p.shape)}" for name, p in module._parameters.items() if _has_shape(p)
    ]
    given = [f"{tuple(a.shape)}, {a.dtype}" for a in args if isinstance(a, Tensor)]
    if given:
        parts.append(f"it was given ({'), ('.join(given)})" if len(given) > 1 else f"it was given {given[0]}")
    return "; " + "; ".join(parts) if parts else ""


def _has_shape(parameter):
    return parameter is not None and not hasattr(parameter, "cls_to_become")


def _write(error, note):
    if sys.version_info >= (3, 11):
        notes = vars(error).setdefault("__notes__", [])
        before = vars(error).get("_place")
        if before is not None and before < len(notes):
            notes[before] = note
        else:
            error._place = len(notes)
            notes.append(note)
    elif len(error.args) == 1 and isinstance(error.args[0], str):
        error._plain_text = vars(error).get("_plain_text", error.args[0])
        error.args = (f"{error._plain_text}\n{note}",)
