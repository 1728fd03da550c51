"""Where the leaves of a tree stand, as paths of keys, and the form of a tree as text.

``keystr(path)`` reads like the program that would get the leaf, ``['layer'][0].weight``. Specs become JSON in the layout
of ``torch.utils._pytree``, so that each reads what the other wrote. Start reading at `tree_flatten_with_path` or
`treespec_dumps`.
"""

from __future__ import annotations

import json

from adjoint.utils._pytree_keys import KeyPath
from adjoint.utils._pytree_nodes import LISTED, SUPPORTED_NODES, PyTree
from adjoint.utils._pytree_trees import LeafSpec, TreeSpec, tree_flatten

# --- paths ------------------------------------------------------------------------------------------------------------


def keystr(kp: KeyPath) -> str:
    """A path as a program would write it.

    Examples
    --------
    >>> from adjoint.utils._pytree import keystr, tree_leaves_with_path
    >>> [keystr(path) for path, leaf in tree_leaves_with_path({"a": [5, 6]})]
    ["['a'][0]", "['a'][1]"]
    """
    return "".join([str(key) for key in kp])


def key_get(obj, kp: KeyPath):
    """What stands at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_flatten_with_path(tree: PyTree, is_leaf=None) -> tuple[list, TreeSpec]:
    """As `tree_flatten`, with a pair (path, leaf) for each leaf.

    Raises
    ------
    ValueError
        A container in the tree was registered without ``flatten_with_keys_fn``.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_flatten_with_path
    >>> tree_flatten_with_path([7])[0]
    [((SequenceKey(idx=0),), 7)]
    """
    spec = tree_flatten(tree, is_leaf)[1]
    return [*_with_paths((), tree, is_leaf)], spec


def tree_leaves_with_path(tree: PyTree, is_leaf=None) -> list:
    """As `tree_leaves`, with a pair (path, leaf) for each leaf."""
    return [*_with_paths((), tree, is_leaf)]


def tree_map_with_path(func, tree: PyTree, *rests: PyTree, is_leaf=None) -> PyTree:
    """As `tree_map`, for a function whose first argument is the path."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return spec.unflatten([*map(func, paths, leaves, *[spec.flatten_up_to(rest) for rest in rests])])


def _with_paths(path, tree, is_leaf):
    definition = LISTED[type(tree)]
    if definition is None or (is_leaf is not None and is_leaf(tree)):
        yield path, tree
        return
    if definition.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {definition.type}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


# --- text -------------------------------------------------------------------------------------------------------------

#: Of the layout.
PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The form of a tree as JSON, for `treespec_loads` and for torch.

    Raises
    ------
    TypeError
        This is no form of a tree.
    NotImplementedError
        A container has no ``serialized_type_name``.
    ValueError
        `protocol` is not 1.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> spec = tree_structure({"a": [0, 0]})
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    if protocol not in (None, PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[PROTOCOL]}")
    return json.dumps((PROTOCOL, _described(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """The form of a tree from what `treespec_dumps` or torch wrote.

    Raises
    ------
    ValueError
        The text is of another protocol.
    NotImplementedError
        It names a container that is not registered here.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> treespec_loads(treespec_dumps(tree_structure((1, 2)))).num_leaves
    2
    """
    protocol, described = json.loads(serialized)
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[PROTOCOL]}")
    return _spec(described)


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads


def treespec_pprint(treespec: TreeSpec) -> str:
    """The form of a tree as the tree, with stars for leaves.

    Examples
    --------
    >>> from adjoint.utils._pytree import tree_structure, treespec_pprint
    >>> treespec_pprint(tree_structure({"a": (1, 2)}))
    "{'a': (*, *)}"
    """
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


class _Star:
    def __repr__(self) -> str:
        return "*"


def _described(spec):
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    definition = SUPPORTED_NODES.get(spec.type)
    if definition is None or definition.serialized_type_name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please use `register_pytree_node` with "
            "`serialized_type_name`."
        )
    if definition.to_dumpable_context is None:
        try:
            context = json.dumps(spec.context)
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context. Please make the context json dump-able or register a custom serializer "
                f"using `register_pytree_node`: the context of {spec.type} is {spec.context!r}"
            ) from error
    else:
        context = definition.to_dumpable_context(spec.context)
    return {
        "type": definition.serialized_type_name,
        "context": context,
        "children_spec": [_described(child) for child in spec.children_specs],
    }


def _spec(described):
    name = described["type"]
    if name is None:
        return LeafSpec()
    for definition in SUPPORTED_NODES.values():
        if definition.serialized_type_name == name:
            break
    else:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    context = described["context"]
    read = definition.from_dumpable_context
    return TreeSpec(
        definition.type,
        json.loads(context) if read is None else read(context),
        [_spec(child) for child in described["children_spec"]],
    )
