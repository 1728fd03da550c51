"""Modes: contexts, decorators and functions; generators and coroutines step by step; threads; inference tensors.

Each way to suspend a function (yield, await, async for) is run under each mode: the body must see its own mode at every
step, and whoever drives it must see theirs in between. Start reading at `MODES`.
"""

import asyncio
import contextlib
import copy
import functools
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import leaf

import adjoint as ad

#: Name, how to make the mode, and what `state()` is inside of it.
MODES = [
    ("no_grad", ad.no_grad, (False, False)),
    ("enable_grad", ad.enable_grad, (True, False)),
    ("set_grad_enabled(False)", lambda: ad.set_grad_enabled(False), (False, False)),
    ("set_grad_enabled(True)", lambda: ad.set_grad_enabled(True), (True, False)),
    ("inference_mode", ad.inference_mode, (False, True)),
]
each_mode = pytest.mark.parametrize("make, inside", [m[1:] for m in MODES], ids=[m[0] for m in MODES])
#: The mode of whoever drives: by turns each of the two.
each_outside = pytest.mark.parametrize("outside", [True, False], ids=["recording outside", "not outside"])


def state():
    return ad.is_grad_enabled(), ad.is_inference_mode_enabled()


@each_mode
@each_outside
def test_contexts(make, inside, outside):
    with ad.set_grad_enabled(outside):
        with make():
            assert state() == inside
            with ad.enable_grad() if not inside[1] else ad.inference_mode(False):
                assert state() == (True, False)
            assert state() == inside
        assert state() == (outside, False)
        with pytest.raises(KeyError), make():
            raise KeyError
        assert state() == (outside, False)


@each_mode
@each_outside
def test_functions(make, inside, outside):
    with ad.set_grad_enabled(outside):

        @make()
        def plain(depth):
            """What it does."""
            assert state() == inside
            return plain(depth - 1) if depth else state()

        assert state() == (outside, False), "decorating changes nothing"
        assert plain(3) == inside and plain.__name__ == "plain" and plain.__doc__ == "What it does."
        assert state() == (outside, False)

        @make()
        def fails():
            raise KeyError

        with pytest.raises(KeyError):
            fails()
        assert state() == (outside, False)


@each_mode
@each_outside
def test_generators(make, inside, outside):
    seen = []

    @make()
    def generator():
        """What it does."""
        try:
            for k in range(10):
                seen.append(state())
                try:
                    seen.append((yield k))
                except ValueError:
                    seen.append(state())
                    yield "caught"
            return "end"
        finally:
            seen.append(("finally", state()))

    assert generator.__name__ == "generator" and generator.__doc__ == "What it does."
    with ad.set_grad_enabled(outside):
        running = generator()
        assert next(running) == 0 and state() == (outside, False)
        assert running.send("sent") == 1 and state() == (outside, False)
        # The driver's own mode may change between steps, and stays as it was set.
        with ad.set_grad_enabled(not outside):
            assert next(running) == 2 and state() == (not outside, False)
        assert running.throw(ValueError) == "caught" and state() == (outside, False)
        running.close()
        assert state() == (outside, False)
        assert seen == [inside, "sent", inside, None, inside, inside, ("finally", inside)]
        with pytest.raises(KeyError):
            running = generator()
            next(running)
            running.throw(KeyError)
        assert state() == (outside, False)

        def delegates():
            return (yield from generator())

        driven, values = delegates(), []
        try:
            while True:
                values.append(next(driven))
                assert state() == (outside, False)
        except StopIteration as stop:
            assert stop.value == "end"
        assert values == list(range(10))


def test_a_mode_inside_a_generator_does_not_leak():
    """A generator that is suspended inside a mode of its own: the next to run is not in it, once the body is decorated."""

    @ad.enable_grad()
    def generator():
        with ad.no_grad():
            yield state()
            yield state()

    running = generator()
    assert next(running) == (False, False)
    assert state() == (True, False)


class Steps:
    def generator(self, n):
        for _ in range(n):
            yield state()


@each_mode
def test_generators_of_methods_partials_and_contexts(make, inside):
    for function in (
        make()(functools.partial(Steps.generator, None, 2)),
        functools.partial(make()(Steps().generator), 2),
        make()(functools.partial(functools.partial(Steps().generator), n=2)),
    ):
        running = function()
        for _ in range(2):
            assert next(running) == inside and state() == (True, False)

    @contextlib.contextmanager
    @make()
    def context():
        assert state() == inside
        yield state()
        assert state() == inside

    with context() as seen:
        assert seen == inside and state() == (True, False), "the body of the with statement is the caller's"


