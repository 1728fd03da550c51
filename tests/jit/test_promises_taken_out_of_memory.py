"""What a trace must not keep alive, what it counts as held, and bits of sums: each test fails as soon as one mechanism of a replay is
taken out, as those of test_promises_taken_out.
"""

import gc
import weakref

import pytest
import twice
from twice import doubles, no_collector, numbers

import adjoint as ad


class Box:
    pass


def bytes_now():
    gc.collect()
    return ad.memory_statistics()["allocated_bytes"]


# --- what a trace keeps alive ------------------------------------------------------------------------------------------------


def test_state_that_holds_a_result_goes_without_the_collector():
    """The result's node would run its call again, with what that read."""
    state, w, died = {}, numbers(8, requires_grad=True), []
    f = ad.jit(lambda: (state["box"].scale * w).sin())
    with no_collector():
        for _ in range(8):
            box = state["box"] = Box()
            box.scale = 2
            box.last = f()
            died.append(weakref.ref(box.last))
            del box
            state.clear()
    assert f.stats()["replayed"] > 3
    assert not any(d() is not None for d in died)


def test_classes_go():
    class Scaled:
        scale = 2

        def __call__(self, x):
            return x * self.scale

    state, gone = {"f": Scaled()}, weakref.ref(Scaled)
    del Scaled
    f = ad.jit(lambda x: state["f"](x))
    for _ in range(5):
        f(numbers(3))
    assert f.stats()["replayed"]
    state["f"] = lambda x: x + 1
    gc.collect()
    assert gone() is None
    assert f(ad.ones(1)).item() == 2


def test_tensors_and_objects_that_were_read_go():
    state = {"w": numbers(3), "list": [numbers(2)], "box": Box()}
    f = ad.jit(lambda x: (x * state["w"]).sum() + state["list"][0].sum() + len(vars(state["box"])))
    for _ in range(5):
        f(numbers(3))
    assert f.stats()["replayed"]
    gone = [weakref.ref(o) for o in (state["w"], state["list"][0], state["box"])]
    state.clear()
    gc.collect()
    assert [g() for g in gone] == [None] * 3


# --- what counts as held -----------------------------------------------------------------------------------------------------


def in_the_graph(x):
    return (x.sin() * x.cumsum(0)).sum()


def with_an_arena(x):
    for _ in range(50):
        x = x.flip(0).cumsum(0) * 0.5
    return x


def double(x):
    return x * 2


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("g", [in_the_graph, with_an_arena, double])
def test_programs_and_traces_count_in_memory_statistics(g, graph):
    x = numbers(40, requires_grad=graph)
    f = ad.jit(g)
    for _ in range(5):
        y = f(x)
        if graph:
            ad.autograd.grad(y.sum(), x)
    del y
    held, before = f.stats()["bytes"], bytes_now()
    assert f.stats()["replayed"]
    ad.jit.clear(f)
    assert held <= before - bytes_now() < held * 1.2


# --- bits --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_sums_of_a_chain_whose_last_piece_is_short(pieces):
    """A few elements by themselves would be added up in another order than as the end of a vector."""

    def f(a, b):
        return (a * 2 + b).sin().sum()

    for rest in range(9):
        n = 1024 * pieces + rest
        a, b = doubles(n), doubles(n, seed=1)
        g, expected = ad.jit(f), twice.bits(f(a, b))
        for _ in range(5):
            assert twice.bits(g(a, b)) == expected, n
        assert g.stats()["replayed"]
