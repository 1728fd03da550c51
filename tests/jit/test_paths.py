"""What a jitted function reads of Python is collected, compared at each call, and never changed unseen.

Each guard has a case in `CASES`: a function, something that changes outside of it, and what `why` says. A case passes only
if the layout matched before the change and does not match after it.
"""

import collections
import contextlib
import dataclasses
import enum
import functools
import gc
import operator
import random
import sys
import threading
import types
import weakref

import pytest

import adjoint as ad
from adjoint.replay._paths import collect, reasons
from adjoint.replay._watch import Watching


def laid_out(function, *args, **kwargs):
    """The layout of a call that ran once before."""
    with Watching(function) as watch:
        function(*args, **kwargs)
    return collect(function, args, kwargs, watch.codes)


def matches(layout, function, *args, **kwargs):
    return layout.match(function, args, kwargs) is not None


def names_of(layout):
    assert not layout.unknown, layout.unknown
    return layout.names


x = ad.tensor([1.0, 2.0])


# ---- what is found ------------------------------------------------------------------------------------------------


def test_arguments_are_found_by_their_names():
    layout = laid_out(lambda a, b, *, c: a + b + c, x, ad.ones(2), c=ad.ones(2))
    assert names_of(layout) == ["a", "b", "c"]
    assert layout.tensors[0] is x


def test_nested_arguments():
    Pair = collections.namedtuple("Pair", "left right")

    def f(tree):
        return tree["a"][0] + tree["b"].right * tree["n"]

    tree = {"a": [x, ad.ones(2)], "b": Pair(ad.ones(2), ad.zeros(2)), "n": 3}
    layout = laid_out(f, tree)
    assert names_of(layout) == ["tree['a'][0]", "tree['a'][1]", "tree['b'][0]", "tree['b'][1]"]
    assert ("tree['n']", 3) in layout.values
    fresh = {"a": [ad.ones(2), ad.ones(2)], "b": Pair(ad.ones(2), ad.zeros(2)), "n": 3}
    found = layout.match(f, (fresh,), {})
    assert found[0] is fresh["a"][0] and found[3] is fresh["b"].right
    fresh["n"] = 4
    assert not matches(layout, f, fresh)
    assert layout.why == "tree['n'] is 4, was 3"


class Net(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = ad.nn.Linear(2, 3)
        self.layers = ad.nn.ModuleList([ad.nn.Linear(3, 3) for _ in range(2)])
        self.register_buffer("mean", ad.zeros(2))
        self.scale = 2.0

    def forward(self, x):
        x = self.first(x - self.mean) * self.scale
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def test_modules_are_found_by_their_paths():
    net = Net()
    layout = laid_out(net, x)
    names = set(names_of(layout))
    assert {"x", "mean", "first.weight", "layers[0].weight", "layers[1].bias", "first.weight.grad"} <= names
    assert ("scale", 2.0) in layout.floats
    assert len(layout.tensors) == 1 + 1 + 2 * 6


def test_a_training_step_is_found_through_globals():
    net, optimizer = Net(), None
    optimizer = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(x)
    layout = laid_out(step, x)
    names = set(names_of(layout))
    assert {"net.first.weight", "net.first.weight.grad", "x"} <= names
    assert sum("momentum_buffer" in name for name in names) == 6
    assert ("optimizer.param_groups[0]['lr']", 0.1) in layout.floats
    assert matches(layout, step, x)
    step(x)
    assert matches(layout, step, x), layout.why
    optimizer.param_groups[0]["lr"] = 0.05
    assert not matches(layout, step, x)
    assert "lr" in layout.why


def test_floats_can_vary():
    def f(x, rate):
        return x * rate

    layout = laid_out(f, x, 0.5)
    assert layout.floats == [("rate", 0.5)]
    layout.let_vary([0])
    assert layout.match(f, (x, 0.25), {}) == [x, 0.25] or layout.match(f, (x, 0.25), {})[1] == 0.25
    assert layout.match(f, (x, 1), {}) is None
    assert layout.why == "rate is 1, was a float"


# ---- each guard ---------------------------------------------------------------------------------------------------

CASES = {}


def case(why):
    def add(make):
        CASES[make.__name__] = (make, why)
        return make

    return add


class Box:
    shared = 1
    __hash__ = object.__hash__

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)


class Slots:
    __slots__ = ("value",)


@dataclasses.dataclass
class Options:
    rate: float = 0.5
    steps: int = 2


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def module_of(source, **names):
    """A module that is no file."""
    module = types.ModuleType("made_by_a_test")
    vars(module).update(names, ad=ad)
    exec(source, vars(module))
    return module


@case("k is 3, was 2")
def a_global():
    module = module_of("def f(x): return x * k", k=2)
    return module.f, (x,), lambda: setattr(module, "k", 3)


@case("is 7, was missing")
def a_global_that_hides_a_builtin():
    module = module_of("def f(x): return x * max(1, 2)")
    return module.f, (x,), lambda: setattr(module, "max", 7)


