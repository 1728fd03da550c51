"""Distributions of the form ``h(x) exp(θ·t(x) - A(θ))``: their entropy follows from A by differentiation."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Tensor
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with natural parameters θ and a log normaliser A(θ).

    Subclasses give `_natural_params`, `_log_normalizer` and the mean of the logarithm of h, `_mean_carrier_measure`.
    """

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__}._natural_params")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__}._log_normalizer")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self).__name__}._mean_carrier_measure")

    def _normalizer_and_means(self):
        """A(θ), and for each natural parameter θ its derivative, the mean of the statistic that belongs to it."""
        with ad.enable_grad():
            params = self._natural_params
            recorded = any(ad._C._requires_grad_anywhere(p) for p in params)
            leaves = [p if ad._C._requires_grad_anywhere(p) else p.detach().requires_grad_() for p in params]
            normalizer = self._log_normalizer(*leaves)
            means = ad.autograd.grad(normalizer.sum(), leaves, create_graph=recorded)
        return (leaves, normalizer, means) if recorded else (params, normalizer.detach(), means)

    def entropy(self) -> Tensor:
        """A - θ·∇A less the mean of log h (F. Nielsen and R. Nock, 2010)."""
        params, normalizer, means = self._normalizer_and_means()
        result = normalizer - self._mean_carrier_measure
        for p, mean in zip(params, means):
            result = result - _sum_rightmost(p * mean, p.dim() - len(self._batch_shape))
        return result
