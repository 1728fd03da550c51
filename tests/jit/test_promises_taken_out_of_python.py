"""As test_promises_taken_out, for what `_replay` decides in Python: comparisons of recordings, and what a second run finds."""

import pytest
import twice
from stores import Box
from twice import numbers

import adjoint as ad

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
