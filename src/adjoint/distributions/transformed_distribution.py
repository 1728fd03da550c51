"""Functions of random variables. Start reading at `TransformedDistribution`; `Derived` is for distributions that are such."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._C import Size
from adjoint._types import Any, Shape, Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.independent import Independent
from adjoint.distributions.transforms import AbsTransform, ComposeTransform, Transform
from adjoint.distributions.utils import _sum_rightmost, broadcast_all

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What a transform, or several in turn, make of a variable: its density is divided by the change of volume.

    Parameters
    ----------
    base_distribution : Distribution
    transforms : Transform or list of Transform

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(ad.tensor(1.0))
    tensor(-0.9189)
    """

    base_dist: Any

    arg_constraints: dict = {}

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms

        # The base's batch becomes as large as the transforms' parameters make it.
        whole = ComposeTransform(transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {base_shape}."
            )
        shape = Size(whole.forward_shape(base_shape))
        expanded = Size(whole.inverse_shape(shape))
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_dims])
        more = whole.domain.event_dim - base_dims
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution

        event_dim = max(
            whole.codomain.event_dim, base_dims + whole.codomain.event_dim - whole.domain.event_dim
        )
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = Size(batch_shape)
        shape = batch_shape + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        super(TransformedDistribution, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with ad.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        event_dim, total, y = len(self.event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            total = total - _sum_rightmost(t.log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _flip(self, probability):
        """For the other tail, where the transforms decrease."""
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        x = value
        for t in reversed(self.transforms):
            x = t.inv(x)
        try:
            self._check(value)
        except ValueError:  # an end of the support, as 0 is where values are positive, has a probability, too
            self.base_dist._validate_sample(x)
        # Not refused: what inverts to a rounding outside of the base's support.
        return self._flip(self.base_dist.cdf(x))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._flip(value)))


class Derived(TransformedDistribution):
    """A distribution with parameters of its own that is made of a simpler one: subclasses say by `_parts` how."""

    def _parts(self):
        """The base and the transforms, from the parameters."""
        raise NotImplementedError

    def _derive(self, validate_args, **parameters):
        for name, value in zip(parameters, broadcast_all(*parameters.values())):
            setattr(self, name, value)
        base, transforms = self._parts()
        TransformedDistribution.__init__(self, base, transforms, validate_args=validate_args)

    def __getattr__(self, name):
        # Libraries make these with a base of their own, by TransformedDistribution.__init__: its parameters are theirs.
        if name in type(self).arg_constraints and "base_dist" in self.__dict__:
            return getattr(self.base_dist, name)
        # Those that are modules as well have parameters and buffers.
        for cls in type(self).__mro__[type(self).__mro__.index(Derived) + 1 :]:
            if "__getattr__" in vars(cls):
                return vars(cls)["__getattr__"](self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def expand(self, batch_shape: Shape, _instance: Any = None):
        if not any(name in self.__dict__ for name in self.arg_constraints):
            own = self._get_checked_instance(Derived, _instance)
            return TransformedDistribution.expand(self, batch_shape, own)
        new, batch_shape = self._expanded(batch_shape, _instance)
        base, transforms = new._parts()
        TransformedDistribution.__init__(new, base, transforms, validate_args=False)
        new._validate_args = self._validate_args
        return new


class Folded(Derived):
    """|X| with X symmetric around 0; subclasses name the distribution of X, which has a scale."""

    def _parts(self):
        return self._base(0, self.scale, validate_args=False), [AbsTransform()]

    @property
    def mode(self) -> Tensor:
        return ad.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        result = self.base_dist.log_prob(value) + math.log(2)
        return ad.where(value >= 0, result, ad.full_like(result, -math.inf))

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
