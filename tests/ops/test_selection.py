"""Choosing values: where, minimum, maximum, clamp, masked forms, nan_to_num; and their gradients at ties
and bounds.
"""

import math

import numpy as np
import pytest
from helpers import array, assert_close, assert_same, check_derivatives, normal, tensor

import adjoint as ad

inf, nan = math.inf, math.nan


def grad(y, *xs):
    return [array(g).tolist() for g in ad.autograd.grad(y.sum(), xs)]


def test_where():
    c, a, b = normal(3, 4) > 0, normal(3, 4, seed=1), normal(4, seed=2)
    assert_same(ad.where(tensor(c), tensor(a), tensor(b)), np.where(c, a, b))
    assert_same(tensor(a).where(tensor(c), tensor(b)), np.where(c, a, b))
    assert_same(ad.where(tensor(c), tensor(a), 0.5), np.where(c, a, 0.5))
    assert_same(ad.where(tensor(c), 1.0, tensor(b)), np.where(c, 1.0, b))
    check_derivatives(lambda x, y: ad.where(tensor(c), x, y) ** 2, [a, b])
    check_derivatives(lambda x: ad.where(x.detach() > 0, x**2, 3.0), [a])
    assert ad.where(tensor(c), 1, 2).dtype == ad.int64
    assert ad.where(ad.tensor([True]), ad.tensor([1]), ad.tensor([1.5])).dtype == ad.float32
    with pytest.raises(RuntimeError, match="(?i)bool"):
        ad.where(tensor(a), tensor(a), tensor(a))


def test_where_stops_the_gradient_of_what_was_not_chosen():
    x = ad.tensor([0.0, 4.0], dtype=ad.float64, requires_grad=True)
    y = ad.where(x > 0, x * 2, ad.zeros_like(x))
    assert grad(y, x) == [[0.0, 2.0]]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_minimum(name):
    a, b = np.array([1.0, 5.0, nan, 2.0]), np.array([3.0, 2.0, 0.0, nan])
    assert_same(getattr(ad, name)(tensor(a), tensor(b)), getattr(np, name)(a, b))
    f = name.replace("imum", "")
    assert_same(getattr(ad, f"f{f}")(tensor(a), tensor(b)), getattr(np, f"f{f}")(a, b))
    check_derivatives(lambda x, y: getattr(ad, name)(x, y) ** 2, [normal(3, 1), normal(4, seed=1)])
    x = ad.tensor([2.0, 1.0], requires_grad=True)
    y = ad.tensor([2.0, 3.0], requires_grad=True)
    gx, gy = grad(getattr(ad, name)(x, y), x, y)
    assert gx[0] == gy[0] == 0.5
    assert sorted((gx[1], gy[1])) == [0.0, 1.0]
    with pytest.raises((RuntimeError, NotImplementedError), match="(?i)complex"):
        getattr(ad, name)(ad.tensor([1j]), ad.tensor([1j]))


def test_clamp_with_scalars():
    a = np.array([-2.0, -1.0, 0.5, 1.0, 3.0, nan])
    assert_same(ad.clamp(tensor(a), -1, 1), np.clip(a, -1, 1))
    assert_same(tensor(a).clamp(min=0), np.clip(a, 0, None))
    assert_same(tensor(a).clamp(max=0), np.clip(a, None, 0))
    assert_same(ad.clip(tensor(a), -1.5, 0.25), np.clip(a, -1.5, 0.25))
    # With bounds in the wrong order the upper one wins.
    assert ad.clamp(ad.tensor([0.0, 5.0]), 3, 1).tolist() == [1, 1]
    assert ad.clamp(ad.tensor([1, 5, 9]), 2, 7).tolist() == [2, 5, 7]
    assert ad.clamp(ad.tensor([1, 5, 9]), 2.5, 7).dtype == ad.float32
    x = ad.tensor([-2.0, 0.0, 7.0])
    assert x.clamp_(-1, 1) is x and x.tolist() == [-1, 0, 1]
    with pytest.raises((RuntimeError, ValueError), match="(?i)at least one of"):
        ad.clamp(tensor(a))


