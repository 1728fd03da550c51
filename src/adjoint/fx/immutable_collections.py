"""Immutable lists and dicts, which hold the arguments of nodes, so that the record of users stays right.

Neither is a leaf: `adjoint.tree` goes into them as into lists and dicts.
"""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint import tree
from adjoint._publish.register import listing

__all__ = ["immutable_dict", "immutable_list"]
__dir__ = listing(__name__)


def _fixed(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation: the arguments of a node are replaced as a whole. "
        "Make a changed copy of them and assign it: node.args = new_args, or node.kwargs = new_kwargs"
    )


class immutable_list(list):
    """An immutable list."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = _fixed
    pop = remove = reverse = sort = _fixed

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """An immutable dict."""

    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = setdefault = update = _fixed

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


tree.register(immutable_list, lambda x: (list(x), None), lambda parts, _: immutable_list(parts))
tree.register(
    immutable_dict,
    lambda x: (list(x.values()), tuple(x)),
    lambda parts, keys: immutable_dict(zip(keys, parts, strict=True)),
)
