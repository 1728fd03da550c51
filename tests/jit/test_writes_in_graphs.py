"""Calls that record a write to a tensor that was there before: an argument, a buffer, a part of either."""

import re
import weakref

import pytest
from twice import doubles, no_collector, rounded, same, table

import adjoint as ad
from adjoint import nn
from adjoint.autograd import grad

PROGRAMS, trap = table()


class Holder:
    pass


def running_mean(jit, see, loss, and_products=False):
    """Steps that write a mean in the graph; `loss(x, h, mean)` of the products h = x @ w, which it may give as well."""
    w, m = doubles(3, 4).requires_grad_(), Holder()
    m.mean = ad.zeros(4, dtype=ad.float64)

    @jit
    def step(x):
        h = x @ w
        m.mean.mul_(0.9).add_(0.1 * h.mean(0))
        made = loss(x, h, m.mean).pow(2).sum()
        return (made, h) if and_products else made

    for k in range(8):
        made = step(doubles(5, 3, seed=k))
        (made[0] if and_products else made).backward()
        see(w.grad, m.mean, m.mean.grad_fn is None)
        w.grad = None
        m.mean.detach_()


@trap()
def running_mean_in_the_graph(jit, see):
    running_mean(jit, see, lambda x, h, mean: x.sum() - mean)


@trap()
def two_paths_that_meet_inside(jit, see):
    """Gradients of both meet at h."""
    running_mean(jit, see, lambda x, h, mean: h - mean)


@trap()
def two_paths_that_meet_at_a_result(jit, see):
    running_mean(jit, see, lambda x, h, mean: h - mean, and_products=True)


@trap()
def activation_in_place_on_an_argument(jit, see):
    w = doubles(6).requires_grad_()
    f = jit(lambda h: h.relu_())
    for k in range(6):
        h = w * doubles(6, seed=k)
        y = f(h)
        assert y is h
        see(y, y.grad_fn is None, y._version)
        (y * y).sum().backward()
        see(w.grad)


@trap()
def result_that_is_saved_in_place(jit, see):
    w = doubles(6).requires_grad_()
    f = jit(lambda h: h.exp_())
    for k in range(6):
        h = w * 0.1
        y = f(h)
        if k == 4:
            y.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
            continue
        y.sum().backward(retain_graph=True)
        see(w.grad)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()
        see(w.grad)


@trap()
def buffer_that_gathers_over_many_calls(jit, see):
    w, total = doubles(4).requires_grad_(), ad.zeros(4, dtype=ad.float64)

    @jit
    def add(x):
        total.add_(w * x)

    for k in range(9):
        add(doubles(4, seed=k))
        see(total)
    (total * total).sum().backward()
    see(rounded(w.grad))


@trap()
def part_of_a_cache(jit, see):
    w, m = doubles(3, 3).requires_grad_(), Holder()

    @jit
    def attend(x):
        m.cache[:, 1] = x @ w
        return (m.cache * m.cache).sum(1)

    for k in range(7):
        m.cache = doubles(2, 4, 3, seed=9)
        y = attend(doubles(2, 3, seed=k))
        see(y, m.cache)
        (y.sum() + m.cache[:, 2].sum()).backward()
        see(w.grad)


@trap(replays=None)
def place_in_a_cache_that_goes_on(jit, see):
    w, m = doubles(3, 3).requires_grad_(), Holder()
    m.cache = ad.zeros(8, 3, dtype=ad.float64)

    @jit
    def attend(x, i):
        m.cache[i] = x @ w
        return m.cache[: i + 1].sum()

    for k in range(24):
        if k % 8 == 0:
            m.cache = ad.zeros(8, 3, dtype=ad.float64)
        y = attend(doubles(3, seed=k), k % 8)
        see(y, m.cache)
        if k % 8 == 7:
            y.backward()
            see(rounded(w.grad))


@trap()
def mask_in_place(jit, see):
    w = doubles(4, 4).requires_grad_()
    f = jit(lambda s, mask: s.masked_fill_(mask, -9.0).softmax(1))
    for k in range(6):
        s = w * 2
        y = f(s, doubles(4, 4, seed=k) > 0)
        (y * doubles(4, 4)).sum().backward()
        see(y, s, w.grad)