@case("k is 3, was 2")
def an_attribute_of_a_module():
    settings = types.ModuleType("settings_of_a_test")
    settings.k = 2
    module = module_of("def f(x): return x * settings.k", settings=settings)
    return module.f, (x,), lambda: setattr(settings, "k", 3)


@case("k is 'b', was 'a'")
def a_cell():
    k = "a"

    def f(x):
        return x if k == "a" else -x

    def change():
        nonlocal k
        k = "b"

    return f, (x,), change


@case("o.k is 3, was 2")
def an_attribute():
    o = Box(k=2)
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", 3)


@case("attributes")
def an_attribute_that_hides_one_of_the_class():
    o = Box()
    return (lambda x: x * o.shared), (x,), lambda: setattr(o, "shared", 3)


@case("shared is 3, was 1")
def a_class_attribute():
    class Own(Box):
        shared = 1

    o = Own()
    return (lambda x: x * o.shared), (x,), lambda: setattr(Own, "shared", 3)


@case("shared is 3, was 1")
def an_attribute_of_a_base():
    class Base:
        shared = 1

    class Own(Base):
        pass

    o = Own()
    return (lambda x: x * o.shared), (x,), lambda: setattr(Base, "shared", 3)


@case("another class")
def the_class_of_an_object():
    class One:
        k = 1

    class Two:
        k = 2

    o = One()
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "__class__", Two)


@case("value is 3, was 2")
def a_slot():
    o = Slots()
    o.value = 2
    return (lambda x: x * o.value), (x,), lambda: setattr(o, "value", 3)


@case("is missing, was 2")
def a_slot_that_is_deleted():
    o = Slots()
    o.value = 2
    return (lambda x: x * o.value), (x,), lambda: delattr(o, "value")


@case("rate is 0.25, was 0.5")
def a_field():
    o = Options()
    return (lambda x: x * o.rate), (x,), lambda: setattr(o, "rate", 0.25)


@case("was 0.0")
def a_zero_of_the_other_sign():
    o = Options(rate=0.0)
    return (lambda x: x * o.rate), (x,), lambda: setattr(o, "rate", -0.0)


@case("True, was 1")
def an_int_that_becomes_a_bool():
    o = Box(k=1)
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", True)


@case("k is 18446744073709551617")
def a_large_int():
    o = Box(k=2**64)
    return (lambda x: x * float(o.k)), (x,), lambda: setattr(o, "k", 2**64 + 1)


@case("was 1j")
def a_complex():
    o = Box(k=1j)
    return (lambda x: x * abs(o.k)), (x,), lambda: setattr(o, "k", 2j)


@case("b'b'")
def bytes_that_differ():
    o = Box(k=b"a")
    return (lambda x: x * o.k[0]), (x,), lambda: setattr(o, "k", b"b")


@case("range(0, 3)")
def a_range():
    o = Box(k=range(2))
    return (lambda x: sum((x * i for i in o.k), x)), (x,), lambda: setattr(o, "k", range(3))


@case("stop is 2, was 1")
def a_slice():
    o = Box(k=slice(0, 1))
    return (lambda x: x[o.k]), (x,), lambda: setattr(o, "k", slice(0, 2))


@case("k is")
def a_member_of_an_enum():
    o = Box(k=Color.RED)
    return (lambda x: x if o.k is Color.RED else -x), (x,), lambda: setattr(o, "k", Color.BLUE)


@case("dtype")
def a_dtype():
    o = Box(dtype=ad.float32)
    return (lambda x: x.to(o.dtype)), (x,), lambda: setattr(o, "dtype", ad.float64)


@case("type is 'meta', was 'cpu'")
def a_device():
    o = Box(place=ad.device("cpu"))
    return (lambda x: ad.ones(2, device=o.place)), (x,), lambda: setattr(o, "place", ad.device("meta"))


@case("items[1] is 3, was 2")
def an_item_of_a_list():
    items = [1, 2]
    return (lambda x: x * items[1]), (x,), lambda: items.__setitem__(1, 3)


@case("3 items, had 2")
def the_length_of_a_list():
    items = [1, 2]
    return (lambda x: x * len(items)), (x,), lambda: items.append(3)


@case("table['a'] is 2, was 1")
def an_item_of_a_dict():
    table = {"a": 1, "b": 2}
    return (lambda x: x * table["a"]), (x,), lambda: table.__setitem__("a", 2)


@case("3 entries, had 2")
def the_length_of_a_dict():
    table = {"a": 1, "b": 2}
    return (lambda x: x * len(table)), (x,), lambda: table.__setitem__("c", 2)


@case("is 'b', was 'a'")
def the_order_of_a_dict():
    table = {"a": 1, "b": 1}

    def change():
        del table["a"]
        table["a"] = 1

    return (lambda x: x if next(iter(table)) == "a" else -x), (x,), change


@case("order")
def the_order_of_an_ordered_dict():
    table = collections.OrderedDict(a=1, b=1)
    return (lambda x: x if next(iter(table)) == "a" else -x), (x,), lambda: table.move_to_end("a")


@case("element")
def an_element_of_a_set():
    chosen = {1, 2}

    def change():
        chosen.remove(1)
        chosen.add(5)

    return (lambda x: x * (1 in chosen)), (x,), change


