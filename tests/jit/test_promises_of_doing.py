"""What a function does is done, in the graph too, by several threads, and memory returns: each by a program that shows something else
where what sees to it is missing. See `twice.same`; what a function reads is in test_promises_of_reading.py.
"""

import collections
import gc
import threading
import weakref

import numpy as np
import pytest
import twice
from twice import doubles, numbers

import adjoint as ad
from adjoint import nn

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_promise(program, replays):
    twice.same(program, replays)


# --- what it does is done ------------------------------------------------------------------------------------------------------


@trap()
def versions_of_results_that_were_written(jit, see):
    def f(x):
        y = x * 2
        y.add_(1)
        y[0] = 3
        return y, x + 1

    f = jit(f)
    for k in range(6):
        see(f(numbers(3, seed=k)), f(numbers(3, seed=k))[0]._version)


@trap()
def numbers_that_equal_nothing_are_returned(jit, see):
    f = jit(lambda x: (x * 2, float("nan"), -0.0))
    for k in range(6):
        see(f(numbers(3, seed=k)))


@trap()
def equal_operations_about_a_write(jit, see):
    def f(x):
        a = x * 2
        x.add_(1)
        b = x * 2
        c = a.sin()
        a.mul_(3)
        return a, b, c + a.sin()

    f = jit(f)
    for k in range(6):
        x = numbers(3, seed=k)
        see(f(x), x)


@trap()
def memory_that_may_not_be_written(jit, see):
    f = jit(lambda x: x.add_(1).sum())
    for k in range(10):
        x = ad.from_numpy(np.arange(3.0))
        if k > 5:
            x = ad.frombuffer(bytes(24), dtype=ad.float64)
        with see.error():
            see(f(x))


@trap()
def what_is_taken_away_or_put_in_another_order(jit, see):
    stack, names, order = [1, 2, 3], {1, 2}, collections.OrderedDict(a=1, b=2)

    def pops(x):
        stack.pop()
        return x * 2

    def discards(x):
        names.discard(2)
        return x * 3

    def turns(x):
        order.move_to_end("a")
        return x * 4

    def plain(x):
        return x * 5

    functions = [jit(f) for f in (pops, discards, turns, plain)]
    for _ in range(12):
        see([f(numbers(2)) for f in functions], stack, sorted(names), list(order))
        stack.append(len(stack))
        names.add(2)
        order.move_to_end("b")


@trap()
def a_hook_that_is_put_on_what_was_there(jit, see):
    w, seen = numbers(2, requires_grad=True), []

    def f(x):
        w.register_hook(lambda g: g * 2)
        return x * 2

    f, g = jit(f), jit(lambda x: x * 3)
    for _ in range(6):
        see(f(numbers(2)), g(numbers(2)))
        w.grad = None
        (w * 1).sum().backward()
        see(w.grad, seen)


@trap()
def leaves_with_gradients_that_it_makes(jit, see):
    def f(x):
        w = ad.ones(2, requires_grad=True)
        (w * x).sum().backward()
        return w

    f, g = jit(f), jit(lambda x: x * 3)
    for k in range(6):
        w = f(numbers(2, seed=k))
        see(w, w.grad, g(w.detach()))


@trap()
def what_it_stores_may_need_gradients(jit, see):
    w, state = numbers(2, requires_grad=True), {"h": None}

    def f(x):
        state["h"] = w * x
        return x * 2

    f, g = jit(f), jit(lambda x: x * 3)
    for k in range(7):
        see(f(numbers(2, seed=k)), g(numbers(2)))
        w.grad = None
        state["h"].sum().backward()
        see(w.grad)


@trap()
def a_list_that_it_stores_twice(jit, see):
    state = {"a": None, "b": None}

    def f(x):
        state["a"] = state["b"] = [x * 2]
        return x * 3

    f, g = jit(f), jit(lambda x: x * 3)
    for k in range(7):
        see(f(numbers(2, seed=k)), g(numbers(2)))
        state["a"].append(k)
        see(state["b"])


# --- failures and decisions --------------------------------------------------------------------------------------------------


