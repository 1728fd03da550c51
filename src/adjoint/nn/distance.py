"""Angles and distances between vectors: `cosine_similarity`, `pairwise_distance`, `pdist`, and the layers of the first two."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish import register
from adjoint._types import Tensor

from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; each norm counts as at least `eps`.

    Parameters
    ----------
    x1, x2 : Tensor, shapes that broadcast
    dim : int, the dimension along which the vectors lie; it vanishes
    eps : float
    """
    dtype = ad.result_type(x1, x2)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {dtype}")
    if x1.dtype is not dtype or x2.dtype is not dtype:
        x1, x2 = x1.to(dtype), x2.to(dtype)
    if x1.shape != x2.shape:
        x1, x2 = ad.broadcast_tensors(x1, x2)
    norms = [ad.linalg.vector_norm(x, 2.0, dim, True).clamp(min=eps) for x in (x1, x2)]
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
    return ad.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (0, 1), (0, 2), …, (1, 2), ….

    Parameters
    ----------
    input : Tensor, shape (rows, features)
    p : float, at least 0

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.pdist(ad.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])).tolist()
    [5.0, 4.0, 3.0]
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = ad.triu_indices(input.shape[0], input.shape[0], 1)
    differences = input[first] - input[second]
    if input.shape[1] == 0:
        return differences.sum(-1)
    return ad.linalg.vector_norm(differences, p, -1)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`; each norm counts as at least `eps`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ad.nn.functional.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ad.nn.functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


register.publish(globals())
