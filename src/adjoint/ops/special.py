"""Special functions: derivatives of `digamma`, and the gamma function of several dimensions.

`adjoint.special` publishes more under the names that it has there. Start reading at `polygamma`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, composition, extend
from adjoint._types import Any


@composition(method=False)
def polygamma(n: Any, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of `digamma`; as a method ``input.polygamma(n)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.polygamma(1, ad.tensor(1.0))  # π²/6
    tensor(1.6449)
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, but got {n}")
    if n <= 1:
        return (_C._trigamma if n else _C.digamma)(input, out=out)
    return _C._polygamma(input, n, out=out)


@extend
class Polygamma(Members):
    """As a method, the order comes second."""

    def polygamma(self, n: Any) -> Tensor:
        """The n-th derivative of `digamma`."""
        return self.digamma() if n == 0 else polygamma(n, self)

    def polygamma_(self, n: Any) -> Tensor:
        """`polygamma` in place."""
        if n == 0:
            return self.digamma_()
        recorded = _C._is_differentiated(self)
        return _C._become(self, polygamma(n, self.clone() if recorded else self), "polygamma")


# Of a sum whose length is an argument.
_MOST_TERMS = 2**24


@composition(inplace=True)
def mvlgamma(input: Tensor, p: float, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`.

    ``p (p - 1) / 4 · log π + Σ lgamma(x - i / 2)`` for i from 0 to p - 1, for x > (p - 1) / 2.
    """
    from math import log, pi

    if p < 1:
        raise RuntimeError(f"mvlgamma(): p has to be greater than or equal to 1, but got p={p}")
    if p > _MOST_TERMS:
        raise RuntimeError(f"mvlgamma(): p={p} would add more than {_MOST_TERMS} terms, which is the most")
    dtype = input.dtype if input.is_floating_point() else _C.get_default_dtype()
    terms = _C.lgamma(input.unsqueeze(-1) - _C._arange(0, p, 1, dtype=dtype) / 2).sum(-1)
    return _C.add(terms, p * (p - 1) / 4 * log(pi), out=out)
