"""Comparison, logical and bitwise operators, the predicates, and isclose, allclose, equal."""

import math
import operator

import numpy as np
import pytest
from helpers import ALL_DTYPES, COMPLEX_DTYPES, INTEGER_DTYPES, assert_same, dtype_of, tensor
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad

inf, nan = math.inf, math.nan
LEFT = np.array([1.0, 2.0, nan, -inf, 0.0, nan])
RIGHT = np.array([1.0, 3.0, nan, inf, -0.0, 1.0])
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison(name):
    f = getattr(operator, name)
    expected = f(LEFT, RIGHT)
    assert_same(f(tensor(LEFT), tensor(RIGHT)), expected, ad.bool)
    assert_same(getattr(ad, name)(tensor(LEFT), tensor(RIGHT)), expected)
    assert_same(getattr(tensor(LEFT), name)(tensor(RIGHT)), expected)
    assert_same(f(tensor(LEFT), 1.0), f(LEFT, 1.0))
    assert_same(f(1, tensor(LEFT)), f(1, LEFT))
    assert_same(f(tensor(LEFT)[:, None], tensor(RIGHT)), f(LEFT[:, None], RIGHT))
    out = ad.empty(6, dtype=ad.bool)
    assert getattr(ad, name)(tensor(LEFT), tensor(RIGHT), out=out) is out
    assert_same(out, expected)


@pytest.mark.parametrize("name", ["eq", "lt"])
def test_comparison_results_have_no_gradient(name):
    x = tensor(LEFT, requires_grad=True)
    y = getattr(ad, name)(x, 1.0)
    assert not y.requires_grad and y.grad_fn is None


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_comparison_in_every_dtype(dtype):
    x, y = ad.tensor([0, 1, 1], dtype=dtype_of(dtype)), ad.tensor([0, 0, 1], dtype=dtype_of(dtype))
    assert (x == y).tolist() == [True, False, True]
    assert (x != y).tolist() == [False, True, False]
    if dtype in COMPLEX_DTYPES:
        with pytest.raises((RuntimeError, NotImplementedError), match="(?i)complex"):
            operator.lt(x, y)
    else:
        assert (x > y).tolist() == [False, True, False]
        assert (x <= y).tolist() == [True, False, True]


def test_comparison_across_dtypes_is_by_value():
    assert (ad.tensor([1, 2]) == ad.tensor([1.0, 2.5])).tolist() == [True, False]
    assert (ad.tensor([1, 2]) < 1.5).tolist() == [True, False]
    assert (ad.tensor([True]) == 1).tolist() == [True]
    assert (ad.tensor([255], dtype=ad.uint8) > ad.tensor([-1], dtype=ad.int8)).tolist() == [True]


def test_comparison_with_something_else():
    x = ad.tensor([1.0])
    assert (x == "a") is False
    assert (x != None) is True  # noqa: E711 - the operator is what is tested
    with pytest.raises(TypeError):
        operator.lt(x, "a")


LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


@pytest.mark.parametrize("name", LOGICAL)
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_logical(name, dtype):
    x, y = ad.tensor([0, 1, 0, 2], dtype=dtype_of(dtype)), ad.tensor([0, 0, 3, 1], dtype=dtype_of(dtype))
    expected = LOGICAL[name]([0, 1, 0, 2], [0, 0, 3, 1])
    assert_same(getattr(ad, name)(x, y), expected, ad.bool)
    assert_same(ad.logical_not(x), np.array([True, False, True, False]), ad.bool)


def test_nan_is_true():
    assert ad.logical_not(ad.tensor([nan, 0.0])).tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["bool", *INTEGER_DTYPES])
