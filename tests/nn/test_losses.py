"""Losses: every reduction against NumPy, gradients against central differences, options, errors."""

import math

import numpy as np
import pytest
from helpers import announced
from scipy import special

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

RNG = np.random.default_rng(11)
X = RNG.standard_normal((4, 5))
Y = X + RNG.choice([-2.5, -0.4, 0.3, 1.8], size=(4, 5))
P = special.softmax(RNG.standard_normal((4, 5)), axis=1)


def tensor(array, **options):
    return ad.tensor(np.asarray(array).tolist(), dtype=ad.float64, **options)


def array(t):
    return np.asarray(t.detach().tolist(), dtype=np.float64)


def huber(d, delta):
    return np.where(np.abs(d) <= delta, d * d / 2, delta * (np.abs(d) - delta / 2))


def smooth(d, beta):
    return np.where(np.abs(d) < beta, d * d / (2 * beta), np.abs(d) - beta / 2)


def bce(p, t):
    return -(t * np.log(p) + (1 - t) * np.log1p(-p))


def bce_logits(x, t):
    return np.logaddexp(0, x) - t * x


LOSSES = {
    "mse": (nn.MSELoss, {}, X, Y, lambda x, y: (x - y) ** 2),
    "l1": (nn.L1Loss, {}, X, Y, lambda x, y: np.abs(x - y)),
    "smooth_l1": (nn.SmoothL1Loss, {"beta": 0.5}, X, Y, lambda x, y: smooth(x - y, 0.5)),
    "huber": (nn.HuberLoss, {"delta": 0.7}, X, Y, lambda x, y: huber(x - y, 0.7)),
    "bce": (nn.BCELoss, {}, special.expit(X), P, bce),
    "bce_logits": (nn.BCEWithLogitsLoss, {}, X, P, bce_logits),
    "kl": (nn.KLDivLoss, {}, X, P, lambda x, t: t * (np.log(t) - x)),
    "kl_log": (nn.KLDivLoss, {"log_target": True}, X, np.log(P), lambda x, t: np.exp(t) * (t - x)),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean'")
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_elementwise_losses(name, reduction):
    kind, options, x, y, reference = LOSSES[name]
    expected = reference(x, y)
    if reduction != "none":
        expected = getattr(expected, reduction)()
    loss = kind(reduction=reduction, **options)
    result = loss(tensor(x), tensor(y))
    np.testing.assert_allclose(array(result), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:reduction. 'mean'")
@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name):
    kind, options, x, y, _ = LOSSES[name]
    loss = kind(**options)
    a, b = tensor(x, requires_grad=True), tensor(y, requires_grad=True)
    loss(a, b).backward()
    h = 1e-6
    for leaf, grads in ((0, a.grad), (1, b.grad)):
        for index in np.ndindex(x.shape):
            values = []
            for sign in (1, -1):
                pair = [x.copy(), y.copy()]
                pair[leaf][index] += sign * h
                values.append(loss(tensor(pair[0]), tensor(pair[1])).item())
            difference = (values[0] - values[1]) / (2 * h)
            np.testing.assert_allclose(grads[index].item(), difference, rtol=1e-5, atol=1e-8)


def test_batchmean():
    value = nn.KLDivLoss(reduction="batchmean")(tensor(X), tensor(P)).item()
    np.testing.assert_allclose(value, (P * (np.log(P) - X)).sum() / 4, rtol=1e-12)
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(tensor(X), tensor(P))


def test_kl_with_a_zero_target():
    x = tensor([-1.0, -2.0], requires_grad=True)
    loss = F.kl_div(x, tensor([0.0, 1.0]), reduction="sum")
    loss.backward()
    assert loss.item() == 2.0 and array(x.grad).tolist() == [0.0, -1.0]


@pytest.mark.parametrize("function", [F.mse_loss, F.l1_loss])
def test_weighted_mean(function):
    w = RNG.random((4, 5))
    d = X - Y
    loss = d * d if function is F.mse_loss else np.abs(d)
    value = function(tensor(X), tensor(Y), weight=tensor(w)).item()
    np.testing.assert_allclose(value, (loss * w).sum() / w.sum(), rtol=1e-12)
    with pytest.raises(ValueError, match="Weights and input must have the same size"):
        function(tensor(X), tensor(Y), weight=tensor(w[0]))


# ---- classification -------------------------------------------------------------------------------------

CLASSES = np.array([0, 4, 2, 4])
WEIGHT = np.array([0.5, 1.0, 2.0, 1.5, 0.25])


def cross_entropy(x, target, weight, smoothing, ignore=-100):
    """One row at a time, from the definition; (losses, the weight that each counts with)."""
    losses, counts = [], []
    for row, label in zip(x, target, strict=True):
        if label == ignore:
            losses.append(0.0)
            counts.append(0.0)
            continue
        logp = special.log_softmax(row)
        k = len(row)
        nll = -weight[label] * logp[label]
        smooth = -(weight * logp).sum() / k
        losses.append((1 - smoothing) * nll + smoothing * smooth)
        counts.append(weight[label])
    return np.array(losses), np.array(counts)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("ignore", [-100, 4])
def test_cross_entropy_of_classes(weighted, smoothing, ignore):
    weight = WEIGHT if weighted else np.ones(5)
    losses, counts = cross_entropy(X, CLASSES, weight, smoothing, ignore)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / counts.sum()}
    for reduction, value in expected.items():
        loss = nn.CrossEntropyLoss(
            weight=tensor(WEIGHT) if weighted else None,
            ignore_index=ignore,
            reduction=reduction,
            label_smoothing=smoothing,
        )
        result = loss(tensor(X), ad.tensor(CLASSES.tolist()))
        np.testing.assert_allclose(array(result), value, rtol=1e-10)


