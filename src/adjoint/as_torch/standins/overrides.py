"""``torch.overrides``: nothing overrides operators, subclasses of Tensor included."""

from __future__ import annotations

from adjoint import Tensor

__all__ = ["has_torch_function", "is_tensor_like"]


def has_torch_function(relevant_args) -> bool:
    """Whether an argument brings operators of its own: no."""
    return False


def has_torch_function_unary(argument) -> bool:
    return False


def has_torch_function_variadic(*arguments) -> bool:
    return False


def is_tensor_like(inp) -> bool:
    return isinstance(inp, Tensor)
