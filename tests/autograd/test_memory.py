"""Memory: graphs die at once and without recursion, and nothing is saved that no gradient asks for.

All bytes are those of the library's own allocator: `memory_statistics()["allocated_bytes"]`. The garbage
collector is off, so whatever comes back does so by counting references.
"""

import gc
import sys
import weakref

import pytest
from helpers import allocated

import adjoint as ad


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_statistics_follow_a_tensor():
    before = allocated()
    x = ad.ones(1000, 1000)
    assert allocated() - before >= 4_000_000
    y = x[::2]
    del x
    assert allocated() - before >= 4_000_000
    del y
    assert allocated() == before


def network(x, w):
    y = x
    for _ in range(5):
        y = ad.tanh(y @ w) * y + ad.softmax(y, 1)
        y = ad.cat([y[:, :5], y[:, 5:].exp()], 1) - y.mean()
    return (y * y).sum()


def test_a_dropped_graph_returns_everything():
    x, w = ad.rand(20, 10), ad.rand(10, 10, requires_grad=True)
    network(x, w)
    before = allocated()
    y = network(x, w)
    assert allocated() > before
    del y
    assert allocated() == before


def test_backward_returns_everything_but_the_gradient():
    x, w = ad.rand(20, 10), ad.rand(10, 10, requires_grad=True)
    network(x, w).backward()
    before = allocated()
    for _ in range(3):
        y = network(x, w)
        y.backward()
        del y
    assert allocated() == before


def test_backward_frees_saved_values_while_the_result_lives():
    x = ad.rand(1000, 1000, requires_grad=True)
    y = x.sin().sin().sin().sum()
    held = allocated()
    y.backward()
    # Two intermediate results go; the gradient comes.
    assert allocated() <= held - 4_000_000
    assert y.item() == y.item()


def test_double_backward_leaves_no_cycle():
    x = ad.rand(100, 100, requires_grad=True)

    def run():
        (g,) = ad.autograd.grad(x.sin().exp().sum(), x, create_graph=True)
        (h,) = ad.autograd.grad((g * g).sum(), x)
        return h

    run()
    before = allocated()
    run()
    assert allocated() == before


@pytest.mark.parametrize("f", [ad.exp, ad.tanh, ad.sigmoid, ad.sqrt, lambda t: ad.softmax(t, 0)])
def test_a_node_that_saves_its_own_result_is_no_cycle(f):
    x = ad.rand(1000, requires_grad=True)
    f(x)
    before = allocated()
    y = f(x)
    dead = weakref.ref(y)
    del y
    assert dead() is None and allocated() == before


def test_in_place_and_views_leave_no_cycle():
    x = ad.rand(100, 10, requires_grad=True)

    def run():
        y = x * 2
        part = y[3].T + y.T[:, 2]
        y.exp_()
        (y.sum() + part.sum()).backward()

    run()
    before = allocated()
    run()
    assert allocated() == before


def test_holding_the_node_does_not_hold_the_result():
    x = ad.rand(1000, 1000, requires_grad=True)
    before = allocated()
    y = x + 1
    node = y.grad_fn
    del y
    assert allocated() - before < 100_000
    assert node.name() == "AddBackward0"


def test_errors_return_everything():
    x = ad.rand(100, 100, requires_grad=True)

    def run():
        y = (x * x).exp()
        with pytest.raises(RuntimeError):
            y + ad.ones(3)
        y.backward(ad.ones_like(y))
        with pytest.raises(RuntimeError):
            y.backward(ad.ones_like(y))
        x.grad = None

    run()
    # An exception that Python still holds holds the frames that it passed, and they hold tensors.
    gc.collect()
    before = allocated()
    run()
    gc.collect()
    assert allocated() == before


# -- frozen parts -----------------------------------------------------------------------------------

BIG = 1_000_000
SIZE = 4 * BIG


def test_without_gradient_nothing_is_kept():
    x = ad.rand(BIG)
    before = allocated()
    y = x.sin().exp().tanh().sum()
    assert allocated() - before < SIZE // 100
    assert not y.requires_grad


def test_no_grad_keeps_nothing():
    x = ad.rand(BIG, requires_grad=True)
    before = allocated()
    with ad.no_grad():
        y = x.sin().exp().tanh().sum()
    assert allocated() - before < SIZE // 100
    assert y.item() == y.item()


def test_a_frozen_layer_keeps_no_activations():
    """Of `x @ w` with w frozen only w is needed, which lives anyway; with w trained the activations stay."""

    def kept(trained):
        x = ad.rand(1000, 100, requires_grad=True)
        weights = [ad.rand(100, 100, requires_grad=trained) for _ in range(4)]
        before = allocated()
        y = x
        for w in weights:
            y = y @ w
        y = y.sum()
        used = allocated() - before
        y.backward()
        return used

    activation = 1000 * 100 * 4
    assert kept(False) < activation // 10
    assert kept(True) >= 3 * activation


def test_frozen_inputs_below_a_trained_layer_are_not_recorded():
    x, w = ad.rand(1000, 100), ad.rand(100, 10, requires_grad=True)
    before = allocated()
    hidden = x.tanh().exp().sin()
    y = (hidden @ w).sum()
    # One activation, saved for the gradient of w; what led to it is gone.
    assert allocated() - before < 1.1 * 1000 * 100 * 4
    y.backward()


def test_a_product_with_a_constant_keeps_only_the_constant():
    x, c = ad.rand(BIG, requires_grad=True), ad.rand(BIG)
    before = allocated()
    y = x
    for _ in range(5):
        y = y * c
    # Only the last result lives; c is saved five times over, in one place.
    assert allocated() - before < 1.5 * SIZE
    assert y.requires_grad


def test_linear_operations_keep_nothing():
    x = ad.rand(BIG, requires_grad=True)
    before = allocated()
    y = (((x + 1) * 2 - 3) / 4).reshape(1000, 1000).T.flip(0).sum()
    assert allocated() - before < SIZE // 100
    y.backward()


# -- depth ------------------------------------------------------------------------------------------

DEPTH = 1_000_000


def chain(x, steps=DEPTH):
    y = x
    for _ in range(steps):
        y = y * 1.0
    return y


def test_a_chain_of_a_million_runs_backward():
    x = ad.tensor(2.0, requires_grad=True)
    chain(x, 10)
    before = allocated()
    y = chain(x)
    y.backward()
    assert x.grad.item() == 1
    del y
    x.grad = None
    assert allocated() == before


def test_a_chain_of_a_million_is_freed():
    x = ad.tensor(2.0, requires_grad=True)
    chain(x, 10)
    before = allocated()
    y = chain(x)
    del y
    assert allocated() == before


def test_depth_is_not_bounded_by_the_recursion_limit():
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(120)
        x = ad.tensor(1.0, requires_grad=True)
        (g,) = ad.autograd.grad(chain(x, 5000), x, create_graph=True)
        assert g.item() == 1
        del g
    finally:
        sys.setrecursionlimit(limit)


def test_a_deep_chain_of_views_and_writes_is_freed():
    x = ad.ones(4, requires_grad=True)
    x * 1
    before = allocated()
    y = x * 1
    for _ in range(20_000):
        y = y.view(2, 2).view(4)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1]
    del y
    x.grad = None
    assert allocated() == before


def test_peak_and_empty_cache():
    ad.empty_cache()
    x = ad.ones(BIG)
    statistics = ad.memory_statistics()
    assert statistics["allocated_bytes"] >= SIZE
    del x
    ad.empty_cache()
    assert ad.memory_statistics()["allocated_bytes"] <= statistics["allocated_bytes"] - SIZE
