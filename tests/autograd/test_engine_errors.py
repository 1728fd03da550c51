"""The engine when programs go deep or go wrong: passes inside of passes, errors of hooks and Functions, interrupts.

Threads are in test_threads.py and test_engine_threads.py.
"""

import signal
import sys
import textwrap
import traceback

import pytest
from helpers import run_python

import adjoint as ad
from adjoint.autograd import Function, grad


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


@pytest.mark.parametrize(
    "depth",
    [5, 60],
)
def test_hooks_of_saved_tensors_hold_at_any_depth(depth):
    """Deep down, passes go on in threads of their own, which take over the state of the first."""
    graph, packed, counts = ad.autograd.graph, [], []

    def at_the_bottom(x):
        for _ in range(2):
            before = len(packed)
            x.exp()
            counts.append(len(packed) - before)
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                x.exp()

    class Down(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            with ad.enable_grad():
                x = leaf(1.0)
                if ctx.depth:
                    Down.apply(x, ctx.depth - 1).backward()
                else:
                    at_the_bottom(x)
            return g, None

    with graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
        Down.apply(leaf(1.0), depth).backward()
    assert counts == [1, 1]
    with graph.disable_saved_tensors_hooks("none in here"), pytest.raises(RuntimeError, match="none in here"):
        Down.apply(leaf(1.0), depth).backward()


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


INTERRUPTED = """
    import os, signal, threading, time
    import adjoint as ad
    ad.set_num_threads(2)
    ad.autograd.set_parallel_backward({parallel})
    x = ad.ones(1, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    start = time.perf_counter()
    y.backward(retain_graph=True)
    full = time.perf_counter() - start
    x.grad = None
    # What Ctrl-C sends, at a tenth of the pass. A process in the background is started with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, full / 10)
    try:
        y.backward(retain_graph=True)
        print("not interrupted")
    except KeyboardInterrupt:
        # The end of the pass was not reached.
        print("interrupted", x.grad)
    assert ad.is_grad_enabled()
    x.grad = None
    y.backward()
    print(x.grad.item())
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
@pytest.mark.parametrize(
    "parallel",
    [
        False,
        True,
    ],
)
def test_ctrl_c_reaches_a_long_pass(parallel):
    done = run_python("-c", textwrap.dedent(INTERRUPTED).format(parallel=parallel))
    assert done.stdout.split() == ["interrupted", "None", "1.0"], done.stderr
