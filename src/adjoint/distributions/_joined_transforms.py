"""Transforms of parts of a tensor: one after the other along a dimension, or side by side."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Sequence, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._transform import Transform
from adjoint.distributions.utils import _sum_rightmost


class _Joined(Transform):
    """Transforms that act on parts; subclasses say how a tensor is split and put together."""

    _join: Any
    _split: Any

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        tseq = list(tseq)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else tseq
        self.dim = dim

    def _call(self, x):
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x))])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y))])

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)


class CatTransform(_Joined):
    """Transforms of parts that lie one after the other along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int
    lengths : sequence of int, optional
        Of the parts; 1 each if not given.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import AffineTransform, CatTransform, ExpTransform
    >>> CatTransform([ExpTransform(), AffineTransform(0.0, 2.0)], lengths=[1, 2])(ad.tensor([0.0, 1.0, 2.0]))
    tensor([1., 2., 4.])
    """

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.transforms)} transforms")

    @property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        """Of all parts."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x):
        if x.size(self.dim) != self.length:
            raise ValueError(
                f"the parts have {self.length} elements, but dimension {self.dim} has {x.size(self.dim)}"
            )
        return x.split(self.lengths, self.dim)

    def _join(self, parts):
        return ad.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        volumes = []
        for t, before, after in zip(self.transforms, self._split(x), self._split(y)):
            volume = t.log_abs_det_jacobian(before, after)
            volumes.append(_sum_rightmost(volume, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return ad.cat(volumes, dim) if dim < 0 else sum(volumes)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """Transforms of parts that stand side by side along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import AffineTransform, ExpTransform, StackTransform
    >>> StackTransform([ExpTransform(), AffineTransform(0.0, 2.0)])(ad.tensor([[0.0], [3.0]]))
    tensor([[1.],
            [6.]])
    """

    def with_cache(self, cache_size: int = 1):
        return (
            self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
        )

    def _split(self, x):
        if x.size(self.dim) != len(self.transforms):
            raise ValueError(
                f"there are {len(self.transforms)} transforms, but dimension {self.dim} has {x.size(self.dim)}"
            )
        return x.unbind(self.dim)

    def _join(self, parts):
        return ad.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._split(x), self._split(y))
        return self._join([t.log_abs_det_jacobian(before, after) for t, before, after in parts])

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
