"""Arithmetic at its edges: rounding modes, division by zero, signs of remainders, integer powers, overflow.

Ordinary values and derivatives are tested over the operator table; here are the cases that a table cannot
state.
"""

import math

import numpy as np
import pytest
from helpers import (
    INTEGER_DTYPES,
    array,
    assert_close,
    assert_same,
    check_derivatives,
    check_gradient,
    dtype_of,
    normal,
    tensor,
    uniform,
)
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad

inf, nan = math.inf, math.nan
SIGNED = [7.5, -7.5, 7.5, -7.5, 6.0, -6.0, 0.0]
BY = [2.0, 2.0, -2.0, -2.0, -3.0, 3.0, 5.0]


def test_division_rounding_modes():
    a, b = np.array(SIGNED), np.array(BY)
    assert_same(ad.div(tensor(a), tensor(b)), a / b)
    assert_same(ad.div(tensor(a), tensor(b), rounding_mode="trunc"), np.trunc(a / b))
    assert_same(ad.div(tensor(a), tensor(b), rounding_mode="floor"), np.floor(a / b))
    assert_same(tensor(a) // tensor(b), np.floor_divide(a, b))
    assert_same(ad.floor_divide(tensor(a), tensor(b)), np.floor_divide(a, b))
    assert_same(7.5 // tensor(b), np.floor_divide(7.5, b))
    with pytest.raises((RuntimeError, ValueError), match="rounding_mode"):
        ad.div(tensor(a), tensor(b), rounding_mode="up")


def test_remainder_has_the_sign_of_the_divisor_and_fmod_of_the_dividend():
    a, b = np.array(SIGNED), np.array(BY)
    assert_same(tensor(a) % tensor(b), np.remainder(a, b))
    assert_same(ad.remainder(tensor(a), tensor(b)), np.remainder(a, b))
    assert_same(ad.fmod(tensor(a), tensor(b)), np.fmod(a, b))
    i, j = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    assert_same(tensor(i) % tensor(j), np.remainder(i, j))
    assert_same(ad.fmod(tensor(i), tensor(j)), np.fmod(i, j))
    assert_same(ad.remainder(5, tensor(j)), np.remainder(5, j))
    assert_same(tensor(i) // tensor(j), np.floor_divide(i, j))


def test_floating_division_by_zero():
    a, zero = tensor([1.0, -1.0, 0.0]), tensor([0.0, 0.0, 0.0])
    assert_same(a / zero, np.array([inf, -inf, nan]))
    assert_same(a / -zero, np.array([-inf, inf, nan]))
    assert_same(a // zero, np.array([inf, -inf, nan]))
    assert array(a % zero).tolist() == pytest.approx([nan] * 3, nan_ok=True)
    assert array(ad.fmod(a, zero)).tolist() == pytest.approx([nan] * 3, nan_ok=True)
    assert_same(ad.tensor([1, 0, -1]) / 0, np.array([inf, nan, -inf], np.float32))


@pytest.mark.parametrize("name", INTEGER_DTYPES)
def test_integer_division_by_zero_is_an_error(name):
    x = ad.tensor([1, 2, 3], dtype=dtype_of(name))
    calls = [
        lambda: x // 0,
        lambda: ad.div(x, x - x, rounding_mode="trunc"),
        lambda: x % (x - x),
        lambda: ad.fmod(x, 0),
    ]
    for call in calls:
        with pytest.raises((RuntimeError, ZeroDivisionError), match="(?i)ZeroDivisionError|division by zero"):
            call()
    assert x.tolist() == [1, 2, 3]


def test_integer_overflow_wraps():
    for name in INTEGER_DTYPES:
        info = np.iinfo(name)
        x = ad.tensor([int(info.max), int(info.min)], dtype=dtype_of(name))
        assert (x + 1).tolist() == [info.min, info.min + 1]
        assert (x - 1).tolist() == [info.max - 1, info.max]
    assert (ad.tensor([200], dtype=ad.uint8) * 2).tolist() == [144]
    assert (-ad.tensor([1, 0], dtype=ad.uint8)).tolist() == [255, 0]
    assert ad.tensor([-128], dtype=ad.int8).abs().tolist() == [-128]


def test_integer_power():
    x = ad.tensor([-3, -1, 0, 1, 2, 10])
    assert (x**2).tolist() == [9, 1, 0, 1, 4, 100]
    assert (x**0).tolist() == [1] * 6
    assert (x**3).tolist() == [-27, -1, 0, 1, 8, 1000]
    assert (2 ** ad.tensor([0, 1, 5])).tolist() == [1, 2, 32]
    assert (ad.tensor([2, 3]) ** ad.tensor([10, 4])).tolist() == [1024, 81]
    assert (ad.tensor([10]) ** 18).tolist() == [10**18]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        x**-1
    assert (x**0.5).dtype == ad.float32
    assert (ad.tensor([2]) ** -1.0).tolist() == [0.5]


def test_power_at_its_edges():
    base, exponent = (
        np.array([0.0, 0.0, 2.0, -2.0, -2.0, inf, nan, 1.0]),
        np.array([0.0, -1, 0.5, 3, 0.5, -1, 0, nan]),
    )
    with np.errstate(all="ignore"):
        assert_close(tensor(base) ** tensor(exponent), base**exponent)
        for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5):
            assert_close(tensor(base) ** p, base**p)
            assert_close(p ** tensor(exponent), np.float64(p) ** exponent)


@pytest.mark.parametrize("p", [0, 1, 2, 3, -1, -2, 0.5, 2.5, -1.5])
def test_power_gradients(p):
    check_derivatives(lambda x: x**p, [uniform(0.5, 2, 5)])
    check_gradient(lambda x: x**p, [normal(4, kind="complex")])
    if p > 0:
        check_derivatives(lambda x: p**x, [normal(5)])
    if p == int(p):
        check_derivatives(lambda x: x**p, [uniform(-2, -0.5, 5)])


def test_power_gradient_at_zero():
    """x⁰ at 0 has gradient 0, x¹ gives 1, x² gives 0; a zero base in the exponent's gradient gives 0."""
    for p, expected in ((0, 0.0), (1, 1.0), (2, 0.0), (0.0, 0.0)):
        x = ad.zeros(1, dtype=ad.float64, requires_grad=True)
        (g,) = ad.autograd.grad(x**p, x)
        assert g.tolist() == [expected]
    base = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    exponent = ad.tensor([0.0, 2.0], dtype=ad.float64, requires_grad=True)
    gb, ge = ad.autograd.grad((base**exponent).sum(), (base, exponent))
    assert gb.tolist() == [0.0, 0.0] and ge.tolist()[1] == 0.0
    assert not math.isnan(sum(gb.tolist()))


def test_alpha():
    x, y = normal(3), normal(3, seed=1)
    assert_close(ad.add(tensor(x), tensor(y), alpha=2.5), x + 2.5 * y)
    assert_close(ad.sub(tensor(x), tensor(y), alpha=2), x - 2 * y)
    assert_close(ad.rsub(tensor(x), tensor(y)), y - x)
    check_derivatives(lambda a, b: ad.add(a, b, alpha=3) ** 2, [x, y])
    with pytest.raises(
        RuntimeError, match="For integral input tensors, argument alpha must not be a floating"
    ):
        ad.add(ad.tensor([1]), ad.tensor([1]), alpha=1.5)


def test_fused_forms():
    x, y, z = normal(2, 3), normal(3, seed=1), normal(2, 1, seed=2)
    t = tuple(map(tensor, (x, y, z)))
    assert_close(ad.addcmul(*t, value=0.5), x + 0.5 * y * z)
    assert_close(ad.addcdiv(*t, value=-2), x - 2 * y / z)
    assert_close(ad.lerp(t[0], t[1], 0.3), x + 0.3 * (y - x))
    assert_close(ad.lerp(*t), x + z * (y - x))
    check_derivatives(lambda a, b, c: ad.addcmul(a, b, c, value=2), [x, y, z])
    check_derivatives(lambda a, b, c: ad.addcdiv(a, b, c, value=2), [x, y, z + 3])
    check_derivatives(lambda a, b, c: ad.lerp(a, b, c), [x, y, z])
    check_derivatives(lambda a, b: ad.lerp(a, b, 0.75), [x, y])


def test_scalars_on_either_side():
    x = uniform(0.5, 2, 4)
    for name, left, right in (
        ("+", lambda t: 2 + t, lambda t: t + 2),
        ("-", lambda t: 2 - t, lambda t: t - 2),
        ("*", lambda t: 2 * t, lambda t: t * 2),
        ("/", lambda t: 2 / t, lambda t: t / 2),
        ("**", lambda t: 2**t, lambda t: t**2),
        ("%", lambda t: 2 % t, lambda t: t % 2),
        ("//", lambda t: 2 // t, lambda t: t // 2),
    ):
        assert_close(left(tensor(x)), left(x)), name
        assert_close(right(tensor(x)), right(x)), name
        if name not in ("%", "//"):
            check_derivatives(left, [x])
            check_derivatives(right, [x])


def test_derivative_of_remainder_and_rounding():
    x, y = np.array([7.3, -7.3, 5.1]), np.array([2.0, 2.0, -3.0])
    check_gradient(lambda a, b: a % b, [x, y])
    check_gradient(lambda a, b: ad.fmod(a, b), [x, y])
    t = tensor(x, requires_grad=True)
    for f in (
        ad.floor,
        ad.ceil,
        ad.round,
        ad.trunc,
        ad.sign,
        lambda v: ad.div(v, 2.0, rounding_mode="floor"),
    ):
        (g,) = ad.autograd.grad(f(t).sum(), t)
        assert g.tolist() == [0.0, 0.0, 0.0]


def test_kinks():
    x = ad.zeros(1, dtype=ad.float64, requires_grad=True)
    for f in (ad.abs, ad.sign, lambda v: v.relu(), ad.floor):
        (g,) = ad.autograd.grad(f(x), x)
        assert g.tolist() == [0.0]
    z = ad.zeros(1, dtype=ad.complex128, requires_grad=True)
    (g,) = ad.autograd.grad(z.abs(), z)
    assert g.tolist() == [0j]


def test_in_place_and_augmented():
    x = tensor([1.0, 2.0, 3.0])
    same = x
    x += 1
    x *= 2
    x -= 1
    x /= 2
    x **= 2
    assert x is same
    assert_close(x, ((np.array([1.0, 2, 3]) + 1) * 2 - 1) ** 2 / 4)
    i = ad.tensor([7, -7])
    i //= 2
    i %= 3
    assert i.tolist() == [0, 2]


def test_float16_computes_in_float32():
    x = ad.tensor([60000.0], dtype=ad.float16)
    assert (x + x).tolist() == [inf]
    assert ((x * 0.25) * 2).tolist() == [30000.0]
    assert ad.lerp(x, x, 0.5).tolist() == x.tolist()
    b = ad.tensor([256.0], dtype=ad.bfloat16)
    assert (b + 1).tolist() == [256.0]
    assert (b + 2).tolist() == [258.0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(-(2**63), 2**63 - 1))
def test_int64_matches_numpy(values, other):
    a = np.array(values, dtype=np.int64)
    with np.errstate(over="ignore"):
        assert_same(tensor(a) + other, a + np.int64(other))
        assert_same(tensor(a) * other, a * np.int64(other))
        if other not in (0, -1):
            assert_same(tensor(a) // other, a // other)
            assert_same(tensor(a) % other, a % other)


floats = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=6))
def test_float64_matches_numpy(pairs):
    a, b = np.array(pairs).T
    with np.errstate(all="ignore"):
        for f in (np.add, np.subtract, np.multiply, np.divide):
            assert_same(getattr(ad, f.__name__)(tensor(a), tensor(b)), f(a, b))
