"""Functions written in Python: what forward and backward may do, what is refused, and that nothing is left behind."""

import gc
import threading

import pytest
from helpers import allocated, leaf

import adjoint as ad
from adjoint.autograd import Function
from adjoint.autograd.function import once_differentiable


class Scale(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.k, None


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result


class ExpSet(Function):
    @staticmethod
    def forward(x, factor=2.0):
        return factor * x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        assert len(inputs) == 2
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


def test_both_ways_to_write_forward():
    x = leaf(0.5, -1.0)
    (g,) = ad.autograd.grad(Exp.apply(x).sum(), x)
    assert ad.allclose(g, x.exp())
    for y in (ExpSet.apply(x), ExpSet.apply(x, 2.0), ExpSet.apply(x, factor=2.0)):
        (g,) = ad.autograd.grad(y.sum(), x)
        assert ad.allclose(g, 2 * x.exp())


def test_backward_is_recorded():
    x = leaf(0.5, -1.0)
    (g,) = ad.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = ad.autograd.grad(h.sum(), x)
    assert ad.allclose(third, x.exp())


def test_the_node():
    x = leaf(1.0)
    y = Scale.apply(x, 3)
    node = y.grad_fn
    assert node.name() == type(node).__name__ == "ScaleBackward"
    assert node.k == 3
    assert node.next_functions[0][0].variable is x and len(node.next_functions) == 1
    node.metadata["seen"] = True
    assert y.grad_fn.metadata == {"seen": True}


def test_several_results_and_arguments():
    class Many(Function):
        @staticmethod
        def forward(ctx, x, text, y):
            ctx.set_materialize_grads(False)
            return x + y, text, x * y

        @staticmethod
        def backward(ctx, first, text, second):
            assert text is None
            ctx.given.append((first is None, second is None))
            return first, None, None

    x, y = leaf(1.0), leaf(2.0)
    a, text, b = Many.apply(x, "between", y)
    assert text == "between"
    a.grad_fn.given = []
    assert ad.autograd.grad(a, (x, y), allow_unused=True, retain_graph=True) == (ad.ones(1), None)
    assert a.grad_fn.given == [(False, True)]


def test_gradients_nobody_computed_come_as_zeros():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            return 2 * first + 3 * second

    x = leaf(1.0)
    _, b = Two.apply(x)
    b.backward()
    assert x.grad.tolist() == [3.0]


def test_needs_input_grad():
    class Asked(Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.was = ctx.needs_input_grad
            return args[0] + args[1]

        @staticmethod
        def backward(ctx, g):
            return g, g, None

    x = leaf(1.0)
    y = Asked.apply(x, ad.ones(1, dtype=ad.float64), 5)
    assert y.grad_fn.was == (True, False, False)
    y.backward()


def test_without_recording_nothing_is_kept():
    x = leaf(1.0)
    with ad.no_grad():
        y = Exp.apply(x)
    assert not y.requires_grad and y.grad_fn is None
    assert not Exp.apply(ad.ones(1)).requires_grad


def test_non_differentiable_results():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.sort()
            floor = x.floor()
            ctx.mark_non_differentiable(indices, floor)
            ctx.save_for_backward(indices)
            return values, indices, floor

        @staticmethod
        def backward(ctx, g, *rest):
            (indices,) = ctx.saved_tensors
            return ad.zeros_like(g).scatter_add(0, indices, g)

    x = leaf(3.0, 1.0)
    values, indices, floor = Sorted.apply(x)
    assert values.requires_grad and not indices.requires_grad and not floor.requires_grad
    values[0].backward()
    assert x.grad.tolist() == [0.0, 1.0]


class Triple(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(3)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_writing_in_place():
    x = leaf(1.0, 2.0)
    b = x * 1
    result = Triple.apply(b)
    assert result is b and b._version > 0 and b.grad_fn.name() == "TripleBackward"
    b.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    b = x * 1
    assert Triple.apply(b[0]).grad_fn.name() == "AsStridedBackward0"
    (g,) = ad.autograd.grad(b.sum(), x)
    assert g.tolist() == [3.0, 1.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Triple.apply(x)


def test_dirty_tensors_must_be_returned():
    class Forgets(Triple):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 1

    with pytest.raises(
        RuntimeError, match="Some elements marked as dirty during the forward method were not returned"
    ):
        Forgets.apply(leaf(1.0) * 1)


def test_an_input_returned_as_it_is():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x and y._base is x
    y.backward()
    assert x.grad.tolist() == [10.0]
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        Same.apply(x * 1).add_(1)


def test_a_view_returned():
    class First(Function):
        @staticmethod
        def forward(ctx, x):
            return x[0]

        @staticmethod
        def backward(ctx, g):
            return ad.stack([g * 7, ad.zeros_like(g)])

    x = leaf(1.0, 2.0)
    y = First.apply(x * 1)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        y.add_(1)
    y = First.apply(x)
    y.backward()
    assert x.grad.tolist() == [7.0, 0.0]


@pytest.mark.parametrize(
    "result, error, phrase",
    [
        ((1.0, None), RuntimeError, r"expected Variable or None \(got float\)"),
        ((None, None, None, 1.0), RuntimeError, "returned an incorrect number of gradients"),
        ((), RuntimeError, "returned an incorrect number of gradients"),
        ((None, 1.0), RuntimeError, "gradient different (from|than) None at position 2"),
        ((ad.ones(3), None), RuntimeError, "returned an invalid gradient at index 0"),
    ],
)
def test_wrong_gradients(result, error, phrase):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, k):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return result

    with pytest.raises(error, match=phrase):
        Wrong.apply(leaf(1.0, 2.0), 3).sum().backward()


def test_gradients_are_summed_and_cast():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x):
            return x.expand(3, 2).clone()

        @staticmethod
        def backward(ctx, g):
            return g.float()

    x = leaf(1.0, 2.0)
    Wide.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and x.grad.dtype is ad.float64


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not ad.is_grad_enabled()
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    w = leaf(1.0)
    (g,) = ad.autograd.grad(Once.apply(x) * w, x, create_graph=True)
    assert g.tolist() == [6.0]
    with pytest.raises(
        RuntimeError,
        match="trying to differentiate twice a function that was marked with @once_differentiable",
    ):
        g.backward()


def test_what_is_saved_is_checked_and_freed():
    x = leaf(1.0)
    y = Exp.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn.saved_tensors
    b = x * 1
    y = Exp.apply(b)
    with ad.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()

    class SavesText(Scale):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, "text")
            return x

    with pytest.raises(
        TypeError, match="save_for_backward can only save variables, but argument 1 is of type str"
    ):
        SavesText.apply(x)


def test_errors_keep_their_traceback_and_leave_the_engine_well():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError("in the backward of Fails")

    x = leaf(1.0)
    with pytest.raises(KeyError, match="in the backward of Fails") as caught:
        Fails.apply(x).backward()
    assert any(entry.name == "backward" and "test_function" in str(entry.path) for entry in caught.traceback)
    assert ad.is_grad_enabled()
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_missing_methods():
    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        Nothing.apply(leaf(1.0)).backward()
    with pytest.raises(NotImplementedError, match="forward function"):
        Function.apply(leaf(1.0))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        Nothing()

    class Other(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(1.0)
    Other.apply(x).backward()
    assert x.grad.tolist() == [2.0]


def test_backward_inside_backward_to_any_depth():
    class Deep(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with ad.enable_grad():
                    x = leaf(1.0)
                    Deep.apply(x, ctx.depth - 1).backward()
                    assert x.grad.tolist() == [1.0]
            return g, None

    x = leaf(1.0)
    Deep.apply(x, 500).backward()
    assert x.grad.tolist() == [1.0]


def test_nothing_is_left_behind():
    class Everything(Function):
        @staticmethod
        def forward(ctx, x, y):
            result = x * y
            ctx.save_for_backward(x, result, None)
            ctx.note = [1]
            return result, x

        @staticmethod
        def backward(ctx, g, h):
            x, result, none = ctx.saved_tensors
            assert none is None
            return g * result + h, g * x

    x, y = ad.rand(100, requires_grad=True), ad.rand(100, requires_grad=True)

    def run():
        a, b = Everything.apply(x, y)
        c = Triple.apply(a * 1)
        Everything.apply(c, b)
        ad.autograd.grad(Everything.apply(c, b)[0].sum(), (x, y), create_graph=True)

    gc.collect()
    gc.disable()
    try:
        run()
        before = allocated()
        run()
        assert allocated() == before
    finally:
        gc.enable()


def test_threads_apply_and_differentiate():
    results = []

    def work():
        x = leaf(0.5)
        for _ in range(50):
            (g,) = ad.autograd.grad(Exp.apply(Scale.apply(x, 2.0)), x)
        results.append(g.item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(results)) == 1 and len(results) == 4