@case("k is 3, was 2")
def an_attribute_of_a_list():
    class Items(list):
        pass

    items = Items([1])
    items.k = 2
    return (lambda x: x * items.k), (x,), lambda: setattr(items, "k", 3)


@case("is 3, was 2")
def an_int_of_a_class():
    class Number(int):
        pass

    o = Box(k=Number(2))
    return (lambda x: x * int(o.k)), (x,), lambda: setattr(o, "k", Number(3))


@case("is 2, was 1")
def a_default():
    def f(x, k=1):
        return x * k

    return f, (x,), lambda: setattr(f, "__defaults__", (2,))


@case("is 2, was 1")
def a_keyword_default():
    def f(x, *, k=1):
        return x * k

    return f, (x,), lambda: setattr(f, "__kwdefaults__", {"k": 2})


@case("code")
def the_code_of_the_function():
    def f(x):
        return x * 2

    return f, (x,), lambda: setattr(f, "__code__", (lambda x: x * 3).__code__)


@case("code")
def a_function_that_is_called():
    module = module_of("def g(x): return x * 2\ndef f(x): return g(x)")
    return module.f, (x,), lambda: exec("def g(x): return x * 3", vars(module))


@case("k is 3, was 2")
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


@case("k is 3, was 2")
def the_globals_of_a_function_that_is_called():
    other = module_of("def g(x): return x * k", k=2)
    module = module_of("def f(x): return g(x)", g=other.g)
    return module.f, (x,), lambda: setattr(other, "k", 3)


@case("k is 3, was 2")
def the_attribute_of_a_function():
    def g(x):
        return x * g.k

    g.k = 2
    return (lambda x: g(x)), (x,), lambda: setattr(g, "k", 3)


@case("code")
def a_method():
    class Own:
        def scaled(self, x):
            return x * 2

    o = Own()
    return (lambda x: o.scaled(x)), (x,), lambda: setattr(Own, "scaled", lambda self, x: x * 3)


@case("code")
def a_special_method():
    class Own:
        def __call__(self, x):
            return x * 2

    o = Own()
    return (lambda x: o(x)), (x,), lambda: setattr(Own, "__call__", lambda self, x: x * 3)


@case("_k is 3, was 2")
def what_a_property_reads():
    class Own:
        def __init__(self):
            self._k = 2

        @property
        def k(self):
            return self._k

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "_k", 3)


@case("code")
def a_property():
    class Own:
        @property
        def k(self):
            return 2

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(Own, "k", property(lambda self: 3))


@case("k is 3, was 2")
def what_getattr_reads():
    o = Box(k=2)
    name = "k"
    return (lambda x: x * getattr(o, name)), (x,), lambda: setattr(o, "k", 3)


@case("args[0] is 3, was 2")
def a_partial():
    o = Box(f=functools.partial(lambda k, x: x * k, 2))
    return (
        (lambda x: o.f(x)),
        (x,),
        lambda: setattr(o, "f", functools.partial(o.f.func, 3)),
    )


@case("k is 3, was 2")
def what_a_weak_reference_leads_to():
    o = Box(k=2)
    ref = weakref.ref(o)
    return (lambda x: x * ref().k), (x,), lambda: setattr(o, "k", 3)


@case("the same object, were two")
def two_lists_that_become_one():
    o = Box(a=[1], b=[1])
    return (lambda x: x * o.a[0] * o.b[0]), (x,), lambda: setattr(o, "b", o.a)


@case("another object than")
def one_list_that_becomes_two():
    items = [1]
    o = Box(a=items, b=items)
    return (lambda x: x * o.a[0] * o.b[0]), (x,), lambda: setattr(o, "b", [1])


@case("training is False, was True")
def eval_of_a_module():
    net = Net()
    return net, (x,), net.eval


@case("layers")
def a_layer_that_is_added():
    net = Net()
    return net, (x,), lambda: net.layers.append(ad.nn.Linear(3, 3))


@case("another class")
def a_layer_that_is_replaced():
    net = Net()
    return net, (x,), lambda: setattr(net, "first", ad.nn.Sequential(ad.nn.Linear(2, 3)))


@case("")
def a_hook_of_a_module():
    net = Net()
    return net, (x,), lambda: net.first.register_forward_hook(lambda *a: None)


@case("")
def a_hook_of_all_modules():
    net = Net()
    handles = []

    def change():
        handles.append(ad.nn.module.register_module_forward_hook(lambda *a: None))

    change.undo = lambda: handles.pop().remove()
    return net, (x,), change


@case("")
def a_method_of_the_library():
    net = ad.nn.Linear(2, 2)
    old = ad.nn.Linear.forward

    def change():
        ad.nn.Linear.forward = lambda self, x: x

    change.undo = lambda: setattr(ad.nn.Linear, "forward", old)
    return net, (x,), change


@case("weight.grad is there, was None")
def a_gradient_that_is_there():
    net = Net()
    return net, (x,), lambda: net(x).sum().backward()


