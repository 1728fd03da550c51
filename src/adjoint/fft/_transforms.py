"""The three transforms of which all others are made, as operators: SciPy computes them where it is installed, else NumPy.

Each is linear, over the real numbers, and its reverse rule is its adjoint: the same transform in the other direction, with
the norm at its other end. `norm` is SciPy's: which of the two directions divides by the number of points.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._switches import switches
from adjoint._types import Any
from adjoint.library import primitive

__all__ = ["c2c", "c2r", "r2c"]

#: The norm with which the other direction has the same factor.
OTHER_END = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

#: Elements from which several threads of SciPy's pay.
MANY = 2**16

#: Elements up to which SciPy's loops are called without its choice among backends, which takes longer than the transform.
FEW = 2**12

_library = None


def library():
    """scipy.fft where it is installed, else numpy.fft; and whether it is SciPy's."""
    global _library
    if _library is None:
        try:
            import scipy.fft as module
        except ImportError:
            try:
                import numpy.fft as module
            except ImportError:
                raise ImportError(
                    f"{switches.package}.fft computes its transforms by SciPy or NumPy, and neither is installed: `pip install scipy` (faster) "
                    "or `pip install numpy`"
                ) from None
        _library = module, module.__name__ == "scipy.fft"
    return _library


_loops: Any = None
_from_numpy: Any = None


def _find_loops():
    """SciPy's compiled module, which has no public name; where a release has moved it, its functions are called."""
    global _loops, _from_numpy
    from adjoint import from_numpy as _from_numpy

    try:
        from scipy.fft._pocketfft import pypocketfft as found

        _loops = {"fftn": found.c2c, "ifftn": found.c2c, "rfftn": found.r2c, "irfftn": found.c2r}
    except (ImportError, AttributeError):
        _loops = None


def _run_few(name, x, result, axes, norm, s=None):
    """`_run` by the loops themselves: they take the direction, and 0, 1 or 2 for no factor, 1/√n and 1/n."""
    forward = name[0] != "i"
    factor = 1 if norm == "ortho" else 2 if forward is (norm == "forward") else 0
    last = () if s is None else (s[-1],)
    found = _from_numpy(_loops[name](x.numpy(), axes, *last, forward, factor, None, 1))
    return found if found.dtype is result else found.to(result)


def _run(name, x, result, **options):
    """One of the library's transforms, in the type that the result has."""
    module, scipy = _library or library()
    if _from_numpy is None:
        _find_loops()
    x = x.detach()
    if scipy and _loops and 0 < x.numel() <= FEW and x.is_cpu and 0 not in options.get("s", ()):
        return _run_few(name, x, result, **options)
    if len(options["axes"]) == 1 and options.get("s") != [0]:
        # Of one dimension they know a shorter way.
        name, options["axis"] = name.removesuffix("n"), options.pop("axes")[0]
        if "s" in options:
            (options["n"],) = options.pop("s")
    if scipy and x.numel() >= MANY:
        options["workers"] = _C.get_num_threads()
    if x.is_meta or not x.numel() or 0 in options.get("s", ()):
        # Nothing to transform: the library is not asked.
        return None
    found = getattr(module, name)((x if x.is_cpu else x.cpu()).numpy(), **options)
    made = _from_numpy(found)
    return made if made.dtype is result and x.is_cpu else made.to(x.device, result)


_REAL = {_C.complex64: _C.float32, _C.complex128: _C.float64}
_COMPLEX = {real: complex for complex, real in _REAL.items()}


def _need(x, types, name):
    if x.dtype not in types:
        raise RuntimeError(
            f"Unsupported dtype {x.type().rpartition('.')[2].removesuffix('Tensor')} in {name}"
        )


