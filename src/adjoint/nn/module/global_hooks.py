"""Hooks of all modules at once: before and after every call, in every backward pass, and where members are registered.

The tables are names of `module` and not of this file, since that is where programs look them up and put others in
their place. A call finds that there are hooks by `Hookable._hooks`, which is None while there are none, so that calls of
modules without hooks cost what they did. Start reading at `register_module_forward_hook`.
"""

from __future__ import annotations

import sys

from adjoint._types import Any, Callable
from adjoint.utils.hooks import HookTable, RemovableHandle

from .hooks import Hookable, ModuleHooks

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

#: What a module without hooks of its own has while there are hooks of calls of all modules.
_NONE_OF_ITS_OWN = ModuleHooks()


class _CallTable(HookTable):
    """A table of hooks that calls look for: taking out the last one makes calls plain again."""

    __slots__ = ()

    def pop(self, key: Any, default: Any = None) -> Any:
        entry = super().pop(key, default)
        if not any(_holder()[name] for name in CALL_TABLES):
            Hookable._hooks = None
        return entry


def _holder():
    return vars(sys.modules[__package__])


CALL_TABLES = {
    f"_global_{name}_hooks": _CallTable for name in ("forward_pre", "forward", "backward_pre", "backward")
}
#: What `module` has by these names, each time an empty one.
TABLES = CALL_TABLES | dict.fromkeys(
    (
        "_global_forward_hooks_with_kwargs",
        "_global_forward_hooks_always_called",
        "_global_buffer_registration_hooks",
        "_global_module_registration_hooks",
        "_global_parameter_registration_hooks",
    ),
    HookTable,
)


def _table(name) -> HookTable:
    held = _holder()
    if not isinstance(held[name], HookTable):  # put there by a program, which emptied it
        held[name] = TABLES[name](held[name])
    return held[name]


def _on_calls(name, hook, marks=()) -> RemovableHandle:
    handle = _table(name).add(hook, marks=marks)
    Hookable._hooks = _NONE_OF_ITS_OWN
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, args)`` before the call of any module, and before its own hooks.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.module import register_module_forward_pre_hook
    >>> names = []
    >>> handle = register_module_forward_pre_hook(lambda module, args: names.append(type(module).__name__))
    >>> _ = ad.nn.Sequential(ad.nn.Tanh())(ad.ones(1))
    >>> handle.remove()
    >>> names
    ['Sequential', 'Tanh']
    """
    return _on_calls("_global_forward_pre_hooks", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run ``hook(module, args, output)`` after the call of any module; see `Module.register_forward_hook`."""
    marks = (
        (_table("_global_forward_hooks_with_kwargs"), with_kwargs),
        (_table("_global_forward_hooks_always_called"), always_call),
    )
    return _on_calls("_global_forward_hooks", hook, marks)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, grad_output)`` in every module's backward pass; see `Module.register_full_backward_pre_hook`."""
    return _on_calls("_global_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, grad_input, grad_output)`` in every module's backward pass.

    Raises
    ------
    RuntimeError
        There are hooks of `register_module_backward_hook` already.
    """
    return _on_backward(hook, True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The legacy backward hook of every module; see `Module.register_backward_hook`."""
    return _on_backward(hook, False)


def _on_backward(hook, full):
    held = _holder()
    if held["_global_is_full_backward_hook"] is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one "
            "of them."
        )
    held["_global_is_full_backward_hook"] = full
    return _on_calls("_global_backward_hooks", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, name, buffer)`` where any module is given a buffer; what it returns takes the buffer's place."""
    return _table("_global_buffer_registration_hooks").add(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, name, child)`` where any module is given a child; what it returns takes the child's place."""
    return _table("_global_module_registration_hooks").add(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, name, parameter)`` where any module is given one; what it returns takes the parameter's place."""
    return _table("_global_parameter_registration_hooks").add(hook)


def replaced(table, module, name, value):
    """`value`, or what the hooks of `table` put in its place."""
    for hook in list(table.values()):
        result = hook(module, name, value)
        if result is not None:
            value = result
    return value
