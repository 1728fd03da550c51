"""Network primitives against their formulas in NumPy: activations, softmax, normalisation, embedding,
losses.
"""

import math

import numpy as np
import pytest
import scipy.special as sp
from helpers import (
    array,
    assert_close,
    assert_same,
    check_derivatives,
    check_gradient,
    normal,
    tensor,
    uniform,
)

import adjoint as ad

F = ad.nn.functional

# Values away from the kinks; the kinks are tested by name below.
X = np.array([[-2.5, -0.7, 0.3], [1.4, 2.2, -3.1]])

ACTIVATIONS = {
    "relu": (F.relu, lambda x: np.maximum(x, 0)),
    "leaky_relu": (F.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu slope": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (F.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu alpha": (lambda x: F.elu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    "gelu": (F.gelu, lambda x: x * 0.5 * (1 + sp.erf(x / math.sqrt(2)))),
    "gelu tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (F.silu, lambda x: x * sp.expit(x)),
    "sigmoid": (F.sigmoid, sp.expit),
    "tanh": (F.tanh, np.tanh),
    "softplus": (F.softplus, lambda x: np.logaddexp(x, 0)),
    "softplus beta": (lambda x: F.softplus(x, 2.0), lambda x: np.logaddexp(2 * x, 0) / 2),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "hardtanh": (F.hardtanh, lambda x: np.clip(x, -1, 1)),
    "logsigmoid": (F.logsigmoid, sp.log_expit),
    "softmax": (lambda x: F.softmax(x, dim=-1), lambda x: sp.softmax(x, -1)),
    "log_softmax": (lambda x: F.log_softmax(x, dim=0), lambda x: sp.log_softmax(x, 0)),
    "softmin": (lambda x: F.softmin(x, dim=1), lambda x: sp.softmax(-x, 1)),
    "normalize": (lambda x: F.normalize(x), lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    f, reference = ACTIVATIONS[name]
    assert_close(f(tensor(X)), reference(X))
    assert_close(f(tensor(X.T.copy()).T), reference(X))
    assert f(ad.zeros(0, 3)).shape == (0, 3)
    check_derivatives(f, [X])


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "silu", "relu6", "hardtanh"])
def test_in_place_activation(name):
    f, reference = ACTIVATIONS[name]
    x = tensor(X)
    assert f(x, inplace=True) is x
    assert_close(x, reference(X))


def test_extremes_stay_finite():
    x = ad.tensor([-1e4, -100.0, 100.0, 1e4], requires_grad=True)
    for f in (
        F.gelu,
        F.silu,
        F.softplus,
        F.logsigmoid,
        F.elu,
        F.sigmoid,
        lambda t: F.gelu(t, approximate="tanh"),
    ):
        y = f(x)
        (g,) = ad.autograd.grad(y.sum(), x)
        assert np.all(np.isfinite(array(y))) and np.all(np.isfinite(array(g)))
    with pytest.raises((RuntimeError, ValueError), match="approximate"):
        F.gelu(x, approximate="other")


def layer_norm(x, w=None, b=None, eps=1e-5, axes=(-1,)):
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * (1 if w is None else w) + (0 if b is None else b)


def test_layer_norm():
    x, w, b = normal(4, 2, 3), normal(3, seed=1), normal(3, seed=2)
    assert_close(F.layer_norm(tensor(x), (3,)), layer_norm(x))
    assert_close(F.layer_norm(tensor(x), (3,), tensor(w), tensor(b)), layer_norm(x, w, b))
    assert_close(F.layer_norm(tensor(x), [2, 3], eps=0.1), layer_norm(x, eps=0.1, axes=(-2, -1)))
    assert_close(F.layer_norm(tensor(x), (3,), tensor(w)), layer_norm(x, w))
    check_derivatives(lambda t, u, v: F.layer_norm(t, (3,), u, v), [x[:2, 0], w, b])
    check_derivatives(lambda t: F.layer_norm(t, (2, 3)), [x[:2]])
    check_gradient(lambda t: F.layer_norm(t.mT, (2,)), [x[:2]])
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(tensor(x), (4,))
    h = F.layer_norm(tensor(x).to(ad.bfloat16), (3,))
    assert h.dtype == ad.bfloat16


def test_embedding():
    w, i = normal(5, 3), np.array([[0, 4], [4, 2]])
    assert_same(F.embedding(tensor(i), tensor(w)), w[i])
    check_derivatives(lambda t: F.embedding(tensor(i), t) ** 2, [w])
    t = tensor(w, requires_grad=True)
    F.embedding(tensor(i), t, padding_idx=4).sum().backward()
    assert_close(t.grad, np.array([1.0, 0, 1, 0, 0])[:, None] * np.ones(3))
    with pytest.raises(IndexError, match="(?i)out of (range|bounds)"):
        F.embedding(ad.tensor([5]), tensor(w))


REDUCE = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}


@pytest.mark.parametrize("reduction", REDUCE)
def test_elementwise_losses(reduction):
    a, b, r = normal(3, 4), normal(3, 4, seed=1), REDUCE[reduction]
    d = a - b
    huber = np.where(np.abs(d) < 1, 0.5 * d**2, np.abs(d) - 0.5)
    for f, value in (
        (F.mse_loss, d**2),
        (F.l1_loss, np.abs(d)),
        (F.smooth_l1_loss, huber),
        (F.huber_loss, huber),
    ):
        assert_close(f(tensor(a), tensor(b), reduction=reduction), r(value))
        check_derivatives(lambda x, y, f=f: f(x, y, reduction=reduction), [a[:2, :2], b[:2, :2]])
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        F.mse_loss(tensor(a), tensor(b), reduction="other")


@pytest.mark.parametrize("reduction", REDUCE)
def test_binary_cross_entropy_with_logits(reduction):
    x, t, w, pos = normal(3, 4) * 3, uniform(0, 1, 3, 4), uniform(0.5, 2, 4), uniform(0.5, 3, 4, seed=1)
    r = REDUCE[reduction]
    f = F.binary_cross_entropy_with_logits
    p = sp.log_expit(x), sp.log_expit(-x)
    plain = -(t * p[0] + (1 - t) * p[1])
    assert_close(f(tensor(x), tensor(t), reduction=reduction), r(plain))
    weighted = -w * (pos * t * p[0] + (1 - t) * p[1])
    given = {"weight": tensor(w), "pos_weight": tensor(pos), "reduction": reduction}
    assert_close(f(tensor(x), tensor(t), **given), r(weighted))
    given = {"weight": tensor(w[:2]), "pos_weight": tensor(pos[:2]), "reduction": reduction}
    check_derivatives(lambda a: f(a, tensor(t[:, :2]), **given), [x[:, :2]])
    large = ad.tensor([1000.0, -1000.0])
    assert f(large, ad.tensor([1.0, 0.0])).item() == 0
    prob = sp.expit(x)
    assert_close(F.binary_cross_entropy(tensor(prob), tensor(t), reduction=reduction), r(plain))


def reference_cross_entropy(x, target, weight=None, ignore=-100, smoothing=0.0, reduction="mean"):
    """x is (N, C, …), classes on axis 1; target holds class indices, or probabilities in the shape of x."""
    logp = sp.log_softmax(x, axis=1)
    c = x.shape[1]
    w = np.ones(c) if weight is None else weight
    shape = (1, c) + (1,) * (x.ndim - 2)
    wb = w.reshape(shape)
    if target.shape == x.shape:
        mixed = target * (1 - smoothing) + smoothing / c
        loss = -(mixed * wb * logp).sum(1)
        total = loss.size
    else:
        keep = target != ignore
        safe = np.where(keep, target, 0)
        picked = np.take_along_axis(logp, np.expand_dims(safe, 1), 1).squeeze(1)
        own = w[safe] * keep
        loss = -(1 - smoothing) * own * picked - smoothing / c * (wb * logp).sum(1) * keep
        total = own.sum()
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / total


CLASSES = np.array([2, 0, 1, 2, 2])
CROSS = [
    ({}, {}),
    ({"weight": np.array([0.5, 1.0, 2.0])}, {"weight": np.array([0.5, 1.0, 2.0])}),
    ({"ignore_index": 2}, {"ignore": 2}),
    ({"label_smoothing": 0.1}, {"smoothing": 0.1}),
    (
        {"weight": np.array([0.5, 1.0, 2.0]), "ignore_index": 0, "label_smoothing": 0.2},
        {"weight": np.array([0.5, 1.0, 2.0]), "ignore": 0, "smoothing": 0.2},
    ),
]


@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize("options, same", CROSS)
def test_cross_entropy_with_indices(options, same, reduction):
    x = normal(5, 3)
    given = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    f = lambda t, y=CLASSES: F.cross_entropy(t, tensor(y), reduction=reduction, **given)  # noqa: E731
    assert_close(f(tensor(x)), reference_cross_entropy(x, CLASSES, reduction=reduction, **same))
    check_derivatives(f, [x])
    images = normal(2, 3, 2, 2)
    targets = np.array([[[0, 1], [2, 2]], [[1, 1], [0, 2]]])
    assert_close(
        f(tensor(images), targets), reference_cross_entropy(images, targets, reduction=reduction, **same)
    )


@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize("options, same", [c for c in CROSS if "ignore_index" not in c[0]])
def test_cross_entropy_with_probabilities(options, same, reduction):
    x, p = normal(4, 3), sp.softmax(normal(4, 3, seed=1), 1)
    given = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    f = lambda t, q: F.cross_entropy(t, q, reduction=reduction, **given)  # noqa: E731
    assert_close(f(tensor(x), tensor(p)), reference_cross_entropy(x, p, reduction=reduction, **same))
    check_derivatives(lambda t: f(t, tensor(p)), [x])
    if reduction == "mean":
        check_gradient(f, [x, p])


def test_cross_entropy_edges():
    x = normal(3)
    assert_close(F.cross_entropy(tensor(x), ad.tensor(1)), -sp.log_softmax(x)[1])
    large = ad.tensor([[1e4, -1e4]], requires_grad=True)
    loss = F.cross_entropy(large, ad.tensor([1]))
    assert loss.item() == pytest.approx(2e4)
    loss.backward()
    assert_close(large.grad, np.array([[1.0, -1.0]]))
    assert math.isnan(F.cross_entropy(ad.zeros(2, 3), ad.tensor([-100, -100])).item())
    assert F.cross_entropy(ad.zeros(2, 3), ad.tensor([-100, -100]), reduction="sum").item() == 0
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        F.cross_entropy(ad.zeros(2, 3), ad.tensor([0, 3]))
    with pytest.raises((ValueError, RuntimeError), match="(?i)batch_size|batch size|size"):
        F.cross_entropy(ad.zeros(2, 3), ad.tensor([0]))


@pytest.mark.parametrize("reduction", REDUCE)
def test_nll_loss(reduction):
    logp, w = sp.log_softmax(normal(5, 3), 1), np.array([0.5, 1.0, 2.0])
    losses = -w[CLASSES] * logp[np.arange(5), CLASSES]
    expected = (
        losses if reduction == "none" else losses.sum() / (w[CLASSES].sum() if reduction == "mean" else 1)
    )
    f = lambda t: F.nll_loss(t, tensor(CLASSES), weight=tensor(w), reduction=reduction)  # noqa: E731
    assert_close(f(tensor(logp)), expected)
    check_derivatives(f, [logp])
    ignored = F.nll_loss(tensor(logp), tensor(CLASSES), ignore_index=2)
    assert_close(ignored, -(logp[1, 0] + logp[2, 1]) / 2)