@trap()
def views_that_were_there_see_it(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()

    @jit
    def write(x):
        m.buffer.mul_(w * x)

    for k in range(6):
        m.buffer = doubles(4, seed=7) * (1.0 if k % 2 else w.detach())
        tail = m.buffer[2:]
        write(doubles(4, seed=k))
        see(tail, m.buffer, tail.grad_fn is None)
        tail.sum().backward()
        see(w.grad)


@trap(replays=False)
def view_that_is_read_after_its_base_was_written(jit, see):
    w = doubles(4).requires_grad_()

    @jit
    def write(base, view):
        base.add_(w)
        return (view * w[:2]).sum()

    for k in range(6):
        base = doubles(4, seed=k)
        y = write(base, base[:2])
        y.backward()
        see(y, base, w.grad)


@trap(replays=False)
def view_and_base_are_both_reached(jit, see):
    w = doubles(4).requires_grad_()

    @jit
    def write(base, view):
        total = view.sum() + (view * 2).sum()
        base.add_(w)
        return total * w

    for k in range(6):
        base = doubles(4, seed=k)
        view = base[:2]
        y = write(base, view)
        (y.sum() + view.sum()).backward()
        see(y, base, view, rounded(w.grad))


@trap()
def history_before_the_write_is_kept(jit, see):
    w, v = doubles(4).requires_grad_(), doubles(4, seed=1).requires_grad_()
    f = jit(lambda h: h.mul_(w).add_(1.0))
    for k in range(6):
        u = (v * v).sin()
        h = u * 0.5
        seen = []
        u.register_hook(lambda g, seen=seen: seen.append(g.clone()))
        f(h)
        h.register_hook(lambda g, seen=seen: seen.append(g.clone()))
        (h * h).sum().backward()
        see(w.grad, v.grad, h, *seen)


@trap()
def derivatives_of_higher_order(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()

    @jit
    def f(h, x):
        m.buffer.add_(w * x)
        h.mul_(w).sin_()
        return (h * m.buffer).sum()

    for k in range(7):
        m.buffer = doubles(4, seed=3)
        h = w * w
        y = f(h, doubles(4, seed=k))
        (g,) = grad(y + h.sum() + m.buffer.pow(2).sum(), w, create_graph=True)
        see(rounded(g), m.buffer, h)
        (gg,) = grad(g.pow(2).sum(), w, create_graph=k > 4)
        see(rounded(gg))


@trap()
def written_again_before_the_pass(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()
    m.mean = ad.zeros(4, dtype=ad.float64)

    @jit
    def f(x):
        m.mean.mul_(0.5).add_(w * x)
        return (w * x).exp().sum()

    losses = []
    for k in range(8):
        losses.append(f(doubles(4, seed=k)))
        if k % 3 == 2:
            for loss in losses:
                see(*(rounded(g) for g in grad(loss, w, create_graph=k == 5)))
            see(rounded(grad(m.mean.sum(), w)[0]))
            losses.clear()
            m.mean.detach_()


@trap()
def saved_by_what_was_there_before(jit, see):
    w = doubles(4).requires_grad_()
    f = jit(lambda h, x: h.add_(x * w))
    for k in range(6):
        h = w * 2
        z = (h * h).sum()
        f(h, doubles(4, seed=k))
        with see.error():
            z.backward()
        h.sum().backward()
        see(w.grad, h)


@trap()
def argument_with_attributes_that_are_written(jit, see):
    w = doubles(3).requires_grad_()

    @jit
    def f(h):
        h.notes["seen"] = w.detach() * 2
        return (h * w).sum()

    for k in range(6):
        h = w * 2
        h.notes = {}
        (g,) = grad(f(h), w, create_graph=True)
        see(g, h.notes)


@trap()
def many_elements(jit, see):
    """Other threads may run meanwhile."""
    w, m = doubles(200_000).requires_grad_(), Holder()
    f = jit(lambda h, x: (h.mul_(x).tanh_(), m.state.add_(w * x))[0])
    for k in range(5):
        h, m.state = w * 2, ad.zeros(200_000, dtype=ad.float64)
        kept = (h * h).sum()
        y = f(h, doubles(200_000, seed=k))
        assert y is h
        (y.sum() + m.state.sum()).backward()
        see(h.sum(), m.state.sum(), w.grad.sum(), kept)


@trap()
def written_with_what_saved_it(jit, see):
    w = doubles(4).requires_grad_()
    f = jit(lambda h, z: h.add_(z))
    for k in range(6):
        h = w * doubles(4, seed=k)
        dies = weakref.ref(h)
        with no_collector():
            f(h, (h * 1.5).sin())
            h.sum().backward()
            see(h, w.grad)
            del h
            see(dies() is None)


@trap()
def result_made_of_what_was_written(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()

    @jit
    def f(x):
        m.state.tanh_().add_(w * x)
        return m.state.sum(), m.state * w, m.state

    m.state = ad.zeros(4, dtype=ad.float64)
    for k in range(7):
        loss, out, state = f(doubles(4, seed=k))
        assert state is m.state
        (loss * 2 + out.sum() + state.pow(2).sum()).backward(retain_graph=True)
        see(loss, out, state, rounded(w.grad))
        m.state = state.detach().clone() if k % 2 else state.detach()


@trap()
def decision_on_what_is_written(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()

    @jit
    def f(x):
        m.state.add_(w * x)
        if m.state.sum() > 0:
            return m.state.sum()
        m.state.mul_(w)
        return m.state.prod()

    for k in range(12):
        m.state = ad.zeros(4, dtype=ad.float64)
        y = f(doubles(4, seed=k))
        y.backward()
        see(y, m.state, m.state._version, rounded(w.grad))


@trap()
def leaf_instead_of_a_result(jit, see):
    w = doubles(4).requires_grad_()
    f = jit(lambda h: h.mul_(2.0).add_(w))
    for k in range(6):
        see(f(w * 3))
    leaf = doubles(4).requires_grad_()
    with see.error():
        f(leaf)
    see(leaf, leaf._version)
    with see.error():
        f(leaf[:])
    plain = doubles(4)
    see(f(plain), plain.requires_grad)
    with ad.no_grad():
        see(f(leaf), leaf.is_leaf)


@trap()
def number_that_varies_beside_a_write(jit, see):
    w, m = doubles(4).requires_grad_(), Holder()
    m.t = 0.0

    @jit
    def f(x):
        m.t += 0.25
        m.state.add_(w * x * m.t)
        return m.t

    for k in range(8):
        m.state = ad.zeros(4, dtype=ad.float64)
        see(f(doubles(4, seed=k)), m.state)
        m.state.sum().backward()
        see(w.grad)


@trap()
def module_with_a_buffer(jit, see):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3).double()
            self.register_buffer("memory", ad.zeros(3, dtype=ad.float64))

        def forward(self, x):
            self.memory.mul_(0.5).add_(self.linear(x).mean(0))
            return self.memory.tanh().sum()

    layer = Layer()
    f = jit(layer)
    for k in range(8):
        f(doubles(2, 3, seed=k)).backward()
        see(layer.memory, layer.linear.weight.grad)
        layer.zero_grad()
        layer.memory.detach_()


@pytest.mark.parametrize(("program", "replays"), PROGRAMS)
def test_a_write_in_the_graph(program, replays):
    same(program, replays)


def test_the_history_that_is_seen_is_the_node_of_the_call():
    w = ad.ones(3, requires_grad=True)
    f = ad.jit(lambda h, b: (h.exp_(), b.add_(w))[0])
    for _ in range(5):
        h, b = w * 2, ad.zeros(3)
        f(h, b)
    assert f.stats()["replayed"] and f.stats()["reasons"] == {}
    node = h.grad_fn
    assert node.name() == "JitBackward0" and b.grad_fn is node
    names = {n.name() for n, _ in node.next_functions if n is not None}
    assert names == {"MulBackward0", "AccumulateGrad"}


def test_what_is_not_replayed_says_why():
    w = ad.ones(4, requires_grad=True)

    def of_a_view(v):
        v.add_(w[:2])

    def of_what_retains(h):
        h.mul_(2)

    def with_a_hook(x):
        y = x * w
        made = []
        y.register_hook(lambda g: made.append(g))
        return y

    def with_a_hook_on_what_it_takes(h):
        h.register_hook(lambda g: g * 3)
        return h * w

    views, retaining, hooked = ad.jit(of_a_view), ad.jit(of_what_retains), ad.jit(with_a_hook)
    taking = ad.jit(with_a_hook_on_what_it_takes)
    for _ in range(4):
        hooked(ad.ones(4))
        taking(w * 2)
        views(ad.zeros(4)[:2])
        h = w * 2
        h.retain_grad()
        retaining(h)
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for f, what, code in (
        (views, "reaches a view of that", "v.add_("),
        (retaining, "retains its gradient", "h.mul_(2)"),
        (hooked, "of type list that it makes", "y.register_hook("),
        (taking, "a hook came", "h.register_hook("),
    ):
        (reason,) = (r for r in f.stats()["reasons"] if what in r)
        assert code in lines[int(re.search(r"\(line (\d+) of .*test_writes_in_graphs", reason)[1]) - 1]


def test_a_view_of_what_is_read_is_written_where_a_number_was_another():
    def program(jit, see):
        state = type("State", (), {})()
        state.k, state.p, state.buffer, state.m = 0, ad.ones(3, 3, requires_grad=True), ad.ones(3, 3), False

        @jit
        def inner(b, n):
            step = state.p * 0.1 * state.k
            for _ in range(state.k):
                b.sub_(step)
            return b.softmax(-1)

        @jit
        def f(a, n):
            if state.m:
                a = state.buffer
            ad.func.grad(lambda z: inner(a, 0.1 * state.k).abs().sum())(a)
            return n + 1

        for k in range(8):
            state.k = int(k > 4)
            a = state.buffer[:]
            see(f(a, 0.3), a, state.buffer)

    same(program)
