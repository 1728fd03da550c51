"""What a Function returns: inputs as they are, views, tensors written in place, results without a gradient, other values.

Start reading at `test_an_input_returned_twice`.
"""

import weakref
from typing import NamedTuple

import pytest
from functions import function, leaf

import adjoint as ad
from adjoint.autograd import Function, gradcheck, gradgradcheck


def dirty(ctx, x, *others):
    ctx.mark_dirty(x)
    return x.mul_(others[0] if others else 3)


In_place = function(dirty, lambda ctx, g: g * 3)


class Pair(NamedTuple):
    first: ad.Tensor
    second: ad.Tensor


# --- inputs that come back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: leaf(1.0, 2.0), lambda: leaf(1.0, 2.0) * 1], ids=["leaf", "result"])
def test_an_input_as_it_is_becomes_a_view_of_itself(make):
    x = make()
    before = x.grad_fn
    y = function(lambda ctx, x: x).apply(x)
    assert y is not x and y._base is x and y.data_ptr() == x.data_ptr()
    assert y.grad_fn.name() == "MyBackward" and x.grad_fn is before and x._version == y._version == 0


def test_an_input_without_a_gradient_beside_one_that_has_it():
    x, w = ad.ones(2, dtype=ad.float64), leaf(1.0, 2.0)
    y, z = function(lambda ctx, x, w: (x, x * w), lambda ctx, g, h: (None, h)).apply(x, w)
    assert y is not x and y.requires_grad and y._is_view() and not x.requires_grad and z.requires_grad
    (y + z).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_an_input_returned_twice():
    x = leaf(1.0, 2.0)
    y, z = function(lambda ctx, x: (x, x), lambda ctx, g, h: g * 10 + h * 100).apply(x)
    assert y is not z and (y.output_nr, z.output_nr) == (0, 1)
    (y.sum() + 2 * z.sum()).backward()
    assert x.grad.tolist() == [210.0, 210.0]


def test_a_result_returned_twice():
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(1.0, 2.0)
    y, z = function(forward, lambda ctx, g, h: g * 10 + h * 100).apply(x)
    assert y is z and y.output_nr == 1
    (y.sum() + 2 * z.sum()).backward()
    assert x.grad.tolist() == [300.0, 300.0]


def test_without_recording_an_input_that_comes_back_is_another_tensor():
    same = function(lambda ctx, x: x)
    constant, x = ad.ones(2), leaf(1.0, 2.0)
    y = same.apply(constant)
    assert y is not constant and y._base is constant and not y.requires_grad
    with ad.no_grad():
        y = same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and not y.requires_grad and x.requires_grad
    with ad.inference_mode():
        y = function(lambda ctx, x: x * 2).apply(x)
    assert y.is_inference() and not y.requires_grad


def test_what_comes_from_elsewhere_gets_the_function_s_history():
    x, elsewhere = leaf(1.0), leaf(2.0) * 2
    y = function(lambda ctx, x: elsewhere, lambda ctx, g: g * 5).apply(x)
    assert y is elsewhere and y.grad_fn.name() == "MyBackward"
    y.backward()
    assert x.grad.tolist() == [5.0]


# --- written in place -----------------------------------------------------------------------------------------------------


def test_a_write_that_is_marked_and_returned_twice():
    x = leaf(1.0, 2.0)
    b = x * 1

    def forward(ctx, t):
        return dirty(ctx, t), t

    y, z = function(forward, lambda ctx, g, h: g * 10 + h * 100).apply(b)
    assert y is z is b and b.tolist() == [3.0, 6.0]
    (y.sum() + z.sum()).backward()
    assert x.grad.tolist() == [200.0, 200.0]


def test_a_write_that_is_not_marked():
    write = lambda ctx, x: x.add_(2)  # noqa: E731
    b = leaf(1.0, 2.0) * 1
    y = function(write).apply(b)
    assert y is not b and y._base is b and b._version == 1 and b.grad_fn.name() == "MulBackward0"
    y = function(lambda ctx, x: x.add_(2) * 1).apply(b)
    assert not y._is_view() and b._version == 2


