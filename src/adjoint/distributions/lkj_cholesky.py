"""Cholesky factors of random correlation matrices (Lewandowski, Kurowicka and Joe, 2009)."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.beta import Beta
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors L of correlation matrices, whose density is proportional to det(L Lᵀ)^(concentration - 1).

    Parameters
    ----------
    dim : int
        Of the matrices, at least 2.
    concentration : float or Tensor
        1: all correlation matrices are equally likely; above, those near to the identity are more so.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.LKJCholesky(3, 0.5).sample().shape
    adjoint.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _carried = ("dim",)

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        # The onion method: row i has a direction that is uniform, and a squared length that is a beta variable.
        with ad.no_grad():
            shape = self._extended_shape(sample_shape)
            eta = self.concentration.unsqueeze(-1)
            i = ad.arange(1, self.dim, dtype=eta.dtype, device=eta.device)
            beta = Beta(i / 2, eta + (self.dim - 1 - i) / 2, validate_args=False)
            squares = beta.sample(sample_shape)
            squares = ad.cat([squares.new_zeros(squares.shape[:-1] + (1,)), squares], -1)
            normal = ad.randn(shape, dtype=eta.dtype, device=eta.device).tril(-1)
            length = normal.square().sum(-1, keepdim=True).sqrt().clamp(min=ad.finfo(eta.dtype).tiny)
            diagonal = (1 - squares).clamp(min=ad.finfo(eta.dtype).tiny).sqrt()
            return normal / length * squares.sqrt().unsqueeze(-1) + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self.dim - 1
        eta = self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = 2 * (eta - 1).unsqueeze(-1) + ad.arange(n - 1, -1, -1, dtype=eta.dtype, device=eta.device)
        alpha = eta + 0.5 * n
        normalizer = ad.mvlgamma(alpha - 0.5, n) - n * ad.lgamma(alpha)
        return (order * diagonal.log()).sum(-1) - normalizer - 0.5 * n * math.log(math.pi)
