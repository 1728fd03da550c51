"""Slots and properties, attributes of classes, functions and others in which a function stores something: each call leaves there what it leaves without `ad.jit` (stores.py)."""

import dataclasses
import enum
import types

import pytest
from stores import Box, box, forms, same

import adjoint as ad

FORMS, form = forms()


@form
def attribute_slot():
    class S:
        __slots__ = ("y",)

    s = S()
    s.y = ad.zeros(2)

    def f(x):
        s.y = s.y + x
        return s.y

    return f, lambda: s.y


@form
def attribute_slot_that_is_empty_at_first():
    class S:
        __slots__ = ("n", "y")

    s = S()

    def f(x):
        if not hasattr(s, "y"):
            s.n = 0
        s.y = x + 1
        s.n += 1
        return s.y

    return f, lambda: (s.y, s.n)


@form
def attribute_slot_taken_away():
    class S:
        __slots__ = ("y",)

    s = S()

    def f(x):
        if hasattr(s, "y"):
            del s.y
        else:
            s.y = x + 1
        return x * 2

    return f, lambda: getattr(s, "y", None)


@form
def attribute_slot_and_dict():
    class S:
        __slots__ = ("__dict__", "y")

    s = S()
    s.y, s.z = ad.zeros(2), ad.zeros(2)

    def f(x):
        s.y, s.z = s.z + x, s.y - x
        return s.y

    return f, lambda: (s.y, s.z)


@form
def attribute_slot_of_a_base():
    class A:
        __slots__ = ("y",)

    class B(A):
        __slots__ = ("z",)

    s = B()
    s.y = s.z = ad.zeros(2)

    def f(x):
        s.y = x + 1
        s.z = s.y + s.z
        return s.z

    return f, lambda: (s.y, s.z)


@form
def attribute_by_property():
    class P:
        _y, sets = None, 0

        @property
        def y(self):
            return self._y

        @y.setter
        def y(self, value):
            self.sets += 1
            self._y = value

    p = P()

    def f(x):
        p.y = x + 1
        return p.y * 2

    return f, lambda: vars(p)


@form
def attribute_by_property_that_raises():
    class P:
        calls = 0

        @property
        def y(self):
            return 1

        @y.setter
        def y(self, value):
            self.calls += 1
            if self.calls % 3 == 2:
                raise ValueError(self.calls)
            self.kept = value

    p = P()

    def f(x):
        p.y = x + 1
        return x * 2

    return f, lambda: vars(p)


@form
def attribute_by_descriptor():
    class D:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, o, owner=None):
            return o.__dict__[self.name]

        def __set__(self, o, value):
            o.__dict__[self.name] = value
            self.last = value

    class H:
        y = D()

    h = H()
    h.y = ad.zeros(2)

    def f(x):
        h.y = h.y + x
        return h.y

    return f, lambda: (h.y, H.__dict__["y"].last)


@form
def attribute_by_setattr_of_the_class():
    class H:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            object.__setattr__(self, "log", [*self.__dict__.get("log", [])[-2:], name])

    h = H()
    h.y = ad.zeros(2)

    def f(x):
        h.y = x + 1
        return h.y

    return f, lambda: vars(h)


@form
def attribute_through_dict():
    return box(lambda o, x: o.__dict__.__setitem__("y", x + 1) or o.y, y=None)


@form
def attributes_all_replaced():
    def f(o, x):
        o.__dict__ = {"y": x + 1, "n": 1}
        return o.y

    o = Box(y=None)
    return (lambda x: f(o, x)), lambda: vars(o)


@form
def attribute_order():
    def f(o, x):
        o.a = o.__dict__.pop("a") + x
        return o.a

    return box(f, a=ad.zeros(2), b=1)


@form
def attribute_of_a_class_of_the_object():
    class A:
        calls, y = 0, None

    a = A()

    def f(x):
        type(a).calls += 1
        A.y = x + 1
        return A.y

    return f, lambda: (A.calls, A.y)


@form
def attribute_of_a_base_class():
    class A:
        n = 0

    class B(A):
        pass

    b = B()

    def f(x):
        A.n += 1
        return x * b.n

    return f, lambda: (A.n, vars(b))


