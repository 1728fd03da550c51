"""Transforms into sets of matrices: Cholesky factors, positive definite matrices, factors of correlation matrices."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._transform import Transform
from adjoint.distributions.utils import _softplus, tril_matrix_to_vec, vec_to_tril_matrix


class LowerCholeskyTransform(Transform):
    """Square matrices as Cholesky factors: the lower triangle, with the exponential of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other):
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices as positive definite ones: L Lᵀ with L from `LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other):
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(ad.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 real numbers as Cholesky factors of D by D correlation matrices.

    The numbers' tanh are partial correlations; each row breaks a stick of squared length 1 (the Stan reference manual).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = ad.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        r = r + ad.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * _shifted(left)

    def _inverse(self, y):
        left = _shifted(1 - y.square().cumsum(-1))
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return t.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1) if y.shape[-1] > 2 else 0
        return rows + 2 * (math.log(2.0) - x - _softplus(-2 * x)).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        n = _at_least(1, shape)[-1]
        d = (1 + math.isqrt(1 + 8 * n)) // 2
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], d, d)

    def inverse_shape(self, shape: Shape) -> Shape:
        if _at_least(2, shape)[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _shifted(x):
    """With a first column of ones, without the last column."""
    return ad.cat([ad.ones_like(x[..., :1]), x[..., :-1]], -1)


def _at_least(dims, shape):
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return Size(shape)
