"""`nn.grad`: the gradients of convolutions against those that passes find."""

import numpy as np
import pytest
from helpers import array

import adjoint as ad

OPTIONS = [{}, {"stride": 2}, {"padding": 1, "dilation": 2}, {"groups": 2, "stride": 2, "padding": 1}]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS)
def test_as_a_pass_finds_them(n, options):
    x = ad.randn([2, 4] + [7] * n, dtype=ad.float64, requires_grad=True)
    w = ad.randn([6, 4 // options.get("groups", 1)] + [3] * n, dtype=ad.float64, requires_grad=True)
    y = getattr(ad.nn.functional, f"conv{n}d")(x, w, **options)
    g = ad.randn(y.shape, dtype=ad.float64)
    y.backward(g)
    found = getattr(ad.nn.grad, f"conv{n}d_input")(x.shape, w, g, **options)
    np.testing.assert_allclose(array(found), array(x.grad))
    found = getattr(ad.nn.grad, f"conv{n}d_weight")(x, w.shape, g, **options)
    np.testing.assert_allclose(array(found), array(w.grad))


def test_they_can_be_differentiated():
    x, w = ad.randn(1, 2, 5, dtype=ad.float64), ad.randn(3, 2, 2, dtype=ad.float64, requires_grad=True)
    g = ad.randn(1, 3, 4, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(lambda w, g: ad.nn.grad.conv1d_input(x.shape, w, g), (w, g))
    assert not ad.nn.grad.conv1d_input(x.shape, w.detach(), g.detach()).requires_grad