@trap()
def a_write_between_two_decisions(jit, see):
    log = ad.zeros(2)

    def f(x):
        if x[0] > 0:
            log.add_(x)
        ad.rand(1)
        if x[1] > 0:
            log.mul_(2)
        return log * 1

    f = jit(f)
    for k in range(24):
        see(f(ad.tensor([1.0, 1.0 if k % 4 else -1.0])), log, log._version, ad.get_rng_state())


@trap()
def checks_of_prepared_rows(jit, see):
    """Rows whose launches are kept, and their checks of values with them."""
    table = numbers(5, 3)
    functions = [
        lambda i: nn.functional.embedding(i, table),
        lambda i: table.index_select(0, i),
        lambda i: table.gather(0, i[:, None]),
        lambda i: table[i],
        lambda i: nn.functional.nll_loss(table, i.expand(5) if i.numel() == 1 else i[:1].expand(5)),
        lambda i: ad.zeros(5).scatter(0, i, 1.0),
        lambda i: ad.zeros(5).index_add(0, i, ad.ones(2)),
        lambda i: nn.functional.one_hot(i, 5),
    ]
    functions = [jit(f) for f in functions]
    for k in range(12):
        for f in functions:
            with see.error():
                see(f(ad.tensor([1, 7 if k % 4 == 3 else 2]) if k % 8 < 7 else ad.tensor([9, 1])))


# --- in the graph ------------------------------------------------------------------------------------------------------------


@trap()
def arguments_that_passes_need_are_written(jit, see):
    f = jit(lambda x, w: (x * w).sum())
    for k in range(6):
        x, w = numbers(3, seed=k), numbers(3, seed=k, requires_grad=True)
        y = f(x, w)
        x.mul_(2)
        try:
            y.backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))
        y = f(x, w)
        (y * 1).backward()
        see(w.grad)


def test_an_argument_with_other_memory_is_an_error_of_a_second_run():
    f = ad.jit(lambda x, w: (x * w).sin().sum())
    for _ in range(5):
        x, w = ad.ones(3), ad.ones(3, requires_grad=True)
        y = f(x, w)
    assert f.stats()["replayed"]
    x.data = ad.zeros(3)
    with pytest.raises(RuntimeError, match="given other memory since the call"):
        ad.autograd.grad(y, w, create_graph=True)


@trap()
def an_argument_is_swapped_before_a_second_run(jit, see):
    f = jit(lambda x, w: (x * w).sin().sum())
    for k in range(6):
        x, w, other = numbers(3, seed=k), numbers(3, requires_grad=True), ad.zeros(3)
        y = f(x, w)
        ad.utils.swap_tensors(x, other)
        (g,) = ad.autograd.grad(y, w, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), w))


@trap()
def a_second_run_leaves_no_traces(jit, see):
    """It counts nothing again, and runs under the default type of the call."""
    state = {"n": 0, "last": ad.zeros(3)}

    def f(x):
        state["n"] += 1
        state["last"] = x.detach() * state["n"]
        return (x * x * ad.full((3,), 0.1)).sin().sum()

    f = jit(f)
    for k in range(8):
        ad.set_default_dtype(ad.float64)
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        ad.set_default_dtype(ad.float32)
        last = state["last"]
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), x), state, state["last"] is last)


@trap()
def a_second_run_meets_weights_as_they_were(jit, see):
    """Frozen since, and with another gradient, which the function reads."""
    w = doubles(3).requires_grad_()

    def f(x):
        return (x * w * w.grad).sin().sum() if w.requires_grad else (x * 7).sum()

    f = jit(f)
    for k in range(8):
        w.grad = doubles(3, seed=k)
        x = doubles(3, seed=k + 9).requires_grad_()
        y = f(x)
        w.requires_grad_(False)
        w.grad = None if k % 2 else w.grad * 2
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        w.requires_grad_()
        see(g, ad.autograd.grad(g.sum(), x), w.grad)


@trap()
def gradients_that_are_retained(jit, see):
    def f(x):
        y = x * 2
        if y.requires_grad:
            y.retain_grad()
        return y, (y * y).sum()

    f = jit(f)
    for k in range(6):
        y, z = f(numbers(3, seed=k, requires_grad=True))
        see(y.retains_grad)
        z.backward()
        see(y.grad)


