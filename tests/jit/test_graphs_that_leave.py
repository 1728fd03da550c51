"""Graphs that leave a jitted function: one that writes what was there before, results of which others are made, derivatives by
results, weights that are frozen meanwhile. Everything that can be seen is as eager leaves it.
"""

import pytest
import twice
from twice import doubles, numbers, rounded

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

PROGRAMS, trap = twice.table()


def grads(module):
    return [p.grad for p in module.parameters()]


# --- Writes ---------------------------------------------------------------------------------------------------------


def norms():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(12, 2)
    )


@trap()
def batch_normalisation_in_training(jit, see):
    net = norms()
    f, optimizer = jit(net), ad.optim.SGD(net.parameters(), lr=0.1)
    for k in range(7):
        loss = F.cross_entropy(f(numbers(4, 2, 4, 4, seed=k)), ad.tensor([0, 1, 0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        see(loss, list(net.buffers()), list(net.parameters()), grads(net))


@trap()
def residual_networks_compile(jit, see):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
            self.second, self.last = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)

        def forward(self, x):
            return (x + self.last(self.second(self.norm(self.first(x)).relu()))).relu()

    net = nn.Sequential(Block(), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))
    f = jit(net)
    for k in range(12):
        net.train(k % 6 < 4)
        x = numbers(3, 2, 4, 4, seed=k)
        net.zero_grad()
        f(x).square().mean().backward()
        see(list(net.buffers()), grads(net))


@trap()
def second_derivatives_of_a_call_that_writes(jit, see):
    """The function runs again, and its buffers are as if it had not; two calls before a pass, and one after the other."""
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh()).double()
    f = jit(net)
    for k in range(7):
        x, other = (doubles(4, 3, seed=k + s).requires_grad_() for s in (0, 50))
        y, z = f(x), f(other)
        for t, at in ((y, x), (z, other)):
            (g,) = ad.autograd.grad(t.square().sum(), at, create_graph=True)
            see(g, list(net.buffers()))
            net.zero_grad()
            (g * g).sum().backward()
            see(list(net.buffers()), [rounded(p) for p in (at.grad, *grads(net))])


