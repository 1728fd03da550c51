"""A program's own code in a graph that leaves a jitted function, Functions and hooks: it runs as often as in eager, and reads what is
there when it runs. And what nodes of all kinds keep.
"""

import gc
import weakref

import pytest
import twice
from twice import doubles, in_threads, no_collector, numbers, rounded

import adjoint as ad

PROGRAMS, trap = twice.table()
SCALE = 2.0


def helper(g):
    return g.clamp(-2, 2)


class Scaled(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor, ctx.mask = factor, x.detach() > 0
        return x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return helper(g * ctx.factor) * SCALE + x * 0 + ctx.mask, None


class Logged(ad.autograd.Function):
    seen = []

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Logged.seen.append(g.sum().item())
        return g


class Once(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @ad.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@trap()
def functions_in_the_graph(jit, see):
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: (Scaled.apply(w * x, 3.0) * w).sum() + Once.apply(w).sum())
    for k in range(7):
        x = numbers(3, seed=k).requires_grad_()
        y = f(x)
        see(y, ad.autograd.grad(y, [w, x], retain_graph=True))
        y.backward()
        see(w.grad, x.grad)
        w.grad = None


@trap()
def functions_differentiated_twice(jit, see):
    w = doubles(3).requires_grad_()
    f = jit(lambda x: (Scaled.apply(w * x, 3.0) * w * w).sum())
    for k in range(7):
        x = doubles(3, seed=k).requires_grad_()
        (g,) = ad.autograd.grad(f(x), x, create_graph=True)
        see(g, [rounded(t) for t in ad.autograd.grad(g.square().sum(), [w, x])])


@trap()
def what_code_in_the_graph_reads_changes(jit, see):
    """Before a call, and between the call and its pass: eager's rules read it when they run."""
    global SCALE, helper
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: Scaled.apply(w * x, 3.0).sum())
    own, rule = helper, Scaled.backward
    try:
        for k in range(16):
            y = f(numbers(3, seed=k))
            if k in (8, 9):
                SCALE = 5.0
            elif k in (10, 11):
                helper = lambda g: g * 7  # noqa: E731
            elif k in (12, 13):
                Scaled.backward = staticmethod(lambda ctx, g: (g * 11, None))
            w.grad = None
            y.backward()
            see(w.grad)
            if k % 2:
                SCALE, helper, Scaled.backward = 2.0, own, staticmethod(rule)
    finally:
        SCALE, helper, Scaled.backward = 2.0, own, staticmethod(rule)


@trap(replays=False)
def functions_that_are_seen_to_run(jit, see):
    """They run as often as in eager."""
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: Logged.apply(w * x).sum())
    Logged.seen.clear()
    for k in range(7):
        f(numbers(3, seed=k)).backward()
    see(Logged.seen, w.grad)


@trap()
def hooks_inside(jit, see):
    w = doubles(3).requires_grad_()

    def f(x):
        h = (x * w).tanh()
        mask = h.detach() > 0
        h.register_hook(lambda g: g * mask * SCALE)
        h.retain_grad()
        return h.exp().sum()

    f = jit(f)
    for k in range(7):
        x = doubles(3, seed=k).requires_grad_()
        y = f(x)
        see(ad.autograd.grad(y, [x, w], retain_graph=True))
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        see(g, [rounded(t) for t in ad.autograd.grad(g.sum(), [x, w])])


