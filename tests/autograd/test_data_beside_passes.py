"""`x.data = y` in one thread beside passes of others: their rules read one memory, and nobody waits for ever.

Start reading at `test_rules_read_one_memory`.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from beside_a_thread import beside

import adjoint as ad
from adjoint.autograd import set_parallel_backward

#: A shape that a rule reads without Python's lock, and a short one whose memory ends early.
LONG, SHORT = 70_000, 7


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: x * x, lambda x: 2 * x),
        (lambda x: x.sin() * x.detach(), None),
        (ad.rsqrt, lambda x: -0.5 * x**-1.5),
    ],
)
def test_rules_read_one_memory(function, derivative, parallel):
    long, short = ad.full((LONG,), 2.0), ad.full((SHORT,), 4.0)
    x = ad.full((LONG,), 2.0, requires_grad=True)
    turn, seen = [0], set()

    def replace():
        turn[0] += 1
        x.data = short if turn[0] % 2 else long
        if turn[0] % 5 == 0:
            time.sleep(0)

    def differentiate():
        try:
            y = function(x)
            (g,) = ad.autograd.grad(y, x, ad.ones(y.shape))
        except RuntimeError:  # of two shapes: refused
            seen.add("refused")
            return
        seen.add("computed")
        assert g.shape == y.shape
        if derivative is not None:
            value = 2.0 if g.shape == (LONG,) else 4.0
            assert ad.allclose(g, derivative(ad.tensor(value)).expand(g.shape))

    with set_parallel_backward(parallel):
        beside(replace, differentiate, 0.6)
    assert seen


def replaced_by_another(x):
    """Another thread has given `x` other memory when this returns."""
    thread = threading.Thread(target=lambda: setattr(x, "data", ad.full(x.shape, 3.0)))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


class Waits(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x, leaf):
        ctx.leaf = leaf
        return x * 1

    @staticmethod
    def backward(ctx, g):
        replaced_by_another(ctx.leaf)
        return g, None


def by_a_hook(x):
    y = x * x
    y.register_hook(lambda g: replaced_by_another(x))
    return y.sum()


def by_a_function(x):
    return Waits.apply(x * x, x.detach()).sum()


def by_a_hook_of_what_was_saved(x):
    other = ad.ones(3)

    def unpack(t):
        replaced_by_another(other)
        return t

    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        return (x * x).sum()


def by_a_pass_within_a_pass(x):
    y = x * x

    def inner(g):
        with ad.enable_grad():
            by_a_hook(ad.ones(3, requires_grad=True)).backward()

    y.register_hook(inner)
    return y.sum()


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    "waits", [by_a_hook, by_a_function, by_a_hook_of_what_was_saved, by_a_pass_within_a_pass]
)
def test_a_pass_may_wait_for_the_thread_that_gives_data(waits, parallel):
    """While other passes compute, too."""
    other = ad.ones(LONG, requires_grad=True)
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            (other.sin() * other).sum().backward()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        x = ad.full((3,), 2.0, requires_grad=True)
        loss = waits(x) + waits(x) if parallel else waits(x)
        began = time.monotonic()
        with set_parallel_backward(parallel):
            loss.backward()
        assert time.monotonic() - began < 4, "went on only because a wait has an end"
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_does_not_wait_for_passes_that_it_has_not():
    program = """
        import os, threading, time, warnings
        import adjoint as ad
        warnings.simplefilter("ignore")
        x, done = ad.ones(500_000, requires_grad=True), threading.Event()
        def compute():
            while not done.is_set():
                (x.sin() * x).sum().backward()
        thread = threading.Thread(target=compute)
        thread.start()
        for _ in range(5):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                began = time.monotonic()
                y = ad.ones(3)
                y.data = ad.zeros(3)
                os._exit(0 if time.monotonic() - began < 2 else 1)
            assert os.waitpid(child, 0)[1] == 0
        done.set()
        thread.join()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
