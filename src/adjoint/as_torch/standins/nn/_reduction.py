"""How losses reduce, as numbers and from legacy arguments."""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_NAMES = ("none", "mean", "sum")


def get_enum(reduction) -> int:
    """The number of a reduction: 0 for none, 1 for the mean, 2 for the sum."""
    if reduction in _NAMES:
        return _NAMES.index(reduction)
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_get_string(size_average, reduce, emit_warning=True) -> str:
    """The reduction that `size_average` and `reduce` meant; None stands for True."""
    if reduce is False:
        name = "none"
    else:
        name = "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction={name!r} instead.",
            stacklevel=3,
        )
    return name


def legacy_get_enum(size_average, reduce, emit_warning=True) -> int:
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
