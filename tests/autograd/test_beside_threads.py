"""What threads do beside each other: memory that one gives up while another reads it, and contexts that passes carry over.

Start reading at `beside`.
"""

import threading
import time

import numpy as np
import pytest
from beside_a_thread import beside

import adjoint as ad
from adjoint.autograd import set_parallel_backward
from adjoint.utils.checkpoint import checkpoint

_C = ad._C
N = 200_000


INDEX = ad.arange(N)
#: Calls that let Python's lock go, on a tensor that holds zeros and ones by turns, and what they then give.
READS = {
    "an index": lambda x: x[INDEX],
    "one operand": lambda x: ad.abs(x),
    "two operands": lambda x: x * 1.0,
    "an operator of Python": lambda x: x + 0,
    "a method": lambda x: x.index_select(0, INDEX),
    "a list": lambda x: ad.cat([x, x]),
    "a composition": lambda x: x.flip(0),
    "into a result": lambda x: ad.mul(x, 1, out=ad.empty(N)),
    "a copy": lambda x: x.clone(),
    "a gradient": lambda x: ad.autograd.grad((x.requires_grad_() * x).sum() / 2, x)[0],
}


@pytest.mark.parametrize("name", READS)
def test_memory_that_is_given_up_stays_while_it_is_read(name):
    x = ad.zeros(N)

    def give_up():
        x.data = ad.ones(N)
        ad.full((N,), 7.0)  # in the memory that was given up, if that has gone

    def read():
        got = READS[name](x).detach().numpy()
        assert set(np.unique(got)) <= {0.0, 0.5, 1.0}

    beside(give_up, read)


def test_memory_goes_when_nobody_uses_it():
    """A hook of a pass gives a weight's memory up, as programs do that share weights out: the pass goes on without it."""
    weight, x = ad.ones(1 << 20), ad.ones(4, requires_grad=True)
    used = []

    def give_up(g):
        weight.data = ad.empty(0)

    a = x * 2
    b = a * 2
    c = b * 2
    c.register_hook(give_up)
    a.register_hook(lambda g: used.append(ad.memory_statistics()["allocated_bytes"]))
    before = ad.memory_statistics()["allocated_bytes"]
    c.sum().backward()
    assert used[0] < before - (3 << 20)


def test_autocast_is_each_threads_own_in_a_parallel_pass():
    """Recomputing a checkpoint switches autocast on in its thread; other nodes of the pass run without."""
    ad.set_num_threads(2)
    x = ad.randn(64, 64)
    first, second = ([ad.randn(64, 64, requires_grad=True) for _ in range(8)] for _ in range(2))

    def gradients(parallel):
        with ad.autocast("cpu", dtype=ad.bfloat16):
            total = 0
            for w, v in zip(first, second, strict=True):
                h = checkpoint(lambda x, w: ad.tanh(x @ w), x, w, use_reentrant=False)
                with ad.autocast("cpu", enabled=False):
                    total = total + ad.tanh(x @ v).sum()
                total = total + h.float().sum()
            with set_parallel_backward(parallel):
                return ad.autograd.grad(total, second)

    expected = gradients(False)
    for _ in range(150):
        for got, wanted in zip(gradients(True), expected, strict=True):
            assert bool((got == wanted).all())


def towers(hook, count=6):
    """A sum of parts that a parallel pass gives to several threads, each with a hook that takes its time."""
    x = ad.randn(32, 32, requires_grad=True)
    total = 0
    for _ in range(count):
        y = (x * 2) @ x
        y.register_hook(hook)
        total = total + y.sum()
    return total


def test_hooks_in_other_threads_see_what_is_switched_on():
    """Modes, the state of the protocol and interpreters are those of the thread that called backward."""
    from adjoint.overrides import TorchFunctionMode, _get_current_function_mode_stack
    from adjoint.utils._python_dispatch import TorchDispatchMode

    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(threading.get_ident())
            return func(*args, **(kwargs or {}))

    ad.set_num_threads(2)
    here, calls, seen = threading.get_ident(), [], []

    def hook(g):
        time.sleep(0.01)
        before = calls.count(threading.get_ident())
        result = g * 1
        seen.append(
            (
                threading.get_ident(),
                len(_get_current_function_mode_stack()),
                calls.count(threading.get_ident()) > before,
            )
        )
        return result

    for _ in range(20):
        with Names(), Calls(), set_parallel_backward(True):
            # Not backward(), which the mode would answer.
            _C._run_backward([towers(hook)], None, None, False, False, True, False)
        if any(thread != here for thread, _, _ in seen):
            break
    assert any(thread != here for thread, _, _ in seen)
    assert {entry[1:] for entry in seen} == {(1, True)}
    assert not _get_current_function_mode_stack()


