"""`allow_mutation_on_saved_tensors`: what is saved is copied when it is about to be written, not before, and not otherwise."""

import gc

import pytest
from helpers import allocated, leaf

import adjoint as ad
from adjoint.autograd import graph

allow = graph.allow_mutation_on_saved_tensors
WRITES = {
    "operator": lambda t: t.mul_(10),
    "fill": lambda t: t.zero_(),
    "copy": lambda t: t.copy_(ad.ones(2)),
    "item": lambda t: t.__setitem__(0, 7.0),
    "index": lambda t: t.index_fill_(0, ad.tensor([0]), 7.0),
    "random": lambda t: t.uniform_(),
    "view": lambda t: t[1:].add_(5),
    "alias": lambda t: t.detach().add_(5),
    "out": lambda t: ad.sin(ad.ones(2, dtype=ad.float64), out=t.detach()),
    "twice": lambda t: t.mul_(2).add_(1),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_backward_sees_what_was_saved(write):
    x = leaf(1.0, 2.0)
    with allow():
        y = x * 1
        z = (y * y).sum()
        write(y)
        z.backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_results_that_were_saved(write):
    x = leaf(1.0, 2.0)
    with allow():
        y = x.exp()
        z = y * 1
        write(y)
        z.sum().backward()
    assert ad.allclose(x.grad, x.detach().exp())


def test_leaves_and_constants():
    x, c = leaf(1.0, 2.0), leaf(3.0, 4.0).detach()
    with allow():
        z = (x * c).sum() + (x * x).sum()
        c.zero_()
        with ad.no_grad():
            x.mul_(100)
        z.backward()
    assert x.grad.tolist() == [5, 8]


def test_views_and_bases():
    x = leaf(1.0, 2.0, 3.0)
    with allow():
        base = x * 1
        v = base[1:]
        z = (v * v).sum()
        base.mul_(10)
        w = (base[:2] * base[:2]).sum()
        v.zero_()
        (g,) = ad.autograd.grad(z + w, x)
    assert g.tolist() == [200, 404, 6]


def test_each_version_is_kept_apart():
    x = leaf(1.0, 2.0)
    with allow():
        y = x * 1
        parts = []
        for _ in range(4):
            parts.append((y * y).sum())
            with ad.no_grad():
                y.mul_(2)
        sum(parts).backward()
    assert x.grad.tolist() == [2 * (1 + 2 + 4 + 8), 4 * (1 + 2 + 4 + 8)]


def test_second_derivatives():
    x = leaf(3.0)
    with allow():
        y = x.clone()
        z = (y * y * y).sum()
        y.zero_()
        (g,) = ad.autograd.grad(z, x, create_graph=True)
        (h,) = ad.autograd.grad(g, x)
    assert g.tolist() == [27] and h.tolist() == [18]


def test_what_is_not_written_is_not_copied():
    x = ad.rand(100_000, requires_grad=True)
    with allow():
        y = x * 1
        held = allocated()
        parts = [y * y for _ in range(5)]
        used = allocated() - held
        assert used < 5.5 * x.nbytes  # the results alone
        y.mul_(2)
        assert allocated() - held - used < 2.5 * x.nbytes  # one copy for all five
        sum(parts[1:], parts[0]).sum().backward()


def test_backward_belongs_inside():
    x = leaf(1.0, 2.0)
    with allow():
        y = x * 1
        z = (y * y).sum()
        y.mul_(2)
    with pytest.raises((RuntimeError, AssertionError), match="allow_mutation_on_saved_tensors"):
        z.backward()


def test_clear():
    x = leaf(1.0, 2.0)
    with allow() as context:
        y = x * 1
        z = (y * y).sum()
        y.mul_(2)
        context.clear()
        with pytest.raises((RuntimeError, AssertionError), match="allow_mutation_on_saved_tensors"):
            z.backward()
        # It goes on.
        y = x * 1
        z = (y * y).sum()
        y.mul_(2)
        z.backward()
    assert x.grad.tolist() == [2, 4]


def test_contexts_do_not_nest():
    with (
        allow(),
        pytest.raises(RuntimeError, match="allow_mutation_on_saved_tensors contexts cannot be nested"),
        allow(),
    ):
        pass
    with allow():
        pass


def test_outside_it_is_an_error_again():
    x = leaf(1.0, 2.0)
    with allow():
        pass
    y = x * 1
    z = (y * y).sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_nothing_is_left_behind():
    x = ad.rand(1000, requires_grad=True)

    def run():
        with allow():
            y = x * 1
            z = (y * y).sum() + y.exp().sum()
            y.mul_(2)
            z.backward()
        x.grad = None

    gc.collect()
    gc.disable()
    try:
        run()
        before = allocated()
        run()
        assert allocated() == before
    finally:
        gc.enable()
