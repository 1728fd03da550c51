"""Backward passes in several threads: the same results bit for bit, hooks, errors."""

import pytest

import adjoint as ad


@pytest.fixture(autouse=True)
def threads():
    before = ad.get_num_threads()
    ad.set_num_threads(4)
    yield
    ad.set_num_threads(before)


def towers(x, w):
    total = 0
    for k in range(8):
        t = x * (k + 1)
        for _ in range(5):
            t = (t @ w).tanh() + t.sin() * w[k]
        total = total + t.sum() * 0.1
    return total


def test_the_same_bit_for_bit():
    ad.manual_seed(1)
    x, w = ad.randn(16, 24, requires_grad=True), ad.randn(24, 24).mul_(0.3).requires_grad_()
    expected = ad.autograd.grad(towers(x, w), (x, w))
    with ad.autograd.set_parallel_backward(True):
        for _ in range(20):
            for g, e in zip(ad.autograd.grad(towers(x, w), (x, w)), expected, strict=True):
                assert ad.equal(g, e)
            towers(x, w).backward()
            assert ad.equal(x.grad, expected[0]) and ad.equal(w.grad, expected[1])
            x.grad = w.grad = None


def test_many_gradients_of_a_large_tensor():
    """They are added up a block of elements at a time, a few of them at once, by several threads."""
    w = ad.linspace(-1, 1, 40_001, requires_grad=True)

    def loss():
        return sum(((w * (0.1 * k)).sin().sum() for k in range(1, 36)), ad.zeros(()))

    (expected,) = ad.autograd.grad(loss(), w)
    with ad.autograd.set_parallel_backward(True):
        for _ in range(3):
            assert ad.equal(ad.autograd.grad(loss(), w)[0], expected)


def test_hooks_and_functions():
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            with ad.enable_grad():
                z = ad.ones(1, requires_grad=True)
                (z * 3).backward()
            return g * 2

    x = ad.ones(4, requires_grad=True)
    seen = []
    with ad.autograd.set_parallel_backward(True):
        branches = [Double.apply(x * k).sin() for k in range(8)]
        for b in branches:
            b.register_hook(lambda g: seen.append(1))
        branches[0].register_hook(
            lambda g: ad.autograd.Variable._execution_engine.queue_callback(lambda: seen.append("end"))
        )
        sum(b.sum() for b in branches).backward()
    assert seen.count(1) == 8 and seen[-1] == "end"
    assert ad.allclose(x.grad, sum(2 * k * (2 * k * ad.ones(4)).cos() for k in range(8)))


def test_errors():
    x = ad.ones(4, requires_grad=True)
    with ad.autograd.set_parallel_backward(True):
        y = [x * k for k in range(8)]

        def fail(g):
            raise KeyError("in a branch")

        y[3].register_hook(fail)
        with pytest.raises(KeyError, match="in a branch"):
            sum(b.sum() for b in y).backward()
        (x * 2).sum().backward()
    assert x.grad is not None and ad.is_grad_enabled()


def test_derivatives_of_higher_order_run_on_one_thread():
    x = ad.ones(4, requires_grad=True)
    with ad.autograd.set_parallel_backward(True):
        (g,) = ad.autograd.grad((x.exp() * x.sin()).sum(), x, create_graph=True)
        (h,) = ad.autograd.grad(g.sum(), x)
    assert ad.allclose(h, 2 * x.exp() * x.cos())
