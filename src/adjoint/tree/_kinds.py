"""How containers are taken apart and put together again, by their types: what `adjoint.tree` stands on.

`Kinds` is the one place that knows it. There are two: `LISTED`, where a dataclass is a leaf until it is registered, and
`WITH_DATACLASSES`, by which transforms take apart each dataclass that they meet. Start reading at `Node`.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from adjoint._C import Size


class Node(NamedTuple):
    """How containers of one type come apart and together."""

    type: Any
    flatten_fn: Callable
    unflatten_fn: Callable


#: By type, what programs and this file registered. A namedtuple is of type `namedtuple` here, whatever its class.
NODES: dict[Any, Node] = {}


class Kinds(dict):
    """By the type of an object its `Node`, or None for leaves: looked up once for each type, then remembered."""

    def __init__(self, dataclasses_too: bool) -> None:
        self.dataclasses_too = dataclasses_too

    def __missing__(self, cls: type) -> Node | None:
        found = NODES.get(cls)
        if found is None and is_namedtuple_class(cls):
            found = NODES[namedtuple]
        if found is None and cls.__module__.startswith("adjoint") and is_structseq_class(cls):
            found = Node(cls, _listed, lambda children, _: cls(children))
        if found is None and self.dataclasses_too and dataclasses.is_dataclass(cls):
            found = _of_dataclass(cls, [f.name for f in dataclasses.fields(cls)])
        self[cls] = found
        return found


#: What programs see, where a dataclass is a leaf until it is registered, and what transforms do to arguments and results.
LISTED, WITH_DATACLASSES = Kinds(False), Kinds(True)


def register(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
) -> None:
    """Let containers of type `cls` be nodes of trees.

    Parameters
    ----------
    cls : type
        The type itself; types derived from it stay leaves until they are registered too.
    flatten_fn : callable
        Takes a container, returns its children and a *context*: what else is needed to build it again.
    unflatten_fn : callable
        Takes an iterable of children and the context, returns the container.

    Raises
    ------
    ValueError
        `cls` is registered already.

    Examples
    --------
    >>> from adjoint import tree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tree.register(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> tree.leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if cls in NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    add(Node(cls, flatten_fn, unflatten_fn))


def add(node: Node) -> None:
    NODES[node.type] = node
    forget()


def forget(cls: type | None = None) -> None:
    """Take out a type, and look all types up again."""
    if cls is not None:
        del NODES[cls]
    LISTED.clear()
    WITH_DATACLASSES.clear()


def register_dataclass(cls: type, fields: Iterable[str] | None = None) -> None:
    """Let dataclasses of type `cls` be nodes of trees; their fields are the children.

    Parameters
    ----------
    cls : type
        A dataclass, or a class whose ``__init__`` takes the fields by name.
    fields : iterable of str, optional
        The fields that are children: all that ``__init__`` takes, if left out. Others have their default values afterwards.

    Raises
    ------
    ValueError
        `cls` is registered already, has no field of that name, or is no dataclass and `fields` is not given.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from adjoint import tree
    >>> @dataclass
    ... class State:
    ...     position: float
    ...     speed: float
    >>> tree.register_dataclass(State)
    >>> tree.map(lambda x: 2 * x, State(1.0, 3.0))
    State(position=2.0, speed=6.0)
    """
    known: list[str] | None = None
    if dataclasses.is_dataclass(cls):
        known = [f.name for f in dataclasses.fields(cls) if f.init]
    elif fields is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
        )
    names = list((known or ()) if fields is None else fields)
    if known is not None and not {*names} <= {*known}:
        unknown = [name for name in names if name not in known]
        raise ValueError(f"{unknown} are not arguments of {cls.__name__}.__init__, which takes {known}")
    node = _of_dataclass(cls, names)
    register(cls, node.flatten_fn, node.unflatten_fn)


def _of_dataclass(cls, names):
    """How a dataclass comes apart: fields that hold None are named in the context, like in torch."""
    fields = getattr(cls, "__dataclass_fields__", {})
    given = [name for name in names if name not in fields or fields[name].init]
    computed = [name for name in names if name not in given]

    def flatten(x):
        names = [n for n in (*given, *computed) if getattr(x, n, None) is not None]
        return [getattr(x, n) for n in names], [names, [n for n in given if n not in names]]

    def unflatten(children, context):
        values = dict(zip(context[0], children, strict=True))
        later = {n: values.pop(n) for n in computed if n in values}
        made = cls(**values, **dict.fromkeys(context[1]))
        for n, value in later.items():
            object.__setattr__(made, n, value)
        return made

    return Node(cls, flatten, unflatten)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether `cls` is a class that `collections.namedtuple` or `typing.NamedTuple` made, or derives from one."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(type(field) is str for field in cls._fields)  # type: ignore[attr-defined]
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_structseq_class(cls: Any) -> bool:
    """Whether `cls` is a struct sequence, such as `time.struct_time`."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(cls.__dict__.get(n), int) for n in ("n_fields", "n_sequence_fields"))
    )


def _listed(x):
    return list(x), None


def _mapped(x):
    return list(x.values()), list(x)


def _zip(make):
    return lambda children, context: make(zip(context, children, strict=True))


for _node in (
    Node(tuple, _listed, lambda children, _: tuple(children)),
    Node(Size, _listed, lambda children, _: tuple(children)),
    Node(list, _listed, lambda children, _: list(children)),
    Node(dict, _mapped, _zip(dict)),
    Node(OrderedDict, _mapped, _zip(OrderedDict)),
    Node(
        defaultdict,
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    Node(deque, lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen)),
    Node(namedtuple, lambda x: (list(x), type(x)), lambda children, cls: cls._make(children)),
):
    NODES[_node.type] = _node
#: What is registered above, and what of it is read by each other's structure.
OWN_TYPES = frozenset(NODES)
MAPPINGS = (dict, OrderedDict, defaultdict)
