"""The engine under stress: passes inside of passes, errors and interrupts, one graph in several threads, forks.

Threads that do as they should are in test_threads.py, passes in several threads in test_parallel.py.
"""

import os
import sys
import textwrap
import threading
import traceback

import pytest
from helpers import run_python

import adjoint as ad
from adjoint.autograd import Function, backward, grad


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


# --- passes inside of passes --------------------------------------------------------------------------------------------

DEPTH = 3000


class Deep(Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if ctx.depth:
            with ad.enable_grad():
                x = leaf(1.0)
                Deep.apply(x, ctx.depth - 1).backward()
                assert x.grad.tolist() == [1.0]
        return g, None


def test_functions_call_backward_to_any_depth():
    assert sys.getrecursionlimit() < DEPTH
    x = leaf(1.0)
    Deep.apply(x, DEPTH).backward()
    assert x.grad.tolist() == [1.0]


def test_hooks_call_backward_to_any_depth():
    calls = [0]

    def hook(g):
        calls[0] += 1
        if calls[0] < DEPTH:
            with ad.enable_grad():
                x = leaf(1.0)
                y = x * 2
                y.register_hook(hook)
                y.backward()
                assert x.grad.tolist() == [2.0]

    y = leaf(1.0) * 2
    y.register_hook(hook)
    y.backward()
    assert calls == [DEPTH]


def test_errors_come_up_from_any_depth():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            if not ctx.depth:
                raise KeyError("at the bottom")
            with ad.enable_grad():
                Fails.apply(leaf(1.0), ctx.depth - 1).backward()
            return g, None

    for depth in (1, 30, 200):
        with pytest.raises(KeyError, match="at the bottom"):
            Fails.apply(leaf(1.0), depth).backward()
        assert ad.is_grad_enabled()
    x = leaf(1.0)
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_a_hook_differentiates_a_part_of_the_graph_that_is_running():
    x = leaf(3.0)
    y = x * x
    z = y * y
    seen = []

    def hook(g):
        with ad.enable_grad():
            seen.append(grad(y, x, retain_graph=True)[0].item())

    z.register_hook(hook)
    z.backward()
    assert seen == [6.0] and x.grad.tolist() == [108.0]


def test_the_inner_pass_decides_for_itself_whether_it_records():
    modes = []

    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            modes.append(ad.is_grad_enabled())
            with ad.enable_grad():
                x = leaf(2.0)
                (first,) = grad(x * x * x, x, create_graph=True)
                (second,) = grad(first, x)
            modes.append((ad.is_grad_enabled(), first.requires_grad, second.requires_grad))
            return g * second

    (g,) = grad(Inner.apply(leaf(1.0)), [x := leaf(1.0)], allow_unused=True)
    assert g is None
    modes.clear()
    x = leaf(1.0)
    Inner.apply(x).backward()
    assert modes == [False, (False, True, False)] and x.grad.tolist() == [12.0]


# --- errors -------------------------------------------------------------------------------------------------------------


def a_function_of_the_user(*_):
    raise LookupError("the user's own")


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return a_function_of_the_user(g)


def fails_in_function(x):
    return Fails.apply(x)


def fails_in_tensor_hook(x):
    y = x * 2
    y.register_hook(a_function_of_the_user)
    return y


def fails_in_leaf_hook(x):
    x.register_hook(a_function_of_the_user)
    return x * 2


def fails_before_a_node(x):
    y = x * 2
    y.grad_fn.register_prehook(a_function_of_the_user)
    return y


def fails_after_a_node(x):
    y = x * 2
    y.grad_fn.register_hook(a_function_of_the_user)
    return y


def fails_after_accumulation(x):
    x.register_post_accumulate_grad_hook(a_function_of_the_user)
    return x * 2


def fails_in_unpacking(x):
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, a_function_of_the_user):
        return x.exp()


def fails_in_callback(x):
    y = x * 2
    y.register_hook(lambda g: ad.autograd.Variable._execution_engine.queue_callback(a_function_of_the_user))
    return y


WHERE = [
    fails_in_function,
    fails_in_tensor_hook,
    fails_in_leaf_hook,
    fails_before_a_node,
    fails_after_a_node,
    fails_after_accumulation,
    fails_in_unpacking,
    fails_in_callback,
]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("make", WHERE, ids=[f.__name__ for f in WHERE])
def test_an_error_keeps_its_traceback_and_leaves_the_engine_well(make, parallel):
    with ad.autograd.set_parallel_backward(parallel):
        x = leaf(1.0)
        y = make(x)
        with pytest.raises(LookupError, match="the user's own") as caught:
            y.sum().backward()
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert (
            names[-1] == "a_function_of_the_user" and __file__ in traceback.extract_tb(caught.tb)[-1].filename
        )
        assert ad.is_grad_enabled() and (leaf(1.0) * 2).requires_grad
        z = leaf(3.0)
        (z * z).backward()
        assert z.grad.tolist() == [6.0]


def test_an_error_is_the_same_object():
    error = ValueError("this one")

    def hook(g):
        raise error

    y = leaf(1.0) * 2
    y.register_hook(hook)
    with pytest.raises(ValueError) as caught:
        y.backward()
    assert caught.value is error and error.__cause__ is None


def test_after_an_error_the_graph_that_was_not_reached_still_runs():
    x = leaf(2.0)
    y = x.exp()
    z = y * 3
    handle = z.register_hook(a_function_of_the_user)
    with pytest.raises(LookupError):
        z.backward()
    handle.remove()
    z.backward()
    assert ad.allclose(x.grad, 3 * x.exp())


def test_exits_and_interrupts_pass_through_hooks():
    for error in (KeyboardInterrupt, SystemExit, GeneratorExit):

        def hook(g, error=error):
            raise error

        y = leaf(1.0) * 2
        y.register_hook(hook)
        with pytest.raises(error):
            y.backward()


# --- interrupts ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="no timers on this system")
def test_ctrl_c_reaches_a_long_pass():
    program = """
        import os, signal, threading, time
        import adjoint as ad
        x = ad.ones(1, requires_grad=True)
        y = x
        for _ in range(1_000_000):
            y = y * 1.0
        start = time.perf_counter()
        y.backward(retain_graph=True)
        full = time.perf_counter() - start
        # What Ctrl-C sends, at a tenth of the pass.
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, full / 10)
        start = time.perf_counter()
        try:
            y.backward(retain_graph=True)
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - start < 0.9 * full)
        x.grad = None
        assert ad.is_grad_enabled()
        y.backward()
        print(x.grad.item())
    """
    done = run_python("-c", textwrap.dedent(program))
    assert done.stdout.split() == ["interrupted", "True", "1.0"], done.stderr


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
