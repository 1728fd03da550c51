"""Draws whose parameters are tensors: gamma, Dirichlet, Poisson, binomial. Start reading at `poisson`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._register import overload
from adjoint.ops.shape import broadcast_tensors


def _need(x, name, argument):
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(x).__name__}")
    return x


@overload(method=False)
def poisson(input, generator=None) -> Tensor:
    """Draws from Poisson distributions of the given rates, in the dtype of the rates.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.poisson(ad.zeros(2))
    tensor([0., 0.])
    """
    return _C._sample_poisson(_need(input, "poisson", "input"), *_C._reserve(input.numel(), generator))


@overload(method=False)
def binomial(count, prob, generator=None) -> Tensor:
    """Draws of how many of `count` trials succeed, each with probability `prob`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.binomial(ad.tensor([3.0, 5.0]), ad.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    _need(count, "binomial", "count")
    _need(prob, "binomial", "prob")
    count, prob = broadcast_tensors(count, prob)
    return _C._sample_binomial(count, prob, *_C._reserve(count.numel(), generator))


@overload(method=False)
def _standard_gamma(input, generator=None) -> Tensor:
    """Draws from Gamma(input, 1), with pathwise derivatives by implicit reparameterisation (Figurnov et al., 2018)."""
    return _C._sample_gamma(_need(input, "_standard_gamma", "input"), *_C._reserve(input.numel(), generator))


@overload(method=False)
def _sample_dirichlet(input, generator=None) -> Tensor:
    """Draws from Dirichlet(input) along the last dimension: gamma draws over their sum, whose derivatives they take."""
    draws = _standard_gamma(input, generator)
    return draws / draws.sum(-1, keepdim=True)
