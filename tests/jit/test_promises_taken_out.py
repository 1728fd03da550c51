"""Programs that show something else as soon as one comparison, one guard or one refusal of a replay is taken out, where those of
the other files do not: each was written for a mechanism that no test missed. See `twice.same`.
"""

import enum
import types
import weakref

import numpy as np
import pytest
import twice
from stores import Box
from twice import numbers

import adjoint as ad
from adjoint import nn
from adjoint._replay import traces

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_program(program, replays):
    twice.same(program, replays)


# --- what the function reads is known ----------------------------------------------------------------------------------------


@trap()
def an_attribute_of_another_name(jit, see):
    f = jit(lambda x, box: x * getattr(box, "b", 5))
    for k in range(12):
        see(f(numbers(2), Box(a=1, b=2) if k % 6 < 4 else Box(a=1, c=2)))


@trap()
def another_base_of_a_class(jit, see):
    class One:
        pass

    class Two:
        factor = 3

    class Base(One):
        pass

    class Child(Base):
        factor = 2

    f = jit(lambda x, o: x * (o.factor if isinstance(o, Two) else 7))
    child = Child()
    for k in range(12):
        Base.__bases__ = (One,) if k % 6 < 4 else (One, Two)
        see(f(numbers(2), child))


@trap()
def true_where_one_was(jit, see):
    f = jit(lambda x, k: (x * 2, str(k)))
    for k in range(12):
        see(f(numbers(2), 1 if k % 6 < 4 else True))


@trap()
def attributes_of_a_function_that_is_not_called(jit, see):
    def scaled(x, g):
        try:
            return x * g.scale
        except AttributeError:
            return x * 3

    f = jit(scaled)
    for k in range(12):

        def g():
            pass

        if k % 6 >= 4:
            g.scale = 2
        see(f(numbers(2), g))


@trap()
def a_name_that_the_library_had_for_itself(jit, see):
    """No attribute of the program's own is left out of what is compared, whatever it is called."""
    f, box = jit(lambda x: x * box._steps_taken), Box(_steps_taken=1)
    for k in range(12):
        box._steps_taken = 1 + k // 6
        see(f(numbers(2)))


@trap()
def tensors_of_another_kind(jit, see):
    """Parameters, views, tensors of inference mode, and those that retain their gradient, where others were."""

    def made(x, kind):
        with ad.inference_mode(kind == "inference"):
            p = x * 1
        if kind == "parameter":
            return nn.Parameter(p.detach())
        if kind == "retains":
            p.retain_grad()
        return p[:] if kind == "view" else p

    kinds = {
        "parameter": lambda p: isinstance(p, nn.Parameter),
        "view": lambda p: p._is_view(),
        "inference": lambda p: p.is_inference(),
        "retains": lambda p: p.retains_grad,
    }
    for kind, is_one in kinds.items():
        f = jit(lambda x, p, is_one=is_one: x * (2 if is_one(p) else 3))
        for k in range(12):
            x = numbers(2, requires_grad=kind in ("parameter", "retains"))
            p = made(x, kind if k % 6 >= 4 else "")
            see(f(numbers(2), p.detach().requires_grad_() if kind == "parameter" and k % 6 < 4 else p))


@trap()
def memory_of_others_that_overlaps(jit, see):
    """Equal operations are one where nothing is written between."""

    def f(x, y):
        s = y.sin()
        x.add_(1)
        return s + y.sin()

    f = jit(f)
    for k in range(12):
        a = np.arange(6, dtype=np.float32)
        x, y = numbers(4), numbers(4, seed=k)
        if k % 6 >= 4:
            x, y = ad.from_numpy(a[:4]), ad.from_numpy(a[2:])
        see(f(x, y), x, y)


@trap()
def an_entry_of_a_module_by_a_name_that_is_made(jit, see):
    module = types.ModuleType("settings")
    module.scale, module.other = 2, 3
    f = jit(lambda x, name: x * getattr(module, name + "le"))
    for k in range(14):
        module.scale = 2 if k < 7 else 4
        see(f(numbers(2), "sca"))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@trap()
def a_member_of_an_enumeration_with_attributes(jit, see):
    Colour.RED.factor = Colour.BLUE.factor = 2.0
    f = jit(lambda x, c: (x * c.factor, c))
    for k in range(12):
        see(f(numbers(2), Colour.RED if k % 6 < 4 else Colour.BLUE))


@trap()
def containers_and_arguments_that_grow(jit, see):
    """What was there is as it was, and there is more."""
    functions = [jit(lambda x, *more: x * len(more)), jit(lambda x, c: x * len(c))]
    for k in range(12):
        more = (1, 2) if k % 6 < 4 else (1, 2, 3)
        see(
            functions[0](numbers(2), *more), functions[1](numbers(2), more), functions[1](numbers(2), [*more])
        )
        see(functions[1](numbers(2), {*more}), functions[1](numbers(2), dict.fromkeys(more)))


