"""Programs that show something else as soon as one thing that a replay does is taken out: a store, a guard on what was computed, what
is put back after a failure, the graph of a call. What a function reads is in test_promises_taken_out.py. See `twice.same`.
"""

import contextlib
import gc
import threading

import pytest
import twice
from twice import doubles, numbers

import adjoint as ad
from adjoint import library

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_program(program, replays):
    twice.same(program, replays)


# --- what it does is done ------------------------------------------------------------------------------------------------------


class Holder:
    last = None
    count = 0


@trap()
def members_of_a_class_that_are_stored(jit, see):
    Holder.last = None

    def f(x):
        Holder.last = x * 2
        Holder.count = 1
        return x * 3

    f = jit(f)
    for k in range(8):
        Holder.count = 0
        see(f(numbers(2, seed=k)), Holder.last, Holder.count)


@trap()
def parts_that_cannot_be_written(jit, see):
    """Eager refuses to write views that one call made several of, or that were made without a graph."""

    def without_graph(x):
        with ad.no_grad():
            return (x[1:],)

    functions = [jit(lambda x: x.unbind(0)), jit(lambda x: (x[1:],)), jit(without_graph)]
    for k in range(8):
        for f in functions:
            x = numbers(3, 2, requires_grad=k % 4 < 2)
            y = x * 1
            for at in (x, y):
                part = f(at)[0]
                try:
                    part.mul_(2)
                    at.sum().backward()
                except RuntimeError as error:
                    see("view" in str(error))
                see(part, at, x.grad)


@trap()
def parts_that_are_written_before_a_decision(jit, see):
    def f(x):
        x[0:2].add_(1)
        x[2:4].add_(1)
        return x * 2 if x[0] < 9 else x * 3

    f, x = jit(f), ad.zeros(4)
    for _ in range(18):
        see(f(x), x)


@trap()
def results_that_count_writes_with_an_argument(jit, see):
    """Two arguments on one memory count theirs apart."""
    for function in (lambda x, d: d.detach(), lambda x, d: d[1:], lambda x, d: x.detach()):
        f = jit(function)
        for _ in range(8):
            x = numbers(3)
            d = x.data
            y = f(x, d)
            for t in (y, d, x):
                t.add_(1)
                see(x._version, d._version, y._version)


@trap()
def defaults_that_are_stored(jit, see):
    def helper(x, k=1):
        return x * k

    def f(x):
        helper.__defaults__ = (2,)
        return helper(x)

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(8):
        helper.__defaults__ = (1,)
        see(f(numbers(2, seed=k)), helper.__defaults__, g(numbers(2)))


@trap()
def an_attribute_of_a_tensor_that_is_stored(jit, see):
    def f(x, w):
        w.note = 1
        return x * 3

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(8):
        w = numbers(2)
        see(f(numbers(2, seed=k), w), getattr(w, "note", 0), g(numbers(2)))


@trap()
def a_function_that_gets_other_words(jit, see):
    def helper(x):
        """fresh"""
        return x * 3

    def f(x):
        helper.__doc__ = "used"
        return helper(x)

    f, g = jit(f), jit(lambda x: x * 2)
    for _ in range(7):
        helper.__doc__ = "fresh"
        see(f(numbers(2)), g(numbers(2)), helper.__doc__)


@library.custom_op("taken_out::tail", mutates_args=())
def tail(x: ad.Tensor) -> ad.Tensor:
    y = x * 2
    return y[1:3] if float(y[0]) > 0 else y[2:4]


@library.custom_op("taken_out::parts", mutates_args=())
def parts(x: ad.Tensor) -> list[ad.Tensor]:
    y = x * 2
    return [y + 1, y + 2, y + 3] if float(y[0]) > 0 else [y + 1, y + 2]


@trap()
def rows_that_make_something_else(jit, see):
    """A part of other memory, and fewer tensors."""
    f, g, h = jit(lambda x: tail(x) + 1), jit(tail), jit(lambda x: sum(parts(x)))
    for k in range(12):
        x = ad.tensor([1.0 if k % 6 < 4 else -1.0, 2, 3, 4])
        see(f(x), g(x), h(x))


# --- values ------------------------------------------------------------------------------------------------------------------


@trap()
def a_flag_that_is_switched_where_a_number_decides(jit, see):
    """The call is tried with the number tracked before it is made."""
    p = ad.nn.Parameter(ad.ones(3), requires_grad=False)

    def f(x, k):
        required = p.requires_grad
        if k > 9:
            p.requires_grad_(True)
        return x * k, required

    f = jit(f)
    for k in range(24):
        p.requires_grad_(False)
        see(f(ad.ones(3), k + 0.5), p)


