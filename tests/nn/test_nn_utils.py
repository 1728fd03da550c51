"""Clipping gradients, and parameters as one vector."""

import math

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import utils


def parameters():
    a, b, c = (nn.Parameter(ad.zeros(*shape)) for shape in ((2,), (1, 2), (3,)))
    a.grad = ad.tensor([3.0, -4.0])
    b.grad = ad.tensor([[12.0, 0.0]])
    return [a, b, c]  # c has no gradient


def gradients(ps):
    return np.concatenate([np.asarray(p.grad.tolist()).reshape(-1) for p in ps if p.grad is not None])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, math.inf])
def test_clip_by_norm(norm_type):
    ps = parameters()
    before = gradients(ps)
    norm = np.linalg.norm(before, norm_type)
    grads = [ps[0].grad, ps[1].grad]
    total = utils.clip_grad_norm_(ps, 2.0, norm_type)
    np.testing.assert_allclose(total.item(), norm, rtol=1e-6)
    np.testing.assert_allclose(gradients(ps), before * 2.0 / norm, rtol=1e-5)
    assert ps[0].grad is grads[0] and ps[1].grad is grads[1]


def test_small_gradients_stay():
    ps = parameters()
    before = gradients(ps)
    assert utils.clip_grad_norm_(iter(ps), 100.0).item() == 13.0
    np.testing.assert_array_equal(gradients(ps), before)
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_(ps[0], 100.0).item() == 5.0


def test_not_finite():
    ps = parameters()
    ps[0].grad = ad.tensor([math.inf, 0.0])
    before = gradients(ps)
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(gradients(ps), before)


def test_clip_by_value():
    ps = parameters()
    utils.clip_grad_value_(ps, 3.5)
    np.testing.assert_array_equal(gradients(ps), [3.0, -3.5, 3.5, 0.0])


def test_vectors():
    a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    vector = utils.parameters_to_vector(a.parameters())
    assert tuple(vector.shape) == (9,) and vector.requires_grad
    utils.vector_to_parameters(vector, b.parameters())
    assert b.weight.tolist() == a.weight.tolist() and b.bias.tolist() == a.bias.tolist()
    assert b.weight.is_leaf and b.weight.requires_grad
    vector.sum().backward()
    assert a.bias.grad.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(TypeError, match=r"expected adjoint.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], b.parameters())
    with pytest.raises(RuntimeError, match="has 2 elements, the parameters 9"):
        utils.vector_to_parameters(ad.ones(2), b.parameters())
