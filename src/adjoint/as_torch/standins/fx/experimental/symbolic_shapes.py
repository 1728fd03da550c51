"""``torch.fx.experimental.symbolic_shapes``: sizes are numbers here."""

from __future__ import annotations

__all__ = [
    "free_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "has_free_symbols",
    "is_symbolic",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """Never raised."""


def free_symbols(value) -> set:
    """None are free."""
    return set()


def has_free_symbols(value) -> bool:
    return False


is_symbolic = has_free_symbols


def guard_or_false(expression) -> bool:
    """The truth of an expression of numbers."""
    return bool(expression)


guard_or_true = guard_size_oblivious = definitely_true = statically_known_true = guard_or_false