@trap(None)
def a_number_that_is_returned_with_what_no_guard_sees(jit, see):
    token = ad.zeros(())
    f = jit(lambda x, k: (x * k, k + ad._C._version_of(token)))
    for k in range(12):
        ad._C._set_version(token, k * k)
        see(f(numbers(2), k + 0.5))


@trap()
def numbers_that_python_refuses(jit, see):
    """Where C++ would give infinities and no numbers, Python raises, or gives complex numbers."""
    functions = [
        jit(lambda x, k: (x * 2, 1.0 / k)),
        jit(lambda x, k: (x * 2, k**400.0)),
        jit(lambda x, k: (x * 2, (k - 2.0) ** 0.5)),
        jit(lambda x, k: (x * 2, k // 0.5)),
    ]
    for k in (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 0.0, 6.0, 1e10, 1.0, 6.5, float("inf"), 7.0, 0.0):
        for f in functions:
            with see.error():
                see(f(numbers(2), k))


# --- in the graph ------------------------------------------------------------------------------------------------------------


@trap()
def a_graph_that_was_freed_and_written(jit, see):
    def f(x, w):
        return (x.sin() * w).sum()

    f = jit(f)
    for k in range(8):
        x, w = numbers(3, seed=k), numbers(3, seed=k + 1, requires_grad=True)
        y = f(x, w)
        y.backward()
        if k % 2:
            x.mul_(2)
        with pytest.raises(RuntimeError) as error:
            y.backward()
        see("second time" in str(error.value), "inplace" in str(error.value), w.grad)


@trap()
def a_part_of_a_graph_was_freed_and_the_rest_written(jit, see):
    f = jit(lambda a, b, x: (a.sin() * x + b.cos() * x).sum())
    for k in range(12):
        a, b = (numbers(3, seed=n, requires_grad=True) for n in (k, k + 1))
        x = numbers(3, seed=k)
        y = f(a, b, x)
        see(ad.autograd.grad(y, a, retain_graph=k % 4 == 3))
        x.mul_(2)
        for leaves in ([a], [b], [a, b]) if k % 2 else ([a, b], [b], [a]):
            with pytest.raises(RuntimeError) as error:
                ad.autograd.grad(y, leaves)
            see("second time" in str(error.value), "inplace" in str(error.value))


@trap()
def a_view_of_what_a_call_writes(jit, see):
    """The call does not reach it, and its history follows."""
    f = jit(lambda y, w: y.mul_(w))
    for k in range(8):
        x, w = numbers(4, seed=k, requires_grad=True), numbers(4, seed=k + 1, requires_grad=True)
        y = x * 1
        view = y[1:3]
        f(y, w)
        (view * view).sum().backward()
        see(x.grad, w.grad, view)


class Noisy(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ad.rand_like(g)


@trap()
def a_rule_that_draws(jit, see):
    f, g = jit(lambda x: Noisy.apply(x).sum()), jit(lambda x: x * 2)
    for k in range(8):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        see(g(x.detach()), ad.rand(1))
        y.backward()
        see(x.grad, ad.get_rng_state())


@trap()
def passes_that_first_run_in_inference_mode(jit, see):
    f = jit(lambda x: (x * x * 3.0).sin().sum())
    for k in range(8):
        x = doubles(3, seed=k).requires_grad_()
        y = f(x)
        with ad.inference_mode(k % 2 == 0), see.error():
            y.backward()
        see(x.grad)


@trap()
def passes_that_first_run_where_another_device_is_asked_for(jit, see):
    f = jit(lambda x: (x * x * 3.0 + 0.1).sin().cumsum(0).sum())
    for k in range(8):
        x = doubles(3, seed=k).requires_grad_()
        y = f(x)
        with ad.device("meta"):
            y.backward()
        see(x.grad)


class MakesItsOwn(ad.autograd.Function):
    """What its rule makes follows the default dtype, the device that is asked for, and inference mode."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ad.full((3,), 0.1)


@contextlib.contextmanager
def another_default_dtype():
    ad.set_default_dtype(ad.float64)
    try:
        yield
    finally:
        ad.set_default_dtype(ad.float32)


@pytest.mark.parametrize("later", [0, 5])
@pytest.mark.parametrize("mode", [another_default_dtype, lambda: ad.device("meta"), ad.inference_mode])
def test_rules_run_in_the_modes_of_their_pass(mode, later):
    """Whether the pass was planned before, or is planned in that mode."""

    def program(jit, see):
        f = jit(lambda x: MakesItsOwn.apply(x).sum())
        for k in range(10):
            x = doubles(3, seed=k).requires_grad_()
            y = f(x)
            with see.error(), mode() if k >= later and k % 3 != 1 else contextlib.nullcontext():
                y.backward()
            see(x.grad)

    twice.same(program)


@trap()
def a_second_run_of_what_uses_autocast_itself(jit, see):
    def f(a, b):
        with ad.autocast("cpu", dtype=ad.bfloat16):
            return (a @ b).float().sin()

    f = jit(f)
    for k in range(8):
        a, b = (numbers(3, 3, seed=n, requires_grad=True) for n in (k, k + 1))
        y = f(a, b)
        with ad.autocast("cpu", dtype=ad.float16):
            see(ad.autograd.grad(y, a, numbers(3, 6)[:, ::2]))


@trap()
def a_second_run_after_a_write_while_something_looks_on(jit, see):
    """The elements that were there are supplied by an observer; others do not see the second run."""
    f = jit(lambda a, b: (a + b).sin())
    for k in range(8):
        a, b, seen = numbers(3, 3, seed=k, requires_grad=True), numbers(3, 3, seed=k + 1), []
        y = f(a, b)
        b.add_(1)
        token = ad._C._push_observer(None, lambda *call: seen.append(str(call[0])), None)  # noqa: B023
        try:
            see(ad.autograd.grad(y, a, numbers(3, 6)[:, ::2]))
        finally:
            ad._C._pop_interpreter(token)
        see(sorted(seen))


@trap()
def a_second_run_asks_whether_an_argument_is_a_leaf(jit, see):
    """Nothing in the graph leads to it, and what made it is not kept."""
    f = jit(lambda h, w: (h.detach() * w).sin().sum() * (2 if h.is_leaf else 3))
    for k in range(8):
        v, w = (numbers(3, seed=n, requires_grad=True) for n in (k, k + 1))
        y = f(v * 1, w)
        (g,) = ad.autograd.grad(y, w, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), w))


@trap()
def an_argument_that_is_detached_before_a_second_run(jit, see):
    """It has a history, as it had at the call."""
    f = jit(lambda h, w: (h.detach() * w).sin().sum() * (2 if h.requires_grad else 3))
    for k in range(8):
        v, w = numbers(3, seed=k, requires_grad=True), numbers(3, seed=k + 1, requires_grad=True)
        y = f(v * 1, w)
        (g,) = ad.autograd.grad(y, w, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), w))


# --- threads -------------------------------------------------------------------------------------------------------------------


def test_what_a_replay_takes_is_held_while_it_runs():
    """Another thread puts something else in its place, and writes to what is free."""
    n, done = 100_000, threading.Event()
    first = doubles(n)
    state = {"w": first.clone()}
    f = ad.jit(lambda x: (x.flip(0).cumsum(0).flip(0).cumsum(0) * state["w"]).cumsum(0))
    x = doubles(n, seed=1)
    expected = twice.bits(f.function(x)[-9:])
    for _ in range(4):
        f(x)

    def replaces(_):
        while not done.is_set():
            state["w"] = first.clone()
            ad.full((n,), float("nan"), dtype=ad.float64)

    def calls(_):
        try:
            for _ in range(150):
                assert twice.bits(f(x)[-9:]) == expected
        finally:
            done.set()

    twice.in_threads(lambda work: work(None), [replaces, calls])
    assert f.stats()["replayed"] > 100


# --- bits -----------------------------------------------------------------------------------------------------------------


def test_bits_of_numbers_that_are_none_are_those_of_eager():
    """Of two kinds of NaN a loop may keep either, by where in a vector they lie."""
    kinds = ad.tensor([0x7FC00001, 0x7FC00002, -0x3FFFFD, 0x3F800000], dtype=ad.int32)
    generator = ad.Generator().manual_seed(0)

    def drawn(n):
        return kinds[ad.randint(0, 4, (n,), generator=generator)].view(ad.float32)

    def f(a, b, w):
        y = a.lerp(b, w)
        return y * 2, (y + a).lerp(b * w, a)

    for n in (1500, 5001):
        given = [drawn(n) for _ in range(3)]
        g, expected = ad.jit(f), [twice.bits(t) for t in f(*given)]
        for _ in range(5):
            assert [twice.bits(t) for t in g(*given)] == expected
        assert g.stats()["replayed"] and "blocks" in ad.jit.explain(g)


# --- memory ------------------------------------------------------------------------------------------------------------------


def test_a_large_arena_of_small_parts_goes_back_after_each_call():
    def bytes_now():
        gc.collect()
        return ad.memory_statistics()["allocated_bytes"]

    def f(x):
        parts = [x.roll(k, 0) for k in range(1, 21)]
        return sum(p.cumsum(0) for p in parts)[:1].clone()

    f, x = ad.jit(f), ad.rand(2048)
    for _ in range(4):
        f(x)
    before = bytes_now()
    for _ in range(4):
        f(x)
    assert f.stats()["replayed"] and bytes_now() - before < 1 << 12
    held = f.stats()["bytes"]
    ad.jit.clear(f)
    assert held > 1 << 17 and before - bytes_now() < held / 2
