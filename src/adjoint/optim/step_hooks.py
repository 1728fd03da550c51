"""Hooks around the steps of optimisers: of one (`StepHooks`, a base of `Optimizer`) or of all.

A step without hooks tests one attribute, ``_hooks``, and goes straight through.
"""

from __future__ import annotations

from adjoint._types import Any, Callable

from ..utils.hooks import HookTable

__all__ = ["StepHooks", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]


class _GlobalTable(HookTable):
    """Hooks of the steps of all optimisers; once the last is taken out, steps go straight through again."""

    __slots__ = ()

    def pop(self, key: Any, default: Any = None) -> Any:
        entry = super().pop(key, default)
        if not (_global_optimizer_pre_hooks or _global_optimizer_post_hooks):
            StepHooks._hooks = None
        return entry


_global_optimizer_pre_hooks = _GlobalTable()
_global_optimizer_post_hooks = _GlobalTable()


def _on_all(table, hook):
    # What an optimiser without hooks of its own has from now on: none.
    StepHooks._hooks = HookTable(), HookTable()
    return table.add(hook)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> Any:
    """Run ``hook(optimizer, args, kwargs)`` before each step of any optimiser, and before its own hooks."""
    return _on_all(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> Any:
    """Run ``hook(optimizer, args, kwargs)`` after each step of any optimiser, and after its own hooks.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.optim.optimizer import register_optimizer_step_post_hook
    >>> handle = register_optimizer_step_post_hook(lambda o, args, kwargs: print(type(o).__name__))
    >>> ad.optim.Adam([ad.nn.Parameter(ad.ones(1))]).step()
    Adam
    >>> handle.remove()
    """
    return _on_all(_global_optimizer_post_hooks, hook)


def _with_hooks(step):
    """The step of a class between the hooks of the instance; without hooks it goes straight through."""

    def hooked(self, *args, **kwargs):
        if not self._stepped:
            self._stepped = True
        if self._hooks is None or self._in_hooked_step:
            return step(self, *args, **kwargs)
        pre, post = self._hooks[0], self._hooks[1]
        self._in_hooked_step = True  # a step may call that of its base class: the hooks run once
        try:
            for hook in [*_global_optimizer_pre_hooks.values(), *pre.values()]:
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a step pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {result}."
                    )
                args, kwargs = result
            output = step(self, *args, **kwargs)
            for hook in [*post.values(), *_global_optimizer_post_hooks.values()]:
                hook(self, args, kwargs)
            return output
        finally:
            self._in_hooked_step = False

    hooked.__name__, hooked.__qualname__, hooked.__doc__ = step.__name__, step.__qualname__, step.__doc__
    hooked.__wrapped__ = step  # type: ignore[attr-defined]
    return hooked


class StepHooks:
    """What an optimiser has of hooks around its steps."""

    #: None, or two empty tables while there are hooks of all optimisers.
    _hooks: tuple[HookTable, HookTable] | None = None
    _in_hooked_step = False
    # Schedulers look at this to warn when they step first.
    _stepped = False
    # What a program had put instead of `step` when the last schedule began.
    _step_known = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            kind: Any = cls
            kind.step = _with_hooks(cls.__dict__["step"])

    def _own_hooks(self):
        return self.__dict__.setdefault("_hooks", (HookTable(), HookTable()))

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return self._own_hooks()[0].add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(optimizer, args, kwargs)`` after each step.

        Examples
        --------
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.ones(1))
        >>> p.grad = ad.ones(1)
        >>> optimizer = ad.optim.SGD([p], lr=0.5)
        >>> handle = optimizer.register_step_post_hook(lambda o, args, kwargs: print(p.item()))
        >>> optimizer.step()
        0.5
        """
        return self._own_hooks()[1].add(hook)
