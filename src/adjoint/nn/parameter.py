"""`Parameter` and `Buffer`: tensors that a `Module` registers when they are assigned to it, with a size or without one yet."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _C
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint._tensor.copying import set_attributes
from adjoint._types import Device, DType, Self, Shape, Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
__dir__ = listing(__name__)

_make_subclass = ad.Tensor._make_subclass
#: Results of calls with parameters are plain tensors.
_takes_no_part = _C._disabled_torch_function_impl


def _copied(self: Any, memo: Any) -> Any:
    known = memo.get(id(self))
    if known is not None:
        return known
    result = _make_subclass(type(self), self.detach().clone(), self.requires_grad)
    memo[id(self)] = result
    _copy_attributes(self, result, memo)
    return result


def _reduced(self: Any, protocol: Any) -> Any:
    return _rebuild, (_written(self), _plain(self), self.requires_grad, dict(self.__dict__))


class _ParameterType(type(ad.Tensor)):  # type: ignore[misc]
    """The type of `Parameter`: tensors of other classes can be parameters too."""

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, ad.Tensor) and getattr(instance, "_is_param", False)
        )


class Parameter(ad.Tensor, metaclass=_ParameterType):
    """A leaf tensor that is to be learned.

    Assigned to an attribute of a `Module` it appears in ``module.parameters()``. It shares the memory of
    `data` and leaves its graph. Made of a subclass of Tensor with a `__torch_function__`, it is of that class.

    Parameters
    ----------
    data : Tensor, any shape (default: an empty tensor)
    requires_grad : bool
        Whether operations on it are recorded; only floating-point and complex data can require gradients.

    Examples
    --------
    >>> import adjoint as ad
    >>> weight = ad.nn.Parameter(ad.ones(2, 3))
    >>> weight.requires_grad, weight.is_leaf
    (True, True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = ad.empty(0)
        elif not isinstance(data, ad.Tensor):
            raise TypeError(
                f"Parameter: expected data to be a Tensor, but got {type(data).__name__}; use {switches.package}.tensor(data)"
            )
        kind: Any = type(data)
        if kind is ad.Tensor or kind.__torch_function__ is _takes_no_part:
            return _make_subclass(cls, data, requires_grad)
        made = data.detach()
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
                f"instance of the same type, but it returned {type(made).__name__} instead: its __torch_function__ must "
                "give what detach() returns its own type"
            )
        parameter: Any = made.requires_grad_(requires_grad)
        parameter._is_param = True
        return parameter

    __torch_function__ = _takes_no_part
    __deepcopy__, __reduce_ex__ = _copied, _reduced

    def __repr__(self) -> str:
        return "Parameter containing:\n" + _plain_repr(self)


_C._set_parameter_type(Parameter)


class Buffer(ad.Tensor):
    """A tensor that belongs to a module's state but is not learned (running statistics, a mask).

    Assigned to an attribute of a `Module` it appears in ``module.buffers()`` and, when `persistent`, in its
    ``state_dict()``.

    Examples
    --------
    >>> import adjoint as ad
    >>> module = ad.nn.Module()
    >>> module.mean = ad.nn.Buffer(ad.zeros(3))
    >>> [name for name, _ in module.named_buffers()]
    ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = ad.empty(0)
        result = _make_subclass(cls, data, data.requires_grad)
        result.persistent = persistent
        return result

    __torch_function__ = _takes_no_part
    __deepcopy__, __reduce_ex__ = _copied, _reduced

    def __repr__(self) -> str:
        return "Buffer containing:\n" + _plain_repr(self)


class _Uninitialized:
    """A tensor without a size: `materialize` gives it one, and makes it what it is to be."""

    cls_to_become: type
    device: Any
    dtype: Any

    #: What can be asked before there is a size: torch's list, and `requires_grad_`.
    _allowed = frozenset(
        getattr(ad.Tensor, name)
        for name in "size copy_ is_complex is_floating_point half float double char short int long cpu to requires_grad_".split()
    )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Attributes come as the __get__ of what describes them.
        if func in cls._allowed or type(func).__name__ == "method-wrapper":
            return _takes_no_part(func, types, args, kwargs)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `{ad.Tensor.__module__}.nn.parameter.{cls.__name__}` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling torch functions"
        )

    def materialize(self, shape: Shape, device: Device | None = None, dtype: DType | None = None) -> None:
        """Become a tensor of this shape, its values undefined; device and dtype stay unless they are given."""
        self.data = ad.empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` "
            "when trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the "
            "parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before "
            "calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):  # type: ignore[override]
    """A parameter whose shape is not known yet; see `LazyLinear` and its kin.

    Examples
    --------
    >>> import adjoint as ad
    >>> weight = ad.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, tuple(weight.shape)
    ('Parameter', (2, 3))
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Device | None = None, dtype: DType | None = None
    ) -> Any:
        return _make_subclass(cls, ad.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedBuffer(_Uninitialized, Buffer):  # type: ignore[override]
    """A buffer whose shape is not known yet."""

    persistent: Any

    # Not a plain tensor, as in torch: an object keeps the layout of its class.
    cls_to_become = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Any:
        result = _make_subclass(cls, ad.empty(0, device=device, dtype=dtype), requires_grad)
        result.persistent = persistent
        return result

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype, self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether a tensor has no size yet."""
    return isinstance(param, _Uninitialized)


def _copy_attributes(source, target, memo):
    """What the user hung on the tensor travels with it."""
    if source.__dict__:
        import copy

        target.__dict__.update(copy.deepcopy(source.__dict__, memo))


def _plain(tensor):
    """The same memory as an ordinary tensor without history."""
    return _make_subclass(ad.Tensor, tensor.detach(), False)


def _plain_repr(tensor):
    return repr(_plain(tensor).requires_grad_(tensor.requires_grad))


def _written(tensor):
    """How a pickle names the class: ours by their names, which are the same whether as_torch() was called or not."""
    cls = type(tensor)
    return cls.__name__ if cls is Parameter or cls is Buffer else cls


def _rebuild(cls, data, requires_grad, attributes):
    ours: dict[Any, Any] = {"Parameter": Parameter, "Buffer": Buffer}
    cls = ours.get(cls, cls)
    result = _make_subclass(cls, data, requires_grad)
    set_attributes(result, attributes)
    return result