def test_bitwise(dtype):
    a, b = np.array([0, 1, 1, 0]).astype(dtype), np.array([1, 1, 0, 0]).astype(dtype)
    if dtype != "bool":
        a, b = np.array([5, 12, 77, 0]).astype(dtype), np.array([3, 10, 15, 1]).astype(dtype)
    x, y = tensor(a), tensor(b)
    for name, f in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        assert_same(f(x, y), f(a, b), x.dtype)
        assert_same(getattr(ad, "bitwise_" + name)(x, y), f(a, b))
    assert_same(~x, ~a, x.dtype)
    assert_same(ad.bitwise_not(x), ~a)
    if dtype != "bool":
        assert_same(x << 1, np.left_shift(a, 1).astype(dtype))
        assert_same(x >> 1, np.right_shift(a, 1))
        assert_same(x & 6, a & 6)
        x &= y
        assert_same(x, a & b)


def test_shift_of_negative_numbers_keeps_the_sign():
    assert (ad.tensor([-5, -1]) >> 1).tolist() == [-3, -1]
    assert ad.bitwise_left_shift(ad.tensor([3]), ad.tensor([4])).tolist() == [48]
    assert ad.bitwise_right_shift(ad.tensor([48]), 4).tolist() == [3]


@pytest.mark.parametrize("call", [lambda x: x & x, lambda x: ~x, lambda x: x | 1, lambda x: x ^ x])
def test_bitwise_refuses_floats(call):
    with pytest.raises(
        (RuntimeError, NotImplementedError, TypeError), match="(?i)float|not implemented|integ"
    ):
        call(ad.tensor([1.0]))


SPECIAL = [nan, inf, -inf, 0.0, -0.0, 1.5]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_predicates(name):
    a = np.array(SPECIAL)
    assert_same(getattr(ad, name)(tensor(a)), getattr(np, name)(a), ad.bool)
    assert_same(getattr(ad, name)(ad.tensor([1, 2])), getattr(np, name)(np.array([1.0, 2.0])))
    if name != "signbit":
        z = np.array([complex(nan, 1), complex(1, inf), 1 + 1j])
        assert_same(getattr(ad, name)(tensor(z)), getattr(np, name)(z))


def test_one_sided_infinities():
    assert_same(ad.isposinf(tensor(SPECIAL)), np.isposinf(SPECIAL))
    assert_same(ad.isneginf(tensor(SPECIAL)), np.isneginf(SPECIAL))


def test_isclose_and_allclose():
    a = np.array([1.0, 1.0 + 1e-9, 1.1, inf, -inf, nan, 0.0])
    b = np.array([1.0, 1.0, 1.0, inf, inf, nan, 1e-9])
    assert_same(ad.isclose(tensor(a), tensor(b)), np.isclose(a, b))
    assert_same(ad.isclose(tensor(a), tensor(b), equal_nan=True), np.isclose(a, b, equal_nan=True))
    assert_same(ad.isclose(tensor(a), tensor(b), rtol=0.2, atol=0), np.isclose(a, b, rtol=0.2, atol=0))
    assert ad.allclose(tensor(a[:2]), tensor(b[:2])) is True
    assert ad.allclose(tensor(a), tensor(b)) is False
    with pytest.raises(RuntimeError, match="did not match"):
        ad.isclose(ad.ones(1), ad.ones(1, dtype=ad.float64))


def test_equal_is_about_shape_and_values():
    x = ad.tensor([1.0, 2.0])
    assert ad.equal(x, x.clone()) is True
    assert ad.equal(x, ad.tensor([[1.0, 2.0]])) is False
    assert x.equal(ad.tensor([1.0, 3.0])) is False
    assert ad.equal(ad.zeros(0), ad.zeros(0)) is True
    assert ad.equal(ad.tensor([nan]), ad.tensor([nan])) is False


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=1))
def test_trichotomy(pairs):
    a, b = (tensor(np.array(v)) for v in zip(*pairs, strict=True))
    exactly_one = (a < b).to(ad.int64) + (a == b).to(ad.int64) + (a > b).to(ad.int64)
    assert exactly_one.eq(1).all().item()
    assert ad.equal(a <= b, ~(a > b))
