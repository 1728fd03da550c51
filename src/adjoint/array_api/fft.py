"""The standard's Fourier transforms."""

from __future__ import annotations

from adjoint import fft as own
from adjoint._publish.register import listing
from adjoint._types import Any, Device, DType, Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
__dir__ = listing(__name__)


def _one(name):
    f = getattr(own, name)

    def transform(x, /, *, n=None, axis=-1, norm="backward"):
        return f(x, n=n, dim=axis, norm=norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"`adjoint.fft.{name}` along an axis."
    return transform


def _several(name):
    f = getattr(own, name)

    def transform(x, /, *, s=None, axes=None, norm="backward"):
        return f(x, s=s, dim=axes, norm=norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"`adjoint.fft.{name}` along axes."
    return transform


fft, ifft, rfft, irfft, hfft, ihfft = (
    _one(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = (_several(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """The frequencies of `fft`."""
    return own.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: Any, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None
) -> Tensor:
    """The frequencies of `rfft`."""
    return own.rfftfreq(n, d, dtype=dtype, device=device)


def _axes(axes):
    return None if axes is None else axes if isinstance(axes, int) else tuple(axes)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Shift the zero frequency to the middle."""
    return own.fftshift(x, _axes(axes))


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The reverse of `fftshift`."""
    return own.ifftshift(x, _axes(axes))
