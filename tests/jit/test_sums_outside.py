"""Sums to which a replayed call and others bring gradients have eager's bits, however often the call uses a tensor; and what a
transform around a call can tell of its results.

Start reading at `test_sums`.
"""

import pytest
import twice

import adjoint as ad

PROGRAMS, trap = twice.table()


def many(x, n=7):
    """Uses x n times, with gradients of all sizes."""
    return sum((x * (10.0**k)).sin() for k in range(n))


@trap()
def a_later_use_comes_first(jit, see):
    f = jit(lambda x: many(x).sum())
    for k in range(9):
        x = twice.numbers(64, seed=k).requires_grad_()
        y = x * 1.0
        total = f(y)
        total = total + (y * 0.1).exp().sum()
        total.backward()
        see(x)


@trap()
def a_parameter_with_decay(jit, see):
    w = ad.nn.Parameter(twice.numbers(64))
    f = jit(lambda x: (many(w) * x).sum())
    for k in range(9):
        w.grad = None
        loss = f(twice.numbers(64, seed=k))
        ((w**2).sum() * 0.3 + loss).backward(retain_graph=k % 2)
        see(w.grad)
        if k % 2:
            ((w**2).sum() * 0.7 + loss).backward()
            see(w.grad)


@trap()
def two_calls(jit, see):
    f = jit(lambda x: many(x).sum())
    for k in range(9):
        x = twice.numbers(64, seed=k).requires_grad_()
        see(*ad.autograd.grad(f(x) + f(x) * 3, x))


@trap()
def a_cotangent_is_there_before(jit, see):
    f = jit(lambda x: many(x).sum())
    for k in range(9):
        x = twice.numbers(64, seed=k).requires_grad_()
        y = x * 1.0
        see(*ad.autograd.grad((f(y), y), x, (ad.ones(()), twice.numbers(64, seed=k + 50))))


@trap()
def results_that_lead_elsewhere(jit, see):
    w = ad.nn.Parameter(twice.numbers(3))
    f = jit(lambda a: (a.sum(), w * 2))
    for k in range(8):
        gradient, (value, more) = ad.func.grad(lambda a: (f(a)[0] ** 2, f(a)), has_aux=True)(
            twice.numbers(4, seed=k)
        )
        see(gradient, value, more)


@pytest.mark.parametrize("program, replays", PROGRAMS)
def test_sums(program, replays):
    twice.same(program, replays)
