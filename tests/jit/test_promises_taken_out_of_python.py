"""As test_promises_taken_out, for what `_replay` decides in Python: comparisons of recordings, and what a second run finds."""

import abc
import enum
import functools
import sys
import types

import pytest
import twice
from stores import Box
from twice import doubles, numbers

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_program(program, replays):
    twice.same(program, replays)


@trap()
def a_second_run_that_a_mode_would_see(jit, see):
    f = jit(lambda a, b: (a @ b).sin())
    for k in range(8):
        a, b = (numbers(3, 3, seed=n, requires_grad=True) for n in (k, k + 1))
        y, log = f(a, b), []
        with twice.Names(log):
            ad.autograd.backward([y], [numbers(3, 6)[:, ::2]])
        see(a.grad, log)


@pytest.mark.parametrize("use", range(4))
def test_what_no_guard_sees_is_left_otherwise(use):
    """A version that is read behind the recorder's back decides what is left in Python's state, or which hook is set."""

    def program(jit, see):
        token, box = ad.zeros(()), Box()

        def f(x, t):
            k = ad._C._version_of(token) % 7
            y = x * 2
            if use == 0:
                box.a = float(k)
            elif use == 1:
                setattr(box, "abcdefg"[k], t)
            elif use == 2:
                y.register_hook(lambda g: g * k)
            else:
                box.a = (t, k)
            return y

        f, g = jit(f), jit(lambda x: x * 2)
        for k in range(7):
            vars(box).update(dict.fromkeys("abcdefg", 0.0))
            ad._C._set_version(token, k)
            x = numbers(2, seed=k, requires_grad=use == 2)
            y = f(x, k + 0.5 if use % 2 else 0.5)
            if use == 2:
                y.sum().backward()
            see(y, x.grad, vars(box), g(ad.ones(1)))

    twice.same(program)


@trap()
def a_result_that_has_a_gradient(jit, see):
    def f(x):
        y = x * 2
        y.retain_grad()
        y.sum().backward(retain_graph=True)
        return y

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(8):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        see(y.grad, x.grad, g(ad.ones(1)))
        y.sum().backward()
        see(y.grad, x.grad)


@trap()
def results_with_a_graph_that_are_stored(jit, see):
    box, w = Box(h=None), numbers(3, requires_grad=True)

    def f(x):
        box.h = (x * w).sin()
        return x * 2

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(8):
        w.grad = None
        see(f(numbers(3, seed=k)), g(ad.ones(1)))
        (grad,) = ad.autograd.grad(box.h.sum(), w, create_graph=True)
        grad.sin().sum().backward()
        see(grad, w.grad, box.h)
        box.h = None


def test_a_second_run_is_refused_where_what_it_stores_to_is_gone():
    state, w = {}, numbers(3, requires_grad=True)

    def stores(x):
        state["box"].last = x * 2
        return (x * w).sin()

    f = ad.jit(stores)
    for _ in range(6):
        state["box"] = Box(last=None)
        y = f(numbers(3))
    assert f.stats()["replayed"]
    state.clear()
    with pytest.raises(RuntimeError, match="is gone"):
        ad.autograd.grad(y.sum(), w, create_graph=True)


# --- what two recordings tell ------------------------------------------------------------------------------------------------


@trap(replays=False)
def recordings_of_two_modes(jit, see):
    """Something that nobody sees changes what the function does; it is told by two recordings of one mode."""
    token = ad.zeros(())
    f = jit(lambda x: [x + i for i in range(5)][ad._C._version_of(token)])
    for recording, k in ((True, 0), (True, 0), (False, 0), (False, 1), (False, 2), (True, 3)):
        ad._C._set_version(token, k)
        with ad.set_grad_enabled(recording):
            see(f(numbers(2)))


