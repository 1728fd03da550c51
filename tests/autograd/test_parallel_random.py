"""Passes in several threads against passes in one, on random graphs: equal to the last bit.

`program` builds a graph from a seed: operators, shared leaves and results, Functions, hooks that replace gradients,
results of several tensors, writes in place.
"""

import random
import threading
import time

import pytest

import adjoint as ad
from adjoint.autograd import Function, grad

ENGINE = ad.autograd.Variable._execution_engine


@pytest.fixture(autouse=True)
def threads():
    before = ad.get_num_threads()
    ad.set_num_threads(4)
    yield
    ad.set_num_threads(before)


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        y = x * k
        ctx.save_for_backward(x)
        return y, y.sin()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return ctx.k * g + h * (x * ctx.k).cos() * ctx.k, None


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with ad.enable_grad():
            inner = x.detach().requires_grad_()
            # Branches of its own, in a pass of its own.
            parts = [(inner * k).tanh() - (inner * (k - 1)).tanh() for k in (1.0, 2.0)]
            (d,) = grad(parts[0] + 0 * parts[1], inner, g)
        return d


def unary(t, r):
    return r.choice(
        [ad.sin, ad.tanh, ad.sigmoid, lambda t: t * 0.7, lambda t: ad.softmax(t, 0), Nested.apply]
    )(t)


def program(seed):
    """The leaves, and the root that depends on them."""
    r = random.Random(seed)
    ad.manual_seed(seed)
    leaves = [ad.randn(5, 5, dtype=r.choice([ad.float32, ad.float64]), requires_grad=True) for _ in range(3)]
    pool = list(leaves)
    for step in range(40):
        a, b = r.choice(pool), r.choice(pool[-6:])
        kind = r.randrange(8)
        if kind < 2:
            new = [unary(a, r)]
        elif kind == 2:
            new = [a + b]
        elif kind == 3:
            new = [a * b * 0.5]
        elif kind == 4:
            new = [a.to(ad.float64) @ b.to(ad.float64) * 0.1]
        elif kind == 5:
            new = list(Scaled.apply(a, 0.5))
        elif kind == 6:
            upper, lower = (a * 1).split([2, 3])
            new = [ad.cat([lower, upper])]
        else:
            t = a.clone()
            t[r.randrange(5)] *= 0.5
            new = [t.tanh()]
        if step % 7 == 0:
            new[0].register_hook(lambda g: None if g is None else g * 1.25)
        if step % 11 == 0:
            new[0].retain_grad()
        pool += new
    for leaf in leaves[:2]:
        leaf.register_hook(lambda g: None if g is None else g * 0.3)
    return leaves, sum((t.to(ad.float64).sum() for t in pool[-8:]), leaves[0].sum().double())


def equal(a, b):
    return (a is None and b is None) or (a.dtype is b.dtype and ad.equal(a, b))


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs(seed):
    leaves, root = program(seed)
    expected = grad(root, leaves, retain_graph=True, allow_unused=True)
    root.backward(retain_graph=True)
    totals = [x.grad for x in leaves]
    for x in leaves:
        x.grad = None
    with ad.autograd.set_parallel_backward(True):
        for _ in range(4):
            found = grad(root, leaves, retain_graph=True, allow_unused=True)
            assert all(equal(f, e) for f, e in zip(found, expected, strict=True))
        root.backward()
    assert all(equal(x.grad, t) for x, t in zip(leaves, totals, strict=True))
    assert any(t is not None and bool((t != 0).any()) for t in totals)


def test_accumulation_over_passes_and_retained_gradients():
    def run(parallel):
        with ad.autograd.set_parallel_backward(parallel):
            x = ad.linspace(-1, 1, 64).requires_grad_()
            for k in range(5):
                towers = [(x * (k + j)).sin().exp() for j in range(6)]
                towers[2].retain_grad()
                sum(towers).sum().backward()
            return x.grad, towers[2].grad

    assert all(map(equal, run(True), run(False)))


def test_hooks_run_once_each_and_callbacks_at_the_end():
    x = ad.ones(3, requires_grad=True)
    seen, ended = [], []

    def hook(i):
        def call(g):
            seen.append(i)
            ENGINE.queue_callback(lambda: ended.append((i, len(seen))))

        return call

    towers = [(x * k).sin().cos() for k in range(10)]
    for i, t in enumerate(towers):
        t.register_hook(hook(i))
        t.grad_fn.register_hook(lambda gi, go: seen.append("after"))
        t.grad_fn.register_prehook(lambda go: seen.append("before"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    with ad.autograd.set_parallel_backward(True):
        sum(towers).sum().backward()
    assert sorted(s for s in seen if isinstance(s, int)) == list(range(10))
    assert seen.count("before") == seen.count("after") == 10 and seen[-1] == x.grad.tolist()
    assert sorted(i for i, _ in ended) == list(range(10)) and all(n == len(seen) for _, n in ended)


def test_passes_inside_of_branches():
    x = ad.linspace(0.1, 1, 10, dtype=ad.float64).requires_grad_()

    def value():
        return sum(Nested.apply(x * k) for k in range(1, 9)).sum()

    (expected,) = grad(value(), x)
    with ad.autograd.set_parallel_backward(True):
        for _ in range(10):
            assert ad.equal(grad(value(), x)[0], expected)
    plain = sum((x * k).tanh() for k in range(1, 9)).sum()
    assert ad.allclose(grad(plain, x)[0], expected)


@pytest.mark.parametrize("failing", [1, 3, 8])
def test_the_error_of_a_branch_ends_the_pass(failing):
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError("in a branch")

    with ad.autograd.set_parallel_backward(True):
        for _ in range(10):
            x = ad.ones(4, requires_grad=True)
            branches = [(x * k).sin() for k in range(8)]
            for i in range(failing):
                branches[i] = Fails.apply(branches[i])
            root = sum(branches).sum()
            with pytest.raises(KeyError, match="in a branch"):
                root.backward()
            # The leaf waits for all of its branches.
            assert x.grad is None and ad.is_grad_enabled()
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0] * 4


def test_the_second_pass_is_refused_here_too():
    x = ad.ones(4, requires_grad=True)
    with ad.autograd.set_parallel_backward(True):
        root = sum((x * k).exp() for k in range(8)).sum()
        root.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            root.backward()


def test_a_thread_has_its_own_switch():
    def work():
        x = ad.ones(4, requires_grad=True)
        idents = set()
        branches = [x * k for k in range(8)]
        for b in branches:
            b.register_hook(lambda g: idents.add(threading.get_ident()))
        sum(branches).sum().backward()
        found.append(idents == {threading.get_ident()})

    found = []
    with ad.autograd.set_parallel_backward(True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [True]


def test_branches_draw_from_the_generator_of_the_thread_that_started_them():
    _C = ad._C
    x = ad.ones(4, requires_grad=True)
    own, drawn, idents = ad.Generator().manual_seed(3), [], set()

    def hook(g):
        idents.add(threading.get_ident())
        drawn.append(ad.rand(()).item())
        time.sleep(0.002)

    branches = [(x * k).sin() for k in range(32)]
    for b in branches:
        b.register_hook(hook)
    before = _C._use_generator(own)
    try:
        state = _C._default_generator().get_state()
        with ad.autograd.set_parallel_backward(True):
            sum(branches).sum().backward()
    finally:
        _C._use_generator(before)
    assert len(idents) > 1 and state.tolist() != own.get_state().tolist()
    again = ad.Generator().manual_seed(3)
    assert sorted(drawn) == sorted(ad.rand((), generator=again).item() for _ in branches)
