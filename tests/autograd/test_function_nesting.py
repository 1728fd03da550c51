"""Functions inside Functions, backward passes inside backward passes, and that nothing of them is left behind.

Start reading at `test_nested_application` and at `PROGRAMS`.
"""

import gc

import pytest
from functions import function, leaf
from helpers import allocated

import adjoint as ad
from adjoint.autograd import Function, gradcheck, gradgradcheck
from adjoint.autograd.function import once_differentiable

# --- one inside another ---------------------------------------------------------------------------------------------------


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * Times.apply(x, g)


class Times(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return Times.apply(g, b), Times.apply(g, a)


class Through(Function):
    """Records in forward, runs that backward in its own."""

    @staticmethod
    def forward(ctx, f, x):
        with ad.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = f(ctx.x)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, g):
        with ad.enable_grad():
            return None, *ad.autograd.grad(ctx.y, ctx.x, g, retain_graph=True)


def test_nested_application():
    x = leaf(2.0)
    assert gradcheck(Cube.apply, x) and gradgradcheck(Cube.apply, x)
    inner = lambda t: Through.apply(Cube.apply, t)  # noqa: E731
    assert gradcheck(inner, x) and gradcheck(lambda t: Through.apply(inner, t), x)
    y = Through.apply(lambda t: inner(t).exp(), x)
    y.backward()
    assert ad.allclose(x.grad, 12 * ad.exp(x**3))


def test_backward_that_fills_gradients_of_others():
    other = leaf(1.0)

    def backward(ctx, g):
        with ad.enable_grad():
            (other * 5).backward()
        return g

    x = leaf(1.0)
    (function(lambda ctx, x: x * 2, backward).apply(x) + other).backward()
    assert x.grad.tolist() == [1.0] and other.grad.tolist() == [6.0]


# --- as parts of a graph ---------------------------------------------------------------------------------------------------


def test_a_long_chain():
    f = function(lambda ctx, x: x * 1).apply
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = f(y)
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_gradients_by_results_of_functions():
    x = leaf(1.0)
    f = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply
    a, b = f(x), f(x)
    c = f(a + b)
    assert [g.item() for g in ad.autograd.grad(c, [x, a, c])] == [8.0, 2.0, 1.0]


def test_hooks_and_retained_gradients_of_results():
    x = leaf(1.0)
    y = function(lambda ctx, x: x * 2).apply(x)
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.backward()
    assert y.grad.tolist() == x.grad.tolist() == [10.0]


def test_anomalies_name_the_function():
    y = lambda: function(lambda ctx, x: x * 2, lambda ctx, g: g * ad.nan).apply(leaf(1.0))  # noqa: E731
    with pytest.warns(UserWarning), ad.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match="'MyBackward' returned nan values in its 0th output"):
            y().backward()
    y().backward()


def test_an_interrupt_in_backward():
    def backward(ctx, g):
        raise KeyboardInterrupt

    x = leaf(1.0)
    with pytest.raises(KeyboardInterrupt):
        function(lambda ctx, x: x * 2, backward).apply(x).backward()
    x.exp().backward()
    assert x.grad.item() == x.exp().item()


def test_a_real_gradient_of_a_complex_input():
    z = ad.tensor([1 + 2j], dtype=ad.complex128, requires_grad=True)
    function(lambda ctx, z: z.real * 2, lambda ctx, g: g * 2).apply(z).sum().backward()
    assert z.grad.tolist() == [2 + 0j] and z.grad.dtype is ad.complex128


# --- nothing is left behind -----------------------------------------------------------------------------------------------


class Doubled(Function):
    @staticmethod
    def forward(x, k=2.0):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(output, *inputs[:1])

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * ctx.saved_tensors[0] / ctx.saved_tensors[0], None


class Once(Cube):
    backward = staticmethod(once_differentiable(Cube.backward))


def in_place(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def failing(ctx, *args):
    ctx.save_for_backward(*args)
    raise KeyError("mine")


def swallow(run):
    try:
        run()
    except KeyError:
        pass


def saving(*, write=False, view=False):
    """A Function that saves what it returns: its input, perhaps written, perhaps a part of it."""

    def forward(ctx, x):
        if write:
            ctx.mark_dirty(x.mul_(2))
        ctx.save_for_backward(x[:50] if view else x)
        return x

    return function(forward)


PROGRAMS = {
    "saves the input that it returns": lambda x: saving().apply(x * 1),
    "saves what it wrote": lambda x: saving(write=True).apply(x * 1),
    "saves the view that it wrote": lambda x: saving(write=True).apply((x * 1)[:60]),
    "saves a part of what it wrote": lambda x: saving(write=True, view=True).apply(x * 1),
    "setup_context": lambda x: Doubled.apply(x, k=3.0).sum().backward(),
    "in place": lambda x: function(in_place).apply(x * 1).sum().backward(),
    "in place on a view": lambda x: function(in_place).apply((x * 1)[:2]).sum().backward(),
    "a view": lambda x: function(lambda ctx, x: x[:2], lambda ctx, g: g.repeat(50)).apply(x).sum().backward(),
    "an input": lambda x: function(lambda ctx, x: x).apply(x).sum().backward(),
    "once differentiable": lambda x: ad.autograd.grad(Once.apply(x).exp().sum(), x, create_graph=True),
    "never differentiated": lambda x: Cube.apply(x),
    "twice": lambda x: ad.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)[0].sum().backward(),
    "backward inside": lambda x: Through.apply(Cube.apply, x).sum().backward(),
    "forward fails": lambda x: swallow(lambda: function(failing).apply(x)),
    "backward fails": lambda x: swallow(
        lambda: function(lambda ctx, x: x * 2, failing).apply(x).sum().backward()
    ),
    "an attribute": lambda x: function(lambda ctx, x: (setattr(ctx, "x", x), x * 2)[1]).apply(x),
    "no gradient": lambda x: function(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1]).apply(x.detach()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_everything_is_given_back(name):
    """Without the collector, as everything is freed by counting references."""
    x = ad.rand(100, dtype=ad.float64, requires_grad=True)
    x.grad = ad.zeros_like(x)
    PROGRAMS[name](x)
    gc.collect()
    gc.disable()
    try:
        before = allocated()
        for _ in range(3):
            PROGRAMS[name](x)
        assert allocated() == before
    finally:
        gc.enable()


def test_an_apply_of_its_own_runs_once_under_vmap():
    """And the Functions that it calls are mapped as any others are."""
    calls = []

    class Doubled(Function):
        @staticmethod
        def forward(x):
            return ad.tensor((x.numpy() * 2).tolist())  # which needs samples

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, dims, x):
            return 2 * x, dims[0]

    class Outer(Function):
        generate_vmap_rule = True

        @classmethod
        def apply(cls, x):
            calls.append(1)
            return super().apply(Doubled.apply(x))

        @staticmethod
        def forward(x):
            return x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    x = ad.arange(3.0)
    assert ad.vmap(Outer.apply)(x).tolist() == [1, 3, 5] and calls == [1]
