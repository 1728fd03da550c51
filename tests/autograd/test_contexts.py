"""The context of a Function is the node that its results show: who owns which, and what nodes can be asked and told."""

import gc
import weakref

import pytest

import adjoint as ad
from adjoint.autograd import Function, grad
from adjoint.autograd.function import BackwardCFunction, FunctionCtx
from adjoint.autograd.graph import Node

seen = []


def leaf(*values):
    return ad.tensor(values if len(values) > 1 else values[0], dtype=ad.float64, requires_grad=True)


class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        seen[:] = [ctx]
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y, x)
        return y

    @staticmethod
    def backward(ctx, g):
        seen[:] = [(t.requires_grad, t.grad_fn is not None, t.is_leaf) for t in ctx.saved_tensors]
        return g * ctx.saved_tensors[0].detach()


def test_a_context_is_the_node_of_its_results():
    x = leaf(1.0, 2.0)
    y = Scale.apply(x)
    ctx = seen.pop()
    assert ctx is y.grad_fn and isinstance(ctx, Node) and isinstance(ctx, FunctionCtx)
    assert type(ctx) is Scale._backward_cls and Scale._backward_cls._forward_cls is Scale
    assert issubclass(Scale._backward_cls, BackwardCFunction) and not issubclass(
        Scale._backward_cls, Function
    )
    assert ctx.name() == type(ctx).__name__ == "ScaleBackward"
    assert ctx.next_functions[0][0].variable is x and ctx.metadata == {} and ctx.requires_grad
    assert ctx.factor == 2 and len(ctx._raw_saved_tensors) == 1
    assert "factor" in dir(ctx) and "next_functions" in dir(ctx)


def test_each_function_has_a_class_of_its_own():
    class Other(Scale):
        pass

    assert Other._backward_cls is not Scale._backward_cls
    assert Other.apply(leaf(1.0)).grad_fn.name() == "OtherBackward"


def test_hooks_may_be_set_in_forward():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            assert ctx.next_functions[0][0].variable is x and ctx.name() == "FBackward"
            assert ctx.saved_tensors == ()
            ctx.register_prehook(lambda go: order.append("before"))
            ctx.register_hook(lambda gi, go: order.append("after"))
            ctx.metadata["key"] = 1
            return x * 2

        @staticmethod
        def backward(ctx, g):
            order.append(ctx.metadata["key"])
            return g * 2

    order = []
    F.apply(leaf(1.0)).backward()
    assert order == ["before", 1, "after"]


@pytest.mark.parametrize("held", [True, False])
def test_a_context_outlives_the_results_that_it_was_made_for(held):
    x = leaf(1.0, 2.0)
    y = Scale.apply(x, 3.0)
    ctx = y.grad_fn if held else seen[0]
    seen.clear()
    del y
    gc.collect()
    assert ctx.name() == "ScaleBackward" and ctx.next_functions[0][0].variable is x
    assert ctx.saved_tensors[0] is x and ctx.factor == 3 and ctx.metadata == {}
    ctx.register_hook(lambda gi, go: None).remove()
    ctx.register_prehook(lambda go: None).remove()


def test_after_the_pass_what_was_saved_is_gone():
    y = Scale.apply(leaf(1.0))
    y.backward()
    with pytest.raises(RuntimeError, match="a second time .*after they have already been freed"):
        seen[0].saved_tensors  # noqa: B018
    assert seen[0].needs_input_grad == (True,) and seen[0].factor == 2


def test_a_call_that_is_not_recorded_has_a_node_when_asked():
    assert not Scale.apply(ad.ones(2)).requires_grad
    (ctx,) = seen
    assert ctx.name() == "ScaleBackward" and ctx.next_functions == () and ctx.needs_input_grad == (False,)
    ctx.metadata["key"] = 1
    assert ctx.metadata == {"key": 1} and ctx.saved_tensors == ()
    alone = FunctionCtx()
    alone.save_for_backward(ad.ones(1))
    alone.value = 3
    assert (
        alone.value == 3 and alone.name() == "FunctionCtx" and hash(alone) == hash(alone) and alone == alone
    )  # noqa: PLR0124


def test_attributes_stay_while_nobody_in_python_holds_the_context():
    x = leaf(1.0)
    y = Scale.apply(x)
    seen.clear()
    y.grad_fn.factor = 7.0
    gc.collect()
    y.backward()
    assert x.grad.item() == 7 and y.grad_fn is y.grad_fn


def test_weak_references_see_it_die_with_the_graph():
    y = Scale.apply(leaf(1.0))
    seen.clear()
    reference = weakref.ref(y.grad_fn)
    gc.collect()
    assert reference() is y.grad_fn
    del y
    assert reference() is None


def test_the_collector_leaves_what_the_graph_needs():
    """A context in a cycle of garbage is not garbage as long as a result is there."""

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.me, ctx.factor = ctx, 3.0
            cycle = [ctx]
            cycle.append(cycle)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            assert ctx.me is ctx
            return g * ctx.factor

    x = leaf(1.0)
    y = F.apply(x)
    gc.collect()
    y.backward()
    assert x.grad.item() == 3
    reference = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert reference() is None


def test_a_result_kept_by_its_context_is_found_by_the_collector():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x * 2
            return ctx.y

        @staticmethod
        def backward(ctx, g):
            return g

    y = F.apply(leaf(1.0))
    reference = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert reference() is None


