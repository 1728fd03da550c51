"""`testing.assert_close` as it was before it had that name."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._switches import announce
from adjoint._types import Any
from adjoint.testing import _TOLERANCE, assert_close

__all__ = ["assert_allclose"]


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` of values alone, with looser tolerances and NaN equal to NaN.

    Parameters
    ----------
    actual, expected : Tensor, array or number
    rtol, atol : float, optional
    equal_nan : bool
    msg : str
        What the error says, instead of a list of differences.

    Raises
    ------
    AssertionError
        They differ by more.
    """
    announce(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (x if isinstance(x, Tensor) else _C.tensor(x) for x in (actual, expected))
    if rtol is None and atol is None:
        loose = {_C.float16: (1e-3, 1e-3), _C.float32: (1e-4, 1e-5), _C.float64: (1e-5, 1e-8)}
        pairs = [loose.get(x.dtype, _TOLERANCE.get(x.dtype, (0.0, 0.0))) for x in (actual, expected)]
        rtol, atol = (max(p[i] for p in pairs) for i in (0, 1))
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )
