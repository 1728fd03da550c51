"""What a transform is, and how transforms are inverted, composed and applied to events of more dimensions."""

from __future__ import annotations

import weakref

from adjoint._types import Any, Sequence, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.utils import _sum_rightmost


class Transform:
    """A function between sets.

    Parameters
    ----------
    cache_size : int
        0, or 1 to keep the last value with its image.

    Attributes
    ----------
    domain, codomain : Constraint
    bijective : bool
        Whether it is one to one.
    sign : int or Tensor
        Of an increasing transform 1, of a decreasing one -1.

    Examples
    --------
    >>> import adjoint as ad
    >>> transform = ad.distributions.ExpTransform()
    >>> transform.inv(transform(ad.tensor(2.0)))
    tensor(2.)
    """

    bijective: Any = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y = None, None
        self._inv: Any = None  # a weak reference: an inverse holds its transform, not the other way round
        super().__init__()

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self):
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse; its inverse is this transform."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self):
        raise NotImplementedError(
            f"{type(self).__name__}.sign: it is not monotonic, or its direction is not known"
        )

    def with_cache(self, cache_size: int = 1):
        """The same transform with a cache, or without.

        Returns
        -------
        Transform
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def __call__(self, x):
        if self._cache_size == 0:
            return self._call(x)
        old, image = self._cached_x_y
        if x is old:
            return image
        image = self._call(x)
        self._cached_x_y = x, image
        return image

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        preimage, old = self._cached_x_y
        if y is old:
            return preimage
        preimage = self._inverse(y)
        self._cached_x_y = preimage, y
        return preimage

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy/dx, for each event."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self):
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the image of values of a shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of the values whose image has a shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, whose cache it shares."""

    _inv: Any

    def __init__(self, transform: Any) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        return self.__dict__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size: int = 1):
        return self if self._cache_size == cache_size else self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def _inv_call(self, y):
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other, the first in the list first.

    Parameters
    ----------
    parts : list of Transform
    """

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return _wider(self.parts, "domain", _dims_before)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return _wider(self.parts[::-1], "codomain", _dims_after)

    @property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self):
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = lambda: self
        return inverse

    def with_cache(self, cache_size: int = 1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:]):
            volume = part.log_abs_det_jacobian(before, after)
            total = total + _sum_rightmost(volume, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


def _dims_before(part, dims):
    """How many dimensions an event has before a part, if it has `dims` after it."""
    return max(part.domain.event_dim, dims + part.domain.event_dim - part.codomain.event_dim)


def _dims_after(part, dims):
    return max(part.codomain.event_dim, dims + part.codomain.event_dim - part.domain.event_dim)


def _wider(parts, side, step):
    """The set at the outer end of a chain (the first part's), with as many event dimensions as the others need."""
    if not parts:
        return constraints.real
    outer, dims = getattr(parts[0], side), 0
    for part in reversed(parts):
        dims = step(part, dims)
    extra = dims - outer.event_dim
    return constraints.independent(outer, extra) if extra else outer


class IndependentTransform(Transform):
    """A transform of events that has more dimensions than the given one, which acts along them independently.

    Parameters
    ----------
    base_transform : Transform
    reinterpreted_batch_ndims : int
    """

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        self._need(x, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        self._need(y, self.codomain.event_dim)
        return self.base_transform.inv(y)

    @staticmethod
    def _need(x, dims):
        if x.dim() < dims:
            raise ValueError("Too few dimensions on input")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)
