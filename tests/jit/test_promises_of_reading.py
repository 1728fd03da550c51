"""What a function reads is known: each by a program that shows something else where what sees to it is missing.

Each runs eagerly, under `jit`, and with each replay checked. See `twice.same`.
"""

import collections

import numpy as np
import pytest
import twice
from twice import numbers

import adjoint as ad
from adjoint._replay import traces
from adjoint.utils.checkpoint import checkpoint

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_promise(program, replays):
    twice.same(program, replays)


def each_is_replayed(program):
    assert all(stats["replayed"] for stats in twice.same(program))


# --- what the function reads is known ----------------------------------------------------------------------------------------


@trap()
def strides_of_one_shape(jit, see):
    f = jit(lambda x: x * 2)
    whole = numbers(12)
    for step in (2, 2, 2, 2, 3, 3, 3, 3, 2):
        see(f(whole[::step][:4]))


@trap()
def a_leaf_and_a_result_of_one_look(jit, see):
    f = jit(lambda x: x * 2 if x.is_leaf else x * 3)
    for k in range(12):
        x = numbers(3, requires_grad=True)
        see(f(x if k % 6 < 4 else x * 1))


@trap()
def a_hook_of_a_weight_that_a_pass_inside_meets(jit, see):
    w, seen = numbers(3, requires_grad=True), []

    def f(x):
        w.grad = None
        (w * x).sum().backward()

    f = jit(f)
    for k in range(12):
        if k == 5:
            handle = w.register_hook(lambda g: (seen.append(g.tolist()), g * 2)[1])
        if k == 9:
            handle.remove()
        f(numbers(3, seed=k))
        see(w.grad, seen)


class Mine(ad.Tensor):
    pass


@trap()
def a_tensor_of_a_class_where_a_plain_one_was(jit, see):
    f = jit(lambda x: x * 2)
    for k in range(10):
        see(f(numbers(2) if k < 5 or k == 8 else numbers(2).as_subclass(Mine)))


@trap()
def a_tensor_with_attributes_where_a_plain_one_was(jit, see):
    f = jit(lambda x: x * getattr(x, "scale", 1))
    for k in range(10):
        x = numbers(2)
        if k > 4:
            x.scale = k
        see(f(x))


@trap()
def a_gradient_where_none_was(jit, see):
    def f(x):
        return x * 2 if x.grad is None else x + x.grad

    f = jit(f)
    for k in range(12):
        x = numbers(2, requires_grad=True)
        if k % 6 > 3:
            x.grad = ad.ones(2)
        see(f(x))


@trap()
def a_gradient_of_what_needs_none(jit, see):
    f = jit(lambda x: x * 2 if x.grad is None else x + x.grad)
    for k in range(12):
        x = numbers(2)
        if k % 6 > 3:
            x.grad = ad.ones(2)
        see(f(x))


@trap()
def two_arguments_that_become_one_list(jit, see):
    def f(x, a, b):
        a[0] = a[0] * 2
        return x * b[0] + a[0]

    f = jit(f)
    for k in range(14):
        a = [1.5]
        b = a if k % 7 > 4 else [1.5]
        see(f(numbers(2, seed=k), a, b), a, b)


@trap()
def functions_that_are_named_and_not_called(jit, see):
    def double(x):
        return x * 2

    def triple(x):
        return x * 3

    handlers = {"f": double, "g": abs}
    f = jit(lambda x: x * (2 if handlers["f"] is double else 3) + (1 if handlers["g"] is abs else 5))
    for k in range(18):
        handlers["f"] = triple if k % 6 == 4 else double
        handlers["g"] = len if k % 6 == 5 else abs
        see(f(numbers(2)))


