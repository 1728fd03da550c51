"""Draws from generators of the program's own, under `jit`: eager's numbers, and generators end where eager leaves them, also where a call is
rolled back or tried with its numbers tracked. Start reading at `compare`.
"""

import warnings

import pytest
import twice

import adjoint as ad


def compare(make, calls=14):
    """The statistics of a jitted function; `make` gives a function of a number, and the generator that it draws from."""
    (plain, a), (again, b) = make(), make()
    jitted = ad.jit(again)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(calls):
            assert twice.picture(plain(k)) == twice.picture(jitted(k)), f"call {k}: {jitted.stats()}"
            assert a.get_state().equal(b.get_state()), k
    return jitted.stats()


def several_draws(g):
    weights = ad.ones(5)
    return lambda k: [
        ad.randn(3, generator=g) + ad.rand(3, generator=g),
        ad.randperm(4, generator=g),
        ad.multinomial(weights, 2, generator=g),
        ad.zeros(3).normal_(generator=g),
        ad.bernoulli(weights * 0.5, generator=g),
    ]


def decides(g):
    def f(k):
        r = ad.rand((), generator=g)
        return ad.randn(2, generator=g) if r.item() > 0.5 else r

    return f


def varies(g):
    return lambda k: (ad.rand((), generator=g).item() * k, k * 2.0)


def gradients(g):
    w = ad.ones(3, requires_grad=True)
    return lambda k: ad.autograd.grad((ad.rand(3, generator=g) * w).sum(), w)


def anneals(g):
    state = {"x": ad.tensor([3.0, 3.0]), "T": 1.0}

    def energy(x):
        return (x**2).sum() + ad.sin(5 * x).sum()

    def f(k):
        x = state["x"]
        y = x + 0.3 * ad.randn(2, generator=g)
        accepted = ad.rand((), generator=g) < ad.exp((energy(x) - energy(y)) / state["T"])
        state["x"] = ad.where(accepted, y, x)
        state["T"] *= 0.99
        return state["x"]

    return f


@pytest.mark.parametrize("program", [several_draws, decides, varies, gradients, anneals])
def test_draws_are_replayed(program):
    def make():
        g = ad.Generator().manual_seed(1)
        return program(g), g

    stats = compare(make, 24)
    assert stats["replayed"] >= 5, stats


def in_graphs(g):
    w = ad.ones(3, requires_grad=True)
    return lambda k: ad.rand(3, generator=g) * w


def of_a_generator_inside(g):
    return lambda k: ad.rand(3, generator=ad.Generator()) + ad.rand(3, generator=g)


@pytest.mark.parametrize("program", [in_graphs, of_a_generator_inside])
def test_others_run_by_themselves(program):
    def make():
        g = ad.Generator().manual_seed(1)
        return program(g), g

    stats = compare(make)
    assert not stats["replayed"] and "generator" in str(stats["reasons"]), stats


def test_each_generator_has_its_recording():
    f = ad.jit(lambda g: ad.rand(2, generator=g))
    for seed in (5, 6):
        g, h = ad.Generator().manual_seed(seed), ad.Generator().manual_seed(seed)
        for _ in range(8):
            assert f(g).equal(ad.rand(2, generator=h))
    assert f.stats()["replayed"] >= 8
