"""Special functions over their whole domains against mpmath: values and slopes, tails, poles, zeros, subnormal numbers.

The table, and a run of every exponent, are in tests/special_reference.py.
"""

import math

import numpy as np
import pytest
from special_reference import TABLE, check, evaluate

import adjoint as ad

named = pytest.mark.parametrize("name", TABLE)
typed = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


@named
@typed
def test_against_mpmath(name, dtype):
    for worst in check(TABLE[name], dtype, step=37):
        assert worst[0] <= 1, worst


@named
@typed
def test_at_the_ends(name, dtype):
    special = TABLE[name]
    for x, (value, slope) in special.ends.items():
        values, (slopes, *_) = evaluate(special, [np.array([x], dtype)])
        np.testing.assert_array_equal(values, [value])
        if slope is not None:
            np.testing.assert_array_equal(slopes, [slope])
    count = len(special.domain)
    values, slopes = evaluate(special, [np.array([np.nan], dtype)] * count)
    assert np.isnan(values).all() and all(np.isnan(s).all() for s in slopes)
    # Beyond the domain there is no value, where nothing else is said.
    for edge in special.domain[0] if count == 1 else ():
        if (
            math.isfinite(edge)
            and abs(edge) <= 1
            and edge not in (-1.0,)
            and name not in ("mvlgamma", "entr", "lgamma of positive numbers")
        ):
            outside = np.array([edge + (0.5 if edge == special.domain[0][1] else -0.5)], dtype)
            values, slopes = evaluate(special, [outside])
            assert np.isnan(values).all() and np.isnan(slopes[0]).all(), (name, outside, values, slopes)


def test_degrees_of_polynomials_are_cut_off_towards_zero():
    x = ad.tensor([0.3, 0.7], dtype=ad.float64)
    for degree, same in ((-0.5, 0.0), (1.9, 1.0), (-1.0, -1.0)):
        for name in (
            "chebyshev_polynomial_t",
            "hermite_polynomial_h",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
        ):
            f = getattr(ad.special, name)
            assert f(x, degree).tolist() == f(x, same).tolist()
    assert ad.special.chebyshev_polynomial_t(x, -0.5).tolist() == [1.0, 1.0]
