"""Functions: contexts and cycles, kinds of gradients, what may be marked, keywords, packing what is saved."""

import gc
import weakref

import pytest
from functions import function, leaf


@pytest.mark.parametrize("differentiated", [False, True])
def test_the_collector_finds_a_result_kept_by_its_own_context(differentiated):
    def forward(ctx, x):
        ctx.result = x * 2
        return ctx.result

    y = function(forward).apply(leaf(1.0))
    if differentiated:
        y.backward()
    dead = weakref.ref(y)
    del y
    gc.collect()
    assert dead() is None


def test_the_saved_tensors_of_a_graph_that_is_gone():
    contexts = []

    def forward(ctx, x):
        contexts.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    function(forward).apply(leaf(1.0))
    try:
        assert len(contexts[0].saved_tensors) == 1
    except RuntimeError as error:
        assert "freed" in str(error)


def test_a_complex_gradient_of_a_real_input():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="complex"):
        function(lambda ctx, x: x * 2, lambda ctx, g: g * 1j).apply(x).sum().backward()


def test_written_and_without_a_gradient():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x.mul_(3)

    assert not function(forward).apply(leaf(1.0) * 1).requires_grad


@pytest.mark.parametrize("mark", ["mark_dirty", "mark_non_differentiable"])
def test_only_tensors_are_marked(mark):
    with pytest.raises((RuntimeError, TypeError), match=f"{mark}.*accepts? .*variable"):
        function(lambda ctx, x: (getattr(ctx, mark)(3), x * 2)[1]).apply(leaf(1.0))


def test_needs_input_grad_can_be_set():
    def forward(ctx, x):
        ctx.needs_input_grad = (False,)
        return x * 2

    assert function(forward).apply(leaf(1.0)).grad_fn.needs_input_grad == (False,)


def test_keywords_of_a_forward_that_takes_the_context():
    x, w = leaf(1.0), leaf(5.0)
    function(lambda ctx, x, k=None: x * k, lambda ctx, g: (g, g * 2)).apply(x, k=w).backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([1.0], [2.0])


def test_what_is_saved_can_be_packed_late():
    y = function(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1]).apply(leaf(3.0))
    (saved,) = y.grad_fn._raw_saved_tensors
    saved.register_hooks(lambda t: t * 1, lambda t: t * 2)
    assert y.grad_fn.saved_tensors[0].tolist() == [6.0]


def test_torch_s_words_for_the_gradient_of_an_argument_that_is_no_tensor():
    with pytest.raises(RuntimeError, match="returned a gradient different than None at position 2"):
        function(lambda ctx, x, k: x * k, lambda ctx, g: (g, g)).apply(leaf(1.0), 3).backward()
