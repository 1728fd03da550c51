"""Whatever way a function reads modules, containers and what belongs to the process, a change of them is seen.

Each form makes a function and something that changes what it reads. Under `ad.jit` the function gives what it gives
without, before the change and after.
"""

import collections
import contextlib
import contextvars
import datetime
import decimal
import fractions
import functools
import importlib
import os
import re
import sys
import threading
import types
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


CV = contextvars.ContextVar("cv", default=2)
GK = 2


@form
def nt():
    T = collections.namedtuple("T", "k")
    h = [T(2)]
    return (lambda x: x * h[0]._asdict()["k"]), lambda: h.__setitem__(0, T(3))


@form
def ctxvar():
    return (lambda x: x * CV.get()), lambda: CV.set(3)


@form
def tlocal():
    t = threading.local()
    t.k = 2
    return (lambda x: x * t.k), lambda: setattr(t, "k", 3)


@form
def environ():
    os.environ["FORMS_K"] = "2"
    return (lambda x: x * int(os.environ["FORMS_K"])), lambda: os.environ.update(FORMS_K="3")


@form
def getenv():
    os.environ["FORMS_K"] = "2"
    return (lambda x: x * int(os.getenv("FORMS_K"))), lambda: os.environ.update(FORMS_K="3")


@form
def globals_():
    globals()["GK"] = 2
    return (lambda x: x * globals()["GK"]), lambda: globals().update(GK=3)


@form
def eval_():
    globals()["GK"] = 2
    return (lambda x: x * eval("GK")), lambda: globals().update(GK=3)


@form
def main_module():
    globals()["GK"] = 2
    me = sys.modules[__name__]
    return (lambda x: x * me.GK), lambda: globals().update(GK=3)


@form
def import_replaced():
    m = types.ModuleType("fm2")
    m.k = 2
    sys.modules["fm2"] = m
    n = types.ModuleType("fm2")
    n.k = 3

    def f(x):
        import fm2

        return x * fm2.k

    return f, lambda: sys.modules.__setitem__("fm2", n)


@form
def import_removed():
    m = types.ModuleType("fm3")
    m.k = 2
    sys.modules["fm3"] = m

    def f(x):
        try:
            import fm3  # noqa: F401
        except ImportError:
            return -x
        return x

    return f, lambda: sys.modules.pop("fm3")


@form
def import_added():
    def f(x):
        try:
            import fm4  # noqa: F401
        except ImportError:
            return -x
        return x

    return f, lambda: sys.modules.__setitem__("fm4", types.ModuleType("fm4"))


@form
def importlib_():
    m = types.ModuleType("fm5")
    m.k = 2
    sys.modules["fm5"] = m
    return (lambda x: x * importlib.import_module("fm5").k), lambda: setattr(m, "k", 3)


@form
def a_list_of_a_module_by_a_name_that_is_made():
    m = types.ModuleType("fm6")
    m.scales = [2]
    return (lambda x: x * getattr(m, "sca" + "les")[0]), lambda: m.scales.append(m.scales.pop() + 1)


@form
def an_object_of_a_module_in_it_by_names_that_are_made():
    m, inner = types.ModuleType("fm7"), types.ModuleType("fm8")
    m.inner, inner.box = inner, types.SimpleNamespace(k=2)
    return (lambda x: x * getattr(getattr(m, "in" + "ner"), "bo" + "x").k), lambda: setattr(inner.box, "k", 3)


@form
def singledispatch():
    @functools.singledispatch
    def h(v):
        return 2

    return (lambda x: x * h(1)), lambda: h.register(int, lambda v: 3)


@form
def lru():
    k = [2]

    @functools.lru_cache
    def h():
        return k[0]

    def ch():
        k[0] = 3
        h.cache_clear()

    return (lambda x: x * h()), ch


@form
def ctxmgr():
    s = Holder(k=2)

    @contextlib.contextmanager
    def c():
        yield s.k

    def f(x):
        with c() as v:
            return x * v

    return f, lambda: setattr(s, "k", 3)


@form
def exitstack():
    s = Holder(k=2)

    @contextlib.contextmanager
    def c():
        yield s.k

    def f(x):
        with contextlib.ExitStack() as st:
            return x * st.enter_context(c())

    return f, lambda: setattr(s, "k", 3)


