"""Memory that replayed calls leave behind while the collector is off: none, where the function itself leaves none."""

import pytest
from twice import no_collector, numbers

import adjoint as ad
from adjoint import nn

PROGRAMS = {}
N = 2000


def program(make):
    """make(jit, w) gives a function that makes one call."""
    PROGRAMS[make.__name__] = make
    return make


class Holder:
    pass


@program
def result_of_a_result_kept_by_what_is_read(jit, w):
    m = Holder()
    f = jit(lambda m: (w * 2).sin())

    def step():
        m.last = f(m) * 2

    return step


@program
def result_kept_by_a_module(jit, w):
    net = nn.Linear(40, 40)
    f = jit(net)

    def step():
        net.__dict__["last"] = f(numbers(40, 40))

    return step


@program
def state_that_is_detached_inside(jit, w):
    """Each call's node would keep the one before it."""
    m = Holder()
    m.state = numbers(N)
    f = jit(lambda: (w * m.state.detach()).sin())

    def step():
        m.state = f()

    return step


@program
def argument_that_is_detached_inside(jit, w):
    f = jit(lambda h: h.detach().cos() * w)
    kept = [numbers(N)]

    def step():
        kept[0] = f(kept[0])

    return step


@program
def argument_written_in_place(jit, w):
    f = jit(lambda h: h.mul_(w).sin_())
    return lambda: f(w * 2)


@program
def argument_written_by_what_was_made_of_it(jit, w):
    """Its history leads to a node that saved it."""
    f = jit(lambda y, z: y.mul_(z))

    def step():
        y = w * 2
        f(y, y.cos())

    return step


@program
def argument_by_name_written_in_place(jit, w):
    f = jit(lambda *, h: h.mul_(w).sin_())
    return lambda: f(h=w * 2)


@program
def buffer_written_in_the_graph(jit, w):
    m = Holder()
    m.buffer = ad.zeros(N)

    def add(x):
        m.buffer.add_(w * x)

    f = jit(add)

    def step():
        m.buffer = m.buffer.detach()
        f(numbers(N))

    return step


@program
def view_of_a_result_is_kept(jit, w):
    f = jit(lambda x: (w * x).sin())
    kept = []

    def step():
        kept[:] = [f(numbers(N))[:10]]

    return step


@program
def view_that_is_returned_is_kept(jit, w):
    def both(x):
        y = (w * x).sin()
        return y, y[:10]

    f = jit(both)
    kept = []

    def step():
        kept[:] = [f(numbers(N))[1]]

    return step


@program
def result_and_what_it_was_made_of(jit, w):
    def both(x):
        h = (w * x).sin()
        return h.sum(), h

    f = jit(both)

    def step():
        loss, h = f(numbers(N))
        h.loss = loss

    return step


def left(step, calls=20):
    """Bytes that a call leaves, in the mean."""
    for _ in range(8):
        step()
    with no_collector():
        before = ad.memory_statistics()["allocated_bytes"]
        for _ in range(calls):
            step()
        return (ad.memory_statistics()["allocated_bytes"] - before) / calls


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_nothing_is_left(make):
    made = []

    def jit(f):
        made.append(ad.jit(f))
        return made[-1]

    w = numbers(N, requires_grad=True)
    assert left(make(lambda f: f, w)) < N
    assert left(make(jit, w)) < N
    assert made[0].stats()["replayed"] > 20
