"""Backward passes that share what `checkpoint` computes again: see `GraphExecGroup`."""

from __future__ import annotations

import threading

from adjoint._types import Any

__all__ = ["GraphExecGroup"]


class GraphExecGroup:
    """Backward passes that belong together: inside of this context, each part is computed again at most once for all of them.

    The passes go through disjoint parts of the graph, one after the other. Without it every pass computes anew what it needs.

    Raises
    ------
    RuntimeError
        Two passes need the same saved tensor; or another group is open.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import GraphExecGroup, checkpoint
    >>> x = ad.ones(2, requires_grad=True)
    >>> y, z = checkpoint(lambda t: (t.sin(), t.sin().exp()), x, use_reentrant=False)
    >>> with GraphExecGroup():
    ...     z.sum().backward()
    ...     y.sum().backward()
    """

    _open = threading.local()

    def __enter__(self) -> Any:
        if self._get_current_group() is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested: one is open in this thread")
        self._open.group = self
        return self

    def __exit__(self, *exception: Any) -> None:
        self._open.group = None

    @classmethod
    def _get_current_group(cls):
        return getattr(cls._open, "group", None)


#: Instead of a value that a pass of a `GraphExecGroup` has used.
USED = object()
