"""Decisions on values: each way that a program takes has a trace, found by how the decisions come out."""

import contextlib

import twice

import adjoint as ad


def agrees(function, arguments, wrap=lambda f: f):
    """The statistics of a jitted function that gave what eager gave for each argument, and left what eager left."""
    stats = []
    expected = list(map(function(), arguments))
    for check in (False, True):
        jitted = ad.jit(function())
        from adjoint._replay._check import checking

        with checking() if check else contextlib.nullcontext():
            for x, y in zip(arguments, expected, strict=True):
                assert twice.picture(jitted(x)) == twice.picture(y)
        stats.append(jitted.stats())
    return stats[0]


def some(n, *shape, at=0):
    return [twice.numbers(*shape, seed=at + k) for k in range(n)]


def test_two_ways_are_both_replayed():
    def make():
        def f(x):
            y = x * 2
            return y.sin() + 1 if y.sum() > 0 else y.cos() - 1

        return f

    stats = agrees(make, some(40, 3))
    assert stats["traces"] == 2 and stats["replayed"] > 30


def test_what_comes_again_is_asked_first():
    f = ad.jit(lambda x: x.sin() if x.sum() > 0 else x.cos())
    one = ad.ones(3)
    for sign in (1, 1, 1, -1, -1, -1):
        f(one * sign)
    assert f.stats()["traces"] == 2
    before = f.stats()["undone"]
    for _ in range(10):
        f(-one)
    for _ in range(10):
        f(one)
    assert f.stats()["undone"] <= before + 2


def test_what_a_wrong_way_had_written_is_put_back():
    def make():
        state, seen = ad.zeros(3), []

        def f(x):
            state.add_(x)
            drawn = ad.rand(3)
            if state.sum() > 0:
                state.mul_(0.5)
            else:
                state.sub_(drawn)
            return state.clone(), state._version

        def run(x):
            ad.manual_seed(len(seen))
            seen.append(0)
            return f(x)[0], ad.rand(1)

        return run

    def make_written():
        state = ad.zeros(3)

        def f(x):
            state.add_(x)
            if state.sum() > 0:
                state.mul_(0.5)
            else:
                state.sub_(x * x)
            return state.clone()

        return f

    agrees(make, some(30, 3))
    stats = agrees(make_written, some(40, 3))
    assert stats["replayed"] > 25


def test_newton():
    def make():
        def f(x):
            for _ in range(30):
                step = (x * x - 2) / (2 * x)
                x = x - step
                if step.abs().max() < 1e-6:
                    break
            return x

        return f

    stats = agrees(make, [ad.rand(3, generator=ad.Generator().manual_seed(k)) * 4 + 0.5 for k in range(60)])
    assert stats["replayed"] > 40


def test_an_adaptive_method():
    def make():
        def solve(y):
            t, h = ad.zeros(()), ad.full((), 0.3)
            while t < 1.0:
                h = ad.minimum(h, 1.0 - t)
                a = ad.sin(t) - 3 * y
                b = ad.sin(t + h) - 3 * (y + h * a)
                error = (h * (b - a) / 2).abs().max()
                if error < 1e-2:
                    t, y = t + h, y + h * (a + b) / 2
                h = h * 0.9 * (1e-2 / (error + 1e-9)).sqrt().clamp(0.2, 5)
            return y

        return solve

    stats = agrees(make, [ad.rand(3, generator=ad.Generator().manual_seed(k)) + 1 for k in range(60)])
    assert stats["replayed"] > 40


def test_ways_in_the_graph():
    def make():
        w = twice.numbers(3, seed=99).requires_grad_()
        inner = lambda x: ((w * x).sin() if x.sum() > 0 else (w * w * x)).sum()

        def f(x):
            y = inner(x)
            (g,) = ad.autograd.grad(y, w)
            return y.detach(), g

        return f

    assert agrees(make, some(40, 3))["replayed"] > 30
    w = twice.numbers(3, seed=99).requires_grad_()
    inner = ad.jit(lambda x: ((w * x).sin() if x.sum() > 0 else (w * w * x)).sum())
    for x in some(40, 3):
        (g,) = ad.autograd.grad(inner(x), w)
        assert ad.equal(g, (w * x).detach().cos() * x if x.sum() > 0 else 2 * w.detach() * x) or ad.allclose(
            g, (w * x).detach().cos() * x if x.sum() > 0 else 2 * w.detach() * x
        )
    assert inner.stats()["replayed"] > 30


def test_ways_without_number():
    """Each call takes another of a thousand ways: it costs few recordings, and memory for few traces."""

    def make():
        def f(x):
            for k in range(10):
                x = x.sin() if x[k] > 0 else x * 2
            return x

        return f

    arguments = some(300, 10)
    agrees(make, arguments[:60])
    jitted = ad.jit(make(), limit=4)
    for x in arguments:
        jitted(x)
    stats = jitted.stats()
    assert stats["traces"] <= 4
    assert stats["recorded"] < 150


def test_a_way_that_fails():
    f = ad.jit(lambda x: x[5] if x.sum() < 0 else x * 2)
    for k in range(20):
        x = ad.ones(3) * (1 if k % 3 else -1)
        with contextlib.suppress(IndexError):
            y = f(x)
            assert k % 3 and ad.equal(y, x * 2)
    assert f.stats()["replayed"] > 5
