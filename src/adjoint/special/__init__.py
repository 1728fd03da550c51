"""Special functions under the names of torch.special and scipy.special; most are operators of the core.

Start reading at the names below: what is imported is the operator itself.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import (
    Tensor,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    igamma,
    igammac,
    lgamma,
    log1p,
    logit,
    round,
    sigmoid,
    sinc,
    xlogy,
)
from adjoint._publish import register
from adjoint._publish.arguments import give
from adjoint._publish.register import listing
from adjoint._types import DType, Number
from adjoint.ops.special import mvlgamma as multigammaln
from adjoint.ops.special import polygamma

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
__dir__ = listing(__name__)

expit = sigmoid
gammaln = lgamma
psi = digamma
gammainc = igamma
gammaincc = igammac
modified_bessel_i0 = i0


def logsumexp(input: Tensor, dim: int, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``log(sum(exp(input)))`` along dimensions, without overflow."""
    return _C.logsumexp(input, dim, keepdim, out=out)


def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension."""
    return input.softmax(dim) if dtype is None else input.to(dtype).softmax(dim)


def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """``log(softmax(input))``, computed without overflow."""
    return input.log_softmax(dim) if dtype is None else input.to(dtype).log_softmax(dim)


def xlog1py(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``, and 0 where the input is 0 unless the other is NaN."""
    if any(isinstance(x, complex) or isinstance(x, Tensor) and x.is_complex() for x in (input, other)):
        zero = (input == 0) & ~(other != other)
        return give(out, _C.where(zero, 0.0, input * log1p(_C.where(zero, 0.0, other))), "special.xlog1py")
    return _C._xlog1py(input, other, out=out)


def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-input * log(input)``: 0 at 0, -inf below it."""
    return _C._entr(input, out=out)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The distribution function of the normal distribution."""
    return _C._ndtr(input, out=out)


def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `ndtr`, for elements in [0, 1]."""
    return _C._ndtri(input, out=out)


def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(ndtr(input))``, accurate also where `ndtr` is vanishingly small or indistinguishable from 1.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.special.log_ndtr(ad.tensor([-20.0, 8.0])).tolist()
    [-203.9171600341797, -6.220960424517508e-16]
    """
    return _C._log_ndtr(input, out=out)


# --- Bessel functions and others of one argument ---------------------------------------------------------------------


def _function(name):
    """A row of the core under its name here."""
    row = getattr(_C, "_" + name)

    def function(input, *, out=None) -> Tensor:
        return row(input, out=out)

    function.__name__ = function.__qualname__ = name
    return function


airy_ai = _function("airy_ai")
bessel_j0 = _function("bessel_j0")
bessel_j1 = _function("bessel_j1")
bessel_y0 = _function("bessel_y0")
bessel_y1 = _function("bessel_y1")
erfcx = _function("erfcx")
i0e = _function("i0e")
i1 = _function("i1")
i1e = _function("i1e")
modified_bessel_i1 = i1
modified_bessel_k0 = _function("modified_bessel_k0")
modified_bessel_k1 = _function("modified_bessel_k1")
scaled_modified_bessel_k0 = _function("scaled_modified_bessel_k0")
scaled_modified_bessel_k1 = _function("scaled_modified_bessel_k1")
spherical_bessel_j0 = _function("spherical_bessel_j0")


def zeta(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function: the sum of ``(other + k) ** -input`` over k >= 0; Riemann's for ``other`` = 1.

    It has a derivative by `other` alone.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.special.zeta(ad.tensor(2.0), 1)  # π²/6
    tensor(1.6449)
    """
    return _C._zeta(input, other, out=out)


# --- orthogonal polynomials ------------------------------------------------------------------------------------------


def _polynomial(name, kind, said):
    def polynomial(input, n, *, out=None) -> Tensor:
        return _C._orthogonal_polynomial(input, n, kind, 0, out=out)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = (
        f"{said} of degree `n` at each element: `n` is a whole number or a tensor of them, 0 below degree 0."
    )
    return polynomial


# The numbers are those of the core's `_orthogonal_polynomial`.
chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", 0, "Chebyshev's polynomial of the first kind")
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", 1, "Chebyshev's polynomial of the second kind")
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", 2, "Chebyshev's polynomial of the third kind")
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", 3, "Chebyshev's polynomial of the fourth kind")
shifted_chebyshev_polynomial_t = _polynomial(
    "shifted_chebyshev_polynomial_t", 4, "Chebyshev's polynomial of the first kind at 2 x - 1,"
)
shifted_chebyshev_polynomial_u = _polynomial(
    "shifted_chebyshev_polynomial_u", 5, "Chebyshev's polynomial of the second kind at 2 x - 1,"
)
shifted_chebyshev_polynomial_v = _polynomial(
    "shifted_chebyshev_polynomial_v", 6, "Chebyshev's polynomial of the third kind at 2 x - 1,"
)
shifted_chebyshev_polynomial_w = _polynomial(
    "shifted_chebyshev_polynomial_w", 7, "Chebyshev's polynomial of the fourth kind at 2 x - 1,"
)
hermite_polynomial_h = _polynomial("hermite_polynomial_h", 8, "Hermite's polynomial of physics")
hermite_polynomial_he = _polynomial("hermite_polynomial_he", 9, "Hermite's polynomial of probability")
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", 10, "Laguerre's polynomial")
legendre_polynomial_p = _polynomial("legendre_polynomial_p", 11, "Legendre's polynomial")


register.publish(globals())
