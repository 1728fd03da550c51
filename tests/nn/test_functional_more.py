"""Functions of `nn.functional` that are written over others: random draws, in-place forms, likelihoods."""

import numpy as np
import pytest
from helpers import assert_close, assert_same, check_derivatives, normal, tensor
from scipy import special

import adjoint as ad
import adjoint.nn.functional as F


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (4,)])
def test_gaussian_nll_loss(shape, reduction):
    x, y, v = normal(4, 3), normal(4, 3, seed=1), np.abs(normal(*shape, seed=2)) + 0.1
    wide = v if v.ndim == 2 else v[:, None]
    expected = 0.5 * (np.log(2 * np.pi * wide) + (x - y) ** 2 / wide)
    expected = {"none": expected, "mean": expected.mean(), "sum": expected.sum()}[reduction]

    def loss(a, b, c):
        return F.gaussian_nll_loss(a, b, c, full=True, reduction=reduction)

    assert_close(loss(tensor(x), tensor(y), tensor(v)), expected)
    check_derivatives(loss, [x, y, v])


def test_gaussian_nll_loss_at_its_edges():
    assert_close(F.gaussian_nll_loss(ad.zeros(1), ad.ones(1), 1.0), 0.5)
    least = F.gaussian_nll_loss(ad.zeros(1), ad.zeros(1), ad.zeros(1), eps=1e-2)
    assert_close(least, 0.5 * np.log(1e-2), rtol=1e-6)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(ad.ones(2), ad.ones(2), -ad.ones(2))
    with pytest.raises(ValueError, match="incorrect size"):
        F.gaussian_nll_loss(ad.ones(2, 3), ad.ones(2, 3), ad.ones(3, 3))


def test_gumbel_softmax():
    logits = ad.tensor([0.0, 1.0, 2.0]).expand(20000, 3)
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert_close(soft.sum(-1), np.ones(20000), rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(hard.round(decimals=5).unique().tolist()) == {0.0, 1.0}
    # The draws have the probabilities that the logits stand for.
    assert_close(hard.mean(0), special.softmax([0.0, 1.0, 2.0]), atol=0.02)
    leaf = ad.zeros(4, 3, requires_grad=True)
    (F.gumbel_softmax(leaf, hard=True) * ad.arange(3.0)).sum().backward()
    assert leaf.grad.abs().sum() > 0
    assert_close(leaf.grad.sum(-1), np.zeros(4), atol=1e-5)


@pytest.mark.parametrize(
    "name, args",
    [
        ("celu", (1.5,)),
        ("elu", (0.5,)),
        ("hardtanh", ()),
        ("leaky_relu", (0.1,)),
        ("selu", ()),
        ("threshold", (0.1, 9.0)),
    ],
)
def test_in_place_forms(name, args):
    x = tensor(normal(3, 4))
    expected = getattr(F, name)(x, *args)
    assert getattr(F, name + "_")(x, *args) is x
    assert_same(x, expected.numpy())


def test_mvlgamma():
    x = np.abs(normal(5)) + 2
    assert_close(ad.mvlgamma(tensor(x), 3), [special.multigammaln(v, 3) for v in x])
    check_derivatives(lambda t: ad.mvlgamma(t, 3), [x])


def test_draws_as_methods():
    weights = ad.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert weights.multinomial(1).tolist() == [[1], [0]]
    assert weights.bernoulli().tolist() == weights.tolist() and weights.to_dense() is weights
