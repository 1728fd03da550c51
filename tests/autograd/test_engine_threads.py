"""The engine in several threads: one graph, shared parameters, hooks that come and go, forks, and the switches.

First things are in test_threads.py; passes that are themselves spread over threads in test_parallel.py.
"""

import os
import textwrap
import threading

import pytest
from helpers import run_python

import adjoint as ad
from adjoint.autograd import Function, backward, grad


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


# --- one graph, several threads -----------------------------------------------------------------------------------------


def in_threads(count, job):
    """What each thread's job returned or raised."""
    found, start = [None] * count, threading.Barrier(count)

    def work(i):
        start.wait(timeout=30)
        try:
            found[i] = job()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    return found


def test_of_several_threads_one_consumes_a_graph():
    """Where the first thing to run has saved something, exactly one thread gets past it."""
    for _ in range(50):
        x = ad.ones(10, dtype=ad.float64, requires_grad=True)
        y = (x * 2).exp()
        results = in_threads(4, lambda y=y: backward(y, ad.ones(10, dtype=ad.float64)))
        errors = [r for r in results if r is not None]
        assert len(errors) == 3 and all(isinstance(e, RuntimeError) for e in errors)
        assert all("Trying to backward through the graph a second time" in str(e) for e in errors)
        assert ad.allclose(x.grad, 2 * (2 * x).exp())


def test_all_of_several_threads_run_a_graph_that_is_retained():
    x = ad.ones(10, dtype=ad.float64, requires_grad=True)
    y = x
    for _ in range(20):
        y = (y * 2).sin() * x
    y = y.sum()
    (one,) = grad(y, x, retain_graph=True)
    results = in_threads(6, lambda: [y.backward(retain_graph=True) for _ in range(20)])
    assert results == [[None] * 20] * 6
    assert ad.allclose(x.grad, 120 * one)


def test_ten_threads_update_shared_parameters():
    """Hogwild: no gradient is lost, with steps and zeroed gradients in between no crash."""
    w, b = ad.zeros(8, 4, requires_grad=True), ad.zeros(4, requires_grad=True)
    data = ad.ones(2, 8)

    def work():
        for _ in range(100):
            (data @ w + b).sum().backward()

    assert in_threads(10, work) == [None] * 10
    assert w.grad.tolist() == [[2000.0] * 4] * 8 and b.grad.tolist() == [2000.0] * 4

    def train():
        optimizer = ad.optim.SGD([w, b], lr=1e-3)
        for _ in range(50):
            optimizer.zero_grad()
            # Another thread may write a parameter between this one's forward and backward pass.
            try:
                ((data @ w + b) ** 2).sum().backward()
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error)
            optimizer.step()

    assert in_threads(10, train) == [None] * 10
    assert ad.isfinite(w).all() and ad.isfinite(b).all()


def test_hooks_come_and_go_while_passes_run():
    x = ad.ones(10, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    stop = threading.Event()

    def nothing(*_):
        return None

    def register():
        while not stop.is_set():
            handles = [
                y.register_hook(nothing),
                x.register_hook(nothing),
                x.register_post_accumulate_grad_hook(nothing),
                y.grad_fn.register_hook(nothing),
                y.grad_fn.register_prehook(nothing),
                ad.autograd.graph.register_multi_grad_hook((x, y), nothing),
            ]
            for handle in handles:
                handle.remove()

    threads = [threading.Thread(target=register) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(20):
            z.backward(retain_graph=True)
    finally:
        stop.set()
        for t in threads:
            t.join(60)
    assert ad.allclose(x.grad, 40 * (2 * x).exp()) and not x._backward_hooks and not y._backward_hooks


def test_independent_passes_run_at_the_same_time():
    everyone = threading.Barrier(4)

    class Meet(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            # Nobody gets past this unless all four are here.
            everyone.wait(timeout=30)
            return g

    def work():
        x = leaf(1.0)
        for _ in range(10):
            Meet.apply(x * 2).backward()
        return x.grad.item()

    assert in_threads(4, work) == [20.0] * 4


def test_hooks_and_functions_run_on_the_calling_thread():
    idents = []
    x = leaf(1.0)
    x.register_hook(lambda g: idents.append(threading.get_ident()))
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: idents.append(threading.get_ident()))
    y.backward(retain_graph=True)
    assert set(idents) == {threading.get_ident()}
    idents.clear()
    thread = threading.Thread(target=y.backward)
    thread.start()
    ident = thread.ident
    thread.join()
    assert set(idents) == {ident}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("parallel", [False, True])
def test_a_forked_child_runs_backward(parallel):
    program = f"""
        import os, signal, sys, threading, warnings
        import adjoint as ad
        warnings.simplefilter("ignore")
        ad.set_num_threads(4)
        ad.autograd.set_parallel_backward({parallel})
        def work(n=300):
            x = ad.full((n, n), 0.01, requires_grad=True)
            y = (x @ x).sin().sum() + x.exp().sum() + ad.softmax(x, 0).sum()
            y.backward()
            return x.grad.sum().item()
        expected = work()
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                work(50)
        threads = [threading.Thread(target=busy) for _ in range(3)]
        for t in threads:
            t.start()
        codes = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                os._exit(0 if work() == expected else 1)
            codes.append(os.waitpid(child, 0)[1])
        stop.set()
        for t in threads:
            t.join()
        print(codes, work() == expected)
    """
    done = run_python("-c", textwrap.dedent(program))
    assert done.stdout.strip() == "[0, 0, 0, 0, 0] True", done.stderr


# --- switches -----------------------------------------------------------------------------------------------------------


def test_set_multithreading_enabled():
    def several():
        """Whether a pass of several branches runs in several threads."""
        names, another = set(), threading.Event()

        class Note(Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                names.add(threading.get_ident())
                if len(names) > 1:
                    another.set()
                elif not seen:
                    seen.append(1)
                    another.wait(timeout=0.3)
                return g

        seen = []
        x = leaf(1.0)
        sum(Note.apply(x * k) for k in range(6)).backward()
        return len(names) > 1

    ad.set_num_threads(4)
    allow = ad.autograd.set_multithreading_enabled
    assert allow is ad.autograd.grad_mode.set_multithreading_enabled
    assert not several()

    @allow(False)
    def decorated():
        return several()

    with ad.autograd.set_parallel_backward(True):
        assert several()
        with allow(False):
            assert not several()
            with allow(True):
                assert several()
            assert not several()
        assert several() and not decorated() and several()
        allow(False)
        assert not several()
        allow(True)
    assert not several()
    with allow(False), ad.autograd.set_parallel_backward(True):
        assert not several()
