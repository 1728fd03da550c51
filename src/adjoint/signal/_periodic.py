"""The windows of torch's top level, `hann_window` and its like, which are periodic unless asked otherwise. See `windows`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor.creation_keywords import creation
from adjoint._types import Any, DType
from adjoint.signal.windows import cosines, kaiser_of, places, triangle

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(name, length, periodic, dtype, weights) -> Tensor:
    if isinstance(length, (bool, float)) or not hasattr(length, "__index__"):
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}"
        )
    length = length.__index__()
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    dtype = _C._empty((0,), dtype=dtype).dtype  # Python's types and None have a meaning
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if length < 2:
        return _C._full((length,), 1.0, dtype=dtype)
    return places(length, length if periodic else length - 1, weights).to(dtype)


@creation(out=False)
def bartlett_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """A triangle, whose ends are 0."""
    return _window("bartlett_window", window_length, periodic, dtype, triangle)


@creation(out=False)
def blackman_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """Three cosines, with the coefficients 0.42, 0.5 and 0.08."""
    return _window("blackman_window", window_length, periodic, dtype, cosines((0.42, 0.5, 0.08)))


@creation(out=False)
def hamming_window(
    window_length: Any,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A raised cosine: alpha - beta cos(2πk / n)."""
    return _window("hamming_window", window_length, periodic, dtype, cosines((alpha, beta)))


@creation(out=False)
def hann_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """A raised cosine, whose ends are 0: (1 - cos(2πk / n)) / 2.

    Parameters
    ----------
    window_length : int
        How many weights.
    periodic : bool
        Whether the window can be continued periodically: n is their number then, else one less.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, dtype, cosines((0.5, 0.5)))


@creation(out=False)
def kaiser_window(
    window_length: Any, periodic: bool = True, beta: float = 12.0, *, dtype: DType | None = None
) -> Tensor:
    """Nearly all of the energy in the main lobe, whose width grows with beta."""
    return _window("kaiser_window", window_length, periodic, dtype, kaiser_of(beta))
