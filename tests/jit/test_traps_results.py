"""Traps for a recording, in what a function returns: each a program that runs eagerly, under `jit`, and with each replay
checked, where all that can be seen must be the same. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad

TRAPS, trap = twice.table()


@trap()
def result_kept_over_the_next_call(jit, see):
    f = jit(lambda x: x * 2)
    kept = [f(numbers(3, seed=k)) for k in range(6)]
    see(kept)


@trap()
def result_changed_and_called_again(jit, see):
    f = jit(lambda x: (x * 2, x + 1))
    for k in range(6):
        a, b = f(numbers(3))
        a.mul_(0)
        b.add_(a)
        see(a, b)


@trap()
def input_is_an_earlier_result(jit, see):
    f = jit(lambda x: x.sin() + 1)
    x = numbers(3)
    for _ in range(7):
        see(x := f(x))


@trap()
def two_results_of_one_intermediate(jit, see):
    def f(x):
        y = x.exp()
        return y * 2, y * 3, y

    f = jit(f)
    for k in range(5):
        see(f(numbers(4, seed=k)))


@trap()
def one_tensor_twice(jit, see):
    def f(x):
        y = x * 2
        return y, [y], {"a": y}

    f = jit(f)
    for _ in range(5):
        a, [b], d = f(numbers(3))
        see(a is b, d["a"] is a)
        a.add_(1)
        see(b, d)


@trap()
def result_is_an_argument(jit, see):
    f = jit(lambda x, y: (x, y, x + y))
    a, b = numbers(3), numbers(3, seed=1)
    for _ in range(5):
        r = f(a, b)
        see(r[0] is a, r[1] is b, r)


@trap()
def result_is_the_captured_tensor(jit, see):
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: (w, x * w))
    for _ in range(5):
        r = f(numbers(3))
        see(r[0] is w, r)


@trap()
def result_is_a_view_of_an_argument(jit, see):
    f = jit(lambda x: x[1:])
    x = numbers(4)
    for _ in range(5):
        y = f(x)
        see(y, y._base is x, y.data_ptr() == x.data_ptr() + 4)
        y.mul_(2)
        see(x, y)


@trap()
def result_is_another_tensor_over_an_argument(jit, see):
    for g in (lambda x: x.detach(), lambda x: x.view_as(x), lambda x: x[:], lambda x: x.reshape(x.shape)):
        f = jit(g)
        x = numbers(4)
        for _ in range(5):
            y = f(x)
            see(y is x, y, y._base is x)
            y.add_(1)
            see(x, y)


@trap()
def detached_argument_that_requires_grad(jit, see):
    f = jit(lambda x: x.detach())
    x = numbers(4, requires_grad=True)
    for _ in range(5):
        y = f(x)
        see(y is x, y, y._base is x)
        y.add_(1)
        see(x, y)


@trap()
def view_of_an_argument_with_history(jit, see):
    f = jit(lambda x: x[1:] * 1 if x.ndim == 0 else x[1:])
    for _ in range(5):
        w = numbers(4, requires_grad=True)
        x = w * 2
        y = f(x)
        see(y, y._base is x)
        y.mul_(3)
        see(x, y)
        (x.sum() + y.sum()).backward()
        see(w.grad)


@trap()
def view_of_a_leaf_is_not_written(jit, see):
    f = jit(lambda x: x[1:])
    w = numbers(4, requires_grad=True)
    for _ in range(5):
        y = f(w)
        see(y)
        with see.error():
            y.mul_(3)


@trap()
def view_beside_its_base(jit, see):
    def f(x):
        y = x * 2
        return y, y[1:], y.T

    f = jit(f)
    for grad in (False, True):
        for _ in range(5):
            x = numbers(4, requires_grad=grad)
            y, v, t = f(x)
            see(y, v, t, v._base is y, t._base is y)
            v.mul_(2)
            t.add_(1)
            see(y, v, t)
            if grad:
                (y * v.sum() + t).sum().backward()
                see(x.grad)


@trap()
def view_without_its_base(jit, see):
    f = jit(lambda x: (x * 2)[1:])
    for grad in (False, True):
        for _ in range(5):
            x = numbers(4, requires_grad=grad)
            v = f(x)
            see(v, v._base)
            v.mul_(2)
            see(v, v._base)
            if grad:
                v._base.sum().backward()
                see(x.grad)


@trap()
def several_views_of_one_call(jit, see):
    f = jit(lambda x: (x * 2).unbind())
    for _ in range(5):
        x = numbers(4, requires_grad=True)
        parts = f(x)
        see(parts)
        try:
            parts[0].mul_(2)
        except RuntimeError as error:
            see(str(error).partition(" is a view ")[2])


@trap(replays=None)
def views_made_without_recording(jit, see):
    def f(x):
        y = x * 2
        with ad.no_grad():
            v = y[1:]
        return y, v

    f = jit(f)
    for _ in range(5):
        x = numbers(4, requires_grad=True)
        y, v = f(x)
        see(y, v)
        with see.error():
            v.mul_(2)


@trap()
def results_that_are_no_tensors(jit, see):
    f = jit(lambda x: (x.shape, x.dtype, x.ndim, 3, 1.5, "a", None, True, x.device, x.numel() * 2.0))
    for _ in range(5):
        see(f(numbers(2, 3)))


@trap()
def containers_are_new_at_each_call(jit, see):
    f = jit(lambda x: {"a": [x + 1, (x * 2,)], "b": [], 3: {}})
    kept = []
    for _ in range(6):
        r = f(numbers(2))
        r["a"].append(3)
        r["b"].append(len(kept))
        kept.append(r)
    see(kept)


@trap(replays=False)
def the_same_list_twice(jit, see):
    def f(x):
        a = [x * 2]
        return a, a

    f = jit(f)
    for _ in range(5):
        a, b = f(numbers(2))
        see(a is b, a)


@trap(replays=None)
def a_list_that_was_there(jit, see):
    there = []

    def f(x, given):
        return given, there, x * 2

    f = jit(f)
    for _ in range(5):
        given = [1]
        a, b, _ = f(numbers(2), given)
        see(a is given, b is there)


@trap(replays=False)
def a_result_that_contains_itself(jit, see):
    def f(x):
        a = [x * 2]
        a.append(a)
        return a

    f = jit(f)
    for _ in range(5):
        a = f(numbers(2))
        see(a[1] is a, a[0])


@trap()
def tuples_with_names(jit, see):
    f = jit(lambda x: (x.max(0), x.sort()))
    for k in range(5):
        r = f(numbers(3, 3, seed=k))
        see(type(r[0]).__name__, r[0].values, r[0].indices, r[1].values)


@trap(replays=False)
def results_with_attributes(jit, see):
    def f(x):
        y = x * 2
        y.note = "here"
        return y

    f = jit(f)
    for _ in range(5):
        see(f(numbers(2)).note)


@trap(replays=False)
def result_of_a_class_of_the_program(jit, see):
    class Box:
        def __init__(self, x):
            self.x = x

    f = jit(lambda x: Box(x * 2))
    for _ in range(5):
        see(f(numbers(2)).x)


@trap()
def tensor_of_a_subclass(jit, see):
    class Mine(ad.Tensor):
        pass

    f = jit(lambda x: (x * 2, x.as_subclass(Mine)))
    for _ in range(5):
        see(f(numbers(2)))
    g = jit(lambda x: x * 2)
    for _ in range(5):
        see(g(numbers(2).as_subclass(Mine)))
    for _ in range(5):
        see(g(numbers(2)))


@trap(replays=None)
def nothing_computed(jit, see):
    f = jit(lambda *a: None)
    g = jit(lambda x: x)
    h = jit(lambda: 3)
    for _ in range(5):
        see(f(), f(1, 2), g(3), h())
        x = numbers(2)
        see(g(x) is x)


@trap()
def constants_are_returned(jit, see):
    f = jit(lambda: (ad.ones(3), ad.tensor([1.0, 2.0]), ad.zeros(()), ad.arange(3)))
    for _ in range(6):
        r = f()
        see(r)
        for t in r:
            t.add_(1)


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)