@form
def wref_proxy():
    o = Holder(k=2)
    p = weakref.proxy(o)
    return (lambda x: x * p.k), lambda: setattr(o, "k", 3)


@form
def datetime_():
    h = Holder(t=datetime.timedelta(seconds=2))
    return (lambda x: x * h.t.seconds), lambda: setattr(h, "t", datetime.timedelta(seconds=3))


@form
def decimal_ctx():
    return (lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)) * 1e9), lambda: setattr(
        decimal.getcontext(), "prec", 3
    )


@form
def fraction():
    h = Holder(t=fractions.Fraction(1, 2))
    return (lambda x: x * float(h.t)), lambda: setattr(h, "t", fractions.Fraction(1, 3))


@form
def regex():
    h = Holder(t=re.compile("a+"))
    return (lambda x: x * len(h.t.match("aab").group())), lambda: setattr(h, "t", re.compile("a+b"))


@form
def nested_fn_default():
    l = [2]

    def f(x, h=lambda: l[0]):
        return x * h()

    return f, lambda: l.__setitem__(0, 3)


@form
def exc_args():
    e = ValueError(2)

    def f(x):
        try:
            raise e
        except ValueError as g:
            return x * g.args[0]

    return f, lambda: setattr(e, "args", (3,))


@form
def module_getattr():
    m = types.ModuleType("mg")
    m.store = {"k": 2}
    exec("def __getattr__(n):\n return store[n]", vars(m))
    return (lambda x: x * m.k), lambda: m.store.update(k=3)


@form
def sort_key():
    w = {"a": 1, "b": 2}
    return (lambda x: x if sorted("ab", key=w.get)[0] == "a" else -x), lambda: w.update(a=5)


@form
def sort_key_method():
    w = {"a": 1, "b": 2}
    h = Holder(f=w.get)
    return (lambda x: x if sorted("ab", key=h.f)[0] == "a" else -x), lambda: w.update(a=5)


@form
def starargs():
    a = [2, 1]
    return (lambda x: x * max(*a)), lambda: a.__setitem__(0, 3)


@form
def dict_views():
    d = {"a": 2}
    v = d.values()
    return (lambda x: x * sum(v)), lambda: d.update(a=3)


@form
def mapproxy():
    d = {"a": 2}
    p = types.MappingProxyType(d)
    return (lambda x: x * p["a"]), lambda: d.update(a=3)


@form
def set_name_eq():
    h = Holder(a="a")
    return (lambda x: x if h.a == "a" else -x), lambda: setattr(h, "a", "b")


@form
def ident():
    a = [1]
    h = Holder(a=a, b=a)
    return (lambda x: x if h.a is h.b else -x), lambda: setattr(h, "b", [1])


@form
def ident_of_tensor():
    t = ad.ones(1)
    h = Holder(a=t, b=t)
    return (lambda x: x if h.a is h.b else -x), lambda: setattr(h, "b", ad.ones(1))


@form
def none_to_tensor():
    h = Holder(a=None)
    return (lambda x: x if h.a is None else x * h.a), lambda: setattr(h, "a", ad.ones(2) * 3)


@form
def optional_in_dict():
    h = {}
    return (lambda x: x * h.get("k", 2)), lambda: h.update(k=3)


@form
def hasattr_():
    h = Holder()
    return (lambda x: x if hasattr(h, "z") else -x), lambda: setattr(h, "z", 1)


@form
def try_attr():
    h = Holder()

    def f(x):
        try:
            return x * h.z
        except AttributeError:
            return x

    return f, lambda: setattr(h, "z", 3)


@form
def try_global():
    globals().pop("ZZ", None)

    def f(x):
        try:
            return x * ZZ
        except NameError:
            return x

    return f, lambda: globals().update(ZZ=3)


@form
def try_cell():
    def make():
        def f(x):
            try:
                return x * k
            except NameError:
                return x

        def ch():
            nonlocal k
            k = 3

        if 0:
            k = 1
        return f, ch

    return make()


@form
def list_cell_method():
    l = [1, 2]
    ap = l.copy
    return (lambda x: x * len(ap())), lambda: l.append(1)


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """What forms change for all programs is put back."""
    for table in (os.environ, sys.modules, globals()):
        for name in set(table) & {"FORMS_K", "fm2", "fm3", "fm4", "fm5", "GK"}:
            monkeypatch.setitem(table, name, table[name])
    with decimal.localcontext():
        yield


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
