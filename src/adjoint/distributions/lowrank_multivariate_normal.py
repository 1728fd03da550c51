"""The normal distribution of vectors whose covariance is a diagonal matrix plus one of low rank."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.multivariate_normal import _half_log_det, _mahalanobis, _product
from adjoint.distributions.utils import _standard_normal, lazy_property
from adjoint.linalg import cholesky, solve_triangular

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Covariance W Wᵀ + diag(d): the work grows with the rank, by the matrix determinant lemma and Woodbury's identity.

    Parameters
    ----------
    loc : Tensor
        Of shape (…, n): the mean.
    cov_factor : Tensor
        W, of shape (…, n, rank).
    cov_diag : Tensor
        d, of shape (…, n), positive.

    Examples
    --------
    >>> import adjoint as ad
    >>> ones = ad.ones(2)
    >>> ad.distributions.LowRankMultivariateNormal(ad.zeros(2), ones[:, None], ones).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _carried = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = ad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = cholesky(_capacitance(cov_factor, cov_diag))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        rows = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return rows.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        w = self._unbroadcasted_cov_factor
        return self._as_batch(w @ w.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def scale_tril(self) -> Tensor:
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        d = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2)
        a = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._as_batch(d.reciprocal().diag_embed() - a.mT @ a)

    def _as_batch(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        w, d = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        few = _standard_normal(shape[:-1] + w.shape[-1:], self.loc.dtype, self.loc.device)
        return (
            self.loc + _product(w, few) + d.sqrt() * _standard_normal(shape, self.loc.dtype, self.loc.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        w, d = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = _low_rank_mahalanobis(w, d, value - self.loc, self._capacitance_tril)
        log_det = _low_rank_log_det(d, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> Tensor:
        log_det = _low_rank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        entropy = 0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + log_det)
        return entropy.expand(self._batch_shape)


def _capacitance(w, d):
    """I + Wᵀ D⁻¹ W."""
    small = w.mT / d.unsqueeze(-2) @ w
    return small + ad.eye(w.shape[-1], dtype=w.dtype, device=w.device)


def _low_rank_log_det(d, capacitance_tril):
    """log det(W Wᵀ + D)."""
    return 2 * _half_log_det(capacitance_tril) + d.log().sum(-1)


def _low_rank_mahalanobis(w, d, x, capacitance_tril):
    """xᵀ (W Wᵀ + D)⁻¹ x."""
    scaled = x / d
    return (x * scaled).sum(-1) - _mahalanobis(capacitance_tril, _product(w.mT, scaled))
