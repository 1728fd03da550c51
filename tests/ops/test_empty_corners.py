"""Tensors without elements, and without some, where shapes are made of them."""

import math

import pytest

import adjoint as ad
from adjoint.nn import functional as F

e = ad.empty
SHAPES = {
    "grid_sample, no channels": (
        lambda: F.grid_sample(e(1, 0, 2, 2), ad.zeros(1, 3, 3, 2), align_corners=False),
        (1, 0, 3, 3),
    ),
    "grid_sample, no images": (
        lambda: F.grid_sample(e(0, 1, 2, 2), e(0, 3, 3, 2), align_corners=False),
        (0, 1, 3, 3),
    ),
    "grid_sample, volumes": (
        lambda: F.grid_sample(e(0, 1, 2, 2, 2), e(0, 3, 3, 3, 3), mode="nearest", align_corners=True),
        (0, 1, 3, 3, 3),
    ),
    "addbmm": (lambda: ad.addbmm(e(0, 3), e(4, 0, 5), e(4, 5, 3)), (0, 3)),
    "tensorsolve": (lambda: ad.linalg.tensorsolve(e(0, 0, 1, 0), e(0, 0)), (1, 0)),
    "cumulative_trapezoid": (lambda: ad.cumulative_trapezoid(e(2, 0)), (2, 0)),
    "cumulative_trapezoid of places": (lambda: ad.cumulative_trapezoid(e(2, 0), e(2, 0)), (2, 0)),
    "trapezoid": (lambda: ad.trapezoid(e(2, 0)), (2,)),
    "batch_norm": (lambda: F.batch_norm(e(0), None, None, training=True), (0,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_nothing(name):
    call, shape = SHAPES[name]
    assert call().shape == shape


def test_a_sum_of_no_products_is_what_is_there():
    assert ad.equal(ad.addbmm(ad.ones(2, 3), e(0, 2, 5), e(0, 5, 3)), ad.ones(2, 3))


NAN = {
    "var": lambda: ad.var(e(0), correction=-1),
    "std": lambda: ad.std(e(2, 0), dim=1, correction=-1)[0],
    "var of nan": lambda: ad.var(ad.tensor([math.nan]), correction=0),
    "var of inf": lambda: ad.var(ad.tensor([math.inf]), correction=0),
    "adaptive_avg_pool3d": lambda: F.adaptive_avg_pool3d(e(1, 1, 4, 0, 7), 1).squeeze(),
    "multi_margin_loss of no samples": lambda: F.multi_margin_loss(e(0, 3), e(0).long()),
    "cross_entropy of no classes": lambda: F.cross_entropy(e(2, 0), e(2, 0)),
}


@pytest.mark.parametrize("name", NAN)
def test_means_of_nothing_are_nan(name):
    assert math.isnan(NAN[name]().item())


def test_the_gradient_of_what_adds_nothing_is_empty():
    z, a = e(0, requires_grad=True), ad.ones(2, 3, requires_grad=True)
    ad.cat((z, a)).sum().backward()
    assert z.grad.shape == (0,) and a.grad.eq(1).all()


@pytest.mark.parametrize(
    "types",
    [
        (ad.float32, ad.float64, ad.float64),
        (ad.int64, ad.float32, ad.float32),
        (ad.float64, ad.float32, ad.int64),
    ],
    ids=str,
)
def test_addr_promotes(types):
    m, a, b = ad.ones(2, 3, dtype=types[0]), ad.ones(2, dtype=types[1]), ad.full((3,), 2, dtype=types[2])
    result = ad.addr(m, a, b)
    assert result.dtype is ad.promote_types(types[0], ad.promote_types(types[1], types[2]))
    assert result.eq(3).all()


def test_gradients_of_addr_have_the_types_of_their_tensors():
    m = ad.ones(2, 3, requires_grad=True)
    a, b = (ad.ones(n, dtype=ad.float64, requires_grad=True) for n in (2, 3))
    ad.addr(m, a, b).sum().backward()
    assert m.grad.dtype is ad.float32 and a.grad.dtype is ad.float64 and b.grad.tolist() == [2.0] * 3
