"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Each is a context manager and a decorator. The state lives in the core, one per thread; an object here only keeps
what to restore. Generators and coroutines suspend in the middle of their body, so a decorated one switches the mode at
every step and leaves the caller's mode alone in between. Start reading at `_Mode`.
"""

from __future__ import annotations

from adjoint._C import (
    _set_grad_enabled,
    _set_inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
)
from adjoint._publish.register import listing, overload
from adjoint._types import Any, F, Self

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
__dir__ = listing(__name__)

# Flags of a code object: what calling the function gives.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


class _Mode:
    """What the modes share: `before` is a linked stack, so that one object can be entered again while it is open."""

    __slots__ = ("before", "mode")
    before: Any
    mode: bool

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # `@no_grad` without parentheses
    def __new__(cls, function: Any = None) -> Any:
        self: Any = object.__new__(cls)
        self.before = None
        # `@no_grad` without parentheses.
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self.before = (_set_grad_enabled(self.mode), self.before)

    def __exit__(self, *exception: Any) -> None:
        mode, self.before = self.before
        _set_grad_enabled(mode)

    def __call__(self, function: F) -> F:
        """Decorate a function, generator, coroutine or class."""
        if isinstance(function, type):
            from warnings import warn

            warn(
                "Decorating classes decorates the constructor alone: only `__init__` runs in the "
                f"mode, not the other methods of {function.__name__}. Decorate the methods that are meant.",
                FutureWarning,
                stacklevel=2,
            )
            if "__init__" in function.__dict__:
                function.__init__ = self._wrap(function.__init__)  # type: ignore[misc]
            return function
        return self._wrap(function)

    def _again(self):
        """A fresh object of the same mode: calls of one function may overlap in several threads."""
        return type(self)()

    def _wrap(self, function):
        from functools import partial, wraps

        again = self._again
        inner = function
        while isinstance(inner, partial):
            inner = inner.func
        flags = getattr(getattr(inner, "__code__", None), "co_flags", 0)

        def generator(*args, **kwargs):
            return (yield from _steps(function(*args, **kwargs), again()))

        async def coroutine(*args, **kwargs):
            return await _Await(function(*args, **kwargs), again())

        async def asynchronous_generator(*args, **kwargs):
            mode, running = again(), function(*args, **kwargs)
            step = running.asend(None)
            while True:
                try:
                    value = await _Await(step, mode)
                except StopAsyncIteration:
                    return
                try:
                    step = running.asend((yield value))
                except GeneratorExit:
                    await _Await(running.aclose(), mode)
                    raise
                except BaseException as error:
                    step = running.athrow(error)

        def plain(*args, **kwargs):
            with again():
                return function(*args, **kwargs)

        kinds = {_GENERATOR: generator, _COROUTINE: coroutine, _ASYNC_GENERATOR: asynchronous_generator}
        wrapper = next((kinds[flag] for flag in kinds if flags & flag), plain)
        return wraps(function)(wrapper)


def _steps(running, mode):
    """Run a generator or coroutine step by step, each step under `mode`."""
    try:
        with mode:
            value = running.send(None)
        while True:
            try:
                sent = yield value
            except GeneratorExit:
                with mode:
                    running.close()
                raise
            except BaseException as error:
                with mode:
                    value = running.throw(error)
            else:
                with mode:
                    value = running.send(sent)
    except StopIteration as stop:
        return stop.value


class _Await:
    """Something awaitable whose steps run under a mode."""

    __slots__ = ("mode", "running")

    def __init__(self, running: Any, mode: Any) -> None:
        self.running = running
        self.mode = mode

    def __await__(self):
        return _steps(self.running, self.mode)


class no_grad(_Mode):
    """Disable recording: results do not require grad, whatever their inputs say. A context manager and a decorator.

    Leaves that are made inside keep the `requires_grad` that they are given.

    Parameters
    ----------
    function : function, optional
        What is decorated, where no parentheses are written.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    >>> @ad.no_grad()
    ... def double(x):
    ...     return x * 2
    >>> double(x).requires_grad
    False
    """

    __slots__ = ()
    mode = False


class enable_grad(_Mode):
    """Enable recording inside of `no_grad`. A context manager and a decorator.

    Parameters
    ----------
    function : function, optional
        What is decorated, where no parentheses are written.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.no_grad():
    ...     with ad.enable_grad():
    ...         y = x * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()
    mode = True


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once, and back at the end when used as a context manager.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.set_grad_enabled(False):
    ...     ad.is_grad_enabled()
    False
    >>> ad.is_grad_enabled()
    True
    """

    __slots__ = ("first", "value")
    first: Any
    value: bool

    def __new__(cls, mode: bool) -> Self:
        self = object.__new__(cls)
        self.value = bool(mode)
        self.before = None
        self.first = (_set_grad_enabled(self.value),)
        return self

    def __enter__(self) -> None:
        # The first entry belongs to the switch that the constructor made.
        first, self.first = self.first, None
        mode = _set_grad_enabled(self.value)
        self.before = (mode if first is None else first[0], self.before)

    def __call__(self, function: F) -> F:
        _set_grad_enabled(self.first[0])
        self.first = None
        return super().__call__(function)

    def _again(self):
        return type(self)(self.value)


class inference_mode(_Mode):
    """Record nothing and mark results as never to be recorded: for code that will not be differentiated.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     y = ad.ones(2) * 2
    >>> y.is_inference()
    True
    """

    __slots__ = ("value",)
    value: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        self: Any = object.__new__(cls)
        self.before = None
        if callable(mode):
            self.value = True
            return self(mode)
        self.value = bool(mode)
        return self

    def __enter__(self) -> None:
        inference = is_inference_mode_enabled()
        _set_inference_mode(self.value)
        self.before = (_set_grad_enabled(not self.value), inference, self.before)

    def __exit__(self, *exception: Any) -> None:
        grad, inference, self.before = self.before
        _set_inference_mode(inference)
        _set_grad_enabled(grad)

    def _again(self):
        return type(self)(self.value)


def __getattr__(name):
    if name == "set_multithreading_enabled":
        from adjoint.autograd._parallel import set_multithreading_enabled

        return set_multithreading_enabled
    raise AttributeError(f"module 'adjoint.autograd.grad_mode' has no attribute {name!r}")
