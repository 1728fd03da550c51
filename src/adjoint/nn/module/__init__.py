"""`Module`, the base of every layer and model: registration, traversal, calling, repr.

Start with ``Module.__setattr__`` (an assigned parameter, buffer or module is registered) and
``Module.__call__`` (straight to ``forward`` when there are no hooks). The members are in three plain dicts,
``_parameters``, ``_buffers`` and ``_modules``, and nowhere else: a program may edit or replace them. They are read by
``__getattr__``, which `ModuleMembers` brings from the core, where its speed is explained. The rest is in files of its
own: walks in `traversal`, hooks in `hooks` and `global_hooks`, saving and loading in `state_dict`, dtypes and devices in `conversion`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._C import ModuleMembers, _read_members_directly
from adjoint._moved import Constants
from adjoint._switches import switches
from adjoint._types import Any, Callable, Self
from adjoint.nn.parameter import Buffer, Parameter
from adjoint.utils.hooks import HookTable

from . import global_hooks
from .compiling import Compiling
from .conversion import Conversion
from .global_hooks import *  # noqa: F403
from .global_hooks import replaced
from .hooks import Hookable, call_with_hooks
from .locate import PLAIN, locate
from .naming import check_new_name, indent, type_name
from .state_dict import StateDict
from .traversal import Traversal

TYPE_CHECKING = False

__all__ = ["Module"]
__all__ += global_hooks.__all__

# The hooks of all modules: see `global_hooks`, which finds them here.
_global_forward_pre_hooks, _global_forward_hooks, _global_backward_pre_hooks, _global_backward_hooks = (
    table() for table in global_hooks.CALL_TABLES.values()
)
_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called = HookTable(), HookTable()
_global_buffer_registration_hooks, _global_module_registration_hooks = HookTable(), HookTable()
_global_parameter_registration_hooks = HookTable()
_global_is_full_backward_hook: bool | None = None

_REGISTRIES = ("_parameters", "_buffers", "_modules")


def _own_registry(module, which, kind="parameter"):
    registry = module.__dict__.get(which)
    if registry is None:
        raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
    return registry


def _replaced(kind, module, name, value):
    table = globals()[f"_global_{kind}_registration_hooks"]
    return replaced(table, module, name, value) if table else value


class Module(Traversal, Conversion, StateDict, Hookable, Compiling, ModuleMembers):
    """Base class of all layers and models.

    A subclass calls ``super().__init__()``, assigns parameters and submodules to attributes, and defines
    ``forward``. Calling the module calls ``forward`` between its hooks.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode; see `train` and `eval`.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Affine(ad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = ad.nn.Parameter(ad.tensor(2.0))
    ...         self.register_buffer("shift", ad.tensor(1.0))
    ...
    ...     def forward(self, x):
    ...         return self.scale * x + self.shift
    >>> model = Affine()
    >>> model(ad.tensor(3.0)).item()
    7.0
    >>> list(model.state_dict())
    ['scale', 'shift']
    """

    # What is evaluated when a program runs names builtins only: libraries ask for the hints of layers with names of their own.
    training: bool
    _non_persistent_buffers_set: set[str]
    if TYPE_CHECKING:
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, ad.Tensor | None]
        #: A module, or None where one was registered as that.
        _modules: dict[str, Any]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "_call_impl" in vars(cls) and "__call__" not in vars(cls):
            cls.__call__ = lambda self, *args, **kwargs: self._call_impl(*args, **kwargs)  # type: ignore[method-assign]
        _read_members_directly(cls)

    __constants__ = Constants()

    #: Whether ``Module.__init__`` calls that of the next class in the order of inheritance, with its arguments.
    call_super_init = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {what}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass overrides it.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Tanh().forward(ad.zeros(2))
        tensor([0., 0.])
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return call_with_hooks(self, args, kwargs)
        except Exception as error:
            if type(error) in PLAIN:
                locate(error, self, args)
            raise

    #: What a call does; a subclass's own is called in its place (`__init_subclass__`).
    _call_impl = __call__

    def _slow_forward(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    # ---- registration ---------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ad.Tensor) and isinstance(value, Parameter):
            _own_registry(self, "_parameters", "parameters")
            self._forget(name, but="_parameters")
            self.__dict__.pop(name, None)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            registry = _own_registry(self, "_modules", "module")
            self._forget(name, but="_modules")
            self.__dict__.pop(name, None)
            registry[name] = _replaced("module", self, name, value)
        else:
            own = self.__dict__
            if name in own.get("_parameters", ()):
                self._check_none(name, value, "as parameter", "nn.Parameter")
                self.register_parameter(name, value)
            elif name in own.get("_buffers", ()):
                if not isinstance(value, ad.Tensor):
                    self._check_none(name, value, "as buffer", "nn.Buffer", "Tensor")
                default = name not in self._non_persistent_buffers_set
                self._assign_buffer(name, value, getattr(value, "persistent", default))
            elif name in own.get("_modules", ()):
                self._check_none(name, value, "as child module", "nn.Module")
                own["_modules"][name] = _replaced("module", self, name, value)
            elif isinstance(value, Buffer):
                _own_registry(self, "_buffers", "buffer")
                self._assign_buffer(name, value, value.persistent)
            else:
                object.__setattr__(self, name, value)

    @staticmethod
    def _check_none(name, value, role, *expected):
        if value is not None:
            kinds = ", ".join(f"{switches.package}.{kind}" for kind in expected)
            raise TypeError(f"cannot assign '{type_name(value)}' {role} '{name}' ({kinds} or None expected)")

    def _assign_buffer(self, name, value, persistent):
        # Legacy subclasses override register_buffer without the last parameter: every buffer is persistent there.
        if persistent:
            self.register_buffer(name, value)
        else:
            self.register_buffer(name, value, persistent=False)

    def _forget(self, name, but=None):
        """Remove `name` from every registry but one: a name means one thing."""
        for which in _REGISTRIES:
            if which != but and name in self.__dict__.get(which, ()):
                del _own_registry(self, which)[name]
                self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for which in _REGISTRIES:
            if name in self.__dict__.get(which, ()):
                self._forget(name)
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (or None, which reserves the name).

        Raises
        ------
        KeyError
            The name is empty, contains a dot, or is taken.
        TypeError
            `param` is neither a `Parameter` nor None.
        ValueError
            `param` is not a leaf.

        Examples
        --------
        >>> import adjoint as ad
        >>> module = ad.nn.Module()
        >>> module.register_parameter("scale", ad.nn.Parameter(ad.ones(1)))
        >>> list(module.state_dict())
        ['scale']
        """
        registry = _own_registry(self, "_parameters", "parameter")
        check_new_name(self, registry, name, "parameter")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type_name(param)}' object to parameter '{name}' ({switches.package}.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}': a parameter has no history. To make "
                    f"'{name}' a function of other tensors, compute it in forward()."
                )
            param = _replaced("parameter", self, name, param)
        registry[name] = param

    def register_buffer(self, name: str, tensor: ad.Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not learned; only persistent buffers enter `state_dict`.

        Raises
        ------
        KeyError
            The name is empty, contains a dot, or is taken.
        TypeError
            `tensor` is neither a Tensor nor None.

        Examples
        --------
        >>> import adjoint as ad
        >>> module = ad.nn.Module()
        >>> module.register_buffer("mean", ad.zeros(2))
        >>> module.mean
        tensor([0., 0.])
        """
        registry = _own_registry(self, "_buffers", "buffer")
        check_new_name(self, registry, name, "buffer")
        if tensor is not None and not isinstance(tensor, ad.Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' ({switches.package}.Tensor or None required)"
            )
        registry[name] = tensor if tensor is None else _replaced("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`.

        Raises
        ------
        KeyError
            The name is empty, contains a dot, or is taken.
        TypeError
            `module` is neither a Module nor None.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential()
        >>> model.add_module("last", ad.nn.Tanh())
        >>> model
        Sequential(
          (last): Tanh()
        )
        """
        registry = _own_registry(self, "_modules", "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        check_new_name(self, registry, name, "module")
        registry[name] = module if module is None else _replaced("module", self, name, module)

    register_module = add_module

    # ---- modes and gradients --------------------------------------------------------------------------

    def apply(self, fn: Callable[..., Any]) -> Self:
        """Call ``fn(module)`` for every descendant, children first, then for this module; return it.

        Examples
        --------
        >>> import adjoint as ad
        >>> def clear(module):
        ...     if isinstance(module, ad.nn.Linear):
        ...         ad.nn.init.zeros_(module.bias)
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU()).apply(clear)
        >>> model[0].bias.sum().item()
        0.0
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode (or, with ``mode=False``, evaluation mode) here and below; return the module.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Dropout().eval().train().training
        True
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: `Dropout` passes its input through. Same as ``train(False)``.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Dropout().eval()(ad.ones(2))
        tensor([1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze (False) or thaw (True) every parameter; return the module.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1).requires_grad_(False)
        >>> layer(ad.ones(2)).requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or with ``set_to_none=False`` fill them with zeros.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> layer(ad.ones(2)).backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif grad.grad_fn is not None:
                parameter.grad = ad.zeros_like(grad)
            else:
                grad.requires_grad_(False)
                grad.zero_()

    # ---- pickling and printing -------------------------------------------------------------------------

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def _replicate_for_data_parallel(self):
        """Another module with the same children, buffers and attributes, to which parameters can be given."""
        replica = self.__new__(type(self))
        replica.__dict__.update(self.__dict__)
        replica.__dict__.update(_parameters={}, _buffers={**self._buffers}, _modules={**self._modules})
        replica._is_replica = True
        return replica

    def __dir__(self) -> list[str]:
        members = {name for which in _REGISTRIES for name in self.__dict__.get(which, ())}
        return sorted(name for name in {*object.__dir__(self), *members} if name.isidentifier())

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """What repr shows between the parentheses; subclasses override it.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).extra_repr()
        'in_features=2, out_features=1, bias=True'
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        lines = extra_lines + children
        if len(extra_lines) == 1 and not children:
            return f"{self._get_name()}({extra_lines[0]})"
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


_read_members_directly(Module)
