"""Special functions under the names of torch.special and scipy.special; most are operators of the core.

Start reading at the names below: what is imported is the operator itself.
"""

from __future__ import annotations

from adjoint import _C, _register
from adjoint._C import (
    Tensor,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    lgamma,
    log1p,
    logit,
    round,
    sigmoid,
    sinc,
    xlogy,
)
from adjoint.ops.special import polygamma

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]

expit = sigmoid
gammaln = lgamma
psi = digamma


def logsumexp(input, dim, keepdim=False, *, out=None) -> Tensor:
    """``log(sum(exp(input)))`` along dimensions, without overflow."""
    return _C.logsumexp(input, dim, keepdim, out=out)


def softmax(input, dim, *, dtype=None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension."""
    return input.softmax(dim) if dtype is None else input.to(dtype).softmax(dim)


def log_softmax(input, dim, *, dtype=None) -> Tensor:
    """``log(softmax(input))``, computed without overflow."""
    return input.log_softmax(dim) if dtype is None else input.to(dtype).log_softmax(dim)


def xlog1py(input, other, *, out=None) -> Tensor:
    """``input * log1p(other)``, and 0 where the input is 0 unless the other is NaN."""
    if any(isinstance(x, complex) or isinstance(x, Tensor) and x.is_complex() for x in (input, other)):
        zero = (input == 0) & ~(other != other)
        return _C.where(zero, 0.0, input * log1p(_C.where(zero, 0.0, other)))
    return _C._xlog1py(input, other, out=out)


def entr(input, *, out=None) -> Tensor:
    """``-input * log(input)``: 0 at 0, -inf below it."""
    return _C._entr(input, out=out)


def ndtr(input, *, out=None) -> Tensor:
    """The distribution function of the normal distribution."""
    return _C._ndtr(input, out=out)


def ndtri(input, *, out=None) -> Tensor:
    """The inverse of `ndtr`, for elements in [0, 1]."""
    return _C._ndtri(input, out=out)


def log_ndtr(input, *, out=None) -> Tensor:
    """``log(ndtr(input))``, accurate also where `ndtr` is vanishingly small or indistinguishable from 1.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.special.log_ndtr(ad.tensor([-20.0, 8.0])).tolist()
    [-203.9171600341797, -6.220960424517508e-16]
    """
    return _C._log_ndtr(input, out=out)


_register.publish(globals())
