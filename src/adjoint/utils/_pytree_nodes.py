"""How containers are taken apart and put together again, by their types: what `_pytree` stands on.

`Kinds` is the one place that knows it. There are two: `LISTED` follows torch, where a dataclass is a leaf until it is
registered; `WITH_DATACLASSES`, which `adjoint.func` uses for arguments and results, takes apart each dataclass that it
meets. Start reading at `NodeDef`.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from adjoint._C import Size

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = Callable[[Iterable, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

# --- how a type is taken apart ----------------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How containers of one type come apart and together."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    #: The same as `flatten_fn`, with pairs (key, child); None where children have no keys.
    flatten_with_keys_fn: Callable | None = None
    #: What stands for the type in text, and how its context becomes and comes from JSON.
    serialized_type_name: str | None = None
    to_dumpable_context: ToDumpableContextFn | None = None
    from_dumpable_context: FromDumpableContextFn | None = None


#: By type, what programs and this file registered. A namedtuple is of type `namedtuple` here, whatever its class.
SUPPORTED_NODES: dict[Any, NodeDef] = {}


class Kinds(dict):
    """By the type of an object, its `NodeDef`, or None for leaves: looked up once per type, then remembered."""

    def __init__(self, dataclasses_too: Any) -> None:
        self.dataclasses_too = dataclasses_too

    def __missing__(self, cls):
        found = SUPPORTED_NODES.get(cls)
        if found is None and is_namedtuple_class(cls):
            found = _NAMEDTUPLE
        if found is None and cls.__module__.startswith("adjoint") and is_structseq_class(cls):
            found = _of_results(cls)
        if found is None and self.dataclasses_too and dataclasses.is_dataclass(cls):
            found = _of_dataclass(cls, [f.name for f in dataclasses.fields(cls)])
        self[cls] = found
        return found


LISTED = Kinds(dataclasses_too=False)
WITH_DATACLASSES = Kinds(dataclasses_too=True)


def register_pytree_node(
    cls,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: Callable | None = None,
) -> None:
    """Let containers of type `cls` be nodes of trees.

    Parameters
    ----------
    cls : type
        The type itself; those derived from it stay leaves until they are registered too.
    flatten_fn : callable
        Takes a container, returns the list of its children and a *context*: what else is needed to build it again.
    unflatten_fn : callable
        Takes an iterable of children and the context, returns the container.
    serialized_type_name, to_dumpable_context, from_dumpable_context : str, callable, callable, optional
        For `treespec_dumps`: the name that stands for the type, and the context to and from what JSON can hold.
    flatten_with_keys_fn : callable, optional
        As `flatten_fn`, with a pair (key, child) for each child, for `tree_flatten_with_path`.

    Raises
    ------
    ValueError
        `cls` is registered already, or one of the two functions for contexts is missing.

    Examples
    --------
    >>> from adjoint.utils import _pytree as pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    add_node(
        NodeDef(
            cls,
            flatten_fn,
            unflatten_fn,
            flatten_with_keys_fn,
            serialized_type_name,
            to_dumpable_context,
            from_dumpable_context,
        )
    )


def add_node(definition):
    SUPPORTED_NODES[definition.type] = definition
    LISTED.clear()
    WITH_DATACLASSES.clear()


# torch's names of old.
_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls) -> None:
    del SUPPORTED_NODES[cls]
    LISTED.clear()
    WITH_DATACLASSES.clear()


