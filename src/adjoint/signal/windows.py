"""Windows, with torch.signal.windows's names: `M` weights by which a piece of a signal is multiplied before it is transformed.

A symmetric window ends as it begins; ``sym=False`` leaves out the last of M + 1 symmetric weights, so that the window can be
continued periodically. Weights are computed in float64 and rounded once. All functions take ``dtype`` (float32 or float64),
``layout``, ``device`` and ``requires_grad``. Start reading at `window`.
"""

from __future__ import annotations

from math import pi

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.register import listing
from adjoint._tensor.creation import arange
from adjoint._tensor.creation_keywords import creation
from adjoint._types import DType, Sequence

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
__dir__ = listing(__name__)


def _window(name, M, sym, dtype, weights) -> Tensor:
    """``weights(k, n)`` for k = 0, …, n; the last is dropped unless the window is symmetric."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M < 2:
        return _C._full((M,), 1.0, dtype=dtype)
    return places(M, M - 1 if sym else M, weights).to(dtype)


def places(count, n, weights) -> Tensor:
    """The first weights of those of the places 0, …, n."""
    return weights(arange(count, dtype=_C.float64), n)


# What Python's numbers and tensors of places make of it.


def triangle(k, n):
    return 1 - (2 * k / n - 1).abs()


def cosines(coefficients):
    """Σ (-1)^i a_i cos(2πik / n)."""

    def weights(k, n):
        return sum((-1) ** i * a * (2 * pi * i / n * k).cos() for i, a in enumerate(coefficients))

    return weights


def kaiser_of(beta):
    """I0(β √(1 - (2k / n - 1)²)) / I0(β), by I0(x) e^-x, which does not overflow; I0 is even."""

    def weights(k, n):
        inside = beta * (1 - (2 * k / n - 1) ** 2).clamp(min=0).sqrt()
        return (
            _C._i0e(inside)
            / _C._i0e(_C._full((), float(beta), dtype=_C.float64))
            * (-(inside - beta).abs()).exp()
        )

    return weights


# --- the windows -----------------------------------------------------------------------------------------------------


@creation(out=False)
def bartlett(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """A triangle, whose ends are 0: 1 - \\|2k / (M - 1) - 1\\|.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, dtype, triangle)


@creation(out=False)
def blackman(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """Three cosines: `general_cosine` with the coefficients 0.42, 0.5 and 0.08."""
    return _window("blackman", M, sym, dtype, cosines((0.42, 0.5, 0.08)))


@creation(out=False)
def cosine(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """Half a period of a sine: sin(π (k + 1/2) / M)."""
    return _window("cosine", M, sym, dtype, lambda k, n: (pi / (M if sym else M + 1) * (k + 0.5)).sin())


@creation(out=False)
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType | None = None
) -> Tensor:
    """Weights that fall off from a centre, the middle unless another is given: exp(-\\|k - center\\| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def weights(k, n):
        return (-(k - (n / 2 if center is None else center)).abs() / tau).exp()

    return _window("exponential", M, sym, dtype, weights)


@creation(out=False)
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """A bell with a standard deviation of `std` places."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, sym, dtype, lambda k, n: (-0.5 * ((k - n / 2) / std) ** 2).exp())


@creation(out=False)
def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: DType | None = None) -> Tensor:
    """A sum of cosines with the coefficients `a`: Σ (-1)^i a_i cos(2πik / (M - 1))."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, sym, dtype, cosines(a))


@creation(out=False)
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """A raised cosine: alpha - (1 - alpha) cos(2πk / (M - 1))."""
    return _window("general_hamming", M, sym, dtype, cosines((alpha, 1 - alpha)))


@creation(out=False)
def hamming(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """`general_hamming` with alpha = 0.54, whose first side lobe is nearly cancelled."""
    return _window("hamming", M, sym, dtype, cosines((0.54, 0.46)))


@creation(out=False)
def hann(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """`general_hamming` with alpha = 0.5, whose ends are 0.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann", M, sym, dtype, cosines((0.5, 0.5)))


@creation(out=False)
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """Nearly all of the energy in the main lobe, whose width grows with beta; by a Bessel function."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, sym, dtype, kaiser_of(beta))


@creation(out=False)
def nuttall(M: int, *, sym: bool = True, dtype: DType | None = None) -> Tensor:
    """Four cosines, with side lobes below -98 dB."""
    return _window("nuttall", M, sym, dtype, cosines((0.3635819, 0.4891775, 0.1365995, 0.0106411)))


register.publish(globals())