class Suspend:
    """Something to await that gives control back to whoever drives the coroutine."""

    def __await__(self):
        return (yield "suspended")


@each_mode
@each_outside
def test_coroutines(make, inside, outside):
    seen = []

    @make()
    async def coroutine():
        seen.append(state())
        seen.append(await Suspend())
        seen.append(state())
        try:
            await Suspend()
        except ValueError:
            seen.append(("caught", state()))
        return "end"

    with ad.set_grad_enabled(outside):
        running = coroutine()
        assert running.send(None) == "suspended" and state() == (outside, False)
        assert running.send("sent") == "suspended" and state() == (outside, False)
        with pytest.raises(StopIteration) as stop:
            running.throw(ValueError)
        assert stop.value.value == "end" and state() == (outside, False)
        assert seen == [inside, "sent", inside, ("caught", inside)]
        running = coroutine()
        running.send(None)
        running.close()
        assert state() == (outside, False)


@each_mode
def test_coroutines_side_by_side(make, inside):
    """Two tasks that take turns in one thread, one of them in a mode: neither sees the other's."""

    @make()
    async def decorated():
        for _ in range(5):
            assert state() == inside
            await asyncio.sleep(0)
        return state()

    async def bare():
        for _ in range(5):
            assert state() == (True, False)
            await asyncio.sleep(0)
        return state()

    async def both():
        return await asyncio.gather(decorated(), bare(), decorated())

    assert asyncio.run(both()) == [inside, (True, False), inside]
    assert state() == (True, False)


@each_mode
@each_outside
def test_asynchronous_generators(make, inside, outside):
    seen = []

    @make()
    async def generator():
        try:
            for k in range(3):
                seen.append(state())
                await asyncio.sleep(0)
                seen.append(state())
                yield k
        finally:
            seen.append(("finally", state()))

    async def drive():
        # A task begins in the mode of its thread.
        with ad.set_grad_enabled(outside):
            async for k in generator():
                assert state() == (outside, False), k
            running = generator()
            assert await running.asend(None) == 0
            assert state() == (outside, False)
            await running.aclose()
            assert state() == (outside, False)

    asyncio.run(drive())
    assert seen == [inside] * 6 + [("finally", inside)] + [inside] * 2 + [("finally", inside)]


@each_mode
def test_classes_and_methods(make, inside):
    with pytest.warns(FutureWarning, match="Decorating classes decorates.*methods of Model"):

        @make()
        class Model:
            def __init__(self):
                self.state = state()

    assert Model().state == inside and state() == (True, False)

    class Other:
        @make()
        def forward(self):
            return state()

    assert Other().forward() == inside


def test_one_object_may_be_entered_again_while_it_is_open():
    mode = ad.no_grad()
    with mode, ad.enable_grad():
        with mode:
            assert state() == (False, False)
        assert state() == (True, False)
    assert state() == (True, False)


def test_set_grad_enabled_as_a_function():
    ad.set_grad_enabled(False)
    try:
        assert not (leaf(1.0) * 2).requires_grad
    finally:
        ad.set_grad_enabled(True)
    assert (leaf(1.0) * 2).requires_grad


# --- threads ------------------------------------------------------------------------------------------------------------


@each_mode
def test_new_threads_start_with_grad_enabled(make, inside):
    seen = []
    with make():
        thread = threading.Thread(target=lambda: seen.append(state()))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(state).result())
        assert state() == inside
    assert seen == [(True, False)] * 2


def test_a_mode_of_one_thread_is_not_seen_by_another():
    entered, checked, seen = threading.Event(), threading.Event(), []

    def work():
        with ad.inference_mode():
            entered.set()
            assert checked.wait(30)
            seen.append(state())

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(30)
    assert state() == (True, False) and (leaf(1.0) * 2).requires_grad
    checked.set()
    thread.join()
    assert seen == [(False, True)]


# --- backward -----------------------------------------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_inside_backward_follows_create_graph(make, inside, create_graph):
    seen = []

    class Watch(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ad.is_grad_enabled())
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append(ad.is_grad_enabled())
            return g

    x = leaf(1.0, 2.0)
    y = Watch.apply(x)
    y.register_hook(lambda g: seen.append(ad.is_grad_enabled()))
    x.register_hook(lambda g: seen.append(ad.is_grad_enabled()))
    with make():
        ad.autograd.grad(y, x, ad.ones(2, dtype=ad.float64), create_graph=create_graph)
        assert state() == inside
    assert seen == [False] + [create_graph] * 3


# --- inference tensors --------------------------------------------------------------------------------------------------


def made_in_inference():
    with ad.inference_mode():
        return ad.tensor([1.0, 2.0], dtype=ad.float64)


