"""The Wishart distribution: sums of the outer products of normal vectors."""

from __future__ import annotations

import math
import warnings

import adjoint as ad
from adjoint._C import Size
from adjoint._publish.arguments import ignores
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.multivariate_normal import CovarianceForms, _half_log_det
from adjoint.linalg import solve_triangular
from adjoint.ops.sampling import _standard_gamma

__all__ = ["Wishart"]


class Wishart(CovarianceForms, ExponentialFamily):
    """The sum of the outer products of `df` normal vectors; of the three forms of their covariance one must be given.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, above n - 1; need not be an integer.
    covariance_matrix : Tensor, optional
        Of shape (…, n, n), positive definite.
    precision_matrix : Tensor, optional
        The inverse of the covariance.
    scale_tril : Tensor, optional
        The lower Cholesky factor of the covariance.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Wishart(ad.tensor(3.0), ad.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _carried = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, matrix = self._one_form(
            covariance_matrix=covariance_matrix, scale_tril=scale_tril, precision_matrix=precision_matrix
        )
        event_shape = matrix.shape[-2:]
        df = df if isinstance(df, ad.Tensor) else ad.tensor(df, dtype=matrix.dtype, device=matrix.device)
        if (df <= event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        batch_shape = ad.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + event_shape))
        if (self.df < event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._set_factor(name, matrix)

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def _n(self):
        return self._event_shape[-1]

    def _degrees(self):
        """df, df - 1, …, along a new last dimension."""
        factor = self._unbroadcasted_scale_tril
        i = ad.arange(self._n, dtype=factor.dtype, device=factor.device)
        return self.df.unsqueeze(-1) - i

    @property
    def _df_matrix(self):
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._df_matrix * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._df_matrix - self._n - 1
        return factor.masked_fill(factor <= 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df_matrix * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    @ignores("max_try_correction", why="no draw has to be made again", warns=False)
    def rsample(self, sample_shape: Shape = Size(), max_try_correction: int | None = None) -> Tensor:
        """Draws by Bartlett's decomposition, a triangular matrix of chi and normal variables.

        `max_try_correction` is accepted as in torch: the factor's diagonal is kept from 0, so that no draw is made again.
        """
        shape = self._extended_shape(sample_shape)
        degrees = self._degrees()
        degrees = degrees.expand(shape[:-1])
        draws = _standard_gamma(degrees / 2)
        diagonal = (2 * draws).clamp(min=ad.finfo(degrees.dtype).tiny).sqrt()
        normal = ad.randn(shape, dtype=degrees.dtype, device=degrees.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (normal + diagonal.diag_embed())
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n, df, factor = self._n, self.df, self._unbroadcasted_scale_tril
        value_factor = ad.linalg.cholesky(value)
        shape = ad.broadcast_shapes(factor.shape, value_factor.shape)
        trace = (
            solve_triangular(factor.expand(shape), value_factor.expand(shape), upper=False)
            .square()
            .sum((-2, -1))
        )
        log_normalizer = df * (n / 2 * math.log(2) + _half_log_det(factor)) + ad.mvlgamma(df / 2, n)
        return (df - n - 1) * _half_log_det(value_factor) - trace / 2 - log_normalizer

    def entropy(self) -> Tensor:
        n, df = self._n, self.df
        half_log_det = _half_log_det(self._unbroadcasted_scale_tril)
        digammas = ad.digamma(self._degrees() / 2).sum(-1)
        return (
            (n + 1) * (n / 2 * math.log(2) + half_log_det)
            + ad.mvlgamma(df / 2, n)
            - (df - n - 1) / 2 * digammas
            + df * n / 2
        )

    @property
    def _mean_carrier_measure(self):
        """Of h(X) = |X|^(-(n + 1) / 2)."""
        log_det = ad.digamma(self._degrees() / 2).sum(-1) + self._n * math.log(2)
        return -(self._n + 1) / 2 * (log_det + 2 * _half_log_det(self._unbroadcasted_scale_tril))

    @property
    def _natural_params(self):
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x, y):
        return x * (-ad.linalg.slogdet(-2 * y).logabsdet + self._n * math.log(2)) + ad.mvlgamma(x, self._n)
