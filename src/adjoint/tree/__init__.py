"""Nested containers as trees: take the leaves out in order, and build a container of the same structure from others.

    >>> from adjoint import tree
    >>> tree.map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"x": 10, "y": (20, 30)})
    {'x': 11, 'y': (22, 33)}

A *tree* is a leaf, or a container of trees: a tuple, list, dict, OrderedDict, defaultdict, deque or namedtuple, or of a type
that a program registered. Dictionaries keep the order in which they were filled; None is a leaf, and so is whatever has another
type. Transforms take and return trees; they take apart unregistered dataclasses, too.

Why not optree: it has its own compiled walks, 40 times the size of those in core/bind/trees.cpp, and would be a second runtime
dependency of which `func` needs five functions; it knows no dataclasses that are not registered, and its structures print and
compare otherwise than torch's, which programs under `as_torch` read. Start reading at `flatten`; how
types are taken apart is in `_kinds`.
"""

from __future__ import annotations

import builtins
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from adjoint._C import _put_together, _set_tree_forms, _take_apart
from adjoint._publish.register import listing
from adjoint.tree._kinds import (
    LISTED,
    MAPPINGS,
    OWN_TYPES,
    WITH_DATACLASSES,
    Kinds,
    register,
    register_dataclass,
)

__all__ = [
    "TreeSpec",
    "flatten",
    "leaves",
    "map",
    "register",
    "register_dataclass",
    "structure",
    "unflatten",
]
__dir__ = listing(__name__)

