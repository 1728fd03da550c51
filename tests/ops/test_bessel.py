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
    for worst in check(BESSEL[name], dtype, step=61):
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