@primitive(
    "_fft_c2c(self: Tensor, dims: Dims, norm: str, inverse: bool) -> Tensor",
    linear="self",
    vjp=lambda g, dims, norm, inverse: c2c(g, dims, OTHER_END[norm], not inverse),
    samples=[
        "(5,), [0], 'backward', False",
        "(3, 4), [1, 0], 'ortho', True",
        "(2, 3, 4), [-2], 'forward', False",
        "(0, 3), [1], 'backward', True",
        "(3, 4), [], 'backward', True",
    ],
    types=(_C.float32, _C.float64, _C.complex64, _C.complex128),
)
def c2c(self, dims, norm, inverse):
    """The discrete Fourier transform along dimensions: sums of x[n] exp(∓2πi kn/N), of complex or real numbers."""
    _need(self, (*_REAL, *_COMPLEX), "fft")
    dtype = _COMPLEX.get(self.dtype, self.dtype)
    found = (
        _run("ifftn" if inverse else "fftn", self, dtype, axes=dims, norm=norm)
        if dims
        else self.to(dtype, copy=True)
    )
    return self.new_empty(self.shape, dtype=dtype) if found is None else found


def _weighted(x, dim, n, inside):
    """x times `inside`, but for the first of a half spectrum and, where n is even, the last: they stand for one each."""
    size = x.shape[dim]
    weight = x.new_full((size,), inside, dtype=_REAL[x.dtype])
    weight[:1] = 1
    if n % 2 == 0:
        weight[size - 1 :] = 1
    shape = [1] * x.ndim
    shape[dim] = size
    return x * weight.view(shape)


@primitive(
    "_fft_r2c(self: Tensor, dims: Dims, norm: str, inverse: bool) -> Tensor",
    linear="self",
    vjp=lambda g, dims, norm, inverse, self_shape: c2r(
        _weighted(g, dims[-1], self_shape[dims[-1]], 0.5),
        dims,
        OTHER_END[norm],
        not inverse,
        self_shape[dims[-1]],
    ),
    samples=[
        "(5,), [0], 'backward', False",
        "(3, 4), [1, 0], 'ortho', True",
        "(2, 3, 4), [0, -2], 'forward', False",
        "(0, 3), [1], 'backward', True",
        "(2, 1), [1], 'backward', False",
    ],
    types=(_C.float32, _C.float64),
)
def r2c(self, dims, norm, inverse):
    """The transform of real numbers, of which the last dimension keeps the first half: the rest is its conjugate."""
    _need(self, _COMPLEX, "rfft")
    dtype = _COMPLEX[self.dtype]
    found = _run("rfftn", self, dtype, axes=dims, norm=OTHER_END[norm] if inverse else norm)
    if found is None:
        shape = list(self.shape)
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
        return self.new_empty(shape, dtype=dtype)
    return found.conj_physical_() if inverse else found


@primitive(
    "_fft_c2r(self: Tensor, dims: Dims, norm: str, inverse: bool, last: int) -> Tensor",
    linear="self",
    vjp=lambda g, dims, norm, inverse, last: _weighted(
        r2c(g, dims, OTHER_END[norm], not inverse), dims[-1], last, 2.0
    ),
    samples=[
        "(5,), [0], 'backward', True, 8",
        "(3, 4), [0, 1], 'ortho', False, 7",
        "(2, 3, 4), [0, -2], 'forward', True, 5",
        "(0, 3), [1], 'backward', True, 4",
        "(2, 1), [1], 'backward', False, 1",
    ],
    types=(_C.complex64, _C.complex128),
)
def c2r(self, dims, norm, inverse, last):
    """The real result, `last` long in the last dimension, of which this is the half spectrum."""
    _need(self, _REAL, "irfft")
    sizes = [self.shape[d] for d in dims]
    sizes[-1] = last
    if self.shape[dims[-1]] != last // 2 + 1:
        raise RuntimeError(
            f"irfft: {last} points have a half spectrum of {last // 2 + 1}, but dimension {dims[-1]} of {list(self.shape)} is given"
        )
    dtype = _REAL[self.dtype]
    if not inverse:
        self, norm = self.conj(), OTHER_END[norm]
    found = _run("irfftn", self, dtype, s=sizes, axes=dims, norm=norm)
    if found is None:
        shape = list(self.shape)
        shape[dims[-1]] = last
        return self.new_empty(shape, dtype=dtype)
    return found