@pytest.mark.parametrize("use", range(8))
def test_what_no_guard_sees_is_told_by_two_recordings(use):
    """A version of a tensor, read behind the recorder's back, decides what is done: no trace comes of it."""
    state = {"h": 0.0}

    def program(jit, see):
        token = ad.zeros(())

        def f(x):
            k = ad._C._version_of(token) % 7
            y = x * 2
            if use == 0:
                return y, k
            if use == 1:
                return y.clamp(max=k)
            if use == 2:
                return y.roll(k, 0)
            if use == 3:
                return y + ad.tensor([float(k), 1.0])
            if use == 4:
                return [y.sin, y.cos, y.tan, y.exp, y.tanh, y.atan, y.sinh][k]()
            if use == 5:
                state["h"] = float(k)
                return y
            if use == 6:
                return [y + i for i in range(7)][k]
            return y * (y.sum() + k).item()

        f = jit(f)
        for k in range(7):
            ad._C._set_version(token, k)
            see(f(numbers(2, seed=k)), state)

    twice.same(program, None)


@trap()
def the_order_of_an_ordered_dict(jit, see):
    order = collections.OrderedDict(a=numbers(2, seed=1), b=numbers(2, seed=2), c=numbers(2, seed=3))

    def f(x):
        for t in order.values():
            x = x * 2 + t
        return x

    f = jit(f)
    for k in range(12):
        if k > 4:
            order.move_to_end("a", last=k % 2 == 0)
        see(f(numbers(2)))


@trap()
def a_name_that_comes_into_being(jit, see):
    space = {"ad": ad}
    exec("def f(x):\n    return x * abs(-2)", space)
    f = jit(space["f"])
    for k in range(12):
        if k == 5:
            space["abs"] = lambda v: 5
        if k == 9:
            del space["abs"]
        see(f(numbers(2)))


@trap()
def a_number_that_varied_is_something_else(jit, see):
    f = jit(lambda x, k: x * (3 if k is None or isinstance(k, str) else k))
    for k in (1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5, True, None, "a", 6.0, np.float64(7.0), 8.0, 1j):
        see(f(numbers(2), k))


@trap()
def the_default_device(jit, see):
    f = jit(lambda: ad.ones(2) * 2)
    for k in range(10):
        with ad.device("meta" if k % 5 == 4 else "cpu"):
            y = f()
        see(str(y.device), y.shape)


@trap()
def the_convention_of_complex_gradients(jit, see):
    def f(z):
        z = z.clone().requires_grad_()
        return ad.autograd.grad((z * z * (1 + 2j)).sum().real, z)[0]

    f = jit(f)
    z = numbers(3, dtype=ad.complex128)
    for k in range(15):
        if k % 5 == 4:
            with ad.autograd.complex_convention("holomorphic"), see.error():
                see(f(z))
        else:
            see(f(z))


@trap()
def draws_inside_of_vmap(jit, see):
    f = jit(lambda: ad.rand(3) * 2)
    for _ in range(6):
        see(f())
        see(ad.func.vmap(lambda x: x + f(), randomness="different")(ad.zeros(4, 3)))
        see(ad.func.vmap(lambda x: x + f(), randomness="same")(ad.zeros(4, 3)))
        with see.error():
            ad.func.vmap(lambda x: x + f())(ad.zeros(4, 3))


def test_a_function_that_calls_one_is_replayed_too():
    """Under another trace a jitted function is simply called, so that what it does is seen."""

    def program(jit, see):
        inner = jit(lambda x: x * 2)
        for _ in range(5):
            see(inner(numbers(2)))
        outer = jit(lambda x: inner(x).sin() + inner(x + 1))
        for k in range(6):
            see(outer(numbers(2, seed=k)))

    each_is_replayed(program)


