"""Functions, classes and modules that a function uses: a change of each is seen at the next call."""

import abc
import collections
import functools
import operator
import sys
import types

import pytest
from laid_out import Box, Options, case, check, module_of

import adjoint as ad

x = ad.tensor([1.0, 2.0])


CASES = {}


@case(CASES, "k is 3, was 2")
def a_global():
    module = module_of("def f(x): return x * k", k=2)
    return module.f, (x,), lambda: setattr(module, "k", 3)


@case(CASES, "is 7, was missing")
def a_global_that_hides_a_builtin():
    module = module_of("def f(x): return x * max(1, 2)")
    return module.f, (x,), lambda: setattr(module, "max", 7)


@case(CASES, "k is 3, was 2")
def an_attribute_of_a_module():
    settings = types.ModuleType("settings_of_a_test")
    settings.k = 2
    module = module_of("def f(x): return x * settings.k", settings=settings)
    return module.f, (x,), lambda: setattr(settings, "k", 3)


@case(CASES, "attributes")
def an_attribute_that_hides_one_of_the_class():
    o = Box()
    return (lambda x: x * o.shared), (x,), lambda: setattr(o, "shared", 3)


@case(CASES, "shared is 3, was 1")
def a_class_attribute():
    class Own(Box):
        shared = 1

    o = Own()
    return (lambda x: x * o.shared), (x,), lambda: setattr(Own, "shared", 3)


@case(CASES, "another class")
def the_class_of_an_object():
    class One:
        k = 1

    class Two:
        k = 2

    o = One()
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "__class__", Two)


@case(CASES, "is 3, was 2")
def an_int_of_a_class():
    class Number(int):
        pass

    o = Box(k=Number(2))
    return (lambda x: x * int(o.k)), (x,), lambda: setattr(o, "k", Number(3))


@case(CASES, "is 2, was 1")
def a_default():
    def f(x, k=1):
        return x * k

    return f, (x,), lambda: setattr(f, "__defaults__", (2,))


@case(CASES, "is 2, was 1")
def a_keyword_default():
    def f(x, *, k=1):
        return x * k

    return f, (x,), lambda: setattr(f, "__kwdefaults__", {"k": 2})


@case(CASES, "code")
def the_code_of_the_function():
    def f(x):
        return x * 2

    return f, (x,), lambda: setattr(f, "__code__", (lambda x: x * 3).__code__)


@case(CASES, "code")
def a_function_that_is_called():
    module = module_of("def g(x): return x * 2\ndef f(x): return g(x)")
    return module.f, (x,), lambda: exec("def g(x): return x * 3", vars(module))


@case(CASES, "k is 3, was 2")
def the_closure_of_a_function_that_is_called():
    def make(k):
        def inner(x):
            return x * k

        def change(to):
            nonlocal k
            k = to

        return inner, change

    inner, change = make(2)
    return (lambda x: inner(x)), (x,), lambda: change(3)


@case(CASES, "k is 3, was 2")
def the_globals_of_a_function_that_is_called():
    other = module_of("def g(x): return x * k", k=2)
    module = module_of("def f(x): return g(x)", g=other.g)
    return module.f, (x,), lambda: setattr(other, "k", 3)


@case(CASES, "k is 3, was 2")
def the_attribute_of_a_function():
    def g(x):
        return x * g.k

    g.k = 2
    return (lambda x: g(x)), (x,), lambda: setattr(g, "k", 3)


@case(CASES, "code")
def a_method():
    class Own:
        def scaled(self, x):
            return x * 2

    o = Own()
    return (lambda x: o.scaled(x)), (x,), lambda: setattr(Own, "scaled", lambda self, x: x * 3)


@case(CASES, "code")
def a_special_method():
    class Own:
        def __call__(self, x):
            return x * 2

    o = Own()
    return (lambda x: o(x)), (x,), lambda: setattr(Own, "__call__", lambda self, x: x * 3)


@case(CASES, "_k is 3, was 2")
def what_a_property_reads():
    class Own:
        def __init__(self):
            self._k = 2

        @property
        def k(self):
            return self._k

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "_k", 3)


@case(CASES, "code")
def a_property():
    class Own:
        @property
        def k(self):
            return 2

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(Own, "k", property(lambda self: 3))


@case(CASES, "k is 3, was 2")
def what_getattr_reads():
    o = Box(k=2)
    name = "k"
    return (lambda x: x * getattr(o, name)), (x,), lambda: setattr(o, "k", 3)


@case(CASES, "args[0] is 3, was 2")
def a_partial():
    o = Box(f=functools.partial(lambda k, x: x * k, 2))
    return (
        (lambda x: o.f(x)),
        (x,),
        lambda: setattr(o, "f", functools.partial(o.f.func, 3)),
    )


@case(CASES, "k is 3, was 2")
def a_module_that_is_imported_within():
    settings = types.ModuleType("settings_that_are_imported")
    settings.k = 2
    sys.modules[settings.__name__] = settings

    def f(x):
        from settings_that_are_imported import k

        return x * k

    return f, (x,), lambda: setattr(settings, "k", 3)


