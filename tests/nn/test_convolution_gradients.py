"""nn.grad: gradients of convolutions as functions are those that a backward pass gives."""

import pytest
from helpers import assert_near

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "keywords", [{}, {"stride": 2, "padding": 1}, {"groups": 2, "dilation": 2, "padding": 2}]
)
def test_they_are_those_of_a_pass(n, keywords):
    groups = keywords.get("groups", 1)
    x = ad.randn(2, 4, *(7, 6, 5)[:n], dtype=ad.float64, requires_grad=True)
    w = ad.randn(6, 4 // groups, *(3, 2, 3)[:n], dtype=ad.float64, requires_grad=True)
    y = getattr(F, f"conv{n}d")(x, w, **keywords)
    g = ad.randn(y.shape, dtype=ad.float64, requires_grad=True)
    to_x, to_w = ad.autograd.grad(y, (x, w), g, retain_graph=True)
    assert_near(getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, **keywords), to_x)
    assert_near(getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, **keywords), to_w)
    # They are recorded: linear in g, which gets the convolution back.
    (back,) = ad.autograd.grad(getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, **keywords), g, x.detach())
    assert_near(back, y.detach())
