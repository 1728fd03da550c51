"""Nested containers as trees: take the leaves out in order, and build a container of the same form from others.

A *tree* is a leaf, or a container whose type is registered and whose children are trees. Dictionaries keep the order in
which they were filled; None is a leaf, and so is whatever has a type that is not registered. The names are those of
``torch.utils._pytree``, by which programs register their own containers; the form of a tree is a `TreeSpec`.

This file gathers what is published. How types are taken apart is in `_pytree_nodes`, the forms of trees in `_pytree_trees`;
paths to leaves and specs as text, in `_pytree_text`, are imported when they are first asked for.
"""

# ruff: noqa: F401 - what is imported here is published.
from __future__ import annotations

from adjoint.utils._pytree_keys import GetAttrKey, KeyEntry, KeyPath, MappingKey, SequenceKey
from adjoint.utils._pytree_nodes import (
    LISTED,
    MAPPINGS,
    OWN_TYPES,
    SUPPORTED_NODES,
    WITH_DATACLASSES,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    NodeDef,
    PyTree,
    ToDumpableContextFn,
    UnflattenFn,
    _deregister_pytree_node,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_constant,
    register_dataclass,
    register_pytree_node,
)
from adjoint.utils._pytree_trees import (
    LeafSpec,
    PyTreeSpec,
    TreeSpec,
    _broadcast_to_and_flatten,
    _is_leaf,
    arg_tree_leaves,
    broadcast_to_and_flatten,
    flatten_arguments,
    map_only,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_structure,
    tree_unflatten,
    treespec_dict,
    treespec_leaf,
    treespec_tuple,
)

_TEXT = (
    "key_get keystr pytree_to_str str_to_pytree "
    "tree_flatten_with_path tree_leaves_with_path tree_map_with_path treespec_dumps treespec_loads treespec_pprint"
).split()


def __getattr__(name):
    if name not in _TEXT:
        raise AttributeError(f"module 'adjoint.utils._pytree' has no attribute {name!r}")
    from adjoint.utils import _pytree_text

    return getattr(_pytree_text, name)