@trap(replays=False)
def recordings_of_which_nothing_watched_either(jit, see):
    """What is impure is called in recordings alone that were not watched, as they were like earlier ones."""
    token, start = ad.zeros(()), sys.getrecursionlimit()

    def f(x):
        k = ad._C._version_of(token)
        if k == 1:
            sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        return [x + i for i in range(3)][k]

    f = jit(f)
    try:
        for k, n in (*((0, 2), (0, 2), (1, 2), (0, 3), (0, 4), (0, 5), (0, 6), (2, 2)), *[(1, 2)] * 3):
            ad._C._set_version(token, k)
            see(f(numbers(n)), sys.getrecursionlimit() - start)
    finally:
        sys.setrecursionlimit(start)


@pytest.mark.parametrize("call", [lambda f: f(), lambda f: list(map(lambda _: f(), (0,)))])
def test_a_profiler_that_the_call_takes_away(call):
    """From there on nothing is seen of it; that it is called through a partial function, the profiler is not told."""
    off = functools.partial(sys.setprofile, None)

    def program(jit, see):
        def f(x):
            call(off)
            see("here")
            return x * 2

        f = jit(f)
        for _ in range(6):
            see(f(numbers(2)))

    twice.same(program, False)


# --- numbers that are followed -----------------------------------------------------------------------------------------------

TWO = 2


@trap()
def the_type_of_a_number(jit, see):
    def f(x, s):
        if type(s) is float and s > 1:
            x = x + 1
        return x * 2

    f = jit(f)
    for s in (0.5, 0.5, 0.5, 0.6, 0.7, 2.0, 3.0, 0.5):
        see(f(numbers(2), s))


@trap()
def a_number_that_is_another(jit, see):
    f = jit(lambda x, k: (x * 2, 0 if k is TWO else k))
    for k in (1, 1, 2, 3, 4, 2, 2, 2, 2, 5):
        see(f(numbers(2), k))


@trap()
def a_number_that_is_another_at_first(jit, see):
    f = jit(lambda x, k: (x * 2, 0 if k is TWO else k))
    for k in (1, 1, 2, 2, 2):
        see(f(numbers(2), k))


class Speed(enum.Enum):
    FAST, SLOW = range(2)


def test_objects_that_are_compared_by_identity_keep_no_number_from_being_followed():
    def f(x, s, speed):
        return x * (s if speed is Speed.FAST and x is not NotImplemented and speed is not F else 1)

    def program(jit, see):
        f_ = jit(f)
        for k in range(8):
            see(f_(numbers(2), 0.5 + k, Speed.FAST))

    (stats,) = twice.same(program)
    assert stats["traces"] == 1


# --- hooks -------------------------------------------------------------------------------------------------------------------

scale = 11


def _looked_at(jit, see, make):
    """Results with a hook that `make` gives: its attributes, what its closure holds, and what it does."""

    def f(x):
        y = x * 2
        y.register_hook(make(x))
        return y, 1

    f = jit(f)
    for k in range(7):
        x = numbers(2, seed=k, requires_grad=True)
        y, _ = f(x)
        (hook,) = y._backward_hooks.values()
        held = [c.cell_contents for c in hook.__closure__ or ()]
        see(vars(hook), held, [t._base for t in held])
        y.sum().backward(create_graph=True)
        see(x.grad)


@trap(replays=False)
def a_hook_with_attributes(jit, see):
    def make(x):
        def hook(g):
            return g * 2

        hook.scale = 3
        return hook

    _looked_at(jit, see, make)


@trap(replays=False)
def a_hook_with_globals_of_no_module(jit, see):
    space = {"__name__": __name__, "scale": 5}
    _looked_at(jit, see, lambda x: types.FunctionType((lambda g: g * scale).__code__, space))


@trap(replays=False)
def a_hook_that_keeps_a_view(jit, see):
    def make(x):
        v = x.detach().exp()[0]
        return lambda g: g * v

    _looked_at(jit, see, make)


@trap(replays=False)
def a_hook_that_keeps_a_history(jit, see):
    def make(x):
        v = x.exp()
        return lambda g: g * v

    _looked_at(jit, see, make)