def register_dataclass(
    cls, *, field_names=None, drop_field_names=None, serialized_type_name: str | None = None
) -> None:
    """Let dataclasses of type `cls` be nodes of trees; their fields are the children.

    Parameters
    ----------
    cls : type
        A dataclass.
    field_names : list of str, optional
        The fields that are children: all that ``__init__`` takes by default.
    drop_field_names : list of str, optional
        Fields that are left out and have their default values afterwards.
    serialized_type_name : str, optional
        As for `register_pytree_node`.

    Raises
    ------
    ValueError
        The names are not those of the fields, `cls` is registered already, or it is no dataclass and `field_names` is not
        given.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from adjoint.utils import _pytree as pytree
    >>> @dataclass
    ... class State:
    ...     position: float
    ...     speed: float
    >>> pytree.register_dataclass(State)
    >>> pytree.tree_map(lambda x: 2 * x, State(1.0, 3.0))
    State(position=2.0, speed=6.0)
    """
    dropped, title = set(drop_field_names or ()), cls.__name__
    if dataclasses.is_dataclass(cls):
        known = [f.name for f in dataclasses.fields(cls) if f.init]
        if field_names is None:
            field_names = [name for name in known if name not in dropped]
        lost = [name for name in known if name not in field_names and name not in dropped]
        unknown = [name for name in (*field_names, *dropped) if name not in known]
        if lost:
            raise ValueError(
                f"field_names does not include all dataclass fields: {title} has {lost} too. Name them in "
                "field_names, or in drop_field_names if they have default values and are to be left out"
            )
        if unknown:
            raise ValueError(f"{unknown} are no fields that {title}.__init__ takes: these are {known}")
    elif field_names is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
        )
    definition = _of_dataclass(cls, [name for name in field_names if name not in dropped])
    register_pytree_node(
        cls,
        definition.flatten_fn,
        definition.unflatten_fn,
        flatten_with_keys_fn=definition.flatten_with_keys_fn,
        serialized_type_name=serialized_type_name,
    )


def _of_results(cls):
    """How the results of an operator that have names come apart (`return_types`): other named tuples of C are leaves."""

    def flatten(x):
        return list(x), None

    return NodeDef(
        cls,
        flatten,
        lambda children, _: cls(children),
        _keyed(flatten, lambda paths, x, i, _: paths.SequenceKey(i)),
    )


def _of_dataclass(cls, names):
    """How a dataclass comes apart: fields that hold None are named in the context, as torch does it."""
    fields = getattr(cls, "__dataclass_fields__", {})
    given = [name for name in names if name not in fields or fields[name].init]
    computed = [name for name in names if name not in given]

    def flatten(x):
        names = [n for n in (*given, *computed) if getattr(x, n, None) is not None]
        return [getattr(x, n) for n in names], [names, [n for n in given if n not in names]]

    def flatten_with_keys(x):
        from adjoint.utils._pytree_keys import GetAttrKey

        children, context = flatten(x)
        return [(GetAttrKey(n), child) for n, child in zip(context[0], children, strict=True)], context

    def unflatten(children, context):
        values = dict(zip(context[0], children, strict=True))
        later = {n: values.pop(n) for n in computed if n in values}
        made = cls(**values, **dict.fromkeys(context[1]))
        for n, value in later.items():
            object.__setattr__(made, n, value)
        return made

    return NodeDef(cls, flatten, unflatten, flatten_with_keys)


class ConstantNode(NamedTuple):
    """The context that stands for a constant."""

    value: Any


def register_constant(cls) -> None:
    """Let objects of type `cls` be parts of the form of a tree, without leaves: two trees differ where they do.

    Parameters
    ----------
    cls : type
        With ``__eq__`` and ``__hash__`` of its own.

    Examples
    --------
    >>> from adjoint.utils import _pytree as pytree
    >>> class Mode(str):
    ...     pass
    >>> pytree.register_constant(Mode)
    >>> pytree.tree_leaves([Mode("train"), 1])
    [1]
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    _constant_classes.add(cls)
    register_pytree_node(
        cls,
        lambda x: ([], ConstantNode(x)),
        lambda children, context: context.value,
        flatten_with_keys_fn=lambda x: ([], ConstantNode(x)),
    )


def is_constant_class(cls) -> bool:
    """Whether `cls` was given to `register_constant`.

    Examples
    --------
    >>> from adjoint.utils._pytree import is_constant_class
    >>> is_constant_class(int)
    False
    """
    return cls in _constant_classes


_constant_classes: set[type] = set()


# --- the containers of Python -----------------------------------------------------------------------------------------


def is_namedtuple_class(cls) -> bool:
    """Whether `cls` is a class that `collections.namedtuple` or `typing.NamedTuple` made, or derives from one.

    Examples
    --------
    >>> from collections import namedtuple
    >>> from adjoint.utils._pytree import is_namedtuple_class
    >>> is_namedtuple_class(namedtuple("P", "x y")), is_namedtuple_class(tuple)
    (True, False)
    """
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(type(field) is str for field in cls._fields)  # type: ignore[attr-defined]
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj) -> bool:
    """Whether `obj` is a namedtuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj) -> bool:
    """Whether `obj` is a namedtuple, or the class of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls) -> bool:
    """Whether `cls` is a named tuple of C, such as `time.struct_time`."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(cls.__dict__.get(n), int) for n in ("n_fields", "n_sequence_fields"))
    )