def test_constants_become_differentiable():
    x, w = ad.ones(2, dtype=ad.float64), leaf(1.0, 2.0)
    y = function(dirty, lambda ctx, g: (None, g)).apply(x, w)
    assert y is x and x.requires_grad and not x.is_leaf
    x.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_view_of_a_constant():
    x, w = ad.ones(3, dtype=ad.float64), leaf(2.0, 5.0)
    part, sibling = x[:2], x[1:]
    function(dirty, lambda ctx, g: (None, g)).apply(part, w)
    assert x.tolist() == [2.0, 5.0, 1.0] and x.requires_grad and sibling.requires_grad
    sibling.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0]


def test_views_of_views_written_by_functions():
    class Add(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.add_(y)

        @staticmethod
        def backward(ctx, g):
            return g, g

    def program(root, b):
        x = root.clone()
        Add.apply(x.narrow(1, 2, 2).narrow(0, 1, 2), b)
        Add.apply(x.narrow(1, 0, 2).narrow(0, 1, 2), b)
        return x * x

    root = ad.rand(4, 4, dtype=ad.float64).requires_grad_()
    b = ad.rand(2, 2, dtype=ad.float64).requires_grad_()
    assert gradcheck(program, (root, b)) and gradgradcheck(program, (root, b))


def test_what_was_written_can_be_saved():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.exp_()
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(0.5, -0.5)
    assert gradcheck(lambda t: Exp.apply(t * 1), x) and gradgradcheck(lambda t: Exp.apply(t * 1), x)
    b = x * 1
    y = Exp.apply(b[:1])
    y.backward()
    assert ad.allclose(x.grad[:1], x[:1].exp()) and x.grad[1] == 0


def unbound(x):
    return x.unbind()[0]


def without_recording(x):
    with ad.no_grad():
        return x[:1]


@pytest.mark.parametrize(
    "make, phrase",
    [
        (lambda: leaf(1.0), "a leaf Variable that requires grad"),
        (lambda: leaf(1.0, 2.0)[:1], "a view of a leaf Variable that requires grad"),
        (lambda: unbound(leaf(1.0, 2.0) * 1), "the output of a function that returns multiple views"),
        (lambda: without_recording(leaf(1.0, 2.0) * 1), "A view was created in no_grad mode"),
    ],
)
def test_writes_that_are_refused(make, phrase):
    with pytest.raises(RuntimeError, match=phrase):
        In_place.apply(make())


def test_a_view_written_by_a_function_with_several_results_is_refused():
    b = leaf(1.0, 2.0) * 1
    two = function(lambda ctx, x: (dirty(ctx, x), x * 2))
    with pytest.raises(RuntimeError, match="If your Function modifies"):
        two.apply(b[:1])
    y, _ = two.apply(b)
    assert y is b


# --- views ------------------------------------------------------------------------------------------------------------------


def test_views_of_inputs():
    b = leaf(1.0, 2.0, 3.0) * 1
    y = function(lambda ctx, x: x[:2]).apply(b)
    assert y._base is b and y.grad_fn.name() == "MyBackward"
    for write in (lambda: y.add_(1), lambda: y[:1].add_(1)):
        with pytest.raises(RuntimeError, match="Output 0 of .*created inside a custom Function"):
            write()
    y, _ = function(lambda ctx, x: (x[:2], x[2:]), lambda ctx, g, h: ad.cat([g, h])).apply(b)
    with pytest.raises(RuntimeError, match="the output of a function that returns multiple views"):
        y.add_(1)


@pytest.mark.parametrize("forward", [lambda ctx, x: x, lambda ctx, x: x[:2]], ids=["input", "view"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_base_written_behind_a_function_s_back(forward, recorded):
    """The function's own derivative would be lost when the view found its history again."""
    b = leaf(1.0, 2.0, 3.0) * 1
    y = function(forward).apply(b)
    with ad.set_grad_enabled(recorded):
        b.mul_(leaf(2.0) if recorded else 2)
    for use in (lambda: y.grad_fn, lambda: (y * 2).sum().backward()):
        with pytest.raises(RuntimeError, match="its base or another view of its base has been modified"):
            use()


def test_a_detached_input_is_no_view():
    b = leaf(1.0, 2.0) * 1
    y = function(lambda ctx, x: x.detach()).apply(b)
    assert not y._is_view() and y.requires_grad
    y.add_(1)


# --- results without a gradient, and what is no tensor ----------------------------------------------------------------------


def test_an_input_marked_non_differentiable():
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    x = leaf(1.0, 2.0)
    y = function(forward).apply(x)
    assert y is not x and not y.requires_grad and y.is_leaf and x.requires_grad


@pytest.mark.parametrize("materialize", [True, False])
def test_the_gradients_of_results_that_have_none(materialize):
    seen = []

    def forward(ctx, x):
        y, z = x * 2, x * 3
        ctx.mark_non_differentiable(z)
        ctx.set_materialize_grads(materialize)
        return y, z, "text", (x * 2).long()

    def backward(ctx, *gradients):
        seen.extend(gradients)
        return gradients[0] * 2

    x = leaf(1.0, 2.0)
    y, z, text, numbers = function(forward, backward).apply(x)
    assert (z.requires_grad, numbers.requires_grad, text) == (False, False, "text")
    y.sum().backward()
    assert seen[0].tolist() == [1.0, 1.0] and seen[2] is None
    if materialize:
        assert seen[1].tolist() == [0.0, 0.0] and seen[3].tolist() == [0, 0]
        assert seen[3].dtype is ad.int64
    else:
        assert seen[1] is seen[3] is None


def test_nothing_but_results_without_a_gradient():
    y = function(lambda ctx, x: (x * 2).long()).apply(leaf(1.0))
    assert not y.requires_grad and y.grad_fn is None


def test_undefined_gradients_pass_through_functions():
    def two(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g, h):
        assert g is None
        return h

    ends = function(lambda ctx, x: x * 2, lambda ctx, g: None)
    x = leaf(1.0)
    y, z = function(two, backward).apply(x)
    (ends.apply(y) + z).backward()
    assert x.grad.tolist() == [1.0]
    assert ad.autograd.grad(ends.apply(x), x, allow_unused=True) == (None,)


def test_tuples():
    x = leaf(1.0)
    (y,) = function(lambda ctx, x: (x * 2,)).apply(x)
    assert y.requires_grad
    both = function(lambda ctx, x: Pair(x * 2, x * 3)).apply(x)
    assert type(both) is tuple and both[1].tolist() == [3.0]
    assert function(lambda ctx, x: ()).apply(x) == ()
    assert function(lambda ctx, x: (1, "a", None)).apply(x) == (1, "a", None)


@pytest.mark.parametrize("result", [None, 1.0, "text", [ad.ones(1)], {"a": ad.ones(1)}], ids=str)
def test_a_single_result_that_is_no_tensor(result):
    """A list or a dict would lose the gradients of what is in it without a word; in a tuple such a value is a constant."""
    if isinstance(result, (list, dict)):
        with pytest.raises(
            TypeError, match=r"MyBackward: forward must return a Tensor or a tuple of Tensors"
        ):
            function(lambda ctx, x: result).apply(leaf(1.0))
    else:
        assert function(lambda ctx, x: result).apply(leaf(1.0)) is result
    assert function(lambda ctx, x: result).apply(ad.ones(1)) is result
    y, other = function(lambda ctx, x: (x * 2, result)).apply(leaf(1.0))
    assert y.requires_grad and other is result


# --- what lives how long ----------------------------------------------------------------------------------------------------


def test_a_result_dies_with_its_last_holder():
    dead = weakref.ref(function(lambda ctx, x: x * 2).apply(leaf(1.0)))
    assert dead() is None
