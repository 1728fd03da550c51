"""Derivatives with 1 - x² in them keep their digits where x is next to ±1, recorded or not."""

from fractions import Fraction
from math import sqrt

import pytest

import adjoint as ad

FUNCTIONS = {
    "asin": lambda d: 1 / sqrt(d),
    "acos": lambda d: -1 / sqrt(d),
    "atanh": lambda d: 1 / float(d),
    "tanh": float,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype, bits", [(ad.float32, 20), (ad.float64, 50)])
def test_next_to_one(name, dtype, bits, create_graph):
    k = ad.arange(1, bits, dtype=dtype)
    for sign in (1, -1):
        x = (sign * (1 - 2**-k)).requires_grad_()
        y = getattr(ad, name)(x)
        if name == "tanh":
            # It is had from the result, of which these are values.
            x = ad.atanh(x.detach()).requires_grad_()
            y = x.tanh()
        (g,) = ad.autograd.grad(y.sum(), x, create_graph=create_graph)
        for at, got in zip((y if name == "tanh" else x).tolist(), g.tolist(), strict=True):
            expected = FUNCTIONS[name](1 - Fraction(at) ** 2)
            assert abs(got - expected) <= 4 * ad.finfo(dtype).eps * abs(expected), at


def test_batched_and_alone_agree():
    """What one asserts of a Jacobian that is computed in two ways: allclose with its own tolerances."""
    y = ad.func.vjp(ad.tanh, ad.linspace(-4, 4, 64))
    (together,) = ad.func.vmap(y[1])(ad.eye(64))
    x = ad.linspace(-4, 4, 64).requires_grad_()
    (alone,) = ad.autograd.grad(x.tanh().sum(), x)
    assert ad.allclose(together.diagonal(), alone)
