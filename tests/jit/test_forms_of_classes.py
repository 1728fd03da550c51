"""Whatever way a function reads classes, instances and functions, a change of them is seen.

Each form makes a function and something that changes what it reads. Under `ad.jit` the function gives what it gives
without, before the change and after.
"""

import dataclasses
import enum
import functools
import inspect
import typing
import weakref

import pytest

import adjoint as ad

FORMS = {}


def form(make):
    FORMS[make.__name__] = make
    return make


class Holder:
    def __init__(self, **k):
        self.__dict__.update(k)


@form
def match_statement():
    @dataclasses.dataclass
    class P:
        k: int
        j: int = 0

    p = P(2)

    def f(x):
        match p:
            case P(k=v):
                return x * v

    return f, lambda: setattr(p, "k", 3)


@form
def dc_asdict():
    @dataclasses.dataclass
    class P:
        k: int

    p = P(2)
    return (lambda x: x * dataclasses.asdict(p)["k"]), lambda: setattr(p, "k", 3)


@form
def dc_replace():
    @dataclasses.dataclass
    class P:
        k: int
        j: int = 1

    p = P(2)
    return (lambda x: x * dataclasses.replace(p, j=2).k), lambda: setattr(p, "k", 3)


@form
def dc_eq():
    @dataclasses.dataclass
    class P:
        k: int

    p = P(2)
    q = P(2)
    return (lambda x: x if p == q else -x), lambda: setattr(p, "k", 3)


@form
def getattr_hook():
    class D:
        def __init__(s):
            s.data = {"k": 2}

        def __getattr__(s, n):
            try:
                return s.__dict__["data"][n]
            except KeyError:
                raise AttributeError(n)

    d = D()
    return (lambda x: x * d.k), lambda: d.data.update(k=3)


@form
def getattr_hook_then_set():
    class D:
        def __getattr__(s, n):
            return 2

    d = D()
    return (lambda x: x * d.k), lambda: setattr(d, "k", 3)


@form
def getattribute():
    class D:
        def __getattribute__(s, n):
            return object.__getattribute__(s, "_" + n)

    d = D()
    d._k = 2
    return (lambda x: x * d.k), lambda: setattr(d, "_k", 3)


@form
def cached_prop():
    class D:
        def __init__(s):
            s.v = 2

        @functools.cached_property
        def k(s):
            return s.v

    d = D()
    return (lambda x: x * d.k), lambda: d.__dict__.update(k=3)


@form
def super_():
    class B:
        k = 2

        def f(s):
            return s.k

    class D(B):
        def f(s):
            return super().f()

    d = D()
    return (lambda x: x * d.f()), lambda: setattr(B, "f", lambda s: 3)


@form
def isinst():
    class A:
        pass

    class B(A):
        pass

    h = Holder(v=B())
    return (lambda x: x if isinstance(h.v, B) else -x), lambda: setattr(h, "v", A())


@form
def func_doc():
    def h():
        "a"

    return (lambda x: x if h.__doc__ == "a" else -x), lambda: setattr(h, "__doc__", "C")


@form
def annotations():
    def h(a: int):
        pass

    return (lambda x: x if h.__annotations__["a"] is int else -x), lambda: h.__annotations__.update(a=float)


@form
def defaults_read():
    def h(a=2):
        pass

    return (lambda x: x * h.__defaults__[0]), lambda: setattr(h, "__defaults__", (3,))


@form
def sig():
    def h(a=2):
        pass

    return (lambda x: x * inspect.signature(h).parameters["a"].default), lambda: setattr(
        h, "__defaults__", (3,)
    )


@form
def closure_read():
    k = 2

    def h():
        return k

    def ch():
        nonlocal k
        k = 3

    return (lambda x: x * h.__closure__[0].cell_contents), ch


@form
def enum_attr():
    class E(enum.Enum):
        A = 2

    E.A.k = 2
    return (lambda x: x * E.A.k), lambda: setattr(E.A, "k", 3)


@form
def typing_hints():
    class D:
        a: int

    return (lambda x: x if typing.get_type_hints(D)["a"] is int else -x), lambda: D.__annotations__.update(
        a=float
    )


@form
def slots_desc():
    class S:
        __slots__ = ("k", "j")

    s = S()
    s.k = 2
    s.j = 3
    b = S.j

    def ch():
        S.k = b

    return (lambda x: x * s.k), ch


@form
def data_desc():
    class Desc:
        def __init__(s, v):
            s.v = v

        def __get__(s, o, t):
            return s.v

        def __set__(s, o, v):
            pass

    d = Desc(2)

    class D:
        k = d

    o = D()
    return (lambda x: x * o.k), lambda: setattr(d, "v", 3)


@form
def desc_storage():
    class Desc:
        def __set_name__(s, o, n):
            s.n = "_" + n

        def __get__(s, o, t):
            return getattr(o, s.n)

    class D:
        k = Desc()

    o = D()
    o._k = 2
    return (lambda x: x * o.k), lambda: setattr(o, "_k", 3)


@form
def weak_key_desc():
    store = weakref.WeakKeyDictionary()

    class Desc:
        def __get__(s, o, t):
            return store[o]

    class D:
        k = Desc()

    o = D()
    store[o] = 2
    return (lambda x: x * o.k), lambda: store.__setitem__(o, 3)


@form
def mangled():
    class D:
        def __init__(s):
            s.__k = 2

        def f(s):
            return s.__k

    d = D()
    return (lambda x: x * d.f()), lambda: setattr(d, "_D__k", 3)


@form
def method_obj():
    class D:
        def __init__(s, k):
            s.k = k

        def f(s):
            return s.k

    h = Holder(m=D(2).f)
    return (lambda x: x * h.m()), lambda: setattr(h, "m", D(3).f)


@form
def cls_dict():
    class D:
        k = 2

    return (lambda x: x * D.__dict__["k"]), lambda: setattr(D, "k", 3)


@form
def instance_of_type_call():
    class D:
        def __init__(s):
            s.k = D.base

        base = 2

    return (lambda x: x * D().k), lambda: setattr(D, "base", 3)


@form
def init_patched():
    class D:
        def __init__(s):
            s.k = 2

    def new(s):
        s.k = 3

    return (lambda x: x * D().k), lambda: setattr(D, "__init__", new)


@form
def new_added():
    class D:
        k = 2

    class E2:
        k = 3

    return (lambda x: x * D().k), lambda: setattr(D, "__new__", staticmethod(lambda c: E2()))


@pytest.mark.parametrize("name", FORMS)
def test_a_change_is_seen(name):
    x = ad.tensor([1.0, 2.0])
    function, change = FORMS[name]()
    jitted = ad.jit(function)
    for _ in range(5):
        assert jitted(x).tolist() == function(x).tolist()
    change()
    for _ in range(5):
        assert jitted(x).tolist() == function(x).tolist()
