"""The normal distribution of vectors. Start reading at `MultivariateNormal`."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _standard_normal, lazy_property
from adjoint.linalg import cholesky, solve_triangular

__all__ = ["MultivariateNormal"]


def _product(matrix, vector):
    """Matrices times vectors, batched."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _half_log_det(factor):
    """Half the logarithm of the determinant of the matrix with this Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _whiten(factor, x):
    """The solutions z of factor z = x, for vectors x."""
    if factor.dim() == 2:  # one factor, many right sides
        n = factor.shape[-1]
        return solve_triangular(factor, x.reshape(-1, n).mT, upper=False).mT.reshape(x.shape)
    return solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1)


def _mahalanobis(factor, x):
    """xᵀ (L Lᵀ)⁻¹ x with L the factor."""
    return _whiten(factor, x).square().sum(-1)


def _inverse_from_factor(factor):
    """The inverse of L Lᵀ."""
    eye = ad.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    inverse = solve_triangular(factor, eye.expand(factor.shape), upper=False)
    return inverse.mT @ inverse


def _factor_of_inverse(precision):
    """The Cholesky factor of the inverse: of P reversed, L Lᵀ; then the inverse of L reversed back is upper triangular."""
    reversed_factor = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    eye = ad.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(reversed_factor, eye.expand(precision.shape), upper=False)


class CovarianceForms:
    """A covariance matrix, its inverse, and its Cholesky factor, of which one is given."""

    _batch_shape: Any

    def _one_form(self, **forms):
        given = [(name, value) for name, value in forms.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, value = given[0]
        if value.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        return name, value

    def _set_factor(self, name, matrix):
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _factor_of_inverse(matrix)

    def _as_batch(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._as_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return self._as_batch(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._as_batch(_inverse_from_factor(self._unbroadcasted_scale_tril))


class MultivariateNormal(CovarianceForms, Distribution):
    """The normal distribution of vectors; of the three forms of the covariance exactly one must be given.

    Parameters
    ----------
    loc : Tensor
        Of shape (…, n): the mean.
    covariance_matrix : Tensor, optional
        Of shape (…, n, n), positive definite.
    precision_matrix : Tensor, optional
        The inverse of the covariance.
    scale_tril : Tensor, optional
        The lower Cholesky factor of the covariance; the other forms are computed from it.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.distributions.MultivariateNormal(ad.zeros(2), scale_tril=ad.tensor([[1.0, 0.0], [1.0, 2.0]]))
    >>> d.covariance_matrix
    tensor([[1., 1.],
            [1., 5.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _carried = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._one_form(
            covariance_matrix=covariance_matrix, scale_tril=scale_tril, precision_matrix=precision_matrix
        )
        batch_shape = ad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        event_shape = loc.shape[-1:]
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        self.loc = loc.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._set_factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        rows = self._unbroadcasted_scale_tril.square().sum(-1)
        return rows.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _product(
            self._unbroadcasted_scale_tril, _standard_normal(shape, self.loc.dtype, self.loc.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        factor = self._unbroadcasted_scale_tril
        distance = _mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - _half_log_det(factor)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1 + math.log(2 * math.pi)) + _half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
