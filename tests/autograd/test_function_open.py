"""Functions: what torch does and Adjoint does not yet. Each test fails, and says so when it no longer does.

A test that passes moves to the file of its topic: test_function_results.py or test_function_use.py.
"""

import gc
import weakref

import pytest
from functions import function, leaf


def missing(reason):
    return pytest.mark.xfail(strict=True, reason=reason)


@missing("the collector does not see from a result by way of its node into the context")
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


@missing("a context whose node is gone says that it saved nothing")
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


@missing("the imaginary part is dropped without a word")
def test_a_complex_gradient_of_a_real_input():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="complex"):
        function(lambda ctx, x: x * 2, lambda ctx, g: g * 1j).apply(x).sum().backward()


@missing("a tensor that was written keeps its old history, which has another derivative")
def test_written_and_without_a_gradient():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x.mul_(3)

    assert not function(forward).apply(leaf(1.0) * 1).requires_grad


@missing("what is no tensor is accepted, or the error is another one")
@pytest.mark.parametrize("mark", ["mark_dirty", "mark_non_differentiable"])
def test_only_tensors_are_marked(mark):
    with pytest.raises((RuntimeError, TypeError), match=f"{mark}.*accepts? .*variable"):
        function(lambda ctx, x: (getattr(ctx, mark)(3), x * 2)[1]).apply(leaf(1.0))


@missing("the attribute cannot be set")
def test_needs_input_grad_can_be_set():
    def forward(ctx, x):
        ctx.needs_input_grad = (False,)
        return x * 2

    assert function(forward).apply(leaf(1.0)).grad_fn.needs_input_grad == (False,)


@missing("apply takes no keyword arguments where forward takes the context")
def test_keywords_of_a_forward_that_takes_the_context():
    x, w = leaf(1.0), leaf(5.0)
    function(lambda ctx, x, k=None: x * k, lambda ctx, g: (g, g * 2)).apply(x, k=w).backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([1.0], [2.0])


@missing("nodes of Functions have no _raw_saved_tensors")
def test_what_is_saved_can_be_packed_late():
    y = function(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1]).apply(leaf(3.0))
    (saved,) = y.grad_fn._raw_saved_tensors
    saved.register_hooks(lambda t: t * 1, lambda t: t * 2)
    assert y.grad_fn.saved_tensors[0].tolist() == [6.0]


@missing("'different from None' instead")
def test_torch_s_words_for_the_gradient_of_an_argument_that_is_no_tensor():
    with pytest.raises(RuntimeError, match="returned a gradient different than None at position 2"):
        function(lambda ctx, x, k: x * k, lambda ctx, g: (g, g)).apply(leaf(1.0), 3).backward()
