"""Hooks of optimisers (`StepHooks`, a base of `Optimizer`): around steps, of one or of all, and around saving and loading.

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
        args = (self, *args)  # what hooks see, and what they may replace
        self._in_hooked_step = True  # a step may call that of its base class: the hooks run once
        try:
            for hook in [*_global_optimizer_pre_hooks.values(), *pre.values()]:
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (
                    isinstance(result, tuple) and len(result) == 2 and result[0] and result[0][0] is self
                ):
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a step pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"of which new_args begins with the optimizer, but got {result}."
                    )
                args, kwargs = result
            output = step(*args, **kwargs)
            for hook in [*post.values(), *_global_optimizer_post_hooks.values()]:
                hook(self, args, kwargs)
            return output
        finally:
            self._in_hooked_step = False

    hooked.__name__, hooked.__qualname__, hooked.__doc__ = step.__name__, step.__qualname__, step.__doc__
    hooked.__wrapped__ = step  # type: ignore[attr-defined]
    return hooked


class StepHooks:
    """The hooks of an optimiser."""

    #: Those around saving and loading, by kind; None before the first.
    _state_hooks: dict[str, HookTable] | None = None

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
        """Run ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs).

        `args` is ``(optimizer, …)`` with what `step` was called with.

        Examples
        --------
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.ones(1))
        >>> optimizer = ad.optim.SGD([p])
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("step"))
        >>> optimizer.step()
        step
        """
        return self._own_hooks()[0].add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(optimizer, args, kwargs)`` after each step.

        `args` is ``(optimizer, …)`` with what `step` was called with.

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

    def _own_state_hook(self, name, hook, prepend):
        if self._state_hooks is None:
            self._state_hooks = {}
        return self._state_hooks.setdefault(name, HookTable()).add(hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False):
        """Run ``hook(optimizer)`` before `state_dict`.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))])
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
        >>> state = optimizer.state_dict()
        saving
        """
        return self._own_state_hook("save_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False):
        """Run ``hook(optimizer, state_dict)`` after `state_dict`; it may return another one.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "step": 3})
        >>> optimizer.state_dict()["step"]
        3
        """
        return self._own_state_hook("save_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False):
        """Run ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another one.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))])
        >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: print(sorted(state)))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        ['param_groups', 'state']
        """
        return self._own_state_hook("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False):
        """Run ``hook(optimizer)`` after `load_state_dict`.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))])
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return self._own_state_hook("load_post", hook, prepend)

    def _state_hook_list(self, name):
        return list((self._state_hooks or {}).get(name, {}).values())