def test_cross_entropy_gradient_is_probability_minus_target():
    x = tensor(X, requires_grad=True)
    nn.CrossEntropyLoss(reduction="sum")(x, ad.tensor(CLASSES.tolist())).backward()
    np.testing.assert_allclose(array(x.grad), special.softmax(X, axis=1) - np.eye(5)[CLASSES], rtol=1e-10)


def test_cross_entropy_of_probabilities():
    expected = -(P * special.log_softmax(X, axis=1)).sum(1).mean()
    np.testing.assert_allclose(F.cross_entropy(tensor(X), tensor(P)).item(), expected, rtol=1e-12)
    smoothed = 0.9 * P + 0.1 / 5
    expected = -(smoothed * special.log_softmax(X, axis=1)).sum(1).mean()
    result = F.cross_entropy(tensor(X), tensor(P), label_smoothing=0.1).item()
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_cross_entropy_of_images():
    x, target = RNG.standard_normal((2, 3, 4)), RNG.integers(0, 3, (2, 4))
    logp = special.log_softmax(x, axis=1)
    expected = -np.take_along_axis(logp, target[:, None], 1)[:, 0]
    result = F.cross_entropy(tensor(x), ad.tensor(target.tolist()), reduction="none")
    np.testing.assert_allclose(array(result), expected, rtol=1e-12)


def test_nll_loss():
    logp = special.log_softmax(X, axis=1)
    picked = -logp[np.arange(4), CLASSES] * WEIGHT[CLASSES]
    target = ad.tensor(CLASSES.tolist())
    for reduction, value in {
        "none": picked,
        "sum": picked.sum(),
        "mean": picked.sum() / WEIGHT[CLASSES].sum(),
    }.items():
        result = nn.NLLLoss(tensor(WEIGHT), reduction=reduction)(tensor(logp), target)
        np.testing.assert_allclose(array(result), value, rtol=1e-12)