def test_clamp_gradient_is_one_at_the_bounds():
    x = ad.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    assert grad(ad.clamp(x, -1, 1), x) == [[0, 1, 1, 1, 0]]
    assert grad(ad.clamp(x, min=-1), x) == [[0, 1, 1, 1, 1]]
    assert grad(ad.clamp(x, max=1), x) == [[1, 1, 1, 1, 0]]


def test_clamp_with_tensors():
    a = normal(3, 4) * 2
    lo, hi = np.full(4, -0.5), np.full((3, 1), 0.7)
    assert_same(ad.clamp(tensor(a), tensor(lo), tensor(hi)), np.clip(a, lo, hi))
    assert_same(ad.clamp(tensor(a), min=tensor(lo)), np.maximum(a, lo))
    check_derivatives(lambda x, m, M: ad.clamp(x, m, M) ** 2, [a, lo, hi])


def test_relu6_and_hardtanh_are_flat_at_their_bounds():
    x = ad.tensor([0.0, 3.0, 6.0], requires_grad=True)
    assert grad(ad.nn.functional.relu6(x), x) == [[0, 1, 0]]
    x = ad.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    assert grad(ad.nn.functional.hardtanh(x), x) == [[0, 1, 0]]


def test_masked_fill():
    a, mask = normal(2, 3), np.array([True, False, True])
    assert_same(tensor(a).masked_fill(tensor(mask), -inf), np.where(mask, -inf, a))
    assert_same(ad.masked_fill(tensor(a), tensor(mask), ad.tensor(2.0)), np.where(mask, 2.0, a))
    x = tensor(a)
    assert x.masked_fill_(tensor(mask), 0) is x
    assert_same(x, np.where(mask, 0, a))
    check_derivatives(lambda t: t.masked_fill(tensor(mask), 3.0) ** 2, [a])
    # The value is a differentiable zero-dimensional tensor too.
    check_derivatives(lambda t, v: ad.masked_fill(t, tensor(mask), v) ** 2, [a, np.array(1.5)])
    with pytest.raises(RuntimeError, match="(?i)value"):
        tensor(a).masked_fill(tensor(mask), ad.ones(3))


def test_masked_select():
    a, mask = normal(2, 3), np.array([[True], [False]])
    assert_same(ad.masked_select(tensor(a), tensor(mask)), a[np.broadcast_to(mask, a.shape)])
    check_derivatives(lambda t: t.masked_select(tensor(mask)) ** 2, [a])
    assert ad.masked_select(tensor(a), ad.zeros(3, dtype=ad.bool)).shape == (0,)


def test_nan_to_num():
    a = np.array([nan, inf, -inf, 1.5])
    assert_same(ad.nan_to_num(tensor(a)), np.nan_to_num(a))
    assert_same(
        ad.nan_to_num(tensor(a), nan=7, posinf=8, neginf=-9), np.nan_to_num(a, nan=7, posinf=8, neginf=-9)
    )
    x = tensor(a, requires_grad=True)
    assert grad(ad.nan_to_num(x), x) == [[0, 0, 0, 1]]
    f = ad.nan_to_num(ad.tensor([inf]))
    assert f.tolist() == [float(np.finfo(np.float32).max)]
    assert ad.nan_to_num(ad.tensor([3])).tolist() == [3]


def test_zero_size_selection():
    e = ad.zeros(0, 3)
    assert ad.where(e > 0, e, e).shape == (0, 3)
    assert ad.maximum(e, ad.ones(3)).shape == (0, 3)
    assert ad.clamp(e, 0, 1).shape == (0, 3)
    assert_close(ad.clamp(ad.tensor(5.0), 0, 1), np.float32(1))


def test_truth_values_are_clamped_by_truth_values():
    a, b = np.array([True, False, True]), np.array([False, False, True])
    assert_same(ad.clamp(tensor(a), max=tensor(b)), a & b)
    assert_same(ad.clamp(tensor(a), tensor(b)), a | b)
    assert_same(ad.clamp_max(tensor(a), tensor(b)), a & b)
    assert ad.clamp(tensor(a), max=0).dtype is ad.int64
