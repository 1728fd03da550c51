"""Names of members and types: which a member may have, and how errors and `repr` write them."""

from __future__ import annotations

__all__ = ["check_new_name", "indent", "type_name"]


def check_new_name(module, registry, name, kind):
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in registry and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")


def type_name(value) -> str:
    """The type of a value as error messages show it: with its module, unless that is builtins."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def indent(text, by="  "):
    """`text` with every line but the first moved to the right."""
    return text.replace("\n", "\n" + by)