def test_a_pass_gives_up_what_its_node_holds():
    def f(x, w):
        return (x * w).sin().sum()

    f = ad.jit(f)
    with twice.no_collector():
        for _ in range(5):
            x, w = ad.ones(3), ad.ones(3, requires_grad=True)
            y = f(x, w)
            y.backward()
        assert f.stats()["replayed"]
        gone = weakref.ref(x)
        del x
        assert gone() is None and y.grad_fn is not None


# --- bits, threads and memory ------------------------------------------------------------------------------------------------


def test_bits_are_those_of_eager_for_every_number_of_threads():
    """Blocks begin where eager's loops have whole vectors, in a piece of any thread."""

    def f(x):
        y = (x.sin() * 1.5 + x.cos().exp()).tanh() - x.asin().square()
        return y, y.sum(), (y * x).amax()

    expected = {n: f(ad.rand(n, generator=ad.Generator().manual_seed(n)) - 0.5) for n in (1500, 70_001)}
    for threads in (1, 2, 3):
        ad.set_num_threads(threads)
        for n, want in expected.items():
            jitted = ad.jit(f)
            x = ad.rand(n, generator=ad.Generator().manual_seed(n)) - 0.5
            for _ in range(5):
                assert all(twice.bits(a) == twice.bits(b) for a, b in zip(jitted(x), want, strict=True))
            assert jitted.stats()["replayed"] and "blocks" in ad.jit.explain(jitted)


def test_threads_that_compute_at_the_same_time():
    """Each has a program of its own: they let Python's lock go, and meet in the middle of it."""
    n = 20_000
    f = ad.jit(lambda x: (x.sin().flip(0).cumsum(0) * x).cos().flip(0))
    inputs = [doubles(n, seed=k) for k in range(4)]
    expected = [twice.bits(f.function(x)) for x in inputs]
    for _ in range(4):
        f(inputs[0])
    wrong = []
    ready = threading.Barrier(4)

    def work(k):
        ready.wait()
        for _ in range(25):
            y = f(inputs[k])
            if twice.bits(y) != expected[k]:
                wrong.append(k)

    twice.in_threads(work, range(4))
    assert not wrong and f.stats()["replayed"] > 90


def test_memory_between_calls_is_small_and_counted():
    """A large arena is the allocator's again after each call, and what a row made goes with its last reader."""

    def bytes_now():
        gc.collect()
        return ad.memory_statistics()["allocated_bytes"]

    x = ad.rand(1 << 18)
    f = ad.jit(lambda x: (x.flip(0).cumsum(0) + x.sort().values.flip(0)).sum())
    before = bytes_now()
    for _ in range(8):
        f(x)
    assert f.stats()["replayed"] >= 5
    assert bytes_now() - before < 1 << 16
    small = ad.jit(lambda x: (x.flip(0).cumsum(0) * x).flip(0).cumsum(0) * 2)
    y = ad.rand(1 << 10)
    before = bytes_now()
    for _ in range(5):
        small(y)
    arena = bytes_now() - before
    ad.jit.clear(small)
    assert 0 < arena < 1 << 17 and bytes_now() <= before


def test_what_was_used_last_stays_within_the_limit():
    f = ad.jit(lambda x: x * 2, limit=2)

    def calls(n, times):
        before = f.stats()["replayed"]
        for _ in range(times):
            f(ad.ones(n))
        return f.stats()["replayed"] - before

    calls(1, 4), calls(2, 4)
    calls(1, 1)
    calls(3, 4)
    assert f.stats()["traces"] == 2 and calls(1, 1) == 1 and calls(3, 1) == 1


def test_calls_that_never_fit_are_seldom_recorded():
    f = ad.jit(lambda x: x * 2)
    for n in range(300):
        for _ in range(2 if n < 5 else 1):
            f(ad.ones(n % 97 + 1, n + 1))
    f(ad.ones(2)), f(ad.ones(2)), f(ad.ones(2))
    recorded = f.stats()["recorded"]
    for n in range(300):
        f(ad.ones(n + 1, 2))
    assert f.stats()["recorded"] - recorded < 60
