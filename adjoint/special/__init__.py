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


def polygamma(n, input) -> Tensor:
    """The n-th derivative of `digamma`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.special.polygamma(1, ad.tensor(1.0))  # π²/6
    tensor(1.6449)
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, but got {n}")
    return digamma(input) if n == 0 else _C._polygamma(input, n)


def xlog1py(input, other) -> Tensor:
    """``input * log1p(other)``, and 0 where the input is 0 unless the other is NaN."""
    zero = (input == 0) & ~(other != other)
    return _C.where(zero, 0.0, input * log1p(_C.where(zero, 0.0, other)))


def entr(input) -> Tensor:
    """``-input * log(input)``: 0 at 0, -inf below it."""
    positive = input > 0
    inside = -_C.xlogy(_C.where(positive, input, 1.0), _C.where(positive, input, 1.0))
    outside = _C.where(input == 0, 0.0, _C.where(input != input, input, float("-inf")))
    return _C.where(positive, inside, outside)


def ndtr(input) -> Tensor:
    """The distribution function of the normal distribution."""
    return 0.5 * erfc(input * -0.7071067811865476)


def ndtri(input) -> Tensor:
    """The inverse of `ndtr`."""
    return 1.4142135623730951 * erfinv(2 * input - 1)


def log_ndtr(input) -> Tensor:
    """``log(ndtr(input))``; accurate where `ndtr` is not vanishingly small."""
    return ndtr(input).log()