@trap(replays=False)
def passes_in_several_threads(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        with ad.autograd.set_parallel_backward(True):
            return ad.autograd.grad((w * x).sum() + (w.sin() * x).sum(), w)[0]

    f = jit(f)
    for k in range(6):
        see(f(numbers(3, seed=k)).shape)


# --- what nothing saw refuses the trace -----------------------------------------------------------------------------------------


def unseen(t):
    """A write that no call tells of, as by a place in the core that was forgotten."""
    ad._C._set_version(t, ad._C._version_of(t) + 1)


@pytest.mark.parametrize("which", ["made", "argument", "captured", "written"])
def test_a_write_that_nothing_saw_refuses_the_trace(which):
    w = ad.ones(3)

    def f(x):
        y = x * 2 + w
        unseen({"made": y, "argument": x, "captured": w, "written": y}[which])
        if which == "written":
            y.add_(1)
        return y + x * w

    f = ad.jit(f)
    for _ in range(6):
        assert f(ad.ones(3)).tolist() == [4 + (which == "written")] * 3
    assert not f.stats()["replayed"]
    assert "a tensor was written by what is not followed" in next(iter(f.stats()["reasons"]))


@trap(replays=False)
def a_tensor_that_no_path_leads_to(jit, see):
    w = numbers(3, requires_grad=True)
    node = (w * numbers(3, seed=1)).grad_fn
    f = jit(lambda x: x * node._saved_other)
    for k in range(12):
        see(f(numbers(3, seed=k)))
        if k % 6 == 5:
            node = (w * numbers(3, seed=k)).grad_fn


@trap(replays=False)
def other_memory_is_given(jit, see):
    def f(x):
        x.data = x.data * 2
        return x + 1

    f = jit(f)
    for k in range(6):
        x = numbers(3, seed=k)
        see(f(x), x)


@trap()
def what_is_drawn_twice(jit, see):
    def f(x):
        y = checkpoint(lambda a: (a * ad.rand(3)).sin(), x, use_reentrant=False)
        y.sum().backward()
        return y.detach(), ad.rand(1)

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        see(f(x), x.grad, ad.get_rng_state(), g(x))


def record(function, *args):
    """The third call's recording, as `jit` makes it."""
    codes = traces.record(function, args, {}, None, []).codes
    return traces.record(function, args, {}, codes, []).recording


X, Y = ad.ones(4), ad.ones(1)
DIFFER = {
    "operations": (lambda: X * Y, lambda: X + Y, "operation 1 is add, and was mul"),
    "how many": (lambda: X * Y, lambda: (X * Y).sin(), "2 operations ran, and 1 before"),
    "a number": (lambda: X.clamp(0), lambda: X.clamp(1), "has others at each|an argument"),
    "an int": (lambda: X.cumsum(0), lambda: X.roll(1), "operation 1 is roll"),
    "a place": (
        lambda: X.reshape(2, 2).cumsum(0),
        lambda: X.reshape(2, 2).cumsum(1),
        "an argument of cumsum",
    ),
    "a sign of zero": (
        lambda: X + ad.full((4,), complex(0, 0.0)),
        lambda: X + ad.full((4,), complex(0, -0.0)),
        "argument of|makes of numbers",
    ),
    "a bool": (
        lambda: X.sum(0, keepdim=True),
        lambda: X.sum(0),
        "argument of sum|shapes differ|other memory",
    ),
    "a list": (lambda: X.reshape(2, 2).flip(0), lambda: X.reshape(2, 2).flip(1), "another list of numbers"),
    "elements": (
        lambda: X + ad.tensor([1.0, 2, 3, 4]),
        lambda: X + ad.tensor([1.0, 2, 3, 5]),
        "has others at each",
    ),
    "memory": (lambda: X * X + Y, lambda: X * Y + X, "the same operations ran on other memory"),
    "a read": (lambda: X.sum().item(), lambda: (X.sum() * 1).item(), "and was a number that is read"),
    "what is read": (lambda: (Y * 2).item(), lambda: (Y * 3).item(), "has others at each|another"),
    "what is returned": (lambda: (X * 2, X * 3)[0], lambda: (X * 2, X * 3)[1], "taken or returned"),
}


@pytest.mark.parametrize("what", DIFFER)
def test_recordings_that_differ_are_told_apart(what):
    one, other, words = DIFFER[what]
    assert not record(one).difference(record(one))
    found = record(one).difference(record(other))
    assert found and any(w in found for w in words.split("|")), found