def test_bce_options():
    w, pw = RNG.random((4, 5)), RNG.random(5) * 3
    p = special.expit(X)
    value = nn.BCELoss(weight=tensor(w))(tensor(p), tensor(P)).item()
    np.testing.assert_allclose(value, (w * bce(p, P)).mean(), rtol=1e-10)
    loss = nn.BCEWithLogitsLoss(weight=tensor(w), pos_weight=tensor(pw))
    assert list(loss.state_dict()) == ["weight", "pos_weight"]
    expected = -(pw * P * np.log(p) + (1 - P) * np.log1p(-p)) * w
    np.testing.assert_allclose(loss(tensor(X), tensor(P)).item(), expected.mean(), rtol=1e-10)


def test_bce_at_certainty():
    """Logarithms are at least -100, and the gradient is finite: (p - t) / 1e-12, which is 0 where p is t."""
    p = tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    np.testing.assert_allclose(array(loss), [0.0, 0.0, 100.0, 100.0], atol=1e-10)
    loss.sum().backward()
    np.testing.assert_allclose(array(p.grad), [0.0, 0.0, -1e12, 1e12], rtol=1e-6)
    second = ad.func.hessian(lambda p: F.binary_cross_entropy(p, tensor([1.0, 0.0, 0.5])))(
        tensor([1.0, 1.0, 0.5])
    )
    np.testing.assert_allclose(array(second), np.diag([0.0, 1e24, 4.0]) / 3, rtol=1e-6)
    half = F.binary_cross_entropy(ad.tensor([0.0, 1.0]).half(), ad.ones(2).half())
    assert half.item() == 50.0 and half.dtype is ad.float16


def test_extreme_logits():
    x = tensor([-1e4, 1e4, 1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, tensor([0.0, 1.0, 0.0]), reduction="none")
    loss.sum().backward()
    assert array(loss).tolist() == [0.0, 0.0, 1e4] and array(x.grad).tolist() == [0.0, 0.0, 1.0]
    big = tensor([[1e4, 0.0]])
    assert F.cross_entropy(big, ad.tensor([1])).item() == 1e4


def test_errors():
    x, y = tensor(X), tensor(Y)
    target = ad.tensor(CLASSES.tolist())
    for call in (
        lambda: F.mse_loss(x, y, reduction="average"),
        lambda: F.l1_loss(x, y, reduction="average"),
        lambda: F.cross_entropy(x, target, reduction="average"),
        lambda: F.nll_loss(x, target, reduction="average"),
        lambda: F.binary_cross_entropy_with_logits(x, y, reduction="average"),
    ):
        with pytest.raises(ValueError, match="average is not a valid value for reduction"):
            call()
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(x, y[0])
    with pytest.raises(ValueError, match="Please ensure they have the same size"):
        F.binary_cross_entropy(x, y[0])
    with pytest.raises(RuntimeError, match="should be between 0 and 1"):
        F.binary_cross_entropy(tensor([1.5]), tensor([1.0]))
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, y, beta=-1)
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        F.huber_loss(x, y, delta=0)
    with pytest.warns(UserWarning, match="is different to the input size"):
        F.mse_loss(x, y[:1])
    with pytest.raises((IndexError, RuntimeError)):
        F.cross_entropy(x, ad.tensor([0, 1, 2, 5]))


def test_legacy_flags():
    x, y = tensor(X), tensor(Y)
    with announced(UserWarning, match="please use reduction='sum' instead"):
        assert math.isclose(F.mse_loss(x, y, size_average=False).item(), ((X - Y) ** 2).sum(), rel_tol=1e-12)
    with announced(UserWarning, match="please use reduction='none' instead"):
        assert nn.MSELoss(reduce=False).reduction == "none"


def test_smooth_l1_without_a_quadratic_part():
    value = F.smooth_l1_loss(tensor(X), tensor(Y), beta=0.0).item()
    np.testing.assert_allclose(value, np.abs(X - Y).mean(), rtol=1e-12)
