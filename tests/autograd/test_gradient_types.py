"""`Tensor.grad_dtype`: which dtype the gradient of a leaf has."""

import copy
import pickle

import pytest
from helpers import leaf

import adjoint as ad


def test_the_type_is_the_leafs_own_unless_the_program_says_otherwise():
    x = leaf(1.0, 2.0)
    assert x.grad_dtype == x.dtype == ad.float64
    x.grad_dtype = ad.float32
    assert x.grad_dtype == ad.float32 and not hasattr(x.grad, "dtype")
    x.grad_dtype = None
    assert x.grad_dtype is None
    # It belongs to the tensor: no other has it.
    x.grad_dtype = ad.float32
    others = x.detach(), x.clone().detach(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))
    assert {t.grad_dtype for t in others} == {ad.float64}
    plain = ad.zeros(2)
    plain.grad_dtype = ad.float64
    plain.requires_grad_().sum().backward()
    assert plain.grad.dtype == ad.float64


def test_gradients_arrive_in_it():
    x = leaf(1.0, 2.0)
    y = x * x  # what was recorded before
    x.grad_dtype = ad.float32
    seen = []
    x.register_hook(lambda g: seen.append(g.dtype))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.dtype))
    for times in 1, 2:
        y.sum().backward(retain_graph=True)
        assert x.grad.dtype == ad.float32 and x.grad.tolist() == [2 * times, 4 * times]
    (g,) = ad.autograd.grad(y.sum(), x)
    assert g.dtype == ad.float32 and seen == [ad.float32] * 5
    x.grad = None
    x.backward(ad.ones(2, dtype=ad.float64))
    assert x.grad.dtype == ad.float32
    one = leaf(3.0).sum().detach().requires_grad_()
    one.grad_dtype = ad.float32
    one.backward()
    assert one.grad.dtype == ad.float32


def test_a_graph_of_the_gradient_leads_through_the_conversion():
    x = leaf(1.0, 2.0)
    x.grad_dtype = ad.float32
    (g,) = ad.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (gg,) = ad.autograd.grad(g.sum(), x)
    assert g.dtype == gg.dtype == ad.float32 and gg.tolist() == [6, 12]


class Halved(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g.float()


@pytest.mark.parametrize(("said", "found"), [("own", "float64"), (None, "float32"), ("bfloat16",) * 2])
def test_none_lets_every_type_pass(said, found):
    x = leaf(1.0, 2.0)
    if said != "own":
        x.grad_dtype = said and getattr(ad, said)
    Halved.apply(x).sum().backward()
    assert x.grad.dtype == getattr(ad, found)
    (g,) = ad.autograd.grad(Halved.apply(x).sum(), x)
    assert g.dtype == getattr(ad, found)


def test_what_is_assigned_must_have_it():
    x = leaf(1.0, 2.0)
    x.grad_dtype = ad.float32
    with pytest.raises(RuntimeError, match="dtype 'double' to a tensor with grad_dtype 'Float'"):
        x.grad = ad.ones(2, dtype=ad.float64)
    x.grad = ad.ones(2)
    with pytest.raises(
        RuntimeError, match="Cannot set grad_dtype to 'Double' .* gradient with dtype 'float'"
    ):
        x.grad_dtype = ad.float64
    x.grad_dtype = None
    x.grad = ad.ones(2, dtype=ad.int32)
    assert x.grad.dtype == ad.int32


def test_what_is_refused():
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        _ = y.grad_dtype
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        y.grad_dtype = ad.float32
    with pytest.raises(RuntimeError, match="grad_dtype must be a dtype or None, but got str"):
        x.grad_dtype = "float32"
    with pytest.raises(RuntimeError, match="Deleting grad_dtype is not allowed"):
        del x.grad_dtype
    assert x.grad_dtype == ad.float64


def test_under_jit_it_may_change_between_calls():
    x = leaf(1.0, 2.0)

    @ad.jit
    def step():
        x.grad = None
        (x * x).sum().backward()
        return x.grad * 1

    for said in ad.float64, ad.float32, None, ad.float32, ad.float64:
        x.grad = None
        x.grad_dtype = said
        for _ in range(4):
            got = step()
            assert got.dtype == (said or ad.float64) == x.grad.dtype and got.tolist() == [2, 4]


def test_data_of_another_type_keep_what_was_said():
    x, y = leaf(1.0), leaf(1.0)
    x.grad_dtype = ad.float64
    for t in x, y:
        t.data = t.data.float()
        (t * 2).sum().backward()
    assert (x.grad_dtype, x.grad.dtype, y.grad_dtype, y.grad.dtype) == (
        ad.float64,
        ad.float64,
        ad.float32,
        ad.float32,
    )