@form
def attribute_of_an_instance_hides_the_class():
    class A:
        n = 0

    a = A()

    def f(x):
        a.n += 1
        return x * a.n

    return f, lambda: (A.n, vars(a))


@form
def attribute_of_a_metaclass():
    class M(type):
        n = 0

    class A(metaclass=M):
        pass

    def f(x):
        M.n += 1
        return x * A.n

    return f, lambda: M.n


@form
def attribute_of_a_function():
    def f(x):
        f.calls += 1
        f.y = x + 1
        return x * 2

    f.calls, f.y = 0, None
    return f, lambda: (f.calls, f.y)


@form
def attribute_of_a_method():
    class A:
        def m(self, x):
            A.m.calls = getattr(A.m, "calls", 0) + 1
            return x + 1

    a = A()
    return a.m, lambda: getattr(A.m, "calls", 0)


@form
def attribute_of_a_module():
    m = types.ModuleType("stored_in")
    m.y, m.n = None, 0

    def f(x):
        m.y = x + 1
        m.n += 1
        return m.y

    return f, lambda: (m.y, m.n)


@form
def attribute_of_a_namespace():
    n = types.SimpleNamespace(y=ad.zeros(2))

    def f(x):
        n.y = n.y + x
        return n.y

    return f, lambda: vars(n)


@form
def attribute_of_an_enumeration():
    class E(enum.Enum):
        A = 1

    def f(x):
        E.A.y = x + 1
        return x * 2

    return f, lambda: E.A.y


@form
def attribute_of_a_dataclass():
    @dataclasses.dataclass
    class D:
        y: object
        n: int = 0

    d = D(ad.zeros(2))

    def f(x):
        d.y, d.n = d.y + x, d.n + 1
        return d.y

    return f, lambda: dataclasses.astuple(d)


@form
def attribute_of_a_frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class D:
        y: object

    h = Box(d=D(ad.zeros(2)))

    def f(x):
        h.d = dataclasses.replace(h.d, y=h.d.y + x)
        return h.d.y

    return f, lambda: h.d.y


@form
def attribute_of_a_frozen_dataclass_by_force():
    @dataclasses.dataclass(frozen=True)
    class D:
        y: object

    d = D(ad.zeros(2))

    def f(x):
        object.__setattr__(d, "y", d.y + x)
        return d.y

    return f, lambda: d.y


@form
def attribute_of_a_tensor():
    t = ad.zeros(2)

    def f(x):
        t.tag = getattr(t, "tag", 0) + 1
        return x + t

    return f, lambda: t.tag


@form
def attribute_of_the_argument():
    def f(x):
        x.seen = True
        return x + 1

    return f, lambda: None


@form
def attribute_of_a_class_named_by_a_text():
    o = Box(n=0)

    def f(x):
        setattr(o, "".join(("n", "")), getattr(o, "n") + 1)
        return x + 1

    return f, lambda: o.n


@form
def attribute_class_of_the_object():
    class A:
        sign = 1

    class B:
        sign = -1

    o = A()

    def f(x):
        o.__class__ = B if type(o) is A else A
        return x * o.sign

    return f, lambda: type(o).__name__


@form
def attribute_function_of_the_object():
    o = Box(g=lambda x: x + 1, n=0)

    def f(x):
        y = o.g(x)
        k = o.n = o.n + 1
        o.g = lambda x: x + k
        return y

    return f, lambda: o.n


@form
def attribute_slot_behind_a_property():
    class A:
        __slots__ = ("y",)

    class B(A):
        __slots__ = ("asked",)

        @property
        def y(self):
            self.asked += 1
            return A.y.__get__(self)

        @y.setter
        def y(self, value):
            A.y.__set__(self, value)

    b = B()
    b.asked, b.y = 0, ad.zeros(2)

    def f(x):
        b.y = b.y + x
        return b.y

    return f, lambda: (A.y.__get__(b), b.asked)


@pytest.mark.parametrize("name", FORMS)
def test_a_call_leaves_what_it_leaves_without_jit(name):
    same(FORMS[name])
