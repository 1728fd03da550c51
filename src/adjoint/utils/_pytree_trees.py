"""The forms of trees, and what walks through trees: `TreeSpec`, `tree_flatten`, `tree_map`. See `_pytree`, which publishes it.

Start reading at `tree_flatten`.
"""

from __future__ import annotations

import types
from collections import defaultdict, deque
from typing import Any

from adjoint._C import _put_together, _set_tree_forms, _take_apart
from adjoint.utils._pytree_nodes import (
    LISTED,
    MAPPINGS,
    OWN_TYPES,
    WITH_DATACLASSES,
    Context,
    PyTree,
)

# --- the form of a tree -----------------------------------------------------------------------------------------------


class TreeSpec:
    """The form of a tree: the type and context of its root, and the forms of its children.

    Attributes
    ----------
    type : type or None
        Of the container, as registered (`collections.namedtuple` for all of these); None for a leaf.
    context
        What else the container is built from, such as the keys of a dictionary.
    num_nodes, num_leaves, num_children : int
        How many nodes the tree has, leaves included; how many leaves; how many children its root.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_structure
    >>> spec = tree_structure({"a": 1, "b": (2, 3)})
    >>> spec.num_leaves, spec.unflatten("xyz")
    (3, {'a': 'x', 'b': ('y', 'z')})
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: Any) -> None:
        self.type = type
        self._context = context
        self._children = children_specs
        self.num_children = count = len(children_specs)
        nodes, leaves = 1, type is None
        for child in children_specs:
            if child is _LEAF:
                continue
            count -= 1
            nodes += child.num_nodes
            leaves += child.num_leaves
        # Most children are leaves, of one form.
        self.num_nodes, self.num_leaves = nodes + count, leaves + count

    @property
    def context(self) -> Context:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        """The forms of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The form of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is the form of a leaf."""
        return self.type is None

    def unflatten(self, leaves) -> PyTree:
        """The tree of this form with these leaves."""
        leaves = leaves if type(leaves) in (list, tuple) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return _put_together(self, leaves)

    def flatten_up_to(self, tree: PyTree) -> list:
        """The parts of `tree`, which begins with this form, that stand where this form has leaves."""
        parts: list = []
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
    """The form of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


PyTreeSpec = TreeSpec
_LEAF: LeafSpec = LeafSpec()
_set_tree_forms(TreeSpec, _LEAF, WITH_DATACLASSES)


def _hashable(context):
    if isinstance(context, (list, tuple)):
        return tuple(_hashable(c) for c in context)
    if isinstance(context, dict):
        return tuple((k, _hashable(v)) for k, v in context.items())
    return context


def treespec_leaf() -> LeafSpec:
    """The form of a leaf."""
    return _LEAF


def treespec_tuple(iterable=(), /) -> TreeSpec:
    """The form of a tuple whose children have the forms given."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs) -> TreeSpec:
    """The form of a dict whose values have the forms given."""
    entries = dict(mapping, **kwargs)
    return TreeSpec(dict, list(entries), list(entries.values()))


# --- apart and together -----------------------------------------------------------------------------------------------


def tree_flatten(tree: PyTree, is_leaf=None) -> tuple[list, TreeSpec]:
    """The leaves of a tree in order, and its form.

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
        For `tree_unflatten`.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_flatten
    >>> tree_flatten([1, {"b": None, "a": (2,)}])[0]
    [1, None, 2]
    """
    leaves: list = []
    return leaves, _take_apart(tree, leaves, LISTED, is_leaf)


def flatten_arguments(tree: PyTree) -> tuple[list, TreeSpec]:
    """As `tree_flatten`, and dataclasses that nobody registered are taken apart too: what transforms do to arguments."""
    leaves: list = []
    return leaves, _take_apart(tree, leaves, WITH_DATACLASSES, None)


def tree_unflatten(leaves, treespec: TreeSpec) -> PyTree:
    """The tree of a form with the leaves given, in order.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_structure, tree_unflatten
    >>> tree_unflatten([5, 6], tree_structure({"x": 0, "y": 0}))
    {'x': 5, 'y': 6}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def _take_up_to(spec, tree, parts):
    if spec.type is None:
        parts.append(tree)
        return
    definition = WITH_DATACLASSES[type(tree)]
    kind = None if definition is None else definition.type
    own = spec.type in OWN_TYPES
    mappings = kind in MAPPINGS and spec.type in MAPPINGS
    if kind is not spec.type and not mappings:
        what = "Node type" if own else "Type"
        raise ValueError(f"{what} mismatch; expected {spec.type!r}, but got {type(tree)!r}.")
    if mappings:
        children, context = None, None
        count = len(tree)
    else:
        children, context = definition.flatten_fn(tree)  # type: ignore[union-attr]
        count = len(children)
    if count != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {count}.")
    if mappings:
        children = _values(tree, spec._context[1] if spec.type is defaultdict else spec._context)
    elif kind is not deque and context != spec._context:
        raise ValueError(
            f"Node context mismatch for {'node' if own else 'custom node'} type {spec.type!r}; expected "
            f"{spec._context!r}, but got {context!r}."
        )
    for child, part in zip(spec._children, children, strict=True):
        _take_up_to(child, part, parts)


