"""What distributions share: parameters of one shape, probabilities and their logarithms, lazy attributes."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._C import Tensor
from adjoint._switches import switches

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Tensors of one shape, from tensors and numbers; numbers take the tensors' dtype and device."""
    if not all(isinstance(v, (Tensor, int, float, complex)) for v in values):
        raise ValueError(
            f"Input arguments must all be instances of Number, {switches.package}.Tensor or objects implementing __torch_function__."
        )
    known = [v for v in values if isinstance(v, Tensor)]
    dtype = next((v.dtype for v in known if v.is_floating_point()), ad.get_default_dtype())
    device = known[0].device if known else None
    tensors = [v if isinstance(v, Tensor) else ad.tensor(v, dtype=dtype, device=device) for v in values]
    return ad.broadcast_tensors(*tensors)


def _standard_normal(shape, dtype, device=None):
    return ad.randn(shape, dtype=dtype, device=device)


def _uniform(shape, like):
    """Uniform draws of the open unit interval: their logarithms, and those of their complements, are finite."""
    return clamp_probs(ad.rand(shape, dtype=like.dtype, device=like.device))


def _softplus(x):
    """log(1 + exp(x)), without overflow and without a threshold."""
    return ad.logaddexp(x, ad.zeros_like(x))


def _xlogy(a, x):
    """a log x, and 0 with derivatives 0 where both are 0, at the edge of a support."""
    a, x = broadcast_all(a, x)
    edge = (a == 0) & (x == 0)
    return a * ad.log(ad.where(edge, ad.ones_like(x), x))


def _xlog1py(a, x):
    """a log(1 + x), and 0 with derivatives 0 where a = 0 and x = -1, at the edge of a support."""
    a, x = broadcast_all(a, x)
    edge = (a == 0) & (x == -1)
    return a * ad.log1p(ad.where(edge, ad.zeros_like(x), x))


def _sum_rightmost(value, dim):
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def clamp_probs(probs):
    """Probabilities a rounding away from 0 and 1, so that their logarithms are finite."""
    eps = ad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits, is_binary=False):
    """Probabilities from logarithms: of odds, or unnormalised along the last dimension."""
    return _C.sigmoid(logits) if is_binary else _C.softmax(logits, -1)


def probs_to_logits(probs, is_binary=False):
    """Logarithms from probabilities: of odds, or as they are."""
    clamped = clamp_probs(probs)
    return _C.log(clamped) - _C.log1p(-clamped) if is_binary else _C.log(clamped)


class lazy_property:
    """A method whose value is computed when first asked for, and kept in its place."""

    def __init__(self, wrapped) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with ad.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The elements of a lower triangle up to a diagonal, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = (i.tolist() for i in _indices(n, diag))
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """A square matrix from the elements of its lower triangle up to a diagonal, row by row."""
    from math import isqrt

    # With D = diag: n (n + 1) / 2 + n D elements, less the corner that a positive D cuts off.
    count, d = vec.shape[-1], diag
    n = (-(1 + 2 * d) + isqrt((1 + 2 * d) ** 2 + 8 * count + 4 * abs(d) * (d + 1))) // 2
    rows, columns = _indices(n, diag)
    if len(rows) != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a square D x D matrix."
        )
    matrix = vec.new_zeros((*vec.shape[:-1], n * n))
    return matrix.index_copy(-1, rows * n + columns, vec).reshape(*vec.shape[:-1], n, n)


def _indices(n, diag):
    return ad.tril_indices(n, n, diag)