def test_a_context_that_is_closed_within_a_call_is_closed():
    seen = []
    token = _C._push_interpreter(lambda f, args, kwargs: (seen.append(f), f(*args, **kwargs))[1])
    closing = [token]

    def computed(op, results):
        if closing:
            _C._pop_interpreter(closing.pop())

    observer = _C._push_observer(None, computed, None)
    try:
        x = ad.ones(2)
        x.exp()
        count = len(seen)
        x.exp()
        assert len(seen) == count and not closing
    finally:
        _C._pop_interpreter(observer)
    x.exp()
    assert len(seen) == count


def test_what_was_detached_in_place_keeps_its_memory():
    """Whoever saved it may not use it, but hooks can be given to it: they see the numbers, not memory of others."""
    y = ad.randn(1000, requires_grad=True) * 2
    z = y * y
    node, values = z.grad_fn, y.detach().clone()
    saved = node._raw_saved_self
    y.detach_()
    del y
    others = [ad.full((1000,), 7.0) for _ in range(50)]
    seen = []
    saved.register_hooks(lambda t: seen.append(t.clone()) or t, lambda t: t)
    assert bool((seen[0] == values).all()) and others
    with pytest.raises(RuntimeError, match="detached in-place"):
        w = ad.randn(3, requires_grad=True) * 1
        v = w * w
        w.detach_()
        v.sum().backward()


def test_a_gradient_that_waits_for_another_sleeps():
    """Two passes add to one leaf. One stops in the middle of its addition; the other waits, and takes no time of the processor."""
    x = ad.zeros(3, requires_grad=True)
    x.grad = ad.zeros(3)
    adding, spent = threading.Event(), []

    def slow():
        def call(op, args, kwargs):
            if op.__name__ == "add_":
                adding.set()
                time.sleep(0.5)
            return op(*args, **kwargs)

        loss = (x * 1).sum()
        token = ad._C._push_interpreter(call)
        try:
            loss.backward()
        finally:
            ad._C._pop_interpreter(token)

    def waiting():
        loss = (x * 2).sum()
        adding.wait(10)
        before = time.thread_time()
        loss.backward()
        spent.append(time.thread_time() - before)

    both = [threading.Thread(target=f) for f in (slow, waiting)]
    [t.start() for t in both]
    [t.join(20) for t in both]
    assert adding.is_set() and x.grad.tolist() == [3.0] * 3
    assert spent[0] < 0.1, spent


def test_a_tensor_gets_other_memory_between_the_calls_that_compute_on_it():
    """A call reads the sizes of its operands, and later their addresses; both are of one memory."""
    n = 200_000
    x, y = ad.ones(n), ad.ones(n // 4, 4)
    places, rows, done = ad.randperm(n), ad.randperm(n // 4), threading.Event()

    def change():
        while not done.is_set():
            x.data, y.data = ad.ones(3), ad.ones(3)
            ad.full((n,), 7.0)
            x.data, y.data = ad.ones(n), ad.ones(n // 4, 4)
            x.unsqueeze_(0).squeeze_(0)
            x.set_(ad.ones(n))

    calls = [
        lambda: x[places],
        lambda: x * 1.0,
        lambda: x.sqrt(),
        lambda: y[rows],
        lambda: y.index_select(0, rows),
        lambda: x.gather(0, places),
        lambda: x.take(places),
        lambda: x.flip(0),
        lambda: y.T.contiguous(),
        lambda: y.amax(1),
        lambda: x.cummax(0).values,
        lambda: ad.cat([x, x]),
    ]
    thread = threading.Thread(target=change)
    thread.start()
    try:
        found, end = 0, time.monotonic() + 1.5
        while time.monotonic() < end or not found:
            for call in calls:
                try:
                    result = call()
                except (IndexError, RuntimeError):  # of the three
                    continue
                found += 1
                assert bool((result == 1).all())
    finally:
        done.set()
        thread.join()
