"""Derivatives of higher order through a replayed call, after what the function reads was changed: eager has its graph, and nothing
that a program does between the passes may show under jit. See `adjoint._replay._again`.
"""

import pytest
import twice

import adjoint as ad

PROGRAMS, trap = twice.table()
factor = 2.0


def orders(f, see, x, change, undo=lambda: None, calls=6):
    """Call, change something, differentiate twice, with the graph of the first."""
    for k in range(calls):
        y = f(x)
        change(k)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        see(g, ad.autograd.grad(g.sum(), x, retain_graph=True)[0])
        see(ad.autograd.grad((g * g).sum(), x)[0])
        undo()


def leaf(*shape, seed=0):
    return twice.numbers(*shape, seed=seed, dtype=ad.float64).requires_grad_()


@trap()
def a_global_changed(jit, see):
    global factor
    f = jit(lambda x: (x**3 * factor).sum())

    def change(k):
        global factor
        factor = 3.0 + k

    def undo():
        global factor
        factor = 2.0

    orders(f, see, leaf(3), change, undo)


@trap()
def a_name_of_the_closure_changed(jit, see):
    power = 3

    def change(k):
        nonlocal power
        power = 2

    def undo():
        nonlocal power
        power = 3

    orders(jit(lambda x: (x.exp() * x**power).sum()), see, leaf(3), change, undo)


class Model(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = ad.nn.Linear(3, 4, dtype=ad.float64)
        self.second = ad.nn.Linear(4, 1, dtype=ad.float64)
        for k, w in enumerate(self.parameters()):
            w.data = twice.numbers(*w.shape, seed=k, dtype=ad.float64)
        self.scales = [1.0, 2.0]
        self.options = {"power": 2, "name": "a"}

    def forward(self, x):
        h = ad.tanh(self.first(x)) * self.scales[0] + self.scales[1]
        if self.training:
            h = h * 2
        return (self.second(h) ** self.options["power"]).sum()


@trap()
def attributes_items_and_modes_changed(jit, see):
    model = Model()

    def change(k):
        model.eval()
        model.scales[:] = [5.0]
        model.options.clear()
        model.options["other"] = 1
        model.first.extra = "new"

    def undo():
        see(model.training, model.scales, model.options, model.first.extra)
        model.train()
        model.scales[:] = [1.0, 2.0]
        model.options.clear()
        model.options.update(power=2, name="a")
        del model.first.extra

    orders(jit(lambda x: model(x)), see, leaf(2, 3, seed=9), change, undo)


@trap()
def a_layer_replaced(jit, see):
    model = Model()
    first, other = model.first, ad.nn.Linear(3, 4, dtype=ad.float64)

    def change(k):
        model.first = other

    def undo():
        see(model.first is other)
        model.first = first

    orders(jit(lambda x: model(x)), see, leaf(2, 3, seed=9), change, undo)


@trap()
def gradients_that_came_meanwhile(jit, see):
    model, x = Model(), leaf(2, 3, seed=9)
    f = jit(lambda x: model(x))
    for _ in range(6):
        model.zero_grad()
        y = f(x)
        y.backward(retain_graph=True)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        (g * g).sum().backward()
        see([w.grad for w in model.parameters()])


@trap()
def the_bias_written(jit, see):
    # The graph keeps no bias of a layer that is followed by tanh, and no weight of one whose input needs no gradient.
    w, b, v = leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2)
    x = twice.numbers(2, 3, seed=3, dtype=ad.float64)
    f = jit(lambda: (ad.tanh(x @ w + b) * v).sum())
    for k in range(6):
        y = f()
        with ad.no_grad():
            w.mul_(0.9)
            b.add_(0.1 * k)
        g = ad.autograd.grad(y, (w, b, v), create_graph=True)
        see(g, ad.autograd.grad(sum((t * t).sum() for t in g), (w, b)))


@trap()
def a_weight_that_is_needed_written(jit, see):
    w, x = leaf(3, 3), leaf(2, 3, seed=1)
    f = jit(lambda x: ad.tanh(x @ w).sum())
    for k in range(6):
        y = f(x)
        with ad.no_grad():
            w.mul_(0.9)
        try:
            see(ad.autograd.grad(y, x, create_graph=True))
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def dropout_drawn(jit, see):
    drop, x = ad.nn.Dropout(0.5), leaf(20)
    f = jit(lambda x: drop(x.exp() * x).sum())
    orders(f, see, x, lambda k: see(ad.rand(k + 1)))


@trap()
def another_default_type(jit, see):
    x = leaf(3)
    f = jit(lambda x: (x**3 * ad.ones(3)).sum())

    def undo():
        see(ad.get_default_dtype())
        ad.set_default_dtype(ad.float32)

    try:
        orders(f, see, x, lambda k: ad.set_default_dtype(ad.float64), undo)
    finally:
        ad.set_default_dtype(ad.float32)


@trap()
def a_weight_frozen(jit, see):
    w, x = leaf(3), leaf(3, seed=1)
    f = jit(lambda x: (x.sin() * w * w).sum())
    for _ in range(6):
        y = f(x)
        w.requires_grad_(False)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        w.requires_grad_(True)
        see(g, ad.autograd.grad(g.sum(), x))


@pytest.mark.parametrize("program, replays", PROGRAMS)
def test_second_derivatives_after_a_change(program, replays):
    twice.same(program, replays)
