"""`ldexp` where the power alone does not fit, and which types steps to the next number have."""

import numpy as np
import pytest

import adjoint as ad

TYPES = [(ad.float64, np.float64), (ad.float32, np.float32), (ad.float16, np.float16)]


@pytest.mark.parametrize(("dtype", "numpy"), TYPES)
@pytest.mark.parametrize("exponents", [ad.int64, ad.int16, ad.float64])
def test_ldexp_is_rounded_once(dtype, numpy, exponents):
    kind = np.finfo(numpy)
    numbers = np.array(
        [0, -0.0, 1, -1.1, 0.7, kind.max, kind.tiny, kind.smallest_subnormal * 5, np.inf, np.nan]
    )
    x = numbers.astype(numpy)[:, None]
    n = np.array(
        [
            0,
            1,
            -1,
            9,
            -14,
            -25,
            40,
            127,
            128,
            -149,
            -152,
            200,
            -200,
            1000,
            1024,
            -1030,
            -1060,
            -1074,
            2000,
            -2090,
            9000,
        ]
    )
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, n)  # of float16 too: C's, by way of float32, which holds all of its results
    result = ad.ldexp(ad.tensor(x), ad.tensor(n).to(exponents))
    if exponents is ad.float64:
        assert result.dtype is ad.float64
        result = result.to(dtype)
        with np.errstate(all="ignore"):
            expected = np.ldexp(x.astype(np.float64), n).astype(numpy)
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.numpy(), expected)
    assert (np.signbit(result.numpy()) == np.signbit(expected))[~np.isnan(expected)].all()


def test_ldexp_undoes_frexp():
    x = ad.tensor([1e-310, 3.0e-200, -7.5, 1e300], dtype=ad.float64)
    assert ad.ldexp(*ad.frexp(x)).equal(x)


@pytest.mark.parametrize(
    ("input", "other", "result"),
    [
        (ad.float16, ad.int64, ad.float16),
        (ad.bfloat16, ad.uint8, ad.bfloat16),
        (ad.int32, ad.int64, ad.float32),
        (ad.bool, ad.int8, ad.float32),
        (ad.float16, ad.float32, ad.float32),
        (ad.int64, ad.float16, ad.float16),
        (ad.float32, ad.complex64, ad.complex64),
    ],
)
def test_ldexp_has_the_common_type(input, other, result):
    x, n = ad.ones(2).to(input), ad.ones(2).to(other)
    assert ad.ldexp(x, n).dtype is result
    assert ad.ldexp(x, n).real.tolist() == [2, 2]
    assert ad.ldexp(x, ad.tensor(1, dtype=ad.int64)).dtype is (
        input if input.is_floating_point else ad.float32
    )


def test_ldexp_in_place_into_results_and_its_derivatives():
    x = ad.tensor([1e-300, 3.0], dtype=ad.float64)
    out = ad.empty(2, dtype=ad.float64)
    assert ad.ldexp(x, ad.tensor([1500, -1]), out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.ldexp(x.numpy(), [1500, -1]))
    y = x.clone()
    assert y.ldexp_(ad.tensor([1500, -1])) is y and y.equal(out)
    for n in (ad.tensor([3, -1200]), ad.tensor([0.5, -1.5], dtype=ad.float64, requires_grad=True)):
        x = ad.tensor([1.5, -2.0], dtype=ad.float64, requires_grad=True)
        assert ad.autograd.gradcheck(ad.ldexp, (x, n))
    z = ad.tensor([0.25], requires_grad=True)
    (g,) = ad.autograd.grad(ad.ldexp(z, ad.tensor([10])).sum(), z)
    assert g.dtype is ad.float32 and g.tolist() == [1024]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float16, ad.bfloat16])
def test_nextafter_has_the_type_of_what_has_dimensions(dtype):
    x, towards = ad.ones(2, dtype=dtype), ad.tensor(2.0, dtype=ad.float64)
    for result in (ad.nextafter(x, towards), x.clone().nextafter_(towards)):
        assert result.dtype is dtype
        assert (result - 1).tolist() == [ad.finfo(dtype).eps] * 2
    assert ad.nextafter(ad.tensor(1.0), ad.full((2,), 2.0, dtype=dtype)).dtype is dtype
    assert ad.nextafter(x, ad.ones(2, dtype=ad.float64)).dtype is ad.float64


def test_powers_that_are_numbers_are_exact():
    """Of whole bases and exponents: nothing is lost to the logarithm."""
    exponents = np.arange(-1074, 1024)
    of_two = ad.pow(2.0, ad.tensor(exponents, dtype=ad.float64))
    np.testing.assert_array_equal(of_two.numpy(), np.ldexp(1.0, exponents))
    pairs = [(b, e) for b in range(2, 200) for e in range(60) if b**e < 2**53]
    base, exponent = (ad.tensor(v, dtype=ad.float64) for v in zip(*pairs))
    assert (base**exponent).tolist() == [float(b**e) for b, e in pairs]
    roots = ad.arange(1, 3000, dtype=ad.float64)
    assert (roots ** ad.full_like(roots, 2.0)).equal(roots * roots)
    assert ((roots * roots) ** ad.full_like(roots, 0.5)).equal(roots)
    assert (roots ** ad.full_like(roots, -1.0)).equal(1 / roots)


def test_the_factor_of_addcmul_comes_first():
    """As in torch: a product that would overflow without it is finite."""
    for dtype in (ad.float32, ad.float64):
        big = ad.tensor([ad.finfo(dtype).max], dtype=dtype)
        one, two, half = (ad.tensor([v], dtype=dtype) for v in (1.0, 2.0, 0.5))
        assert ad.addcmul(one, big, two, value=0.5).equal(big)
        assert ad.addcmul(one, two, big, value=0.25).equal(big / 2)
        assert ad.addcdiv(one, big, half, value=0.5).equal(big)
