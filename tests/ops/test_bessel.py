"""Bessel functions and others of one argument over their whole domains against mpmath: see tests/bessel_reference.py."""

import numpy as np
import pytest
from bessel_reference import BESSEL
from special_reference import check, evaluate

import adjoint as ad

named = pytest.mark.parametrize("name", BESSEL)
typed = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


@named
@typed
def test_against_mpmath(name, dtype):
    for worst in check(BESSEL[name], dtype, step=109):
        assert worst[0] <= 1, worst


@named
@typed
def test_at_the_ends(name, dtype):
    special = BESSEL[name]
    for x, (value, slope) in special.ends.items():
        values, (slopes,) = evaluate(special, [np.array([x], dtype)])
        np.testing.assert_array_equal(values, [np.array(value, dtype)])
        if slope is not None:
            np.testing.assert_array_equal(slopes, [slope])
    values, (slopes,) = evaluate(special, [np.array([np.nan], dtype)])
    assert np.isnan(values).all() and np.isnan(slopes).all()


@named
def test_other_types(name):
    x = [0.5, 1.0, 3.0]
    wanted = BESSEL[name].call(ad.tensor(x, dtype=ad.float64))
    for dtype in (ad.float16, ad.bfloat16):
        found = BESSEL[name].call(ad.tensor(x, dtype=dtype))
        assert found.dtype is dtype
        np.testing.assert_allclose(found.double().numpy(), wanted.numpy(), rtol=0.01)
    whole = BESSEL[name].call(ad.tensor([1, 3]))
    np.testing.assert_allclose(whole.numpy(), wanted[1:].numpy(), rtol=1e-6)
    assert whole.dtype is ad.float32
    out = ad.empty(3, dtype=ad.float64)
    assert BESSEL[name].call(ad.tensor(x, dtype=ad.float64), out=out) is out


def test_airy_far_from_zero():
    """On the left the phase is known as long as twice the digits of a double tell it, and the amplitude is always."""
    import mpmath as mp

    x = np.array([-1e5, -1e8, -1e10, -1e13])
    with mp.workdps(60):
        phase = [2 * mp.mpf(-v) ** 1.5 / 3 - mp.pi / 4 for v in x]
        wanted = [
            (mp.cos(p) + 5 * mp.sin(p) / (72 * p)) / mp.sqrt(mp.pi) / mp.mpf(-v) ** 0.25
            for p, v in zip(phase, x)
        ]
    np.testing.assert_allclose(ad.special.airy_ai(ad.tensor(x)).numpy(), np.array(wanted, float), rtol=1e-6)
    far = ad.tensor([-1e20, -1e50, -1e150, -1e199, -1e201, -1.7e308], dtype=ad.float64)
    assert (ad.special.airy_ai(far).abs() <= 0.565 * far.abs() ** -0.25).all()
    right = ad.tensor([200.0, 1e10, 1e200, 1e300], dtype=ad.float64, requires_grad=True)
    y = ad.special.airy_ai(right)
    (g,) = ad.autograd.grad(y.sum(), right)
    assert y.tolist() == [0, 0, 0, 0] and g.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("function", [ad.special.i1, ad.special.i1e, ad.special.bessel_j1])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_slopes_of_order_one_where_values_have_lost_their_digits(function, dtype):
    least = ad.finfo(dtype).smallest_normal * ad.finfo(dtype).eps
    x = ad.tensor([least, 3 * least, -5 * least, 0.0, ad.finfo(dtype).tiny], dtype=dtype, requires_grad=True)
    for create_graph in (False, True):
        (g,) = ad.autograd.grad(function(x).sum(), x, create_graph=create_graph)
        assert g.tolist() == [0.5] * 5