@trap()
def a_result_that_retains_its_gradient(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        h = (x * w).tanh()
        h.retain_grad()
        return h, h.exp().sum()

    f = jit(f)
    for k in range(7):
        h, y = f(numbers(3, seed=k))
        see(h.retains_grad, h.grad)
        (y + h.sum()).backward()
        see(h.grad, w.grad)


@trap(replays=False)
def hooks_that_are_seen_to_run(jit, see):
    w, seen = numbers(3, requires_grad=True), []

    def f(x):
        h = x * w
        h.register_hook(lambda g: seen.append(g.sum()))
        return h.exp().sum()

    f = jit(f)
    for k in range(7):
        f(numbers(3, seed=k)).backward()
    see(seen, w.grad)


@pytest.mark.parametrize("program, replays", PROGRAMS)
def test_code_in_a_graph(program, replays):
    twice.same(program, replays)


# --- What is kept ---------------------------------------------------------------------------------------------------


def several_kinds():
    """Jitted functions of (x, w), each with a mechanism of its own."""
    buffer = ad.zeros(3)

    def writes(x, w):
        buffer.add_(1)
        return (x * w * buffer.clone()).sum()

    def chain(x, w):
        y = (x * w).exp()
        return y, (y * y).sum()

    def hooked(x, w):
        h = x * w
        h.register_hook(lambda g: g * 2)
        return h.exp().sum()

    return [ad.jit(f) for f in (writes, chain, hooked, lambda x, w: Scaled.apply(x * w, 2.0).sum())]


def last(result):
    return result[-1] if isinstance(result, tuple) else result


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("create_graph", (False, True))
def test_memory_returns(which, create_graph):
    f = several_kinds()[which]

    def run(f):
        x, w = numbers(3), numbers(3).requires_grad_()
        y = last(f(x, w))
        (g,) = ad.autograd.grad(y, w, create_graph=create_graph)
        if g.requires_grad:
            ad.autograd.grad(g.sum(), w, retain_graph=True, allow_unused=True)
        return [weakref.ref(t) for t in (x, w, y, g)]

    for _ in range(5):
        run(f)
    assert f.stats()["replayed"]
    with no_collector():
        assert all(gone() is None for gone in run(f))
        unused = f(numbers(3), numbers(3).requires_grad_())
        gone = weakref.ref(last(unused))
        del unused
        assert gone() is None
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("which", (1, 2, 3))
def test_several_threads(which):
    f = several_kinds()[which]
    xs, ws = [numbers(3, seed=k) for k in range(8)], [numbers(3, seed=9).requires_grad_() for _ in range(8)]
    expected = [ad.autograd.grad(last(f.function(x, w)), w)[0].tolist() for x, w in zip(xs, ws)]
    for _ in range(5):
        f(xs[0], ws[0])
    wrong = []

    def work(one):
        x, w, right = one
        for k in range(40):
            (g,) = ad.autograd.grad(last(f(x, w)), w, create_graph=k % 8 == 0)
            if g.tolist() != right:
                wrong.append((g.tolist(), right))

    in_threads(work, zip(xs, ws, expected))
    assert not wrong and f.stats()["replayed"] > 100


class Keeps(ad.nn.Module):
    """Results stay where the call finds its arguments: `kept` says which."""

    def __init__(self, kept):
        super().__init__()
        self.weight = ad.nn.Parameter(ad.ones(1000))
        self.kept = kept
        self.last = None


def one_after_another(m, x):
    y = m.weight * x
    return y, (y * y).sum()


def side_by_side(m, x):
    return (m.weight * x).exp(), (m.weight + x).sum()


def two_of_one(m, x):
    y = m.weight * x
    return y, y.exp(), y.sin().sum()


def a_view_too(m, x):
    y = m.weight * x
    return y, y[:10], (y * y).sum()


@pytest.mark.parametrize("function", (one_after_another, side_by_side, two_of_one))
@pytest.mark.parametrize("kept", ((0,), (1,), (-1,), (0, 1), (0, -1), (1, -1), (0, 1, -1)))
def test_results_that_lead_to_the_arguments_go(function, kept):
    """A result that its own argument holds is garbage with it, whichever others there were. Two of one, without the one
    that they were made from, are not seen by the collector.
    """
    if function is two_of_one and kept == (1, -1):
        kept = (1,)
    jitted = ad.jit(function)
    weights = []

    def once(keep):
        m, x = Keeps(kept), numbers(1000)
        results = jitted(m, x)
        m.last = [results[k] for k in kept] if keep else None
        weights.append(weakref.ref(m.weight))

    for _ in range(6):
        once(False)
    for _ in range(4):
        once(True)
    assert jitted.stats()["replayed"] >= 5
    for _ in range(3):
        gc.collect()
    assert [w() for w in weights] == [None] * len(weights)


@pytest.mark.parametrize("function", (one_after_another, side_by_side, two_of_one, a_view_too))
@pytest.mark.parametrize("held", (0, 1, -1))
@pytest.mark.parametrize("other", ("result", "graph"))
def test_results_outside_keep_what_their_graph_needs(function, held, other):
    """The collector takes nothing that a result which the program still has can ask for."""
    jitted = ad.jit(function)

    def once(f):
        m, x = Keeps(()), numbers(1000, seed=3)
        results = f(m, x)
        m.last = list(results)
        return results[held] if other == "result" else results[held] * 2

    for _ in range(5):
        once(jitted)
    y, expected = once(jitted), once(function)
    gc.collect()
    gc.collect()
    found = []
    for r in (y, expected):
        node = r.grad_fn if other == "result" else r.grad_fn.next_functions[0][0]
        assert node.name() == "JitBackward0" or r is expected
        while not hasattr(node, "variable"):
            node = node.next_functions[0][0]
        w = node.variable
        (g,) = ad.autograd.grad(r.sum(), w, create_graph=True)
        found.append((g.tolist(), *((ad.autograd.grad(g.sum(), w)[0].tolist(),) if g.requires_grad else ())))
    assert found[0] == found[1]