def _values(mapping, keys):
    if any(key not in mapping for key in keys):
        missing = {key for key in keys if key not in mapping}
        extra = {key for key in mapping if key not in keys}
        raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.")
    return [mapping[key] for key in keys]


def tree_is_leaf(tree: PyTree, is_leaf=None) -> bool:
    """Whether a tree is a leaf: nothing that is taken apart.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_is_leaf
    >>> tree_is_leaf(None), tree_is_leaf([])
    (True, False)
    """
    return LISTED[type(tree)] is None or (is_leaf is not None and bool(is_leaf(tree)))


_is_leaf = tree_is_leaf


def tree_iter(tree: PyTree, is_leaf=None):
    """The leaves of a tree one by one."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in LISTED[type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf=None) -> list:
    """The leaves of a tree.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_leaves
    >>> tree_leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list:
    """The leaves of all arguments, those by keyword last."""
    return tree_leaves((*args, *kwargs.values()))


def tree_structure(tree: PyTree, is_leaf=None) -> TreeSpec:
    """The form of a tree."""
    return tree_flatten(tree, is_leaf)[1]


# --- functions of leaves ----------------------------------------------------------------------------------------------


def tree_map(func, tree: PyTree, *rests: PyTree, is_leaf=None) -> PyTree:
    """The tree of what `func` makes of each leaf, and of the parts of other trees in the same place.

    Parameters
    ----------
    func : callable
        Of as many arguments as there are trees.
    tree, *rests : object
        Trees; the others begin with the form of the first.
    is_leaf : callable, optional
        As for `tree_flatten`.

    Raises
    ------
    ValueError
        One of `rests` does not begin with the form of `tree`.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"x": 10, "y": (20, 30)})
    {'x': 11, 'y': (22, 33)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([*map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests])])


def tree_map_(func, tree: PyTree, *rests: PyTree, is_leaf=None) -> PyTree:
    """Call `func` as `tree_map` does, for what it does to the leaves; return `tree`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]), maxlen=0)
    return tree


def _predicate(type_or_types_or_pred):
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred, /):
    """A decorator: the function for what is of these types or fulfils the predicate, and anything else as it is."""
    chosen = _predicate(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if chosen(x) else x


def tree_map_only(type_or_types_or_pred, /, func, tree: PyTree, is_leaf=None) -> PyTree:
    """As `tree_map`, for the leaves of some types, or that a predicate chooses; the others stay.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_map_only
    >>> tree_map_only(int, lambda n: n + 1, [1, "a", 2.5])
    [2, 'a', 2.5]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree: PyTree, is_leaf=None) -> PyTree:
    """As `tree_map_`, for the leaves that `tree_map_only` would take."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree: PyTree, is_leaf=None) -> bool:
    """Whether `pred` is true of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree: PyTree, is_leaf=None) -> bool:
    """Whether `pred` is true of some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree: PyTree, is_leaf=None) -> bool:
    """Whether `pred` is true of all leaves of some types."""
    chosen = _predicate(type_or_types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


def tree_any_only(type_or_types, /, pred, tree: PyTree, is_leaf=None) -> bool:
    """Whether `pred` is true of some leaf of some types."""
    chosen = _predicate(type_or_types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


def broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf=None, kinds=LISTED):
    """The leaves of `tree`, each repeated for all leaves of `treespec` below its place; None where the forms disagree.

    ``in_dims=(0, None)`` for arguments ``(x, {"w": …, "b": …})`` gives ``[0, None, None]``.
    """
    if treespec.type is None:
        return [tree] if kinds[type(tree)] is None or (is_leaf is not None and is_leaf(tree)) else None
    definition = kinds[type(tree)]
    if definition is None or (is_leaf is not None and is_leaf(tree)):
        return [tree] * treespec.num_leaves
    if definition.type in MAPPINGS and treespec.type in MAPPINGS:
        keys = treespec._context[1] if treespec.type is defaultdict else treespec._context
        if set(keys) != set(tree):
            return None
        children = [tree[key] for key in keys]
    else:
        children, context = definition.flatten_fn(tree)
        same = len(children) == treespec.num_children and (
            definition.type is deque or context == treespec._context
        )
        if definition.type is not treespec.type or not same:
            return None
    leaves: list = []
    for child, spec in zip(children, treespec._children, strict=True):
        found = broadcast_to_and_flatten(child, spec, is_leaf, kinds)
        if found is None:
            return None
        leaves += found
    return leaves


_broadcast_to_and_flatten = broadcast_to_and_flatten
