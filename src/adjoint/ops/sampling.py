"""Draws whose parameters are tensors: gamma, Dirichlet, Poisson, binomial; and `dropout`.

Tensors of independent draws, and generators, are in `_random`. Start reading at `poisson`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import need_tensors
from adjoint._publish.register import composition
from adjoint._tensor.dtypes import finfo
from adjoint._tensor.random import _as_torch
from adjoint._types import Generator
from adjoint.ops.shape import broadcast_tensors


@composition(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws from Poisson distributions of the given rates, in the dtype of the rates.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.poisson(ad.zeros(2))
    tensor([0., 0.])
    """
    need_tensors("poisson", input=input)
    input = _C._batch_for_draws(input, "poisson")
    return _C._sample_poisson(input, *_stream(input, generator))


@composition(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws of how many of `count` trials succeed, each with probability `prob`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.binomial(ad.tensor([3.0, 5.0]), ad.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    need_tensors("binomial", count=count, prob=prob)
    count, prob = broadcast_tensors(count, prob)
    count = _C._batch_for_draws(count, "binomial")
    return _C._sample_binomial(count, prob, *_stream(count, generator))


@composition(method=False)
def _standard_gamma(input, generator=None) -> Tensor:
    """Draws from Gamma(input, 1), with pathwise derivatives by implicit reparameterisation (Figurnov et al., 2018)."""
    need_tensors("_standard_gamma", input=input)
    input = _C._batch_for_draws(input, "_standard_gamma")
    return _C._sample_gamma(input, *_stream(input, generator))


def _stream(parameters, generator):
    """The part of a generator's numbers that one draw for each element takes, of all samples of a vmap; torch's as they come."""
    if _as_torch(generator):
        return 0, 0, generator or _C._default_generator()
    return _C._reserve(_C._whole(parameters).numel(), generator)


@composition(method=False)
def _sample_dirichlet(input, generator=None) -> Tensor:
    """Draws from Dirichlet(input) along the last dimension: gamma draws over their sum, with pathwise derivatives."""
    if not _as_torch(generator):
        draws = _standard_gamma(input.detach(), generator)
        return _C._dirichlet_draw(input, draws / draws.sum(-1, keepdim=True))
    # In double, as torch does.
    draws = _standard_gamma(input.detach().double(), generator)
    info = finfo(input.dtype)
    shares = (draws / draws.sum(-1, keepdim=True)).to(input.dtype)
    return _C._dirichlet_draw(input, shares.clamp(info.tiny, 1 - info.eps / 2))


@composition
def dropout(input: Tensor, p: float = 0.5, train: bool = True) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p), when `train` is true."""
    from adjoint.nn import functional

    return functional.dropout(input, p, train)