@case("weight.grad is None, was a tensor")
def a_gradient_that_is_gone():
    net = Net()
    net(x).sum().backward()
    return net, (x,), net.zero_grad


@case("weight does not require grad, did")
def a_parameter_that_is_frozen():
    net = Net()
    return net, (x,), lambda: net.first.weight.requires_grad_(False)


@case("weight has a hook, had none")
def a_hook_of_a_parameter():
    net = Net()
    return net, (x,), lambda: net.first.weight.register_hook(lambda g: g)


@case("weight has a hook, had none")
def a_hook_after_accumulation():
    net = Net()
    return net, (x,), lambda: net.first.weight.register_post_accumulate_grad_hook(lambda p: None)


@case("mean has dtype float64, was float32")
def the_dtype_of_a_buffer():
    net = Net()
    return net, (x,), lambda: setattr(net, "mean", net.mean.double())


@case("attributes")
def an_attribute_of_a_tensor():
    y = ad.ones(2)
    return (lambda x: x * hasattr(y, "k")), (x,), lambda: setattr(y, "k", 2)


@case("k is 3, was 2")
def the_value_of_an_attribute_of_a_tensor():
    y = ad.ones(2)
    y.k = 2
    return (lambda x: x * y.k), (x,), lambda: setattr(y, "k", 3)


@case("was a tensor")
def a_tensor_that_becomes_a_number():
    o = Box(k=ad.tensor(2.0))
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", 2.0)


@case("k is 3, was 2")
def a_module_that_is_imported_within():
    settings = types.ModuleType("settings_that_are_imported")
    settings.k = 2
    sys.modules[settings.__name__] = settings

    def f(x):
        from settings_that_are_imported import k

        return x * k

    return f, (x,), lambda: setattr(settings, "k", 3)


@case("k is 3, was 2")
def a_function_within_a_decorator_of_the_library():
    def make(k):
        @ad.no_grad()
        def scaled(x):
            return x * k

        return scaled

    module = module_of("def f(x): return scaled(x)", scaled=make(2))
    return module.f, (x,), lambda: setattr(module, "scaled", make(3))


@case("k is 3, was 2")
def the_closure_of_such_a_function():
    k = 2

    @ad.no_grad()
    def scaled(x):
        return x * k

    def change():
        nonlocal k
        k = 3

    return (lambda x: scaled(x)), (x,), change


@case("other members")
def an_attribute_that_a_class_gets():
    class Own:
        pass

    o = Own()
    return (lambda x: x * getattr(o, "k", 1)), (x,), lambda: setattr(Own, "k", 3)


@case("other members")
def a_special_method_that_a_class_gets():
    class Own:
        pass

    o = Own()
    return (lambda x: x if o else -x), (x,), lambda: setattr(Own, "__bool__", lambda self: False)


@case("another function")
def an_attribute_that_a_function_gets():
    def g(x):
        return x

    return (lambda x: x * getattr(g, "k", 1)), (x,), lambda: setattr(g, "k", 3)


@case("k is 3, was 2")
def an_attribute_of_a_metaclass():
    class Meta(type):
        k = 2

    class Own(metaclass=Meta):
        pass

    return (lambda x: x * Own.k), (x,), lambda: setattr(Meta, "k", 3)


@case("other names")
def a_name_that_a_module_gets():
    settings = types.ModuleType("settings_of_a_test")

    def f(x):
        try:
            return x * settings.k
        except AttributeError:
            return x

    return f, (x,), lambda: setattr(settings, "k", 3)


@case("is missing, was 2")
def a_global_that_is_deleted():
    module = module_of("def f(x): return x * k", k=2)
    return module.f, (x,), lambda: delattr(module, "k")


@case("k is 3, was 2")
def what_a_callable_object_reads():
    class Own:
        def __init__(self):
            self.k = 2

        def __call__(self, x):
            return x * self.k

    o = Own()
    return o, (x,), lambda: setattr(o, "k", 3)


