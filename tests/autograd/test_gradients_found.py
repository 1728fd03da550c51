"""What `backward` and `grad` give: unused inputs, batches, shapes and dtypes, gradients that are undefined."""

import itertools

import pytest

import adjoint as ad
from adjoint.autograd import Function, grad, graph


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def ones(*shape):
    return ad.ones(*shape, dtype=ad.float64)


# --- unused inputs, batches, types --------------------------------------------------------------------------------------


def test_unused():
    x, u = leaf(1.0, 2.0), leaf(1.0, 2.0, 3.0)
    y = x.sum()
    with pytest.raises(
        RuntimeError, match="appears to not have been used in the graph. Set allow_unused=True"
    ) as e:
        grad(y, [x, u])
    assert "input 1, of shape [3]" in str(e.value)
    assert grad(y, [u], allow_unused=True) == (None,)
    for flags in ({}, {"allow_unused": True}):
        gx, gu = grad(y, [x, u], materialize_grads=True, **flags)
        assert gx.tolist() == [1.0, 1.0] and gu.tolist() == [0.0] * 3 and gu.dtype is ad.float64
    z = x * 3
    edge = graph.get_gradient_edge(z)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a Grad"):
        grad(y, [edge], materialize_grads=True)
    assert grad(y, [edge], allow_unused=True) == (None,)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        grad(y, u, materialize_grads=True, allow_unused=False)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        assert grad(y, x, only_inputs=False)[0].tolist() == [1.0, 1.0]


def test_batches_of_cotangents():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    eye = ad.eye(2, dtype=ad.float64)
    gx, gy = grad([x * y, x + y], [x, y], [eye, 2 * eye], is_grads_batched=True)
    assert gx.tolist() == [[5.0, 0.0], [0.0, 6.0]] and gy.tolist() == [[3.0, 0.0], [0.0, 4.0]]
    (g,) = grad(x * x, x, eye, is_grads_batched=True, create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [2.0, 2.0]
    gx, gy = grad(x * x, [x, y], eye, is_grads_batched=True, allow_unused=True)
    assert gx.tolist() == [[2.0, 0.0], [0.0, 4.0]] and gy is None
    z = x * x
    grad(z, x, eye, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        grad(z, x, eye, is_grads_batched=True)


def test_batches_that_do_not_fit():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for wrong in (ones(2), ones(3, 3)):
        with pytest.raises(
            RuntimeError, match="we interpret the first dimension of each grad_output as the batch"
        ):
            grad(x * x, x, wrong, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="leading"):
        grad([x * y, x], [x, y], [ones(2, 2), ones(3, 2)], is_grads_batched=True)
    for nothing in (None, [None], ad.tensor(1.0)):
        with pytest.raises(RuntimeError, match="needs grad_outputs with a leading dimension"):
            grad(x.sum(), x, nothing, is_grads_batched=True)


DTYPES = [ad.float16, ad.bfloat16, ad.float32, ad.float64, ad.complex64, ad.complex128]


@pytest.mark.parametrize("a, b", [*itertools.product(DTYPES, DTYPES)])
def test_gradients_have_the_shape_and_dtype_of_their_inputs(a, b):
    x, y = ad.ones(3, 2, dtype=a, requires_grad=True), ad.ones(2, dtype=b, requires_grad=True)
    product = x * y
    product.abs().sum().backward()
    assert (x.grad.shape, x.grad.dtype) == (x.shape, a) and x.grad.tolist() == [[1.0, 1.0]] * 3
    assert (y.grad.shape, y.grad.dtype) == (y.shape, b) and y.grad.tolist() == [3.0, 3.0]


# --- undefined gradients ------------------------------------------------------------------------------------------------


class Pair(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, a, b):
        ctx.seen.append((a is None, b is None))
        return b


class Drop(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return None


def test_undefined_gradients_stay_undefined():
    x = leaf(1.0)
    a, b = Pair.apply(x)
    a.grad_fn.seen = []
    a.backward(retain_graph=True)
    assert x.grad is None
    b.backward()
    assert x.grad.tolist() == [1.0] and a.grad_fn.seen == [(False, True), (True, False)]
    # Through nodes of operators, to leaves.
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    Drop.apply(y).sin().backward()
    assert x.grad is None and y.grad is None
    assert grad(Drop.apply(x * 1), x, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        grad(Drop.apply(x * 1), x)
    (g,) = grad(Drop.apply(x * 3) + x, x)
    assert g.tolist() == [1.0]


def test_a_function_gets_zeros_for_an_undefined_gradient():
    given = []

    class Note(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            given.append(g)
            return g

    x = leaf(1.0)
    Drop.apply(Note.apply(x)).backward()
    assert [g.tolist() for g in given] == [[0.0]] and x.grad.tolist() == [0.0]


def test_undefined_results_of_operators_with_several():
    x = leaf(1.0, 2.0, 3.0)
    seen = []
    parts = x.unbind()
    parts[0].grad_fn.register_prehook(lambda gs: seen.append([g is None for g in gs]))
    (parts[1] * 2).backward()
    assert seen == [[True, False, True]] and x.grad.tolist() == [0.0, 2.0, 0.0]
