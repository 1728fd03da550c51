"""Threads that meet at a leaf: no operator runs under a lock, no update is lost, and what Python switched on follows a pass
onto the engine's own threads."""

import contextvars
import threading

import pytest
from helpers import run_python

import adjoint as ad
from adjoint import _C
from adjoint.autograd import graph


def test_reading_a_gradient_while_a_pass_adds_to_it():
    done = run_python(
        "-c",
        """
import faulthandler, sys, threading
faulthandler.dump_traceback_later(120, exit=True)
sys.setswitchinterval(1e-5)  # who gives the interpreter away in a pass has it back soon
import adjoint as ad
from adjoint.autograd import graph

x = ad.ones(3, requires_grad=True)
y = ad.ones(3, requires_grad=True)
stop = False
def read():
    while not stop:
        x.grad, y.grad
reader = threading.Thread(target=read)
reader.start()
with graph.allow_mutation_on_saved_tensors():
    for _ in range(3000):
        z = x * x.detach()
        z.retain_grad()
        (z * y).sum().backward()
        assert z.grad is not None
stop = True
reader.join()
print(x.grad.tolist(), y.grad.tolist())
""",
    )
    assert done.stdout == "[3000.0, 3000.0, 3000.0] [3000.0, 3000.0, 3000.0]\n", done.stderr


@pytest.mark.parametrize("create_graph", [False, True])
def test_no_update_of_a_shared_leaf_is_lost(create_graph):
    x = ad.zeros(40, requires_grad=True)
    start = threading.Barrier(4)

    def work():
        start.wait()
        for _ in range(100):
            (x * 2).sum().backward(create_graph=create_graph)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [800] * 40


def test_a_pass_inside_of_an_update_of_the_same_leaf():
    x = ad.zeros(3, requires_grad=True)
    x.sum().backward()
    inner = [1]

    def before_write(tensor):
        if inner:
            inner.clear()
            with ad.enable_grad():
                (10 * x).sum().backward()

    token = _C._push_observer(None, None, before_write)
    try:
        (100 * x).sum().backward()
    finally:
        _C._pop_interpreter(token)
    assert x.grad.tolist() == [111] * 3


def test_a_gradient_that_is_cleared_during_an_update():
    x = ad.zeros(3, requires_grad=True)
    x.sum().backward()

    def before_write(tensor):
        x.grad = None

    token = _C._push_observer(None, None, before_write)
    try:
        x.sum().backward()
    finally:
        _C._pop_interpreter(token)
    assert x.grad is None  # as if it were cleared after the update
    x.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_what_python_switched_on_follows_a_pass_onto_its_threads():
    def program():
        with graph.allow_mutation_on_saved_tensors():
            x = ad.ones(3, requires_grad=True)
            parts = [(x * k).sin() for k in range(1, 9)]
            sum(p.sum() for p in parts).backward()
            return x.grad

    expected = program()
    ad.set_num_threads(4)
    with ad.autograd.set_parallel_backward(True):
        for _ in range(200):
            assert (program() == expected).all()


def test_context_variables_in_hooks_on_any_thread():
    variable = contextvars.ContextVar("variable", default="none")
    seen, threads = set(), set()
    x = ad.ones(3, requires_grad=True)

    def hook(g):
        seen.add(variable.get())
        threads.add(threading.get_ident())
        variable.set("set by a hook")
        variable.set("outer")

    previous = _C._set_parallel_backward(True)
    ad.set_num_threads(4)
    try:
        variable.set("outer")
        for _ in range(50):
            parts = [x.sin() * k for k in range(8)]
            for p in parts:
                p.register_hook(hook)
            sum(p.sum() for p in parts).backward()
    finally:
        _C._set_parallel_backward(previous)
    assert seen == {"outer"} and variable.get() == "outer"


def test_hooks_of_saved_tensors_are_there_in_deeply_nested_passes():
    counts = []

    @ad.enable_grad()
    def nest(depth):
        x = ad.ones(1, requires_grad=True)

        def hook(g):
            if depth:
                nest(depth - 1)
            else:
                with ad.enable_grad():
                    x.exp().sum()

        y = x * 2
        y.register_hook(hook)
        y.sum().backward()

    with graph.saved_tensors_hooks(lambda t: (counts.append(1), t)[1], lambda t: t):
        nest(45)  # beyond 40, passes go on in threads of their own
    assert counts
