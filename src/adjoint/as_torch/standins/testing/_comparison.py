"""``torch.testing._comparison``: the tolerances of `assert_close`, as libraries ask for them."""

from __future__ import annotations

from adjoint import Tensor, dtype
from adjoint.testing import _TOLERANCE, assert_close

__all__ = ["assert_close", "default_tolerances", "get_tolerances"]


def default_tolerances(*inputs, dtype_precisions=None) -> tuple:
    """The loosest relative and absolute tolerance of the dtypes: (0, 0) for integers.

    Raises
    ------
    TypeError
        An input is neither a tensor nor a dtype.
    """
    table, found = dtype_precisions or _TOLERANCE, []
    for input in inputs:
        if not isinstance(input, (Tensor, dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(input)} instead.")
        found.append(table.get(input if isinstance(input, dtype) else input.dtype, (0.0, 0.0)))
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def get_tolerances(*inputs, rtol, atol, id=()) -> tuple:
    """The tolerances given, or for None those of the dtypes.

    Raises
    ------
    ValueError
        One is given and the other is not.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    return default_tolerances(*inputs) if rtol is None else (rtol, atol)