def is_structseq_instance(obj) -> bool:
    """Whether `obj` is a named tuple of C."""
    return is_structseq_class(type(obj))


def is_structseq(obj) -> bool:
    """Whether `obj` is a named tuple of C, or the class of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _keyed(flatten, key):
    """`flatten` with keys: ``key(container, i, context)`` for its child number i, from `_pytree_keys`."""

    def with_keys(container):
        from adjoint.utils import _pytree_keys as paths

        children, context = flatten(container)
        return [(key(paths, container, i, context), child) for i, child in enumerate(children)], context

    return with_keys


def _item(paths, container, i, context):
    return paths.SequenceKey(i)


def _entry(paths, container, i, context):
    return paths.MappingKey(list(container)[i])


def _field(paths, container, i, context):
    return paths.GetAttrKey(type(container)._fields[i])


#: The names by which namedtuples are written as text.
_text_names: dict[type, str] = {}


def _register_namedtuple(cls, *, serialized_type_name: str) -> None:
    _text_names[cls] = serialized_type_name


def _namedtuple_text(cls):
    if cls not in _text_names:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return _text_names[cls]


def _namedtuple_class(text):
    for cls, name in _text_names.items():
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


def _listed(x):
    return list(x), None


def _mapped(x):
    return list(x.values()), list(x)


def _defaulted(x):
    return list(x.values()), [x.default_factory, list(x)]


def _zip(make):
    return lambda children, context: make(zip(context, children, strict=True))


def _register_own():
    def add(cls, flatten, unflatten, key, name, *dumps):
        add_node(NodeDef(cls, flatten, unflatten, _keyed(flatten, key), name, *dumps))

    add(tuple, _listed, lambda children, _: tuple(children), _item, "builtins.tuple")
    add(Size, _listed, lambda children, _: tuple(children), _item, "torch.Size")
    add(list, _listed, lambda children, _: list(children), _item, "builtins.list")
    add(dict, _mapped, _zip(dict), _entry, "builtins.dict")
    add(OrderedDict, _mapped, _zip(OrderedDict), _entry, "collections.OrderedDict")
    add(
        defaultdict,
        _defaulted,
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
        _entry,
        "collections.defaultdict",
        _default_text,
        _default_of,
    )
    add(
        deque,
        lambda x: (list(x), x.maxlen),
        lambda children, maxlen: deque(children, maxlen=maxlen),
        _item,
        "collections.deque",
    )
    add(
        namedtuple,
        lambda x: (list(x), type(x)),
        lambda children, cls: cls._make(children),
        _field,
        "collections.namedtuple",
        _namedtuple_text,
        _namedtuple_class,
    )
    return SUPPORTED_NODES[namedtuple]


_NAMEDTUPLE = _register_own()
#: What is registered above.
OWN_TYPES = frozenset(SUPPORTED_NODES)
#: Types whose instances differ in type alone: a tree of one form may be read off by the form of the other.
MAPPINGS = (dict, OrderedDict, defaultdict)