@case("lr")
def an_option_of_an_optimiser():
    w = ad.nn.Parameter(ad.ones(2))
    optimizer = ad.optim.Adam([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    f(x)
    return f, (x,), lambda: optimizer.param_groups[0].update(lr=0.2)


@case("")
def the_state_of_an_optimiser_that_is_dropped():
    w = ad.nn.Parameter(ad.ones(2))
    optimizer = ad.optim.Adam([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    f(x)
    return f, (x,), optimizer.state.clear


@case("o.f.__self__ is another object than o.items")
def a_bound_method_of_a_list():
    items, other = [1], [1]
    o = Box(f=items.count, items=items)
    return (lambda x: x * o.f(1) * len(o.items)), (x,), lambda: setattr(o, "f", other.count)


@case("another than before")
def another_bound_method_of_a_list():
    items = [1]
    o = Box(f=items.count)
    return (lambda x: x * o.f(1)), (x,), lambda: setattr(o, "f", items.index)


@case("k is 3, was 2")
def the_list_of_a_bound_method():
    o = Box(k=2)
    items = [o]
    o.f = items.index
    return (lambda x: x * o.f(o) + o.k), (x,), lambda: setattr(o, "k", 3)


@case("default_factory")
def the_factory_of_a_defaultdict():
    table = collections.defaultdict(int, a=1)

    def change():
        table.default_factory = float

    return (lambda x: x * table["a"]), (x,), change


@case("relu")
def a_function_within_the_library():
    functional = sys.modules[ad.nn.ReLU.forward.__globals__["__name__"]]
    name = next(n for n in ad.nn.ReLU.forward.__code__.co_names if n in vars(functional))
    old = vars(functional)[name]

    def change():
        setattr(functional, name, lambda *a, **k: 3)

    change.undo = lambda: setattr(functional, name, old)
    CASES["a_function_within_the_library"] = (a_function_within_the_library, name)
    return ad.nn.ReLU(), (x,), change


@case("ref is missing")
def what_a_weak_reference_led_to():
    box = [Box(k=2)]
    ref = weakref.ref(box[0])
    return (lambda x: x if ref() is None else x * ref().k), (x,), lambda: box.clear()


@case("was another object")
def a_thing_that_is_known_by_identity():
    class Odd(property):
        pass

    class Own:
        a, b = 2, 3
        k = Odd(operator.attrgetter("a"))

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(Own, "k", Odd(operator.attrgetter("b")))


@pytest.mark.parametrize("name", CASES)
def test_a_change_outside_is_seen(name):
    make, why = CASES[name]
    function, args, change = make()
    why = CASES[name][1]
    layout = laid_out(function, *args)
    assert not layout.unknown, layout.unknown
    assert matches(layout, function, *args), layout.why
    layout.release_tensors()
    gc.collect()
    assert matches(layout, function, *args), layout.why
    change()
    try:
        assert not matches(layout, function, *args)
        assert why in layout.why, layout.why
        assert layout.why
    finally:
        getattr(change, "undo", lambda: None)()


# ---- tensors ------------------------------------------------------------------------------------------------------

grown = ad.ones(2, requires_grad=True)
GEOMETRY = {
    "dtype": (ad.ones(2, dtype=ad.float64), "has dtype float64, was float32"),
    "shape": (ad.ones(3), "has shape"),
    "rank": (ad.ones(2, 1), "has shape"),
    "strides": (ad.ones(4)[::2], "has strides"),
    "requires_grad": (ad.ones(2, requires_grad=True), "requires grad, did not"),
    "history": (grown * 2, "requires grad"),
    "device": (ad.ones(2, device="meta"), "is on meta, was cpu"),
    "class": (ad.nn.Parameter(ad.ones(2), requires_grad=False), "class"),
    "number": (2.0, "x is 2.0, was a tensor"),
    "None": (None, "x is None, was a tensor"),
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_tensors_are_compared_by_what_they_look_like(name):
    def f(x):
        return x

    layout = laid_out(f, x)
    assert matches(layout, f, ad.zeros(2))
    other, why = GEOMETRY[name]
    assert not matches(layout, f, other)
    assert why in layout.why, layout.why


def test_inputs_that_share_memory():
    def f(a, b):
        return a + b

    base = ad.ones(4)
    apart = laid_out(f, ad.ones(2), ad.ones(2))
    together = laid_out(f, base[:2], base[1:3])
    same = laid_out(f, x, x)
    assert matches(apart, f, ad.ones(2), ad.zeros(2))
    assert not matches(apart, f, x, x)
    assert "share memory" in apart.why or "another tensor" in apart.why or "same tensor" in apart.why
    assert not matches(apart, f, x, x.detach())
    assert "share memory otherwise" in apart.why
    other = ad.zeros(4)
    assert matches(together, f, other[:2], other[1:3])
    assert not matches(together, f, other[:2], other[2:])
    assert not matches(together, f, ad.ones(4)[:2], ad.ones(4)[1:3])
    assert matches(same, f, base[:2], base[:2]) is False
    y = ad.ones(2)
    assert matches(same, f, y, y)
    assert same.tensors[0] is x and len(same.tensors) == 1


def test_bytes_of_others_that_overlap():
    np = pytest.importorskip("numpy")

    def f(a, b):
        return a + b

    array = np.ones(8, dtype=np.float32)
    first, second = ad.from_numpy(array[:4]), ad.from_numpy(array[4:])
    layout = laid_out(f, first, second)
    assert matches(layout, f, first, second)
    assert not matches(layout, f, first, ad.from_numpy(array[2:6]))
    assert "share memory" in layout.why
    assert laid_out(f, first, ad.from_numpy(array[2:6])).unknown


def test_a_sparse_tensor_is_not_followed():
    s = ad.eye(2).to_sparse()
    layout = laid_out(lambda s: s, s)
    assert "sparse" in layout.unknown[0][1]


def test_the_signature():
    def f(x, k=1, *more, **named):
        return x * k

    layout = laid_out(f, x, k=2)
    assert matches(layout, f, x, k=2)
    for args, kwargs in (
        ((x, 2), {}),
        ((x,), {}),
        ((x,), {"k": 3}),
        ((x,), {"k": 2, "j": 1}),
        ((x,), {"j": 2}),
        ((), {}),
    ):
        assert layout.match(f, args, kwargs) is None
        assert layout.why


def test_one_method_of_two_instances():
    class Own:
        def __init__(self, k):
            self.k = k
            self.w = ad.ones(2)

        def f(self, x):
            return x * self.k * self.w

    one, two, third = Own(2), Own(2), Own(3)
    layout = laid_out(one.f, x)
    assert names_of(layout) == ["x", "self.w"]
    assert layout.match(two.f, (x,), {})[1] is two.w
    assert not matches(layout, third.f, x)
    assert layout.why == "self.k is 3, was 2"


def test_globals_that_nothing_reads_may_change():
    module = module_of("def f(x): return x * k", k=2, i=0)
    layout = laid_out(module.f, x)
    for module.i in range(3):
        assert matches(layout, module.f, x)
    module.k = 2
    assert matches(layout, module.f, x)


def test_class_attributes_that_nothing_reads_may_change():
    class Own:
        k, other = 2, 0

        def f(self, x):
            return x * self.k

    o = Own()
    layout = laid_out(o.f, x)
    for _ in range(3):
        Own.other += 1
        assert matches(layout, o.f, x)
    Own.k = 3
    assert not matches(layout, o.f, x)


# ---- what cannot be followed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing",
    (
        iter([1, 2]),
        (i for i in range(3)),
        zip([1], [2]),
        threading.Lock(),
        threading.local(),
        collections.deque([1]),
    ),
    ids=lambda t: type(t).__name__,
)
def test_what_changes_unseen_is_named(thing):
    o = Box(thing=thing)
    layout = laid_out(lambda x: (o.thing, x)[1], x)
    assert [path for path, _ in layout.unknown] == ["o.thing"]


def test_an_array_is_named():
    np = pytest.importorskip("numpy")
    o = Box(k=np.ones(2))
    layout = laid_out(lambda x: (o.k, x)[1], x)
    assert layout.unknown == [("o.k", "it is a numpy.ndarray, which cannot be looked into")]


def test_a_closure_that_no_path_leads_to_is_named():
    def make(k):
        def hidden(x):
            return k

        return hidden

    class Odd(property):
        pass

    class Own:
        k = Odd(make(2))

    o, cached = Own(), functools.lru_cache(make(2))
    assert any("what 'hidden'" in why for _, why in laid_out(lambda: o.k).unknown)
    assert any("lru_cache" in why for _, why in laid_out(lambda x: cached(x), x).unknown)


def test_modules_by_name_and_own_builtins_are_named():
    layout = laid_out(lambda x: (sys.modules["math"], x)[1], x)
    assert any("sys.modules" in why for _, why in layout.unknown)
    names = {"__builtins__": {"len": len}}
    exec("def f(x): return x", names)
    assert "builtins" in laid_out(names["f"], x).unknown[0][1]


def test_containers_that_contain_themselves():
    items = [1, x]
    items.append(items)
    table = {"self": items}
    items.append(table)

    def f(items):
        return items[1]

    layout = laid_out(f, items)
    assert names_of(layout) == ["items[1]"]
    assert matches(layout, f, items)
    items[3]["k"] = 1
    assert not matches(layout, f, items)


def test_a_deep_nest():
    nest = x
    for _ in range(20_000):
        nest = [nest]
    layout = laid_out(lambda nest: 0, nest)
    assert matches(layout, lambda nest: 0, nest) is False  # another function
    assert len(layout.tensors) == 1


def test_no_code_of_the_program_runs():
    ran = []

    class Loud:
        def __getattr__(self, name):
            ran.append(name)
            raise AttributeError(name)

        def __eq__(self, other):
            ran.append("__eq__")
            return True

        def __hash__(self):
            ran.append("__hash__")
            return 0

        @property
        def k(self):
            ran.append("k")
            return 1

        def __iter__(self):
            ran.append("__iter__")
            return iter(())

        def __len__(self):
            ran.append("__len__")
            return 0

        def __bool__(self):
            ran.append("__bool__")
            return True

    loud = Loud()
    o = Box(loud=loud, table={loud: 1, "k": 2}, chosen={loud}, items=[loud])

    def f(x):
        return (o.loud, o.table, o.chosen, o.items, x)[-1]

    layout = laid_out(f, x)
    names = laid_out(lambda x: (o.loud.k, x)[1], x)
    ran.clear()
    assert matches(layout, f, x)
    o.loud = Loud()
    assert not matches(layout, f, x)
    assert names.why == ""
    assert ran == []


def test_reasons():
    async def coroutine():
        pass

    def generator():
        yield

    async def both():
        yield

    assert reasons(3)[0].startswith("expected a function")
    for f, word in ((coroutine, "coroutine"), (generator, "generator"), (both, "asynchronous")):
        assert word in reasons(f)[0]
    assert reasons(lambda x: x) == [] and reasons(Net()) == [] and reasons(len) == []


# ---- what a run changes -------------------------------------------------------------------------------------------


def run_and_compare(function, *args):
    layout = laid_out(function, *args)
    function(*args)
    return layout, layout.changes()


def test_stores_are_seen_and_can_be_done_again():
    class State:
        __slots__ = ("slot",)

    class Holder:
        total = ad.zeros(2)

    o = Box(h=ad.zeros(2), items=[ad.zeros(2)], table={"k": ad.zeros(2)}, log=[])
    slots = State()
    slots.slot = ad.zeros(2)
    cell = ad.zeros(2)
    module = module_of("def f(x):\n global g\n g = x + 1", g=ad.zeros(2))

    def f(x):
        nonlocal cell
        o.h = x + 1
        o.new = x + 2
        o.items[0] = x + 3
        o.table["k"] = x + 4
        o.table["n"] = x + 5
        o.log.append(x + 6)
        slots.slot = x + 7
        Holder.total = x + 8
        cell = x + 9
        module.f(x)
        return cell

    with Watching(f) as watch:
        f(x)
    del o.new, o.table["n"]
    o.log.clear()
    layout = collect(f, (x,), {}, watch.codes)
    f(x)
    changes = {c.where: c for c in layout.changes()}
    assert sorted(c.kind for c in changes.values()) == sorted(
        [
            "attribute",
            "attribute",
            "item",
            "key",
            "key",
            "append",
            "slot",
            "class attribute",
            "cell",
            "global",
        ]
    )
    assert not any(c.reason for c in changes.values())
    before = dict(zip(changes, (c.value for c in changes.values())))
    # Back to how it was, then again by what was seen.
    del o.new, o.table["n"]
    o.log.clear()
    layout.release_tensors()
    assert matches(layout, f, x), layout.why
    for where, change in changes.items():
        value = before[where]
        change.apply(f, (x,), {}, [v * 2 for v in value] if change.kind == "append" else value * 2)
    assert [v.tolist() for v in (o.h, o.new, o.items[0], o.table["k"], o.table["n"], o.log[0])] == [
        [2 * (v + k) for v in (1.0, 2.0)] for k in range(1, 7)
    ]
    assert slots.slot.tolist() == [16.0, 18.0] and Holder.total.tolist() == [18.0, 20.0]
    assert cell.tolist() == [20.0, 22.0] and module.g.tolist() == [4.0, 6.0]


def test_a_counter_is_named():
    o = Box(count=0)

    def f(x):
        o.count += 1
        return x

    _, (change,) = run_and_compare(f, x)
    assert change.sentence("line 3") == "o.count was 1 and became 2 in line 3: it changes at each call"


@pytest.mark.parametrize(
    "do",
    (
        lambda o: o.items.pop(),
        lambda o: o.chosen.add(100 + len(o.chosen)),
        lambda o: o.table.pop(next(iter(o.table))),
        lambda o: o.items.reverse(),
        lambda o: delattr(o, f"a{len(vars(o))}"),
        lambda o: o.items.insert(0, len(o.items)),
        lambda o: o.table.update({len(o.table): 1}),
        lambda o: setattr(type(o), "mark", len(o.items)) or o.items.append(1),
    ),
)
def test_other_changes_are_seen(do):
    class Own(Box):
        mark = 0

    o = Own(items=[1, 2, 3, 4, 5], chosen={1}, table=dict.fromkeys(range(5)), a4=1, a5=1)

    def f(x):
        do(o)
        return x

    _, changes = run_and_compare(f, x)
    assert changes
    assert all(c.sentence() for c in changes)


def test_nothing_changed():
    net = Net()
    _, changes = run_and_compare(net, x)
    assert changes == []


def test_gradients_that_appear_are_told():
    net = Net()

    def f(x):
        net(x).sum().backward()

    with Watching(f) as watch:
        f(x)
    net.zero_grad()
    layout = collect(f, (x,), {}, watch.codes)
    f(x)
    assert {c.kind for c in layout.changes()} == {"grad"}
    assert len(layout.changes()) == 6


# ---- two layouts --------------------------------------------------------------------------------------------------


def test_layouts_agree():
    net = Net()
    one, two = laid_out(net, x), laid_out(net, ad.zeros(2))
    assert one.same_structure(two) is True
    assert one.same_structure(laid_out(net, ad.zeros(1, 2))) == "x has shape [1, 2], was [2]"
    net.scale = 3.0
    assert one.same_structure(laid_out(net, x)) == "scale is 3.0, was 2.0"
    net.extra = 1
    assert one.same_structure(laid_out(net, x)) is not True


# ---- memory and threads -------------------------------------------------------------------------------------------


def test_nothing_is_kept_alive():
    class Own:
        k = 2

        def __init__(self):
            self.w, self.items = ad.ones(2), [ad.ones(2)]

        def f(self, x):
            return x * self.w * self.items[0] * self.k

    o = Own()
    layout = laid_out(o.f, x)
    layout.release_tensors()
    alive = weakref.ref(o), weakref.ref(o.w), weakref.ref(o.items[0])
    gc.collect()
    gc.disable()
    try:
        del o
        assert [ref() for ref in alive] == [None] * 3
        kind = weakref.ref(Own)
        del Own
        gc.collect()
        assert kind() is None
    finally:
        gc.enable()
    assert layout.match(lambda x: x, (x,), {}) is None


def test_threads_match_at_once():
    net = Net()
    layout = laid_out(net, x)
    failed = []

    def work():
        for _ in range(300):
            if layout.match(net, (x,), {}) is None:
                failed.append(layout.why)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed


# ---- random objects, random changes -------------------------------------------------------------------------------


class Maker:
    """Random objects, and random changes of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pool = []

    def plain(self):
        return self.random.choice(
            (
                0,
                1,
                True,
                False,
                2.5,
                0.0,
                -0.0,
                "a",
                "b",
                b"c",
                None,
                10**30,
                1j,
                (),
                ad.float32,
                range(2),
                Color.RED,
                (1, "a"),
                frozenset((1, 2)),
            )
        )

    def value(self, depth):
        r = self.random
        if self.pool and r.random() < 0.2:
            return r.choice(self.pool)
        kind = r.choice(("plain", "plain", "list", "dict", "object", "tensor", "tuple", "set", "slots"))
        if depth == 0 or kind == "plain":
            return self.plain()
        if kind == "tuple":
            return tuple(self.value(depth - 1) for _ in range(r.randrange(3)))
        if kind == "tensor":
            made = ad.ones(r.randrange(1, 3), requires_grad=r.random() < 0.3)
        elif kind == "set":
            made = {r.randrange(50) for _ in range(r.randrange(4))}
        elif kind == "list":
            made = [self.value(depth - 1) for _ in range(r.randrange(4))]
        elif kind == "dict":
            made = {r.choice("abcdef"): self.value(depth - 1) for _ in range(r.randrange(4))}
        elif kind == "slots":
            made = Slots()
            made.value = self.value(depth - 1)
        else:
            made = Box(**{r.choice("abc"): self.value(depth - 1) for _ in range(r.randrange(3))})
        self.pool.append(made)
        return made

    def change(self):
        """Change something in the pool."""
        r = self.random
        target = r.choice(self.pool)
        if isinstance(target, list):
            do = r.choice(("append", "pop", "set", "clear"))
            if do == "append":
                target.append(self.value(1))
            elif target and do == "pop":
                target.pop(r.randrange(len(target)))
            elif target and do == "set":
                target[r.randrange(len(target))] = self.value(1)
            elif do == "clear":
                target.clear()
        elif isinstance(target, dict):
            if target and r.random() < 0.4:
                target.pop(r.choice(list(target)))
            else:
                target[r.choice("abcdef")] = self.value(1)
        elif isinstance(target, set):
            target.symmetric_difference_update({r.randrange(50)})
        elif isinstance(target, Slots):
            target.value = self.value(1)
        elif isinstance(target, Box):
            name = r.choice("abc")
            if name in vars(target) and r.random() < 0.4:
                delattr(target, name)
            else:
                setattr(target, name, self.value(1))
        elif r.random() < 0.5:
            target.requires_grad_(not target.requires_grad)
        else:
            target.grad = ad.ones_like(target) if target.grad is None else None


@pytest.mark.parametrize("seed", range(150))
def test_a_match_says_what_a_fresh_collection_says(seed):
    make = Maker(seed)
    roots = [make.value(4) for _ in range(4)]

    def f(roots, x):
        for r in roots:
            for name in "abc", "value":
                getattr(r, name, None)
        return x

    layout = laid_out(f, roots, x)
    make.pool.append(roots)
    outcomes = set()
    for _ in range(12):
        fresh = laid_out(f, roots, x)
        agree = layout.same_structure(fresh) is True
        found = layout.match(f, (roots, x), {})
        assert (found is not None) == agree, (layout.why, layout.same_structure(fresh))
        if found is not None:
            assert [t is u for t, u in zip(found, fresh.tensors)] == [True] * len(found)
        else:
            assert layout.why
            layout = fresh
        outcomes.add(agree)
        for _ in range(make.random.randrange(3)):
            make.change()
        if make.random.random() < 0.5:
            layout.release_tensors()
            gc.collect(0)
    layout.release_tensors()
    roots.clear()
    make.pool.clear()
    layout.match(f, (roots, x), {})


def test_containers_that_change_while_they_are_read():
    """Finalizers that the collector calls in the middle of a walk do to containers what they like."""
    items = [[i] for i in range(50)]
    table = {str(i): [i] for i in range(50)}
    boxes = [Box(k=i) for i in range(50)]
    sets = [{i} for i in range(50)]

    class Bomb:
        def __del__(self):
            items[:] = [[i] for i in range(50)]
            table.clear()
            table.update((str(i), [i]) for i in range(50))
            for b in boxes:
                b.__dict__ = {"k": b.k}

    def f(x):
        return (items, table, boxes, sets, [b.k for b in boxes], x)[-1]

    layout = laid_out(f, x)
    old = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(100):
            bomb = Bomb()
            bomb.self = bomb
            del bomb
            layout.match(f, (x,), {})
    finally:
        gc.set_threshold(*old)


def test_the_list_of_guards_is_complete():
    """Whatever a guard compares is changed by a case above."""
    assert len(CASES) > 50
    assert contextlib and sys