def test_a_context_that_backward_gives_away():
    class F(Scale):
        @staticmethod
        def backward(ctx, g):
            kept.append(ctx)
            return g, None

    kept = []
    y = F.apply(leaf(1.0))
    seen.clear()
    y.backward(retain_graph=True)
    assert kept[0] is y.grad_fn
    del y
    gc.collect()
    assert kept[0].factor == 2 and kept[0].saved_tensors[0].item() == 1


def test_no_call_leaves_anything():
    def once():
        Scale.apply(leaf(1.0)).backward()
        Scale.apply(ad.ones(1))

    once()
    gc.collect()
    before = len(gc.get_objects())
    gc.disable()
    try:
        for _ in range(100):
            once()
        seen.clear()
        assert len(gc.get_objects()) < before + 20
    finally:
        gc.enable()


def test_a_saved_result_has_its_history():
    x = leaf(0.0, 1.0)
    Exp.apply(x).sum().backward()
    assert seen == [(True, True, False), (True, False, True)]
    y = x.exp()
    with ad.no_grad():
        saved = y.grad_fn._saved_result
    assert saved.requires_grad and saved.grad_fn is y.grad_fn


# --- nodes that are called ---------------------------------------------------------------------------------------------------


def test_a_node_computes_its_rule():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    one, two = y.grad_fn(ad.ones(2))
    assert one.tolist() == [3, 4] and two.tolist() == [1, 2] and one.requires_grad
    assert y.grad_fn(ad.tensor(2.0, dtype=y.dtype))[0].tolist() == [6, 8]  # and again: nothing is freed
    with ad.no_grad():
        assert not y.grad_fn(ad.ones(2))[0].requires_grad
    assert y.grad_fn(None) == (None, None)
    assert (x * ad.ones(2, dtype=x.dtype)).grad_fn(ad.ones(2))[1] is None
    first, second = leaf(1.0, 2.0, 3.0).split([2, 1])
    assert first.grad_fn(ad.ones(2), None).tolist() == [1, 1, 0]
    assert (leaf(1.0) + leaf(1.0, 2.0)).grad_fn(ad.ones(2))[0].item() == 2


def test_an_accumulator_accumulates_and_no_hooks_run():
    x, ran = leaf(1.0, 2.0), []
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda g: ran.append("before"))
    x.register_hook(lambda g: ran.append("leaf"))
    assert node(ad.ones(2)) == () and x.grad.tolist() == [1, 1] and ran == []


def test_wrong_calls_of_nodes():
    x = leaf(1.0, 2.0)
    y = x * x
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        y.grad_fn(ad.ones(2), ad.ones(2))
    with pytest.raises(TypeError, match="expected 2 arguments, got 0 instead"):
        x.split(1)[0].grad_fn()
    with pytest.raises(TypeError, match="keyword arguments are not supported"):
        y.grad_fn(ad.ones(2), create_graph=True)
    with pytest.raises(TypeError, match="argument 0 is not a Variable"):
        y.grad_fn("one")
    with pytest.raises(RuntimeError, match=r"must match the existing size \(3\)"):
        y.grad_fn(ad.ones(3))
    with pytest.raises(TypeError, match="ScaleBackward' object is not callable"):
        Scale.apply(x).grad_fn(ad.ones(2))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.grad_fn(ad.ones(2))


# --- what forward may do ---------------------------------------------------------------------------------------------------


def test_mark_dirty_of_what_is_no_input_is_warned_of():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    with pytest.warns(UserWarning, match=r"ctx\.mark_dirty\(\) received a tensor that was not an input"):
        F.apply(x).backward()
    assert x.grad.item() == 2


def test_what_may_be_marked():
    class F(Function):
        @staticmethod
        def forward(ctx, x, which):
            getattr(ctx, which)(3)
            return x

    with pytest.raises(
        RuntimeError, match="mark_dirty can only accept variables, but argument 0 is of type int"
    ):
        F.apply(leaf(1.0), "mark_dirty")
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments"):
        F.apply(leaf(1.0), "mark_non_differentiable")


def test_a_write_that_is_not_recorded_counts():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

    x = ad.ones(2)
    assert F.apply(x) is x and x._version == 2


def test_a_leaf_that_forward_made_and_wrote():
    class F(Function):
        @staticmethod
        def forward(ctx, x, dirty):
            made = ad.ones(2, requires_grad=True)
            if dirty:
                ctx.mark_dirty(made.add_(1))
            kept.append(made)
            return made

        @staticmethod
        def backward(ctx, g):
            return g * 5, None

    kept, x = [], leaf(1.0, 2.0)
    y = F.apply(x, False)
    y.sum().backward()
    assert y is kept[0] and y.grad_fn is not None and x.grad.tolist() == [5, 5]
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"
    ):
        F.apply(x, True)


def test_a_view_written_beside_other_results():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x.mul_(2))
            return x, x + 1

    with pytest.raises(RuntimeError, match="modifies inplace an input that is a view of another Tensor"):
        F.apply((leaf(1.0, 2.0) * 1)[:1])


def test_once_differentiable_refuses_to_be_differentiated_twice():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @ad.autograd.function.once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    y = F.apply(x)
    (g,) = grad(y * y, x, create_graph=True)
    assert g.item() == 108 and g.requires_grad
    with pytest.raises(
        RuntimeError,
        match="trying to differentiate twice a function that was marked with @once_differentiable",
    ):
        g.backward()