class Recurrent(nn.Module):
    """Writes a buffer, stores a tensor, counts and appends."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).double()
        self.register_buffer("seen", ad.zeros((), dtype=ad.float64))
        self.state = ad.zeros(2, 3, dtype=ad.float64)
        self.log, self.flag, self.pair = [], None, (self.state, 1)

    def forward(self, x):
        y = self.layer(x + self.state).tanh()
        self.state = y.detach() * 1
        self.seen.add_(1)
        self.log.append(y.detach().sum())
        self.flag, self.pair = "ran", (y.detach(), (self.pair[0] * 2,))
        return y * self.seen


@trap()
def state_that_a_call_changes(jit, see):
    net = Recurrent()
    f = jit(net)
    for k in range(7):
        x = doubles(2, 3, seed=k).requires_grad_()
        net.flag = None
        y = f(x)
        (g,) = ad.autograd.grad(y.square().sum(), x, create_graph=True)
        see(g, net.state, net.seen, net.log, net.flag, net.pair)
        net.zero_grad()
        (g * g).sum().backward()
        see(net.state, net.seen, net.log, net.flag, net.pair, [rounded(p) for p in (x.grad, *grads(net))])
        net.log.clear()


@trap()
def a_written_buffer_that_the_graph_keeps(jit, see):
    """Written by the next call, it is an error in the pass of the last."""
    scale, w = ad.ones(3), numbers(3, requires_grad=True)

    def f(x):
        scale.mul_(1.5)
        return (w * x * scale).sum()

    f = jit(f)
    for k in range(7):
        x = numbers(3, seed=k)
        y = f(x)
        y.backward()
        see(w.grad, scale)
        w.grad = None
        see(ad.autograd.grad(f(x), w, create_graph=True), scale)
        y = f(x)
        f(x)
        for create_graph in (False, True):
            try:
                see(ad.autograd.grad(y, w, create_graph=create_graph))
            except RuntimeError as error:
                see("modified by an inplace operation" in str(error))


@trap()
def weights_that_a_call_writes(jit, see):
    w = numbers(3, seed=1).requires_grad_()

    def f(x):
        with ad.no_grad():
            w.clamp_(-0.5, 0.5)
        return (w * x).sin().sum()

    f = jit(f)
    for k in range(7):
        x = numbers(3, seed=k).requires_grad_()
        y = f(x)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        see(g, w, ad.autograd.grad(g.sum(), w))
        with ad.no_grad():
            w.mul_(3)


@trap()
def gradients_inside_and_a_graph_outside(jit, see):
    net = nn.Linear(3, 2)

    def f(x):
        net(x).square().sum().backward()
        return net(x).sum()

    f = jit(f)
    for k in range(7):
        net.zero_grad(set_to_none=k % 2 == 0)
        f(numbers(2, 3, seed=k)).backward()
        see(grads(net))
        y = f(x := numbers(2, 3, seed=k).requires_grad_())
        see(ad.autograd.grad(y, x, create_graph=True), grads(net))


# --- Results of which others are made -------------------------------------------------------------------------------


@trap()
def a_loss_and_what_it_is_made_of(jit, see):
    net, labels = nn.Linear(3, 2), ad.tensor([0, 1, 0])

    def f(x):
        y = net(x)
        return {"logits": y, "loss": F.cross_entropy(y, labels)}

    f = jit(f)
    for k in range(7):
        r = f(numbers(3, 3, seed=k))
        seen = []
        r["logits"].retain_grad()
        r["logits"].register_hook(lambda g: seen.append(g.tolist()) or g * 2)
        see(ad.autograd.grad(r["loss"], r["logits"], retain_graph=True))
        net.zero_grad()
        (r["loss"] + r["logits"].sum()).backward()
        see(grads(net), r["logits"].grad, seen)


@trap()
def a_chain_of_results(jit, see):
    w = doubles(3).requires_grad_()

    def f(x):
        a = (x * w).exp()
        b = a * a + w
        return a, b, (b.sin() + a).sum(), b[1:], a.split([1, 2])

    f = jit(f)
    for k in range(7):
        x = doubles(3, seed=k).requires_grad_()
        a, b, c, d, (e, h) = f(x)
        see(ad.autograd.grad(c, [a, b], retain_graph=True))
        see(ad.autograd.grad((c, d.sum()), [b, w], retain_graph=True))
        see(ad.autograd.grad(d.sum() + e.sum() * h.sum(), [a, x], retain_graph=True))
        (g,) = ad.autograd.grad(c, a, create_graph=True)
        see(g, [rounded(t) for t in ad.autograd.grad(g.sum(), [a, b, w, x], retain_graph=True)])
        b.mul_(2)
        (b.sum() + a.sum()).backward()
        see(x.grad, b)


@trap()
def terms_are_added_in_eagers_order(jit, see):
    """Of a weight that is used inside and outside; so the version of its gradient is the same, too."""
    w = numbers(3, requires_grad=True)
    f = jit(lambda: (w * 2.1).sum() + (w * 3.3).sum() + w.sin().sum())
    for _ in range(7):
        for loss in (lambda: f() + (w * w).sum(), lambda: (w * w).sum() + f(), lambda: f() * f()):
            w.grad = None
            loss().backward()
            see(w.grad)


@trap()
def views_and_what_they_are_views_of(jit, see):
    f = jit(lambda x: ((x * 2)[1:], x[0], x.t()))
    for _ in range(7):
        w = numbers(4, 3).requires_grad_()
        x = w * 1
        a, b, c = f(x)
        see([g._is_view() for t in (a, b, c) for g in ad.autograd.grad(t.sum(), x, retain_graph=True)])
        (g,) = ad.autograd.grad(c, x, ad.ones(3, 4), retain_graph=True)
        see(g)
        a.mul_(3)
        see(a, b, c, a._base)
        (a.sum() + (b * c.sum()).sum()).backward()
        see(w.grad)


# --- Derivatives by results, and of what changed --------------------------------------------------------------------


@trap()
def second_derivatives_by_a_result(jit, see):
    f = jit(lambda x: (x * 2).exp())
    for k in range(7):
        x = numbers(3, seed=k).requires_grad_()
        y = f(x)
        (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), [y, x], retain_graph=True))
        (h,) = ad.autograd.grad(g.sum(), x, create_graph=True)
        see(ad.autograd.grad(h.sum(), [y, x], retain_graph=True))
        seen = []
        y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
        y.retain_grad()
        g.sum().backward()
        see(x.grad, y.grad, seen)


@trap()
def third_derivatives_by_a_result(jit, see):
    f = jit(lambda x: (x * 2).exp())
    for k in range(7):
        x = doubles(3, seed=k).requires_grad_()
        y = f(x)
        (g,) = ad.autograd.grad((y * y).sum(), x, create_graph=True)
        (h,) = ad.autograd.grad((g * g).sum(), x, create_graph=True)
        see(rounded(h), [rounded(t) for t in ad.autograd.grad(h.sum(), [y, x], retain_graph=True)])


@trap()
def a_result_that_is_written_before_the_second_pass(jit, see):
    f = jit(lambda x: (x * 2).exp())
    for k in range(7):
        x = numbers(3, seed=k).requires_grad_()
        y = f(x)
        (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        with ad.no_grad():
            y.mul_(2)
        try:
            see(ad.autograd.grad(g.sum(), x))
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def second_derivatives_by_a_result_through_what_lies_between(jit, see):
    def f(x):
        y = x.sin()
        return y, ((y * 3).exp() * x).sum()

    f = jit(f)
    for k in range(7):
        x = doubles(3, seed=k).requires_grad_()
        y, z = f(x)
        for by in (x, y):
            (g,) = ad.autograd.grad(z, by, create_graph=True)
            see(g, [rounded(t) for t in ad.autograd.grad(g.sum(), [y, x], retain_graph=True)])


@trap()
def weights_frozen_between_passes(jit, see):
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: (x.sin() * w * w).sum())
    for k in range(7):
        x = numbers(3, seed=k).requires_grad_()
        y = f(x)
        w.requires_grad_(False)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        w.requires_grad_(True)
        see(ad.autograd.grad(g.sum(), [w, x], allow_unused=True))


@trap()
def arguments_written_before_the_second_pass(jit, see):
    f = jit(lambda x, pair: x + pair[0].sin() + pair[1]["w"].exp() + pair[2])
    for _ in range(7):
        w = doubles(3).requires_grad_()
        x, y = w * 2, w * 3
        z = f(x, (w, {"w": y * 1}, y))
        x.mul_(3)
        y.mul_(5)
        (g,) = ad.autograd.grad((z * z).sum(), w, create_graph=True)
        see(g, rounded(ad.autograd.grad(g.sum(), w)[0]))


@pytest.mark.parametrize("program, replays", PROGRAMS)
def test_graph_that_leaves(program, replays):
    twice.same(program, replays)
