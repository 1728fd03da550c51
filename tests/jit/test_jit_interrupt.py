"""Control-C in a replay: as after an eager call that ended there, and the next call is right."""

import signal
import threading
import time

import pytest
from twice import doubles, numbers

import adjoint as ad
from adjoint._replay import traces


@pytest.fixture(autouse=True)
def interruptible():
    """A process in the background may have been started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def long(x, w):
    """Some tenths of a second, in many instructions."""
    for _ in range(150):
        x = (x @ w).tanh()
    return x.cumsum(0)


def test_a_replay_is_interrupted():
    ad.manual_seed(0)
    x, w = ad.randn(300, 300), ad.randn(300, 300) / 17
    f = ad.jit(long)
    expected = long(x, w)
    for _ in range(4):
        assert ad.equal(f(x, w), expected)
    start = time.perf_counter()
    f(x, w)
    whole = time.perf_counter() - start
    ended = 0
    for part in (0.2, 0.5, 0.8):
        timer = threading.Timer(part * whole, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        try:
            for _ in range(1000):  # until it comes
                f(x, w)
        except KeyboardInterrupt:
            ended += 1
        timer.join()
        assert ad.equal(f(x, w), expected)
    assert ended == 3 and f.stats()["replayed"] > 4


def interrupt(f, x, state, delays):
    """Calls that end by the signal; each that ran has added 1 to `state`."""
    for delay in delays:
        timer = threading.Timer(delay, signal.raise_signal, (signal.SIGINT,))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for _ in range(10_000):
                f(x)
        timer.join()
        assert bool((state == state[0, 0]).all()) and state._version == state[0, 0].item()


def test_a_replay_that_writes_is_interrupted():
    """What was written by then is kept, as eagerly; nothing is torn apart, and the versions fit."""
    ad.manual_seed(0)
    state, w = ad.zeros(200, 200), ad.randn(200, 200) / 14

    def step(x):
        for _ in range(40):
            x = (x @ w).tanh()
        state.add_(1)
        for _ in range(40):
            x = (x @ w).tanh()
        return x

    f, x = ad.jit(step), ad.randn(200, 200)
    for _ in range(4):
        f(x)
    interrupt(f, x, state, (0.001, 0.003, 0.01))
    before = state[0, 0].item()
    f(x)
    assert state[0, 0] == before + 1


def test_an_interrupted_replay_takes_back_what_may_still_fail(monkeypatch):
    """Contents and versions fit each other, whatever part of it has run."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    state, w, rows = ad.zeros(200, 200), doubles(200, 200).float() / 14, ad.arange(200).flip(0)

    def step(x):
        state.add_(1)
        for _ in range(40):
            x = (x @ w).tanh()
        return x.index_select(0, rows)

    f, x = ad.jit(step), numbers(200, 200)
    for _ in range(4):
        f(x)
    interrupt(f, x, state, (0.001, 0.003, 0.01, 0.02))
    assert f.stats()["replayed"]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system cannot hold signals back")
def test_handlers_of_signals_wait_until_a_run_that_is_only_tried_was_undone(monkeypatch):
    """Else they would meet an object instead of the number, and writes that are taken back."""
    state = {"t": 0.0, "x": ad.zeros(2)}
    seen = []

    @ad.jit
    def step():
        state["x"].add_(state["t"])
        state["t"] += 0.5

    def follow(layout, which, function, args, kwargs, call):
        def calls(place, f):
            def placed(recorder):
                objects = place(recorder)
                signal.raise_signal(signal.SIGUSR1)
                assert type(state["t"]) is not float
                return objects

            return call(placed, f)

        return original(layout, which, function, args, kwargs, calls)

    original = traces.follow
    monkeypatch.setattr(traces, "follow", follow)
    handler = lambda *_: seen.append((type(state["t"]), state["t"], state["x"].tolist()))  # noqa: E731
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for _ in range(6):
            step()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen and all(kind is float for kind, _, _ in seen)
    assert all(x == [sum(0.5 * k for k in range(int(2 * t)))] * 2 for _, t, x in seen)
    assert state["t"] == 3.0 and step.stats()["replayed"]
