"""``torch.overrides``: how types and modes override calls of this package's functions.

A class takes part by a class method ``__torch_function__(cls, func, types, args=(), kwargs=None)``: wherever one of its
instances is an argument, that is called instead. Subclasses of Tensor inherit `Tensor.__torch_function__`, which calls the
function and gives tensors among the results the class. A `TorchFunctionMode` is asked about every call in its thread. Who is
asked, and in which order, is decided in core/bind/overrides.cpp; which functions there are, in `_publish.overridable`. Start reading at
`TorchFunctionMode`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.overridable import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)
from adjoint._publish.register import listing
from adjoint._types import Any, Callable

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]
__dir__ = listing(__name__)

#: Whether one of a sequence of arguments, the argument, or one of the arguments answers calls.
has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic
_get_overloaded_args = _C._get_overloaded_args
_disabled_torch_function_impl = _C._disabled_torch_function_impl


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Dispatch ``public_api(*args, **kwargs)`` to the overrides of `relevant_args`.

    For functions that are to be overridable and are not of this package; those ask `has_torch_function` first.

    Raises
    ------
    TypeError
        Each that was asked returned NotImplemented.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.overrides import handle_torch_function, has_torch_function
    >>> def twice(x):
    ...     if has_torch_function((x,)):
    ...         return handle_torch_function(twice, (x,), x)
    ...     return x + x
    >>> class Name:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> twice(Name()), twice(1)
    ('twice', 2)
    """
    return _C._handle_torch_function(public_api, tuple(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Any) -> Any:
    """Make a function overridable: a decorator.

    Parameters
    ----------
    dispatcher : callable
        Given the function's arguments, those of them that may answer.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.overrides.wrap_torch_function(lambda x: (x,))
    ... def twice(x):
    ...     return x + x
    >>> twice(2)
    4
    """

    def decorate(function):
        @wraps(function)
        def wrapped(*args, **kwargs):
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Call a function without dispatching this call to overrides; the calls that it makes are dispatched.

    With ``Tensor.__torch_function__`` a function is a whole; with this, a class or mode sees what it is composed of.
    """
    return _C._redispatch_function(func, types, args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor, or implements the protocol."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set:
    """The functions whose results `Tensor.__torch_function__` leaves as they are: they give tensors that there are."""
    return _C._torch_function_nowrap()


def _refuse(function, types, mode):
    """No override handled the call."""
    name = resolve_name(function) or f"{function.__module__}.{getattr(function, '__qualname__', function)}"
    asked = f"types that implement __torch_function__: {[*types]}"
    if mode is not None:
        asked += f", nor in mode {mode}"
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: "
        f"no implementation found for '{name}' on {asked}"
    )


# --- the protocol off ------------------------------------------------------------------------------------------------


class _WithState:
    _before: Any
    _state: int

    def __enter__(self) -> Any:
        before = _C._torch_function_state()
        vars(self).setdefault("_before", []).append(before)
        _C._set_torch_function_state(max(before, self._state))

    def __exit__(self, *exception: Any) -> None:
        _C._set_torch_function_state(self._before.pop())


class DisableTorchFunctionSubclass(_WithState):
    """A context in which overrides of types are disabled; modes are not.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Mine(ad.Tensor):
    ...     pass
    >>> x = ad.ones(2).as_subclass(Mine)
    >>> with ad.overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    _state = 1


class DisableTorchFunction(_WithState):
    """A context without overrides: neither types nor modes are consulted."""

    _state = 2


@contextmanager
def _enable_torch_function():
    before = _C._set_torch_function_state(0)
    try:
        yield
    finally:
        _C._set_torch_function_state(before)


# --- modes -----------------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A context whose `__torch_function__` handles every call in its thread, whatever the arguments.

    Modes nest: the innermost is asked first, before any type, and what it calls goes to the one around it; where it returns
    NotImplemented, the types of arguments are asked. A mode can be entered several times, and is left wherever it stands.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Log(ad.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     x = ad.zeros(2) + 1
    zeros
    add
    """

    inner: TorchFunctionMode

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """What ``func(*args, **kwargs)`` gives.

        Parameters
        ----------
        func : callable
            A function, a method of Tensor, or the ``__get__`` or ``__set__`` of an attribute.
        types : tuple of types
            Those of the arguments that take part by the protocol.
        args : tuple
        kwargs : dict
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        if not _C._remove_torch_function_mode(self):
            raise RuntimeError(
                f"the mode {type(self).__name__} is not open in this thread: it is left for the second time, or in another "
                "thread than it was entered in"
            )

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The old way to make one."""
        from warnings import warn

        warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing: every call runs as it is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


_push_mode = _C._push_torch_function_mode
_pop_mode = _C._pop_torch_function_mode


def _get_current_function_mode():
    """The innermost mode of this thread, or None."""
    modes = _C._torch_function_modes()
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list:
    """The modes of this thread, the innermost last."""
    return [*_C._torch_function_modes()]


def _len_torch_function_stack() -> int:
    return len(_C._torch_function_modes())


def _get_function_stack_at(index):
    return _C._torch_function_modes()[index]


def _is_torch_function_mode_enabled() -> bool:
    return _C._torch_function_state() != DisableTorchFunction._state and bool(_C._torch_function_modes())


def _is_torch_function_enabled() -> bool:
    return _C._torch_function_state() == 0


@contextmanager
def _pop_mode_temporarily():
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def enable_reentrant_dispatch() -> Any:
    """A context for programs that recorded below an operator; here nothing is closed there, and it changes nothing."""
    yield