@trap(replays=False)
def a_hook_that_was_there_and_is_taken_away(jit, see):
    """A second run for a graph would not find what ran within the call."""
    w = doubles(2, seed=1).requires_grad_()

    def f(x):
        (g,) = ad.autograd.grad((w * x).sin().sum(), w, create_graph=True)
        return (g * x).sum()

    f = jit(f)
    for k in range(7):
        handle = w.register_hook(lambda g: g * 3)
        y = f(doubles(2, seed=k))
        handle.remove()
        (g,) = ad.autograd.grad(y, w, create_graph=True)
        see(y, g, ad.autograd.grad(g.sum(), w))


# --- graphs ------------------------------------------------------------------------------------------------------------------


def test_a_graph_of_which_a_part_is_freed():
    w = numbers(2, seed=3, requires_grad=True)

    def program(jit, see):
        def f(x):
            b = x.sin().cos()
            ad.autograd.grad(b.sum(), x)
            return b.exp() * w

        f = jit(f)
        for k in range(4):
            x = numbers(2, seed=k, requires_grad=True)
            y = f(x)
            for end in (w, x):
                with see.error():
                    see(ad.autograd.grad(y.sum(), end, retain_graph=True))

    (stats,) = twice.same(program, False)
    assert "parts of the graph of its results are freed" in stats["reasons"]


@trap(replays=False)
def a_write_to_a_tensor_with_attributes(jit, see):
    """A second run writes to an alias, which has none."""

    def f(y, x):
        y.mul_(x).add_(y.tag)
        return y.tag * y

    f = jit(f)
    for k in range(6):
        w = doubles(2, seed=k).requires_grad_()
        y = w * 1
        y.tag = doubles(2, seed=k + 9)
        z = f(y, doubles(2, seed=3))
        (g,) = ad.autograd.grad((y * z).sum(), w, create_graph=True)
        see(y, z, g, ad.autograd.grad(g.sum(), w))


class Noted(ad.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@trap(replays=False)
def a_write_to_a_tensor_of_a_class(jit, see):
    def f(y, x):
        y.mul_(x)
        return y

    f = jit(f)
    for k in range(6):
        w = doubles(2, seed=k).as_subclass(Noted).requires_grad_()
        y = w * 1
        z = f(y, doubles(2, seed=3))
        (g,) = ad.autograd.grad((y * z).sum(), w, create_graph=True)
        see(y, z, z is y, g, ad.autograd.grad(g.sum(), w))


# --- what is read ------------------------------------------------------------------------------------------------------------


@trap()
def a_class_that_is_registered(jit, see):
    class Kind(abc.ABC):  # noqa: B024
        pass

    class Two:
        pass

    f = jit(lambda x, o: x * (2 if isinstance(o, Kind) else 3))
    for k in range(10):
        if k == 5:
            Kind.register(Two)
        see(f(numbers(2), Two()))


@pytest.mark.parametrize("change", ["attribute", "module", "gone"])
def test_what_is_imported_as_it_runs(change):
    name, modules = "a_module_with_a_factor", []

    def program(jit, see):
        def f(x):
            try:
                from a_module_with_a_factor import factor
            except ImportError:
                return x
            return x * factor

        f = jit(f)
        try:
            for k in range(14):
                if k in (0, 5):
                    module = types.ModuleType(name)
                    module.factor = 2 + k
                    modules.append(module)
                    if k == 0 or change == "module":
                        sys.modules[name] = module
                    elif change == "attribute":
                        sys.modules[name].factor = 7
                    else:
                        del sys.modules[name]
                see(f(numbers(2)))
        finally:
            sys.modules.pop(name, None)

    twice.same(program)


@trap()
def a_function_of_the_library_that_is_replaced(jit, see):
    layer, was = nn.Linear(2, 2), F.linear
    f = jit(lambda x: layer(x))
    try:
        for k in range(10):
            F.linear = was if k < 5 else lambda x, w, b=None: x * 100
            see(f(numbers(2)))
    finally:
        F.linear = was


class Point:
    __match_args__ = ("abscissa",)


@trap()
def a_pattern_that_reads_by_position(jit, see):
    def f(x, o):
        match o:
            case Point(factor):
                return x * factor

    f, o = jit(f), Point()
    for k in range(10):
        o.abscissa = 2 + k // 5
        see(f(numbers(2), o))