# --- the structure of a tree ------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: the type and context of its root, and the structures of its children.

    Parameters
    ----------
    type : type or None
        Of the container, as registered (`collections.namedtuple` for all of these); None for a leaf.
    context : object
        What else the container is built from, such as the keys of a dictionary.
    children_specs : list of TreeSpec

    Attributes
    ----------
    num_nodes, num_leaves, num_children : int
        How many nodes the tree has, leaves included; how many leaves; how many children its root.

    Examples
    --------
    >>> from adjoint import tree
    >>> spec = tree.structure({"a": 1, "b": (2, 3)})
    >>> spec.num_leaves, spec.unflatten("xyz")
    (3, {'a': 'x', 'b': ('y', 'z')})
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves: int = (type is None) + sum(child.num_leaves for child in children_specs)

    @property
    def context(self) -> Any:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is the structure of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves.

        Returns
        -------
        object
        """
        held: Any = leaves if type(leaves) in (list, tuple) else list(leaves)
        if len(held) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(held)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return _put_together(self, held)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree`, which begins with this structure, that stand where this one has leaves.

        Parameters
        ----------
        tree : object
        """
        parts: list[Any] = []
        _take_up_to(self, tree, parts)
        return parts

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.num_children == other.num_children
            and bool(self._context == other._context)
            and all(a == b for a, b in zip(self._children, other._children, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.type, _hashable(self._context), tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        indent += 2
        rest = (",\n" + " " * indent).join([child.__repr__(indent) for child in self._children])
        return f"TreeSpec({self.type.__name__}, {self._context}, [{rest}])"

    # What has slots is copied and pickled by name.
    def __reduce__(self) -> Any:
        return (LeafSpec, ()) if self.type is None else (TreeSpec, (self.type, self._context, self._children))


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


LEAF = LeafSpec()
_set_tree_forms(TreeSpec, LEAF, WITH_DATACLASSES)


def _hashable(context):
    if isinstance(context, (list, tuple)):
        return tuple(_hashable(c) for c in context)
    if isinstance(context, dict):
        return tuple((k, _hashable(v)) for k, v in context.items())
    return context


def _take_up_to(spec, tree, parts):
    if spec.type is None:
        parts.append(tree)
        return
    node = WITH_DATACLASSES[type(tree)]
    kind = None if node is None else node.type
    own = spec.type in OWN_TYPES
    mappings = kind in MAPPINGS and spec.type in MAPPINGS
    if kind is not spec.type and not mappings:
        what = "Node type" if own else "Type"
        raise ValueError(f"{what} mismatch; expected {spec.type!r}, but got {type(tree)!r}.")
    children, context = node.flatten_fn(tree)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if mappings:
        keys = _keys(spec)
        if set(keys) != set(tree):
            missing, extra = {k for k in keys if k not in tree}, {k for k in tree if k not in keys}
            raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.")
        children = [tree[key] for key in keys]
    elif kind is not deque and context != spec._context:
        raise ValueError(
            f"Node context mismatch for {'node' if own else 'custom node'} type {spec.type!r}; expected "
            f"{spec._context!r}, but got {context!r}."
        )
    for child, part in zip(spec._children, children, strict=True):
        _take_up_to(child, part, parts)


def _keys(spec):
    """The keys of a mapping's structure."""
    return spec._context[1] if spec.type is defaultdict else spec._context


def shown(treespec: TreeSpec) -> str:
    """A structure as the tree, with stars for leaves."""

    class Star:
        def __repr__(self) -> str:
            return "*"

    return repr(treespec.unflatten([Star()] * treespec.num_leaves))


# --- apart, together, and functions of leaves -------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its structure.

    Parameters
    ----------
    tree : object
        A leaf, or a container of trees.
    is_leaf : callable, optional
        Asked of each node before its type is looked at; what it says True to is not taken apart.

    Returns
    -------
    leaves : list
    spec : TreeSpec
        For `unflatten`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tree.flatten([1, {"b": None, "a": (2,)}])[0]
    [1, None, 2]
    """
    found: list[Any] = []
    return found, _take_apart(tree, found, LISTED, is_leaf)


def flatten_arguments(tree: Any) -> tuple[list[Any], TreeSpec]:
    """Like `flatten`, and unregistered dataclasses are taken apart too: what transforms do to arguments."""
    found: list[Any] = []
    return found, _take_apart(tree, found, WITH_DATACLASSES, None)


def unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a structure with the leaves given, in order.

    Parameters
    ----------
    leaves : iterable
    treespec : TreeSpec
        What `flatten` or `structure` gave.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        The structure has another number of leaves.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tree.unflatten([5, 6], ad.tree.structure({"x": 0, "y": 0}))
    {'x': 5, 'y': 6}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree in order; arguments like those of `flatten`.

    Parameters
    ----------
    tree : object
    is_leaf : callable, optional

    Returns
    -------
    list

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tree.leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of a tree; arguments like those of `flatten`.

    Parameters
    ----------
    tree : object
    is_leaf : callable, optional

    Returns
    -------
    TreeSpec

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tree.structure([1, (2, 3)]) == ad.tree.structure([4, (5, 6)])
    True
    """
    return flatten(tree, is_leaf)[1]


def map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The tree of what `func` makes of each leaf, and of the parts of other trees in the same place.

    Parameters
    ----------
    func : callable
        Of as many arguments as there are trees.
    tree, *rests : object
        Trees; the others begin with the structure of the first.
    is_leaf : callable, optional
        Like that of `flatten`.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        One of `rests` does not begin with the structure of `tree`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tree.map(lambda x: 2 * x, {"w": ad.ones(2), "b": [3]})
    {'w': tensor([2., 2.]), 'b': [6]}
    """
    found, spec = flatten(tree, is_leaf)
    return spec.unflatten([*builtins.map(func, found, *[spec.flatten_up_to(rest) for rest in rests])])


def spread(tree: Any, spec: TreeSpec, is_leaf: Any = None, kinds: Kinds = LISTED) -> list[Any] | None:
    """The leaves of `tree`, each repeated for all leaves of `spec` below its place; None where the structures disagree.

    ``in_dims=(0, None)`` for arguments ``(x, {"w": …, "b": …})`` gives ``[0, None, None]``.
    """
    node = None if is_leaf is not None and is_leaf(tree) else kinds[type(tree)]
    if node is None:
        return [tree] * spec.num_leaves
    if spec.type is None:
        return None
    if node.type in MAPPINGS and spec.type in MAPPINGS:
        if set(_keys(spec)) != set(tree):
            return None
        children = [tree[key] for key in _keys(spec)]
    else:
        children, context = node.flatten_fn(tree)
        same = len(children) == spec.num_children and (node.type is deque or context == spec._context)
        if node.type is not spec.type or not same:
            return None
    found: list[Any] = []
    for child, below in zip(children, spec._children, strict=True):
        part = spread(child, below, is_leaf, kinds)
        if part is None:
            return None
        found += part
    return found
