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
    lgamma,
    log1p,
    logit,
    round,
    sigmoid,
    sinc,
    xlogy,
)
from adjoint._creation import _into
from adjoint._numbers import polygamma

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
    zero = (input == 0) & ~(other != other)
    result = _C.where(zero, 0.0, input * log1p(_C.where(zero, 0.0, other)))
    return result if out is None else _into(out, result, "xlog1py")


def entr(input, *, out=None) -> Tensor:
    """``-input * log(input)``: 0 at 0, -inf below it."""
    positive = input > 0
    inside = -_C.xlogy(_C.where(positive, input, 1.0), _C.where(positive, input, 1.0))
    outside = _C.where(input == 0, 0.0, _C.where(input != input, input, float("-inf")))
    result = _C.where(positive, inside, outside)
    return result if out is None else _into(out, result, "entr")


def ndtr(input, *, out=None) -> Tensor:
    """The distribution function of the normal distribution."""
    return _C.mul(erfc(input * -0.7071067811865476), 0.5, out=out)


def ndtri(input, *, out=None) -> Tensor:
    """The inverse of `ndtr`."""
    return _C.mul(erfinv(2 * input - 1), 1.4142135623730951, out=out)


def log_ndtr(input, *, out=None) -> Tensor:
    """``log(ndtr(input))``; accurate where `ndtr` is not vanishingly small."""
    return _C.log(ndtr(input), out=out)
