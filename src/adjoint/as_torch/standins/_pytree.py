"""``torch.utils._pytree``: `adjoint.tree` under torch's names, with paths to leaves, constants, and structures as text.

``keystr(path)`` reads like the program that would get the leaf, ``['layer'][0].weight``. Specs become JSON in torch's layout,
so that each reads what the other wrote. Start reading at `register_pytree_node`, `tree_flatten_with_path` or `treespec_dumps`.
"""

# ruff: noqa: F401 - what is imported here is published.
from __future__ import annotations

import builtins
import dataclasses
import json
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import tree as _tree
from adjoint._C import Size
from adjoint.tree import LEAF, LeafSpec, TreeSpec, flatten_arguments
from adjoint.tree import flatten as tree_flatten
from adjoint.tree import leaves as tree_leaves
from adjoint.tree import map as tree_map
from adjoint.tree import shown as treespec_pprint
from adjoint.tree import spread as _broadcast_to_and_flatten
from adjoint.tree import structure as tree_structure
from adjoint.tree import unflatten as tree_unflatten
from adjoint.tree._kinds import LISTED, MAPPINGS, Node, forget, is_namedtuple_class, is_structseq_class
from adjoint.tree._kinds import NODES as SUPPORTED_NODES

PyTree = Any
Context = Any
DumpableContext = Any
KeyEntry = Any
PyTreeSpec, NodeDef = TreeSpec, Node
KeyPath = tuple[KeyEntry, ...]
FlattenFn = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = Callable[[Iterable, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

# --- types ------------------------------------------------------------------------------------------------------------

#: By type: the function that gives pairs (key, child); the name in text, and how a context becomes and comes from JSON.
_with_keys: dict[Any, Any] = {}
_texts: dict[Any, tuple] = {
    tuple: ("builtins.tuple", None, None),
    Size: ("torch.Size", None, None),
    list: ("builtins.list", None, None),
    dict: ("builtins.dict", None, None),
    OrderedDict: ("collections.OrderedDict", None, None),
    deque: ("collections.deque", None, None),
}
_constants: set[type] = set()


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
) -> None:
    """`adjoint.tree.register`, with keys of children for paths, and for text a name and the context to and from JSON."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    _tree.register(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _with_keys[cls] = flatten_with_keys_fn
    if serialized_type_name is not None:
        _texts[cls] = serialized_type_name, to_dumpable_context, from_dumpable_context


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls) -> None:
    forget(cls)
    _with_keys.pop(cls, None)
    _texts.pop(cls, None)


def register_dataclass(
    cls: Any, *, field_names=None, drop_field_names=None, serialized_type_name: str | None = None
) -> None:
    """`adjoint.tree.register_dataclass`; all fields are named, among those that are children or those that are dropped."""
    dropped = [*(drop_field_names or ())]
    names = None if field_names is None else [n for n in field_names if n not in dropped]
    if dataclasses.is_dataclass(cls):
        known = [f.name for f in dataclasses.fields(cls) if f.init]
        names = [n for n in known if n not in dropped] if names is None else names
        lost = [n for n in known if n not in names and n not in dropped]
        if lost:
            raise ValueError(
                f"field_names does not include all dataclass fields: {getattr(cls, '__name__', cls)} has {lost} too. Name them in field_names, "
                "or in drop_field_names if they have default values and are to be left out"
            )
    _tree.register_dataclass(cls, names)
    if serialized_type_name is not None:
        _texts[cls] = serialized_type_name, None, None


def register_constant(cls) -> None:
    """Let objects of type `cls` be parts of the structure of a tree, without leaves: two trees differ where they do."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    _constants.add(cls)
    register_pytree_node(
        cls, lambda x: ([], x), lambda children, x: x, flatten_with_keys_fn=lambda x: ([], x)
    )


def is_constant_class(cls) -> bool:
    """Whether `cls` was given to `register_constant`."""
    return cls in _constants


def _of_instance(of_class):
    return lambda obj: of_class(type(obj)), lambda obj: of_class(obj if isinstance(obj, type) else type(obj))


is_namedtuple_instance, is_namedtuple = _of_instance(is_namedtuple_class)
is_structseq_instance, is_structseq = _of_instance(is_structseq_class)


def _get_node_type(tree):
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


# --- leaves -----------------------------------------------------------------------------------------------------------


def tree_is_leaf(tree, is_leaf=None) -> bool:
    """Whether a tree is a leaf: nothing that is taken apart."""
    return LISTED[type(tree)] is None or (is_leaf is not None and bool(is_leaf(tree)))


_is_leaf = tree_is_leaf


def tree_iter(tree, is_leaf=None):
    """The leaves of a tree one by one."""
    return iter(tree_leaves(tree, is_leaf))


def arg_tree_leaves(*args, **kwargs) -> list:
    """The leaves of all arguments, those by keyword last."""
    return tree_leaves((*args, *kwargs.values()))


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return LEAF


def treespec_tuple(iterable=(), /) -> TreeSpec:
    """The structure of a tuple whose children have the structures given."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs) -> TreeSpec:
    """The structure of a dict whose values have the structures given."""
    entries = dict(mapping, **kwargs)
    return TreeSpec(dict, list(entries), list(entries.values()))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call `func` like `tree_map`, for what it does to the leaves; return `tree`."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _predicate(chosen):
    if isinstance(chosen, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, chosen)
    if callable(chosen):
        return chosen
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred, /):
    """A decorator: the function for what is of these types or fulfils the predicate, and anything else as it is."""
    chosen = _predicate(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if chosen(x) else x


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`tree_map` for the leaves of some types, or that a predicate chooses; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`tree_map_` for the leaves that `tree_map_only` would take."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None) -> bool:
    """Whether `pred` is true of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None) -> bool:
    """Whether `pred` is true of some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None) -> bool:
    """Whether `pred` is true of all leaves of some types."""
    return all(map(pred, filter(_predicate(type_or_types), tree_leaves(tree, is_leaf))))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None) -> bool:
    """Whether `pred` is true of some leaf of some types."""
    return any(map(pred, filter(_predicate(type_or_types), tree_leaves(tree, is_leaf))))


# --- paths ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The place of a child in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The key of a child in a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The name of a child that is an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(kp) -> str:
    """A path as a program would write it."""
    return "".join([str(key) for key in kp])


def key_get(obj, kp):
    """What stands at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _keyed(node, tree):
    """Pairs (key, child) of a container, and its context."""
    if node.type in _with_keys:
        return _with_keys[node.type](tree)
    children, context = node.flatten_fn(tree)
    keys: Iterable[Any]
    if node.type in MAPPINGS:
        keys = map(MappingKey, tree)
    elif node.type is namedtuple:
        keys = map(GetAttrKey, tree._fields)
    elif issubclass(node.type, (tuple, list, deque)):
        keys = map(SequenceKey, range(len(children)))
    elif dataclasses.is_dataclass(node.type):
        keys = map(GetAttrKey, context[0])
    else:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    return list(zip(keys, children, strict=True)), context