@case(CASES, "k is 3, was 2")
def a_function_within_a_decorator_of_the_library():
    def make(k):
        @ad.no_grad()
        def scaled(x):
            return x * k

        return scaled

    module = module_of("def f(x): return scaled(x)", scaled=make(2))
    return module.f, (x,), lambda: setattr(module, "scaled", make(3))


@case(CASES, "k is 3, was 2")
def the_closure_of_such_a_function():
    k = 2

    @ad.no_grad()
    def scaled(x):
        return x * k

    def change():
        nonlocal k
        k = 3

    return (lambda x: scaled(x)), (x,), change


@case(CASES, "other members")
def an_attribute_that_a_class_gets():
    class Own:
        pass

    o = Own()
    return (lambda x: x * getattr(o, "k", 1)), (x,), lambda: setattr(Own, "k", 3)


@case(CASES, "other members")
def a_special_method_that_a_class_gets():
    class Own:
        pass

    o = Own()
    return (lambda x: x if o else -x), (x,), lambda: setattr(Own, "__bool__", lambda self: False)


@case(CASES, "g has 1 attributes, had 0")
def an_attribute_that_a_function_gets():
    def g(x):
        return x

    return (lambda x: x * getattr(g, "k", 1)), (x,), lambda: setattr(g, "k", 3)


@case(CASES, "__name__ is 'other', was 'g'")
def the_name_of_a_function():
    def g():
        pass

    return (lambda x: x * len(g.__name__)), (x,), lambda: setattr(g, "__name__", "other")


@case(CASES, "__name__ is 'Other', was 'Own'")
def the_name_of_a_class():
    class Own:
        pass

    o = Own()
    return (lambda x: x * len(type(o).__name__)), (x,), lambda: setattr(Own, "__name__", "Other")


@case(CASES, "registered")
def a_class_that_is_registered():
    class Abstract(abc.ABC):
        pass

    class Own:
        pass

    o = Own()
    return (lambda x: x if isinstance(o, Abstract) else -x), (x,), lambda: Abstract.register(Own)


@case(CASES, "k is 3, was 2")
def what_an_attrgetter_reads():
    o, get = Box(k=2), operator.attrgetter("k")
    return (lambda x: x * get(o)), (x,), lambda: setattr(o, "k", 3)


@case(CASES, "rate is 0.25, was 0.5")
def what_a_pattern_reads():
    o = Options()

    def f(x):
        match o:
            case Options(rate, _):
                return x * rate

    return f, (x,), lambda: setattr(o, "rate", 0.25)


@case(CASES, "k is 3, was 2")
def what_a_jitted_function_reads():
    k = 2

    @ad.jit
    def scaled(x):
        return x * k

    def change():
        nonlocal k
        k = 3

    return (lambda x: scaled(x)), (x,), change


@case(CASES, "k is 3, was 2")
def an_attribute_of_a_metaclass():
    class Meta(type):
        k = 2

    class Own(metaclass=Meta):
        pass

    return (lambda x: x * Own.k), (x,), lambda: setattr(Meta, "k", 3)


@case(CASES, "other names")
def a_name_that_a_module_gets():
    settings = types.ModuleType("settings_of_a_test")

    def f(x):
        try:
            return x * settings.k
        except AttributeError:
            return x

    return f, (x,), lambda: setattr(settings, "k", 3)


@case(CASES, "is missing, was 2")
def a_global_that_is_deleted():
    module = module_of("def f(x): return x * k", k=2)
    return module.f, (x,), lambda: delattr(module, "k")


@case(CASES, "k is 3, was 2")
def what_a_callable_object_reads():
    class Own:
        def __init__(self):
            self.k = 2

        def __call__(self, x):
            return x * self.k

    o = Own()
    return o, (x,), lambda: setattr(o, "k", 3)


@case(CASES, "o.f.__self__ is another object than o.items")
def a_bound_method_of_a_list():
    items, other = [1], [1]
    o = Box(f=items.count, items=items)
    return (lambda x: x * o.f(1) * len(o.items)), (x,), lambda: setattr(o, "f", other.count)


@case(CASES, "another than before")
def another_bound_method_of_a_list():
    items = [1]
    o = Box(f=items.count)
    return (lambda x: x * o.f(1)), (x,), lambda: setattr(o, "f", items.index)


@case(CASES, "k is 3, was 2")
def the_list_of_a_bound_method():
    o = Box(k=2)
    items = [o]
    o.f = items.index
    return (lambda x: x * o.f(o) + o.k), (x,), lambda: setattr(o, "k", 3)


@case(CASES, "default_factory")
def the_factory_of_a_defaultdict():
    table = collections.defaultdict(int, a=1)

    def change():
        table.default_factory = float

    return (lambda x: x * table["a"]), (x,), change


@pytest.mark.parametrize("name", CASES)
def test_a_change_outside_is_seen(name):
    check(CASES, name)
