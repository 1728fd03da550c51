"""Checkpoints: the same gradients for less memory, and what is refused."""

import pytest

import adjoint as ad
from adjoint.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


def network(depth=4, width=8):
    ad.manual_seed(0)
    return ad.nn.Sequential(*[m for _ in range(depth) for m in (ad.nn.Linear(width, width), ad.nn.Tanh())])


def gradients(net, y):
    return ad.autograd.grad(y.sum(), tuple(net.parameters()))


def test_the_same_gradients():
    net, x = network(), ad.rand(3, 8)
    expected = gradients(net, net(x))
    for y in (
        checkpoint(net, x, use_reentrant=False),
        checkpoint_sequential(net, 3, x.clone().requires_grad_(), use_reentrant=False),
        checkpoint(lambda t: checkpoint(net, t), x),
    ):
        for g, e in zip(gradients(net, y), expected, strict=True):
            assert ad.allclose(g, e)


def test_the_older_form():
    net, x = network(), ad.rand(3, 8, requires_grad=True)
    (expected,) = ad.autograd.grad(net(x).sum(), x)
    checkpoint(net, x, use_reentrant=True).sum().backward()
    assert ad.allclose(x.grad, expected)
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        checkpoint(net, x, use_reentrant=True, weight=1)


def test_second_derivatives():
    x = ad.tensor([0.3, -0.8], dtype=ad.float64, requires_grad=True)

    def f(t):
        return (t.sin() * t.exp()).sum()

    (g,) = ad.autograd.grad(checkpoint(f, x, use_reentrant=False), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    (expected,) = ad.autograd.grad(g.sum(), x)
    assert ad.allclose(h, expected)


def test_random_numbers_are_the_same_again():
    x = ad.ones(1000, requires_grad=True)

    def f(t):
        return ad.nn.functional.dropout(t, 0.5) * t

    y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert ad.equal(x.grad, 2 * y)
    before = ad.get_rng_state()
    checkpoint(f, x, use_reentrant=False)
    y = checkpoint(f, x, use_reentrant=False, preserve_rng_state=False)
    assert not ad.equal(before, ad.get_rng_state())


def test_keyword_arguments_and_structure():
    x = ad.ones(2, requires_grad=True)
    out = checkpoint(lambda t, *, k: {"a": t.exp() * k, "b": [t.sin()]}, x, use_reentrant=False, k=3.0)
    (out["a"] + out["b"][0]).sum().backward()
    assert ad.allclose(x.grad, 3 * x.exp() + x.cos())


def test_the_graph_can_be_used_twice():
    x = ad.rand(4, requires_grad=True)
    runs = []

    def f(t):
        runs.append(1)
        return t.exp().sin()

    y = checkpoint(f, x, use_reentrant=False).sum()
    (first,) = ad.autograd.grad(y, x, retain_graph=True)
    (second,) = ad.autograd.grad(y, x)
    assert ad.equal(first, second) and len(runs) == 3
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_early_stop():
    seen = []

    def f(t):
        y = t.exp()
        seen.append("after exp")
        return y

    x = ad.ones(1, requires_grad=True)
    checkpoint(lambda t: f(t).sum(), x, use_reentrant=False).backward()
    assert len(seen) == 1 or len(seen) == 2
    seen.clear()
    with set_checkpoint_early_stop(False):
        y = checkpoint(lambda t: f(t).sum(), x, use_reentrant=False)
    y.backward()
    assert len(seen) == 2


def test_a_part_that_is_not_the_same_again():
    x = ad.rand(4, requires_grad=True)
    state = {"n": 0}

    def shape_changes(t):
        state["n"] += 1
        return (t[: 3 if state["n"] > 1 else 4]).exp().sum()

    with pytest.raises(
        CheckpointError, match=r"position 0: saved metadata: .*\(4,\).*recomputed metadata: .*\(3,\)"
    ):
        checkpoint(shape_changes, x, use_reentrant=False).backward()

    state["n"] = 0

    def saves_less(t):
        state["n"] += 1
        return t.exp().sum() if state["n"] == 1 else t.sum()

    with pytest.raises(
        CheckpointError, match="A different number of tensors was saved.*forward: 1; during recomputation: 0"
    ):
        checkpoint(saves_less, x, use_reentrant=False).backward()

    state["n"] = 0

    def saves_more(t):
        state["n"] += 1
        return t.exp().sum() if state["n"] == 1 else t.sin().cos().exp().sum()

    with (
        set_checkpoint_early_stop(False),
        pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"),
    ):
        checkpoint(saves_more, x, use_reentrant=False).backward()
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(saves_more, x, use_reentrant=False, determinism_check="maybe")


def test_contexts():
    order = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            order.append(self.name)

        def __exit__(self, *exception):
            order.append("end of " + self.name)

    x = ad.ones(1, requires_grad=True)
    y = checkpoint(ad.exp, x, use_reentrant=False, context_fn=lambda: (Context("first"), Context("again")))
    y.backward()
    assert order == ["first", "end of first", "again", "end of again"]


def test_memory_grows_with_the_root():
    x = ad.rand(64, 512, requires_grad=True)

    def block(t):
        for _ in range(8):
            t = t.sin()
        return t

    def peak(run):
        ad.reset_peak_memory_statistics()
        before = ad.memory_statistics()["allocated_bytes"]
        run().sum().backward()
        return ad.memory_statistics()["peak_allocated_bytes"] - before

    def plain():
        t = x
        for _ in range(8):
            t = block(t)
        return t

    def saving():
        t = x
        for _ in range(8):
            t = checkpoint(block, t, use_reentrant=False)
        return t

    x.grad = ad.zeros_like(x)
    size = x.nbytes
    assert peak(plain) > 60 * size
    assert peak(saving) < 24 * size


def test_arguments_that_are_written_in_between():
    x = ad.ones(3, requires_grad=True)
    for make in (lambda: x * 1, lambda: ad.ones(3)):
        a = make()
        y = checkpoint(lambda t, u: (t * u).sum(), a, x, use_reentrant=False)
        with ad.no_grad():
            a.mul_(3)
        with pytest.raises(RuntimeError, match="modified by an inplace operation: an argument of checkpoint"):
            y.backward()


def test_the_older_form_and_selected_inputs():
    x = ad.ones(3, requires_grad=True)
    y = checkpoint(lambda t: (t * t).sum(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        ad.autograd.grad(y, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda t: t * 2, ad.ones(1), use_reentrant=True)


def test_another_shape_without_the_check():
    k = [3]
    x = ad.ones(3, requires_grad=True)
    y = checkpoint(lambda t: (t[: k[0]] * t[: k[0]]).sum(), x, use_reentrant=False, determinism_check="none")
    k[0] = 2
    with pytest.raises(RuntimeError, match=r"shape \[2\].*what was saved has shape \[3\]"):
        y.backward()