def test_which_tensors_are_inference_tensors():
    normal = leaf(1.0, 2.0)
    with ad.inference_mode():
        z = normal * 2
        view = normal[0]
        assert z.is_inference() and ad.ones(1).is_inference()
        assert not view.is_inference() and view._is_view() and view._base is normal
        with ad.inference_mode(False):
            assert not ad.ones(1).is_inference()
    assert not normal.is_inference() and not z.requires_grad and z.is_leaf
    assert z[0].is_inference() and z.view(2, 1).is_inference() and z.detach().is_inference()
    assert not z.clone().is_inference() and not (z * 1).is_inference() and not copy.deepcopy(z).is_inference()


def test_inference_tensors_have_no_version():
    z = made_in_inference()
    for t in (z, z[0], z.detach()):
        with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
            t._version
    with ad.inference_mode():
        z.add_(1)
        with pytest.raises(RuntimeError, match="do not track version counter"):
            z._version


@pytest.mark.parametrize(
    "save",
    [
        lambda x, z: x * z,
        lambda x, z: x @ z,
        lambda x, z: z / x,
        lambda x, z: (x * 1).mul_(z),
        lambda x, z: ad.lerp(x, x, z),
        lambda x, z: ad.nn.functional.linear(z.view(1, 2), x.view(1, 2)),
    ],
    ids=range(6),
)
def test_inference_tensors_cannot_be_saved(save):
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        save(leaf(1.0, 2.0), made_in_inference())


def test_inference_tensors_may_meet_what_saves_nothing():
    x, z = leaf(1.0, 2.0), made_in_inference()
    y = x + z - ad.cat([z, z])[:2]
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    (x * z.clone()).sum().backward()
    assert x.grad.tolist() == [2, 3]
    with ad.no_grad():
        assert (x * z).tolist() == [1, 4]


@pytest.mark.parametrize(
    "write",
    [
        lambda z: z.add_(1),
        lambda z: z.zero_(),
        lambda z: z.copy_(ad.ones(2)),
        lambda z: z.uniform_(),
        lambda z: z[0].mul_(2),
        lambda z: z.detach().mul_(2),
        lambda z: z.__setitem__(0, 3.0),
        lambda z: z.__setitem__(ad.tensor([0]), 3.0),
        lambda z: ad.add(ad.ones(2, dtype=ad.float64), 1, out=z),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("outside", [ad.enable_grad, ad.no_grad])
def test_inference_tensors_cannot_be_changed_outside(write, outside):
    z = made_in_inference()
    phrase = "Inplace update to inference tensor outside InferenceMode is not allowed"
    with outside(), pytest.raises(RuntimeError, match=phrase):
        write(z)
    assert z.tolist() == [1, 2]
    with ad.inference_mode():
        write(z)
    assert z.tolist() != [1, 2]


def test_normal_tensors_in_inference_mode():
    x = leaf(1.0, 2.0)
    saved = (x * x).sum()
    with ad.inference_mode():
        x.add_(1)  # no error: nothing records
        x[0].add_(1)
    assert x.tolist() == [3, 3] and x._version == 2 and x.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
    other = (x * x).sum()
    with ad.inference_mode():
        other.backward()
    assert x.grad.tolist() == [6, 6]


def test_flags_of_inference_tensors():
    z = made_in_inference()
    for ask in (z.requires_grad_, lambda: setattr(z, "requires_grad", True)):
        with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside"):
            ask()
    z.requires_grad_(False)
    with ad.inference_mode():
        assert z.requires_grad_() is z and not (z * 2).requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: x * c,
        lambda x, c: c * x,
        lambda x, c: x / c,
        lambda x, c: c / x,
        lambda x, c: x**c,
        lambda x, c: c**x,
        lambda x, c: x - c,
    ],
)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.complex128], ids=lambda t: t.name)
def test_a_number_met_in_inference_mode_is_saved_outside(call, dtype, request):
    """Numbers beside tensors are kept for the next call, which may be recorded: an evaluation comes before training."""
    # A number of its own for each case, so that none has been met before.
    number = 1.5 + (zlib.crc32(request.node.name.encode()) % 10007) / 20011
    with ad.inference_mode():
        call(ad.ones(2, dtype=dtype), number)
    x = ad.full((2,), 1.25, dtype=dtype, requires_grad=True)
    y = call(x, number)
    expected = call(ad.full((2,), 1.25, dtype=dtype, requires_grad=True), ad.tensor(number, dtype=dtype))
    assert y.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    y.abs().sum().backward()
    assert not x.grad.is_inference() and ad.isfinite(x.grad).all()
