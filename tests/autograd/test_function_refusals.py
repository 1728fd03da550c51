"""What Functions, their instances and the tensors around them refuse, in torch's words; and what they keep or let go of."""

import warnings
import weakref

import pytest

import adjoint as ad
from adjoint.autograd import Function, SavedTensor, graph


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


# --- views --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [lambda v, w: v.add_(w), lambda v, w: v.copy_(w)])
def test_a_view_made_by_a_function_that_recorded_nothing(write):
    """A gradient that a write brings would have to pass the Function."""
    view = Same.apply(ad.zeros(1, 2, dtype=ad.float64))
    with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
        write(view, leaf(1.0))
    plain = Same.apply(ad.zeros(2))
    plain.add_(1)
    assert plain.tolist() == [1.0, 1.0]


def test_a_view_made_without_recording_is_told_as_that():
    with ad.no_grad():
        view = Same.apply(leaf(1.0, 2.0).clone())
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace"
    ):
        view.add_(leaf(1.0))


def test_a_view_of_what_forward_made_is_not_dirty():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone().view_as(x)
            ctx.mark_dirty(y)
            return y

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Wrong.apply(leaf(1.0).clone())


# --- instances ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda f: f.register_hook(print), "Attribute 'register_hook' is invalid"),
        (lambda f: f.next_functions, "Attribute 'next_functions' is invalid"),
        (lambda f: f.name(), "Attribute 'name' is invalid"),
        (lambda f: f._sequence_nr(), "Attribute '_sequence_nr' is invalid"),
        (lambda f: f._set_sequence_nr(2), "Attribute '_set_sequence_nr' is invalid"),
        (lambda f: f._input_metadata, "Attribute '_input_metadata' is invalid"),
        (lambda f: f.metadata, "underlying PyNode has already been deallocated"),
    ],
)
def test_an_instance_is_no_node(ask, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = Same()
    with pytest.raises(RuntimeError, match=message):
        ask(f)
    assert not hasattr(f, "anything_else")


# --- gradients that nobody computed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("materialize", [True, False])
def test_zeros_for_results_that_are_marked(materialize):
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            a, b, c = x.clone(), x.clone(), x.clone()
            ctx.mark_non_differentiable(b)
            ctx._materialize_non_diff_grads = materialize
            return a, b, c

        @staticmethod
        def backward(ctx, *gradients):
            seen.extend(gradients)
            return gradients[0]

    Pair.apply(leaf(2.0))[0].backward()
    assert seen[0].tolist() == [1.0] and seen[2].tolist() == [0.0]
    assert (seen[1] is None) is not materialize


# --- what is saved ------------------------------------------------------------------------------------------------------------


def taking(backward):
    class Taking(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

    Taking.backward = staticmethod(backward)
    return Taking


def test_backward_may_be_the_only_owner_of_what_was_saved():
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        result, there = gradient * 2 * x, weakref.ref(x)
        del x
        assert there() is None
        return result

    x = leaf(3.0)
    taking(backward).apply(x.clone()).backward()
    assert x.grad.tolist() == [6.0]


def test_what_is_taken_is_taken_once():
    def backward(ctx, gradient):
        return gradient * len(ctx.saved_tensors) * len(ctx.saved_tensors)

    with pytest.raises(RuntimeError, match="can only be accessed once"):
        taking(backward).apply(leaf(3.0)).backward()


def test_what_stands_in_the_graph_for_a_saved_tensor():
    pack, unpack = lambda t: (t,), lambda kept: kept[0]
    x = leaf(2.0)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x.sin()
    z = y.exp()
    w = z * z
    packed, result, given = (
        y.grad_fn._raw_saved_self,
        z.grad_fn._raw_saved_result,
        w.grad_fn._raw_saved_self,
    )
    assert isinstance(packed.data, tuple) and packed.data[0] is x and packed.unpack_hook is unpack
    assert result.data is not z and result.data.grad_fn is None and result.data.tolist() == z.tolist()
    assert given.data is z
    assert result.unpack_hook is None and given.unpack_hook is None
    w.backward()
    for saved in (packed, result, given):
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            _ = saved.data


def test_nodes_alone_make_saved_tensors():
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        SavedTensor()


# --- attributes of tensors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["data", "requires_grad", "_backward_hooks"])
def test_attributes_that_cannot_be_deleted(name):
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="not allowed"):
        delattr(x, name)
    assert x.requires_grad and x.tolist() == [1.0]


# --- zeros for an edge --------------------------------------------------------------------------------------------------------


def test_zeros_for_an_edge_are_refused():
    x, y = leaf(1.0).clone(), leaf(2.0).clone()
    edge_x, edge_y = graph.get_gradient_edge(x), graph.get_gradient_edge(y)
    out = (x * 3).sum()
    found = ad.autograd.grad(out, (edge_x, y), retain_graph=True, materialize_grads=True)
    assert [g.tolist() for g in found] == [[3.0], [0.0]]
    with pytest.raises(
        RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"
    ):
        ad.autograd.grad(out, (x, edge_y), materialize_grads=True)