def _with_paths(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    for key, child in _keyed(LISTED[type(tree)], tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None) -> list:
    """Like `tree_leaves`, with a pair (path, leaf) for each leaf."""
    return [*_with_paths((), tree, is_leaf)]


def tree_flatten_with_path(tree, is_leaf=None) -> tuple[list, TreeSpec]:
    """Like `tree_flatten`, with a pair (path, leaf) for each leaf."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Like `tree_map`, for a function whose first argument is the path."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return spec.unflatten([*map(func, paths, leaves, *[spec.flatten_up_to(rest) for rest in rests])])


def _of(kind):
    node = SUPPORTED_NODES[kind]
    return node.flatten_fn, node.unflatten_fn, lambda tree: _keyed(node, tree)


_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = _of(dict)
_list_flatten, _list_unflatten, _list_flatten_with_keys = _of(list)
_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = _of(tuple)


# --- structures as text -----------------------------------------------------------------------------------------------

#: The version of the layout.
PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure of a tree as JSON, for `treespec_loads` and for torch."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    if protocol not in (None, PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[PROTOCOL]}")
    return json.dumps((PROTOCOL, _described(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure of a tree from what `treespec_dumps` or torch wrote."""
    protocol, described = json.loads(serialized)
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[PROTOCOL]}")
    return _spec(described)


def pytree_to_str(treespec: TreeSpec) -> str:
    """`treespec_dumps` under its older name."""
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    """`treespec_loads` under its older name."""
    return treespec_loads(json)


def _described(spec):
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in _texts:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please use `register_pytree_node` with "
            "`serialized_type_name`."
        )
    name, write, _ = _texts[spec.type]
    try:
        context = json.dumps(spec.context) if write is None else write(spec.context)
    except TypeError as error:
        raise TypeError(
            f"Unable to serialize context. Please make the context json dump-able or register a custom serializer using "
            f"`register_pytree_node`: the context of {spec.type} is {spec.context!r}"
        ) from error
    return {"type": name, "context": context, "children_spec": [_described(c) for c in spec.children_specs]}


def _spec(described):
    name, context = described["type"], described["context"]
    if name is None:
        return LEAF
    for kind, (text, _, read) in _texts.items():
        if text == name:
            context = json.loads(context) if read is None else read(context)
            return TreeSpec(kind, context, [_spec(child) for child in described["children_spec"]])
    raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")


#: The names by which namedtuples are written as text.
_named: dict[type, str] = {}


def _register_namedtuple(cls, *, serialized_type_name: str) -> None:
    _named[cls] = serialized_type_name


def _namedtuple_text(cls):
    if cls not in _named:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return _named[cls]


def _namedtuple_class(text):
    for cls, name in _named.items():
        if name == text:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {text} because we couldn't find a serializated name. "
        "Please register using `_register_namedtuple`."
    )


def _default_text(context):
    factory, keys = context
    return {
        "default_factory_module": getattr(factory, "__module__", None),
        "default_factory_name": getattr(factory, "__qualname__", None),
        "dict_context": keys,
    }


def _default_of(text):
    # Of the builtins alone, and types: text does not choose what is imported or called.
    module, name = text["default_factory_module"], text["default_factory_name"]
    factory = getattr(builtins, name, None) if module == "builtins" else None
    if name is not None and not isinstance(factory, type):
        raise NotImplementedError(f"treespec_loads: the default_factory {module}.{name} is no builtin type")
    return [factory, text["dict_context"]]


_texts[namedtuple] = "collections.namedtuple", _namedtuple_text, _namedtuple_class
_texts[defaultdict] = "collections.defaultdict", _default_text, _default_of