@trap()
def more_named_arguments(jit, see):
    f = jit(lambda x, **more: x * len(more) * more.get("b", 5))
    for k in range(15):
        see(f(numbers(2), **[{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "d": 2}][k // 5]))


@trap()
def one_tensor_where_two_lay_in_one_memory(jit, see):
    f = jit(lambda x, y: x * (2 if x is y else 3) + y)
    for k in range(12):
        a = numbers(2, seed=k)
        x, y = a.detach(), a.detach()
        see(f(x, y if k % 6 < 4 else x))


@trap()
def a_hook_of_what_adds_up_the_gradient(jit, see):
    w, seen = numbers(3, requires_grad=True), []
    node = w.view_as(w).grad_fn.next_functions[0][0]

    def f(x):
        w.grad = None
        (w * x).sum().backward()

    f = jit(f)
    for k in range(12):
        if k == 5:
            handle = node.register_hook(lambda *_: seen.append(1))
        if k == 9:
            handle.remove()
        f(numbers(3, seed=k))
        see(w.grad, seen)


@trap()
def elements_that_are_written_by_their_address(jit, see):
    def f(x):
        x.numpy()[0] = 7
        return x * 2

    f, g = jit(f), jit(lambda x: x * 3)
    for k in range(8):
        x = ad.ones(3) * (k > 5) + 1
        see(f(x), x, g(x))


@trap()
def a_list_of_elements_that_lie_apart(jit, see):
    f, g = jit(lambda x: (x * 2, x.tolist())), jit(lambda x: x * 3)
    for k in range(10):
        x = ad.tensor([1.0, 2, 3, 4, 5, 6 if k < 6 else 7])[1::2]
        see(f(x), g(x))


class Doubles:
    factor = 2

    def __call__(self, g):
        return g * self.factor


@trap()
def a_hook_that_is_an_object(jit, see):
    w, hook = numbers(2, requires_grad=True), Doubles()
    w.register_hook(hook)

    def f(x):
        w.grad = None
        (w * x).sum().backward()

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(9):
        hook.factor = 2 if k < 6 else 5
        f(numbers(2, seed=k))
        see(w.grad, g(numbers(2)))


@trap()
def defaults_where_none_were(jit, see):
    def f(x):
        return x * (2 if f.__defaults__ is None else 3) * (2 if f.__kwdefaults__ is None else 5)

    g = jit(f)
    for k in range(15):
        f.__defaults__ = (3,) if k // 5 == 1 else None
        f.__kwdefaults__ = {"z": 3} if k // 5 == 2 else None
        see(g(numbers(2)))


@trap()
def a_weak_reference_to_what_is_gone(jit, see):
    alive = Box()
    dead, living = weakref.ref(Box()), weakref.ref(alive)
    f = jit(lambda x, r: x * (2 if r() is None else 3))
    for k in range(10):
        see(f(numbers(2), dead if k % 6 < 4 else living))


@trap()
def a_generator_of_its_own(jit, see):
    """At whose address another may lie at the next call."""

    def f(x):
        return x * ad.rand(2, generator=ad.Generator())

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(40):
        see(f(numbers(2, seed=k)), g(numbers(2)))


@trap(replays=False)
def a_graph_from_before_that_holds_other_tensors(jit, see):
    w = numbers(3, requires_grad=True)
    f = jit(lambda y: ad.autograd.grad(y.sum(), w)[0] * 2)
    for k in range(10):
        see(f(w * numbers(3, seed=k)))


def record(function):
    """The third call's recording, as `jit` makes it."""
    codes = traces.record(function, (), {}, None, []).codes
    return traces.record(function, (), {}, codes, []).recording


FIRST, SECOND = ad.Generator(), ad.Generator()


def test_recordings_that_draw_from_different_generators_are_told_apart():
    one = record(lambda: ad.rand(2, generator=FIRST))
    other = record(lambda: ad.rand(2, generator=SECOND))
    assert "another generator" in one.difference(other)


# --- where a function is simply called -----------------------------------------------------------------------------------------


class Watching(ad.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_vmap(call):
    return ad.func.vmap(call)(ad.ones(2, 3))


def under_tangents(call):
    return ad.func.jvp(call, (ad.ones(3),), (ad.ones(3),))


def within(context):
    def call_in(call):
        with context():
            return call(ad.ones(3))

    return call_in


PLACES = {
    "a batch": under_vmap,
    "tangents": under_tangents,
    "a function mode": within(Watching),
    "autocast": within(lambda: ad.autocast("cpu")),
    "packed tensors": within(lambda: ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
    "another convention": within(lambda: ad.autograd.complex_convention("holomorphic")),
    "parallel passes": within(lambda: ad.autograd.set_parallel_backward(True)),
    "another device": within(lambda: ad.device("meta")),
    "anomalies": within(lambda: ad.autograd.set_detect_anomaly(True)),
    "another trace": lambda call: traces.record(call, (ad.ones(3),), {}, None, []),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_function_is_simply_called(place):
    f = ad.jit(lambda x: x.sin() * 2)
    for _ in range(5):
        f(ad.ones(3))
    before = f.stats()
    assert before["replayed"] == 2
    PLACES[place](f)
    now = f.stats()
    assert now["calls"] == now["eager"] + 5 > 5 and now["replayed"] == 2 and now["recorded"] == 3
