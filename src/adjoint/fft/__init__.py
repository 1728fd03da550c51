"""Discrete Fourier transforms, with torch.fft's names and conventions; derivatives of all orders, forward mode and vmap.

SciPy computes them where it is installed, else NumPy; float32 stays float32 (with NumPy before 2.0 it takes the way by
float64). Along a dimension of n points

    fft:  X[k] = Σ x[m] exp(-2πi mk/n)        ifft:  x[m] = 1/n Σ X[k] exp(2πi mk/n)

`norm` says which direction divides: "backward" (the default) that of the inverse, "forward" the other, "ortho" each by √n.
The functions below bring arguments into the form of the three operators in `_transforms`. Start reading at `fft`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.arguments import dimension, give, need_tensors
from adjoint._publish.register import listing
from adjoint._tensor.creation import arange
from adjoint._tensor.creation_keywords import creation
from adjoint._types import Dims, DType, Sequence
from adjoint.fft._transforms import c2c, c2r, r2c

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
__dir__ = listing(__name__)

_LAST_TWO = (-2, -1)

# --- along one dimension -------------------------------------------------------------------------------------------------


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The discrete Fourier transform along a dimension.

    Parameters
    ----------
    input : Tensor
        Real or complex; integers count as the default type.
    n : int, optional
        How many points: the dimension is cut, or continued by zeros, to that length.
    dim : int
        The dimension.
    norm : {"backward", "forward", "ortho"}, optional
        Which direction divides by the number of points: see `adjoint.fft`.
    out : Tensor, optional
        Where the result goes.

    Raises
    ------
    RuntimeError
        For no points at all, or a type other than float32, float64 and their complex ones.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.fft(ad.tensor([1.0, 2.0, 3.0, 4.0])).real
    tensor([10., -2., -2., -2.])
    """
    return _complex("fft", input, n, dim, norm, False, out)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `fft`."""
    return _complex("ifft", input, n, dim, norm, True, out)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fft` of real input: the first n // 2 + 1 values; the others are their conjugates.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.rfft(ad.ones(4)).real
    tensor([4., 0., 0.])
    """
    return _to_half("rfft", input, n, dim, norm, False, out)


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`ifft` of real numbers: its first n // 2 + 1 values. The inverse of `hfft`."""
    return _to_half("ihfft", input, n, dim, norm, True, out)


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `rfft`: n real numbers; without n, an even number of them."""
    return _from_half("irfft", input, n, dim, norm, True, out)


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fft` of a Hermitian signal, given by its first half: the result is real."""
    return _from_half("hfft", input, n, dim, norm, False, out)


def _complex(name, input, n, dim, norm, inverse, out):
    x = _checked(name, input, norm, n=n, dim=dim)
    dim = dimension(dim, x.ndim, False)
    x = _resized(x, [dim], [n])
    return _given(out, c2c(x, [dim], norm or "backward", inverse), name)


def _to_half(name, input, n, dim, norm, inverse, out):
    x = _real(name, _checked(name, input, norm, n=n, dim=dim))
    dim = dimension(dim, x.ndim, False)
    x = _resized(x, [dim], [n])
    return _given(out, r2c(x, [dim], norm or "backward", inverse), name)


def _from_half(name, input, n, dim, norm, inverse, out):
    x = _checked(name, input, norm, n=n, dim=dim)
    dim = dimension(dim, x.ndim, False)
    n = 2 * (x.shape[dim] - 1) if n is None else n
    return _given(out, _half_to_real(x, [dim], [n], norm, inverse), name)


# --- along several -------------------------------------------------------------------------------------------------------


def fftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The discrete Fourier transform along several dimensions: all, or the last ``len(s)``.

    Parameters
    ----------
    input : Tensor
        Real or complex; integers count as the default type.
    s : tuple of int, optional
        The number of points in each dimension; -1 for those that there are.
    dim : tuple of int, optional
        The dimensions.
    norm : {"backward", "forward", "ortho"}, optional
        Which direction divides by the number of points: see `adjoint.fft`.
    out : Tensor, optional
        Where the result goes.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.fftn(ad.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _complex_n("fftn", input, s, dim, norm, False, out)


def ifftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fftn`."""
    return _complex_n("ifftn", input, s, dim, norm, True, out)


def rfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` of real numbers: of the last dimension the first half."""
    return _to_half_n("rfftn", input, s, dim, norm, False, out)


def ihfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`ifftn` of real numbers: of the last dimension the first half. The inverse of `hfftn`."""
    return _to_half_n("ihfftn", input, s, dim, norm, True, out)


def irfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfftn`."""
    return _from_half_n("irfftn", input, s, dim, norm, True, out)


def hfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` of a Hermitian signal, given by half of the last dimension: the result is real."""
    return _from_half_n("hfftn", input, s, dim, norm, False, out)


def _complex_n(name, input, s, dim, norm, inverse, out):
    x = _checked(name, input, norm)
    dims, sizes = _several(name, x, s, dim)
    return _given(out, c2c(_resized(x, dims, sizes), dims, norm or "backward", inverse), name)


def _to_half_n(name, input, s, dim, norm, inverse, out):
    x = _real(name, _checked(name, input, norm))
    dims, sizes = _several(name, x, s, dim, least=1)
    return _given(out, r2c(_resized(x, dims, sizes), dims, norm or "backward", inverse), name)


def _from_half_n(name, input, s, dim, norm, inverse, out):
    x = _checked(name, input, norm)
    dims, sizes = _several(name, x, s, dim, least=1)
    if sizes[-1] is None:
        sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
    return _given(out, _half_to_real(x, dims, sizes, norm, inverse), name)


def _of_two(function):
    def two(input, s=None, dim=_LAST_TWO, norm=None, *, out=None):
        dim = _LAST_TWO if dim is None else dim
        return function(input, s, dim, norm, out=out)

    two.__name__ = two.__qualname__ = function.__name__[:-1] + "2"
    two.__doc__ = f"`{function.__name__}` along two dimensions, the last ones unless `dim` names others."
    two.__annotations__ = {"return": Tensor}
    return two


fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(_of_two, (fftn, ifftn, rfftn, irfftn, hfftn, ihfftn))


# --- arguments -----------------------------------------------------------------------------------------------------------


def _checked(name, input, norm, **numbers):
    """The input in a type that has a transform; numbers are ints."""
    if not isinstance(input, Tensor):
        need_tensors(f"fft_{name}", input=input)
    for argument, value in numbers.items():
        if (
            value is not None
            and type(value) is not int
            and (isinstance(value, (bool, float)) or not hasattr(value, "__index__"))
        ):
            raise TypeError(f"fft_{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if input.dtype in (_C.float16, _C.bfloat16):
        raise RuntimeError(
            f"Unsupported dtype {'Half' if input.dtype is _C.float16 else 'BFloat16'}: {name} computes in float32 or float64"
        )
    return input if input.is_floating_point() or input.is_complex() else input.to(_C.get_default_dtype())


def _real(name, x):
    if x.is_complex():
        kind = "real-valued" if name in ("rfftn", "ihfftn") else "real"
        kinds = {_C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble"}
        raise RuntimeError(f"{name} expects a {kind} input tensor, but got {kinds[x.dtype]}")
    return x


def _several(name, x, s, dim, least=0):
    """The dimensions, counted from the front, and the sizes asked for: None where those are that there are."""
    s = (s,) if hasattr(s, "__index__") else s
    dim = (dim,) if hasattr(dim, "__index__") else dim
    if dim is None:
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
            )
        dims = [*range(0 if s is None else x.ndim - len(s), x.ndim)]
    else:
        if s is not None and len(s) != len(dim):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        dims = [dimension(d, x.ndim, False) for d in dim]
        if len({*dims}) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if len(dims) < least:
        raise RuntimeError(f"{name} must transform at least one axis")
    return dims, [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)


def _resized(x, dims, sizes):
    """The input cut, or continued by zeros, to so many points along dimensions; refused where that leaves none."""
    for d, n in zip(dims, sizes):
        n = x.shape[d] if n is None else n
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < x.shape[d]:
            x = x.narrow(d, 0, n)
        elif n > x.shape[d]:
            x = _C.constant_pad_nd(x, [0, 0] * (x.ndim - 1 - d) + [0, n - x.shape[d]])
    return x


def _half_to_real(x, dims, sizes, norm, inverse):
    n = sizes[-1]
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    x = _resized(x, dims, [*sizes[:-1], n // 2 + 1])
    if not x.is_complex():
        x = x.to(_C.complex128 if x.dtype is _C.float64 else _C.complex64)
    return c2r(x, dims, norm or "backward", inverse, n)


def _given(out, result, name):
    if out is not None and out.is_complex() != result.is_complex():
        kind = "complex" if result.is_complex() else "floating point"
        found = out.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {found}")
    return give(out, result, f"fft_{name}", 5)


# --- frequencies ---------------------------------------------------------------------------------------------------------


def _frequencies(name, n, first, count, d, dtype):
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    numbers = arange(count, dtype=dtype or _C.get_default_dtype())
    if first:
        numbers[-first:] -= n
    return numbers * (1.0 / (n * d) if n * d else float("inf"))


@creation
def fftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None) -> Tensor:
    """The frequencies of `fft` for n points at a distance of `d`: 0, 1, … and the negative ones, over n d.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies("fftfreq", n, n // 2, n, d, dtype)


@creation
def rfftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None) -> Tensor:
    """The frequencies of `rfft` for n points at a distance of `d`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies("rfftfreq", n, 0, n // 2 + 1, d, dtype)


def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The result of `fftn` with the frequency zero in the middle of each dimension.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.fft.fftshift(ad.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fftshift", input, dim, lambda n: n // 2)


def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, lambda n: (n + 1) // 2)


def _shifted(name, input, dim, by):
    need_tensors(f"fft_{name}", input=input)
    dims = range(input.ndim) if dim is None else (dim,) if hasattr(dim, "__index__") else dim
    dims = [dimension(d, input.ndim, False) for d in dims]
    return _C.roll(input, [by(input.shape[d]) for d in dims], dims) if dims else input.clone()


register.publish(globals())
