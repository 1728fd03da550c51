"""The base of all distributions: shapes, validation, expansion. Start reading at `Distribution`."""

from __future__ import annotations

import warnings

from adjoint import _C
from adjoint._C import Size, Tensor
from adjoint._switches import announce
from adjoint._types import Any, Shape
from adjoint.distributions import constraints
from adjoint.distributions.utils import broadcast_all, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of them.

    Parameters
    ----------
    batch_shape : Size
        The shape of independent, differently parametrised distributions.
    event_shape : Size
        The shape of one draw.
    validate_args : bool, optional
        Whether parameters and values are checked against their constraints; the class-wide default is to check, unless
        Python runs with ``-O``.
    """

    has_rsample: Any = False
    #: Whether `repr` does; not where torch derives parameters from those of another distribution.
    _shows_parameters = True
    has_enumerate_support: Any = False
    #: Attributes besides the parameters that an expanded instance takes over.
    _carried: tuple = ()
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check parameters and values, or do not, where a distribution is not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args expects True or False, but got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Shape = Size(), event_shape: Shape = Size(), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            # What would be computed from the parameters that were given is not checked.
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _set(self, validate_args, event_shape=Size(), **parameters):
        """Take numbers and tensors of any shapes that broadcast as parameters; those that are None were not given."""
        given = {name: value for name, value in parameters.items() if value is not None}
        values = broadcast_all(*given.values())
        for name, value in zip(given, values):
            setattr(self, name, value)
        Distribution.__init__(self, values[0].shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None):
        """The same distribution with parameters expanded to a larger batch, without a copy.

        Parameters
        ----------
        batch_shape : Size

        Returns
        -------
        Distribution
        """
        new, batch_shape = self._expanded(batch_shape, _instance)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expanded(self, batch_shape, instance):
        """A new instance that has the parameters, expanded, and what else is carried over; and the batch shape."""
        own = next(c for c in type(self).__mro__ if c.__module__.startswith("adjoint.distributions"))
        new = self._get_checked_instance(own, instance)
        batch_shape = Size(batch_shape)
        for name, constraint in self._own_parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                event = value.shape[value.dim() - _event_dims(constraint) :]
                setattr(new, name, value.expand(batch_shape + event))
        for name in self._carried:
            setattr(new, name, getattr(self, name))
        return new, batch_shape

    @property
    def _own_parameters(self):
        """The constraints of the attributes that have the batch's dimensions."""
        return self.arg_constraints

    def _check(self, value):
        if self._validate_args:
            self._validate_sample(value)

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters, batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """For each parameter by its name, what it must satisfy."""
        raise NotImplementedError(f"{type(self).__name__}.arg_constraints")

    @property
    def support(self):
        """The set of values that have a density."""
        raise NotImplementedError(f"{type(self).__name__}.support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The mode."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        """Draws, `sample_shape` of them for each of the batch, without a derivative."""
        from adjoint import no_grad

        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        """Draws that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__}.rsample: its draws have no pathwise derivative")

    def sample_n(self, n: int) -> Tensor:
        """n draws."""
        announce("sample_n(n) will be deprecated. Use .sample((n,)) instead.", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The cumulative distribution function: the probability of values up to this one."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile function, the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return _C.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        """The shape of draws."""
        return Size(Size(sample_shape) + self._batch_shape + self._event_shape)

    def _enumerated(self, values, expand):
        """Values along a first dimension, in front of the batch."""
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

    def _validate_sample(self, value):
        """Refuse values of another shape or outside of the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_start = value.dim() - len(self._event_shape)
        if value.shape[event_start:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define "
                "a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self):
        names = [k for k in self.arg_constraints if k in self.__dict__ and self._shows_parameters]
        shown = (
            f"{name}: {self.__dict__[name] if self.__dict__[name].numel() == 1 else self.__dict__[name].size()}"
            for name in names
        )
        return type(self).__name__ + "(" + ", ".join(shown) + ")"


def _event_dims(constraint):
    try:
        return constraint.event_dim
    except NotImplementedError:
        return 0
