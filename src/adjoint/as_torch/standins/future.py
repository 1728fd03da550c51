"""``torch.__future__``: how the conversion of a module replaces its parameters."""

from __future__ import annotations

from adjoint.nn.module import conversion

__all__: list[str] = []

_swaps = False


def set_overwrite_module_params_on_conversion(value) -> None:
    """Whether `Module.to` and the like create new parameters instead of replacing the data of the existing ones."""
    conversion.overwrites = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    return conversion.overwrites


def set_swap_module_params_on_conversion(value) -> None:
    """Nothing to switch: parameters stay the same objects in any case, where they stay on their device."""
    global _swaps
    _swaps = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    return _swaps
