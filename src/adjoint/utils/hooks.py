"""What every kind of hook shares: the table that holds hooks and the handle that removes one.

A `HookTable` is an ordered dict (id → entry). A `RemovableHandle` knows its table weakly, so that
keeping a handle keeps no module alive, and removing twice is harmless.
"""

from __future__ import annotations

import weakref

from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint._types import Any, Callable, Tensor

__all__ = [
    "ActionTable",
    "HookTable",
    "RemovableHandle",
    "handle_that",
    "unserializable_hook",
    "warn_if_has_hooks",
]
__dir__ = listing(__name__)


class HookTable(dict):
    """Hooks in the order in which they run, keyed by the id of their handle.

    Examples
    --------
    >>> from adjoint.utils.hooks import HookTable
    >>> table = HookTable()
    >>> handle = table.add(print)
    >>> len(table)
    1
    """

    __slots__ = ("__weakref__",)

    def add(self, entry: Any, prepend: bool = False, marks: Any = ()) -> RemovableHandle:
        """Append `entry` (or put it first) and return the handle that removes it.

        Parameters
        ----------
        entry : callable
        prepend : bool
            Whether it runs before those that are there.
        marks : pairs of a table and a bool
            Other tables, from which the entry's number goes with it, and whether each has that number.
        """
        handle = RemovableHandle(self, extra_dict=[table for table, _ in marks])
        for table, marked in marks:
            if marked:
                table[handle.id] = True
        if prepend:
            rest = list(self.items())
            self.clear()
            self[handle.id] = entry
            self.update(rest)
        else:
            self[handle.id] = entry
        return handle


class ActionTable(HookTable):
    """Functions, each of which is called when it is taken out: for hooks that lie elsewhere.

    Examples
    --------
    >>> from adjoint.utils import hooks
    >>> table = hooks.ActionTable()
    >>> len(table)
    0
    """

    __slots__ = ()

    def pop(self, key: Any, default: Any = None) -> Any:
        action = super().pop(key, default)
        if action is not None:
            action()
        return action


def handle_that(remove: Any) -> RemovableHandle:
    """A handle whose `remove` calls a function, once.

    Parameters
    ----------
    remove : callable

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> from adjoint.utils import hooks
    >>> handle = hooks.handle_that(lambda: print("removed"))
    >>> handle.remove()
    removed
    >>> handle.remove()
    """
    table = ActionTable()
    handle = table.add(remove)
    handle.table = table
    return handle


class RemovableHandle:
    """A registered hook's handle: ``handle.remove()`` takes the hook away; also a context manager.

    Parameters
    ----------
    hooks_dict : a table that can be weakly referenced
    extra_dict : kept for interface compatibility: one further table, or a list of them, that shares ids

    Examples
    --------
    >>> from adjoint.utils.hooks import HookTable
    >>> table = HookTable()
    >>> handle = table.add(print)
    >>> handle.remove()
    >>> len(table)
    0
    """

    next_id = 0
    #: What a handle keeps alive itself: the table of a hook that lies elsewhere.
    table: HookTable | None = None

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        tables = [hooks_dict]
        if extra_dict is not None:
            tables += extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._tables = tuple(weakref.ref(table) for table in tables)

    @property
    def hooks_dict_ref(self) -> Any:
        """A weak reference to the table."""
        return self._tables[0]

    @property
    def extra_dict_ref(self) -> Any:
        """Weak references to the further tables."""
        return self._tables[1:]

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in self._tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()

    # A weak reference cannot be pickled: the tables travel, and the copy refers to the copies.
    def __getstate__(self) -> Any:
        return self.id, tuple(reference() for reference in self._tables)

    def __setstate__(self, state: Any) -> None:
        self.id, tables = state
        self._tables = tuple(weakref.ref(HookTable() if table is None else table) for table in tables)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


def unserializable_hook(hook: Callable[..., Any]) -> Any:
    """Decorate a hook of a tensor so that pickling the tensor, which leaves its hooks out, does not warn of it.

    Parameters
    ----------
    hook : callable

    Returns
    -------
    callable
        The hook itself.

    Examples
    --------
    >>> import pickle
    >>> import adjoint as ad
    >>> from adjoint.utils.hooks import unserializable_hook
    >>> x = ad.ones(1, requires_grad=True)
    >>> handle = x.register_hook(unserializable_hook(lambda g: g * 2))
    >>> pickle.loads(pickle.dumps(x))
    tensor([1.], requires_grad=True)
    """
    hook.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return hook


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook of a tensor that its pickle will not have, unless it is an `unserializable_hook`.

    Parameters
    ----------
    tensor : Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.utils.hooks.warn_if_has_hooks(ad.ones(1))
    """
    from warnings import warn

    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, decorate it with "
                f"{switches.package}.utils.hooks.unserializable_hook; else register it again on what is loaded",
                stacklevel=4,
            )
