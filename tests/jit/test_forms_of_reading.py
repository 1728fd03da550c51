"""Whatever way a function reads an attribute, or has it read by special methods, a change of it is seen."""

import array
import collections
import copy
import functools
import inspect
import itertools
import json
import operator
import string
import types

import pytest

import adjoint as ad


class Holder:
    def __init__(self, **k):
        self.__dict__.update(k)


ag = operator.attrgetter("k")
NAME = "k"
READS = [
    lambda o: o.k,
    lambda o: getattr(o, "k"),
    lambda o: getattr(o, NAME),
    lambda o: vars(o)["k"],
    lambda o: o.__dict__["k"],
    lambda o: ag(o),
    lambda o: list(map(ag, [o]))[0],
    lambda o: copy.copy(o).k,
    lambda o: copy.deepcopy(o).k,
    lambda o: (lambda: o.k)(),
    lambda o: [p.k for p in [o]][0],
    lambda o: sum(p.k for p in (o,)),
    lambda o: max([o], key=lambda p: p.k).k,
    lambda o: int(f"{o.k}"),
    lambda o: int(f"{o.k}"),
    lambda o: int("%(k)s" % vars(o)),  # noqa: UP031
    lambda o: functools.reduce(lambda a, b: a + b, [o.k, 0]),
    lambda o: functools.partial(getattr, o)("k"),
    lambda o: operator.methodcaller("__getattribute__", "k")(o),
    lambda o: object.__getattribute__(o, "k"),
    lambda o: inspect.getattr_static(o, "k"),
    lambda o: dict(vars(o)).get("k"),
    lambda o: types.SimpleNamespace(**vars(o)).k,
    lambda o: next(iter(vars(o).values())),
    lambda o: json.loads(json.dumps(vars(o)))["k"],
    lambda o: [*vars(o).values()][0],
    lambda o: len(range(o.k)),
    lambda o: int(string.Template("$k").substitute(vars(o))),
    lambda o: int(repr(vars(o))[6]),
    lambda o: dict(o.__dict__.items())["k"],
    lambda o: operator.itemgetter("k")(o.__dict__),
]

SPECIAL = {
    "__getitem__": lambda x, d: x * d[0],
    "__len__": lambda x, d: x * len(d),
    "__bool__": lambda x, d: x if d else -x,
    "__call__": lambda x, d: x * d(),
    "__index__": lambda x, d: x * range(9)[d],
    "__add__": lambda x, d: x * (d + 1),
    "__eq__": lambda x, d: x if d == 1 else -x,
    "__contains__": lambda x, d: x if 1 in d else -x,
    "__float__": lambda x, d: x * float(d),
    "__int__": lambda x, d: x * int(d),
    "__neg__": lambda x, d: x * (-d),
    "__iter__": lambda x, d: x * sum(d),
    "__str__": lambda x, d: x * len(str(d)),
    "__format__": lambda x, d: x * len(f"{d}"),
    "__radd__": lambda x, d: x * (1 + d),
    "__hash__": lambda x, d: x * (hash(d) % 7),
    "__abs__": lambda x, d: x * abs(d),
    "__lt__": lambda x, d: x if d < 1 else -x,
    "__round__": lambda x, d: x * round(d),
    "__enter__": lambda x, d: x * d.__enter__(),
    "__rmul__": lambda x, d: (x, 2 * d)[0] * (2 * d),
    "__complex__": lambda x, d: x * complex(d).real,
    "__reversed__": lambda x, d: x * sum(reversed(d)),
    "__length_hint__": lambda x, d: x * operator.length_hint(d),
}


def gives(name, value):
    """What a special method gives for a value."""
    kind = {
        "__iter__": lambda v: iter([v]),
        "__reversed__": lambda v: iter([v]),
        "__str__": lambda v: "a" * v,
        "__format__": lambda v: "a" * v,
        "__float__": float,
        "__complex__": complex,
    }.get(name)
    if kind:
        return kind(value)
    return value == 2 if name in ("__bool__", "__eq__", "__lt__", "__contains__") else value


def agree(function, change):
    x = ad.tensor([1.0, 2.0])
    jitted = ad.jit(function)
    for _ in range(5):
        assert jitted(x).tolist() == function(x).tolist()
    change()
    for _ in range(5):
        assert jitted(x).tolist() == function(x).tolist()


@pytest.mark.parametrize("number", range(len(READS)))
def test_a_change_of_an_attribute_is_seen(number):
    o, read = Holder(k=2), READS[number]
    agree(lambda x: x * read(o), lambda: setattr(o, "k", 3))


@pytest.mark.parametrize("name", SPECIAL)
def test_a_change_of_what_a_special_method_reads_is_seen(name):
    members = {name: lambda self, *a: gives(name, self.v)}
    if name == "__hash__":
        members["__eq__"] = lambda self, other: self is other
    d, use = type("D", (Holder,), members)(v=2), SPECIAL[name]
    agree(lambda x: use(x, d), lambda: setattr(d, "v", 3))


@pytest.mark.parametrize("name", SPECIAL)
def test_a_change_of_a_special_method_is_seen(name):
    members = {name: lambda self, *a: gives(name, 2)}
    if name == "__hash__":
        members["__eq__"] = lambda self, other: self is other
    D, use = type("D", (Holder,), members), SPECIAL[name]
    d = D()
    agree(lambda x: use(x, d), lambda: setattr(D, name, lambda self, *a: gives(name, 3)))


CONTAINERS = [
    lambda v: collections.deque([v]),
    lambda v: collections.Counter(a=v),
    lambda v: collections.ChainMap({"a": v}),
    lambda v: collections.UserDict(a=v),
    lambda v: collections.UserList([v]),
    lambda v: array.array("i", [v]),
    lambda v: bytearray([v]),
    lambda v: collections.defaultdict(int, a=v),
    lambda v: collections.OrderedDict(a=v),
    lambda v: memoryview(bytearray([v])),
    lambda v: [v],
    lambda v: {"a": v},
]


@pytest.mark.parametrize("number", range(len(CONTAINERS)))
def test_a_change_of_an_item_is_seen(number):
    items = CONTAINERS[number](2)
    key = (
        0
        if isinstance(
            items, (list, collections.deque, collections.UserList, array.array, bytearray, memoryview)
        )
        else "a"
    )
    agree(lambda x: x * int(items[key]), lambda: items.__setitem__(key, 3))


@pytest.mark.parametrize(
    "make",
    (
        lambda: itertools.count(2),
        lambda: (i for i in itertools.count(2)),
        lambda: iter(range(100)),
        lambda: map(int, itertools.count(2)),
    ),
)
def test_iterators_go_on(make):
    iterator = make()
    jitted = ad.jit(lambda x: x * next(iterator))
    seen = [jitted(ad.ones(1)).item() for _ in range(10)]
    assert seen == [seen[0] + i for i in range(10)]
