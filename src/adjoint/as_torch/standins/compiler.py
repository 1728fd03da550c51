"""``torch.compiler`` without a compiler: decorators that leave functions as they are."""

from __future__ import annotations

from contextlib import nullcontext

from adjoint.as_torch._compile import compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
]


def disable(fn=None, recursive=True, **keywords):
    """The function itself."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn):
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def is_compiling() -> bool:
    """Never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def cudagraph_mark_step_begin() -> None:
    """Nothing is captured."""


def set_stance(stance="default", **options):
    """A context, or a decorator, that chooses how to compile; nothing is compiled."""
    return nullcontext()


def reset() -> None:
    """Nothing to reset."""
