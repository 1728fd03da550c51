"""Checkpoints in detail: when a part runs again and what it finds then, options, and what mismatches are told.

Start reading at `test_it_runs_again_when_a_value_is_asked_for`.
"""

import gc
import os
import threading

import pytest
from helpers import allocated

import adjoint as ad
from adjoint.utils.checkpoint import (
    CheckpointError,
    CheckpointFunction,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


class Counted:
    """A function that counts its calls, and may do something else from the second one on."""

    def __init__(self, first, then=None):
        self.first, self.then, self.calls = first, then or first, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return (self.first if self.calls == 1 else self.then)(*args, **kwargs)


# --- running again --------------------------------------------------------------------------------------------------------


def test_it_runs_again_when_a_value_is_asked_for():
    f = Counted(lambda t: t.exp().sin())
    x = leaf(0.5, -1.0)
    y = checkpoint(f, x, use_reentrant=False)
    assert f.calls == 1
    assert ad.allclose(y.grad_fn._saved_self, x.exp()) and f.calls == 2
    y.sum().backward()
    assert f.calls == 3 and ad.allclose(x.grad, x.exp().cos() * x.exp())
    f = Counted(lambda t: t + 1)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert f.calls == 1  # nothing was saved


def test_once_for_all_that_one_pass_asks_for():
    f = Counted(lambda t: (t.exp(), t.sin() * t.cos()))
    x = leaf(0.5, -1.0)
    a, b = checkpoint(f, x, use_reentrant=False)
    (a * b).sum().backward(retain_graph=True)
    assert f.calls == 2
    a.sum().backward(retain_graph=True)
    b.sum().backward()
    assert f.calls == 4


def test_without_recording_it_is_the_function():
    f = Counted(lambda t: t.exp())
    with ad.no_grad():
        y = checkpoint(f, leaf(1.0), use_reentrant=False)
    assert not y.requires_grad and f.calls == 1
    assert not checkpoint(f, ad.ones(1), use_reentrant=False).requires_grad


def test_tensors_that_the_part_closes_over():
    w, x = leaf(2.0), ad.ones(1, dtype=ad.float64)
    checkpoint(lambda t: (t * w).exp(), x, use_reentrant=False).backward()
    assert ad.allclose(w.grad, w.exp())


@pytest.mark.parametrize("depth", [2, 5])
def test_nested(depth):
    f = Counted(lambda t: t.sin().exp())

    def nest(t, depth):
        if depth == 0:
            return f(t)
        return checkpoint(nest, t, depth - 1, use_reentrant=False).sin()

    def plain(t, depth):
        return f.first(t) if depth == 0 else plain(t, depth - 1).sin()

    x = leaf(0.4, 1.3)
    (expected,) = ad.autograd.grad(plain(x, depth).sum(), x)
    (found,) = ad.autograd.grad(nest(x, depth).sum(), x)
    assert ad.allclose(found, expected) and f.calls >= 2
    y = nest(x, depth).sum()
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    (second,) = ad.autograd.grad(g.sum(), x)
    (g,) = ad.autograd.grad(plain(x, depth).sum(), x, create_graph=True)
    assert ad.allclose(second, ad.autograd.grad(g.sum(), x)[0])


def test_nested_with_the_older_form_inside_and_outside():
    for outer, inner in ((True, False), (False, True), (True, True)):
        x = leaf(0.4, 1.3)
        checkpoint(
            lambda t, inner=inner: checkpoint(ad.sin, t, use_reentrant=inner).exp(), x, use_reentrant=outer
        ).sum().backward()
        assert ad.allclose(x.grad, x.sin().exp() * x.cos())


def test_early_stop_skips_what_comes_after_the_last_saved_tensor():
    f = Counted(lambda t: after(t.exp() * 2))
    after = Counted(lambda t: t + 1)
    x = leaf(1.0)
    for stop, expected in ((True, 1), (False, 2)):
        after.calls = 0
        checkpoint(f, x, use_reentrant=False, early_stop=stop).backward()
        assert after.calls == expected
        after.calls = 0
        # The context has the last word, and counts when the part first runs.
        with set_checkpoint_early_stop(stop):
            y = checkpoint(f, x, use_reentrant=False, early_stop=not stop)
        y.backward()
        assert after.calls == expected


def test_errors_of_the_part_come_through():
    def fails(t):
        raise KeyError("mine")

    x = leaf(1.0)
    for reentrant in (False, True):
        with pytest.raises(KeyError, match="mine"):
            checkpoint(fails, x, use_reentrant=reentrant)
        y = checkpoint(Counted(ad.exp, fails), x, use_reentrant=reentrant)
        with pytest.raises(KeyError, match="mine"):
            y.backward()
        assert x.grad is None and ad.is_grad_enabled()
    x.exp().backward()
    assert ad.allclose(x.grad, x.exp())


# --- random numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_random_state(reentrant):
    drawn = []

    def f(t):
        drawn.append(ad.rand(4, dtype=ad.float64))
        return (t * drawn[-1]).exp()

    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = checkpoint(f, x, use_reentrant=reentrant)
    state = ad.get_rng_state()
    y.sum().backward()
    assert ad.equal(drawn[0], drawn[1]) and ad.equal(state, ad.get_rng_state())
    y = checkpoint(f, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert not ad.equal(drawn[2], drawn[3])


@pytest.mark.parametrize("reentrant", [False, True])
def test_other_threads_draw_meanwhile(reentrant):
    drawn = []

    def f(t):
        if drawn:
            thread = threading.Thread(target=lambda: ad.rand(100))
            thread.start()
            thread.join()
        drawn.append(ad.rand(4, dtype=ad.float64))
        return (t * drawn[-1]).exp()

    checkpoint(f, leaf(1.0, 2.0, 3.0, 4.0), use_reentrant=reentrant).sum().backward()
    assert ad.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("parallel", [False, True])
def test_several_threads_use_one_checkpoint(parallel):
    """Each pass runs the part for itself; branches of one pass share a run, or do it twice."""
    x = ad.rand(500, dtype=ad.float64, requires_grad=True)
    branches = lambda t: tuple((t * k).sin().exp() for k in range(1, 9))  # noqa: E731
    loss = sum((y.sin() * y).sum() for y in checkpoint(branches, x, use_reentrant=False))
    (expected,) = ad.autograd.grad(sum((y.sin() * y).sum() for y in branches(x)), x)
    found = []

    def work():
        with ad.autograd.set_parallel_backward(parallel):
            found.extend(ad.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20 and all(ad.allclose(g, expected) for g in found)


# --- the older form ---------------------------------------------------------------------------------------------------------


def test_the_older_form_s_arguments_and_results():
    x = leaf(1.0, 2.0)
    y, number, nothing = checkpoint(lambda t, d, k: (t * d["a"], k, None), x, {"a": x}, 5, use_reentrant=True)
    assert (number, nothing) == (5, None) and y.grad_fn.name() == "CheckpointFunctionBackward"
    y.sum().backward()
    assert ad.allclose(x.grad, 2 * x)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(lambda t: t.detach(), x, use_reentrant=True).sum().backward()
    assert ad.equal(CheckpointFunction.apply(ad.exp, True, x), x.exp())


@pytest.mark.parametrize("options", [{"context_fn": noop_context_fn}, {"debug": True}])
def test_what_the_older_form_has_not(options):
    with pytest.raises(
        ValueError, match="`context_fn` or `debug` is only supported when use_reentrant=False"
    ):
        checkpoint(ad.exp, leaf(1.0), use_reentrant=True, **options)


# --- sequences --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("reentrant", [False, True])
def test_sequences(segments, reentrant):
    steps = [Counted(f) for f in (ad.sin, ad.exp, ad.cos, ad.tanh, ad.sigmoid)]
    x = leaf(0.5, -1.0)
    y = checkpoint_sequential(steps, segments, x, use_reentrant=reentrant)
    y.sum().backward()
    (expected,) = ad.autograd.grad(ad.sigmoid(ad.tanh(ad.cos(ad.exp(ad.sin(x))))).sum(), x)
    assert ad.allclose(x.grad, expected)
    # The last segment is kept as it is.
    kept = 5 - 5 // segments * (segments - 1)
    assert [s.calls for s in steps[-kept:]] == [1] * kept
    net = ad.nn.Sequential(ad.nn.Tanh(), ad.nn.Sigmoid())
    assert ad.equal(checkpoint_sequential(net, 2, x), net(x))


def test_sequences_that_are_refused():
    for segments in (0, 3):
        with pytest.raises(ValueError, match=f"{segments} segments for 2 functions"):
            checkpoint_sequential([ad.sin, ad.exp], segments, leaf(1.0))
    with pytest.raises(ValueError, match="Unexpected keyword arguments: weight"):
        checkpoint_sequential([ad.sin, ad.exp], 1, leaf(1.0), weight=1)


# --- mismatches -------------------------------------------------------------------------------------------------------------


def mismatch(first, then, **options):
    x = leaf(1.0, 2.0, 3.0)
    y = checkpoint(Counted(first, then), x, use_reentrant=False, **options)
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    return str(caught.value)


def long(t):
    return t.exp().sin().sum()


def short(t):
    return t.exp().sum()


def test_which_tensor_does_not_match():
    text = mismatch(short, lambda t: short(t[:2]))
    assert (
        "have different metadata" in text and "tensor at position 0: saved metadata: {'shape': (3,)" in text
    )
    text = mismatch(long, lambda t: t.exp().to(ad.float32).sin().sum())
    assert "position 1" in text and "float64" in text and "float32" in text
    text = mismatch(long, short)
    assert (
        "saved during forward: 2; during recomputation: 1. It is number 1 that is missing, of shape (3,)"
        in text
    )
    text = mismatch(short, long, early_stop=False)
    assert "the first run saved 1, and number 1 of this one is of shape (3,)" in text
    assert "debug=True" in text


def test_debug_names_the_lines():
    for text in (mismatch(long, short, debug=True), debugged_by_context()):
        first, again = text.split("Saved when the part ran for the backward pass:")
        here = os.path.basename(__file__)
        assert first.count(here) == 2 and first.count("in long: return t.exp().sin().sum()") == 2
        assert again.count(here) == 1 and again.count("in short: return t.exp().sum()") == 1
        assert "\n  1: shape (3,), dtype" in first and "\n  1:" not in again
    with set_checkpoint_debug_enabled(False):
        assert "first ran" not in mismatch(long, short, debug=True)


def debugged_by_context():
    with set_checkpoint_debug_enabled(True):
        return mismatch(long, short, debug=False)


def test_debug_changes_nothing_else():
    x = leaf(1.0, 2.0)
    y = checkpoint(long, x, use_reentrant=False, debug=True)
    y.backward(retain_graph=True)
    y.backward()
    assert ad.allclose(x.grad, 2 * x.exp() * x.exp().cos())


# --- nothing is left behind -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backward", ["none", "once", "twice", "fails"])
def test_everything_is_given_back(reentrant, backward):
    x = ad.rand(1000, dtype=ad.float64, requires_grad=True)
    x.grad = ad.zeros_like(x)

    def fails(t):
        raise KeyError

    def run():
        f = Counted(lambda t: t.sin().exp().sin(), fails if backward == "fails" else None)
        y = checkpoint(f, x, use_reentrant=reentrant).sum()
        if backward == "fails":
            try:
                y.backward()
            except KeyError:
                pass
        elif backward != "none":
            y.backward(retain_graph=backward == "twice")
            if backward == "twice":
                y.backward()

    run()
    gc.collect()
    gc.disable()
    try:
        before = allocated()
        run()
        assert allocated() == before
    finally:
        gc.enable()


# --- passes that belong together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grouped", [True, False])
def test_a_group_of_passes_runs_a_part_again_once(grouped):
    def part(x):
        y = x.sin().cos()
        return y, y.sin().cos()

    part = Counted(part)
    x = leaf(0.5, 1.0)
    y, z = checkpoint(part, x, use_reentrant=False)
    group = GraphExecGroup()
    if grouped:
        group.__enter__()
    (at_y,) = ad.autograd.grad(z, y, ad.ones(2, dtype=ad.float64))
    (at_x,) = ad.autograd.grad(y, x, at_y)
    if grouped:
        group.__exit__(None, None, None)
    assert part.calls == (2 if grouped else 3)
    plain = x.detach().requires_grad_()
    plain.sin().cos().sin().cos().sum().backward()
    assert ad.allclose(at_x, plain.grad)


def test_passes_of_a_group_do_not_overlap():
    y = checkpoint(lambda x: x.sin().cos(), leaf(0.5), use_reentrant=False)
    with GraphExecGroup():
        y.sum().backward(retain_graph=True)
        with pytest.raises(CheckpointError, match="Performing two backward calls that overlap"):
            y.sum().backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="cannot be nested"), GraphExecGroup():
            pass
    y.sum().backward()


TRANSFORMS = {
    "grad": lambda f, x: ad.func.grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: ad.func.vjp(f, x)[1](ad.ones_like(x))[0],
    "vjp twice": lambda f, x: [ad.func.vjp(f, x)[1](ad.ones_like(x))[0] for _ in range(2)][1],
    "linearize": lambda f, x: ad.func.linearize(f, x)[1](ad.ones_like(x)),
    "jacrev": lambda f, x: ad.func.jacrev(f)(x),
    "hessian": lambda f, x: ad.func.hessian(lambda x: f(x).sum())(x),
    "grad of vjp": lambda f, x: ad.func.grad(lambda x: ad.func.vjp(f, x)[1](ad.ones_like(x))[0].sum())(x),
    "jvp": lambda f, x: ad.func.jvp(f, (x,), (x,))[1],
    "vmap of vjp": lambda f, x: ad.vmap(lambda x: ad.func.vjp(f, x)[1](x)[0])(ad.stack([x, 2 * x])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_run_a_part_again_as_they_ran_it(name):
    weight = leaf(0.5, -1.0, 2.0)
    part = lambda x: (x.sin() * weight).exp().cos()  # noqa: E731
    x = ad.tensor([0.3, 1.2, -0.7], dtype=ad.float64)
    plain = TRANSFORMS[name](part, x)
    again = TRANSFORMS[name](lambda x: checkpoint(part, x, use_reentrant=False), x)
    assert (again == plain).all()
    assert again.requires_grad == plain.requires_grad
