"""Activations and losses: values against NumPy and SciPy, derivatives against central differences."""

import numpy as np
import pytest
from scipy import special

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

RNG = np.random.default_rng(5)
# Away from the kinks at 0, ±1, ±3, ±0.5 and 6, where differences tell nothing.
POINTS = np.array([-30.0, -7.3, -3.2, -1.7, -0.8, -0.3, -1e-3, 2e-3, 0.2, 0.7, 1.4, 2.6, 3.7, 5.5, 8.0, 30.0])


def tensor(array, **options):
    return ad.tensor(np.asarray(array).tolist(), dtype=ad.float64, **options)


def array(t):
    return np.asarray(t.detach().tolist(), dtype=np.float64)


def softplus(x):
    return np.logaddexp(0, x)


def sigmoid(x):
    return special.expit(x)


def clip6(x):
    return np.clip(x + 3, 0, 6) / 6


ACTIVATIONS = {
    "relu": (nn.ReLU(), F.relu, lambda x: np.maximum(x, 0)),
    "relu6": (nn.ReLU6(), F.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (nn.LeakyReLU(0.1), lambda x: F.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "elu": (nn.ELU(1.5), lambda x: F.elu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    "selu": (
        nn.SELU(),
        F.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    "celu": (nn.CELU(1.5), lambda x: F.celu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5))),
    "gelu": (nn.GELU(), F.gelu, lambda x: x * special.ndtr(x)),
    "gelu_tanh": (
        nn.GELU("tanh"),
        lambda x: F.gelu(x, "tanh"),
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (nn.SiLU(), F.silu, lambda x: x * sigmoid(x)),
    "mish": (nn.Mish(), F.mish, lambda x: x * np.tanh(softplus(x))),
    "sigmoid": (nn.Sigmoid(), F.sigmoid, sigmoid),
    "tanh": (nn.Tanh(), F.tanh, np.tanh),
    "softplus": (nn.Softplus(2.0), lambda x: F.softplus(x, 2.0), lambda x: softplus(2 * x) / 2),
    "logsigmoid": (nn.LogSigmoid(), F.logsigmoid, lambda x: -softplus(-x)),
    "softsign": (nn.Softsign(), F.softsign, lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (nn.Tanhshrink(), F.tanhshrink, lambda x: x - np.tanh(x)),
    "softshrink": (nn.Softshrink(), F.softshrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "hardshrink": (nn.Hardshrink(), F.hardshrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "hardtanh": (nn.Hardtanh(), F.hardtanh, lambda x: np.clip(x, -1, 1)),
    "hardsigmoid": (nn.Hardsigmoid(), F.hardsigmoid, clip6),
    "hardswish": (nn.Hardswish(), F.hardswish, lambda x: x * clip6(x)),
    "threshold": (
        nn.Threshold(0.1, 7.0),
        lambda x: F.threshold(x, 0.1, 7.0),
        lambda x: np.where(x > 0.1, x, 7),
    ),
    "softmax": (nn.Softmax(0), lambda x: F.softmax(x, 0), lambda x: special.softmax(x)),
    "softmin": (nn.Softmin(0), lambda x: F.softmin(x, 0), lambda x: special.softmax(-x)),
    "log_softmax": (nn.LogSoftmax(0), lambda x: F.log_softmax(x, 0), lambda x: special.log_softmax(x)),
    "glu": (nn.GLU(0), lambda x: F.glu(x, 0), lambda x: x[:8] * sigmoid(x[8:])),
    "prelu": (nn.PReLU().double(), lambda x: F.prelu(x, tensor([0.25])), lambda x: np.where(x > 0, x, x / 4)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_values(name):
    module, function, reference = ACTIVATIONS[name]
    for compute in (module, function):
        np.testing.assert_allclose(array(compute(tensor(POINTS))), reference(POINTS), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_derivatives(name):
    """The vector-Jacobian product with random weights, and its own derivative, by differences."""
    module, _, _ = ACTIVATIONS[name]
    x = tensor(POINTS, requires_grad=True)
    y = module(x)
    weights = tensor(RNG.standard_normal(tuple(y.shape)))
    (grad,) = ad.autograd.grad((y * weights).sum(), x, create_graph=True)
    direction = RNG.standard_normal(POINTS.shape)
    h = 1e-6

    def value(points):
        return (module(tensor(points)) * weights).sum().item()

    def slope(points):
        z = tensor(points, requires_grad=True)
        (g,) = ad.autograd.grad((module(z) * weights).sum(), z)
        return array(g)

    for i in range(len(POINTS)):
        e = np.zeros_like(POINTS)
        e[i] = h
        difference = (value(POINTS + e) - value(POINTS - e)) / (2 * h)
        np.testing.assert_allclose(grad[i].item(), difference, rtol=1e-5, atol=1e-6)
    if grad.requires_grad:
        (second,) = ad.autograd.grad((grad * tensor(direction)).sum(), x, allow_unused=True)
        if second is not None:
            # The Hessian is symmetric: its product with a direction is the change of the gradient along it.
            change = (slope(POINTS + h * direction) - slope(POINTS - h * direction)) / (2 * h)
            np.testing.assert_allclose(array(second), change, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "hardsigmoid", "softshrink", "threshold"])
def test_kinks_take_the_subgradient_of_least_norm(name):
    corners = {
        "relu": [0],
        "relu6": [0, 6],
        "hardtanh": [-1, 1],
        "hardsigmoid": [-3, 3],
        "softshrink": [-0.5, 0.5],
    }
    x = tensor(corners.get(name, [0.1]), requires_grad=True)
    ACTIVATIONS[name][0](x).sum().backward()
    assert array(x.grad).tolist() == [0.0] * x.shape[0]


@pytest.mark.parametrize("name", ["celu", "elu", "selu", "mish", "logsigmoid", "softplus", "gelu", "silu"])
def test_extreme_inputs_keep_finite_gradients(name):
    x = tensor([-1e4, -800.0, 0.0, 800.0, 1e4], requires_grad=True)
    ACTIVATIONS[name][0](x).sum().backward()
    assert np.isfinite(array(x.grad)).all()


@pytest.mark.parametrize(
    "module",
    [nn.ReLU(True), nn.LeakyReLU(inplace=True), nn.ELU(inplace=True), nn.SELU(True), nn.CELU(inplace=True)]
    + [nn.SiLU(True), nn.Mish(True), nn.Hardtanh(inplace=True), nn.ReLU6(True), nn.Hardsigmoid(True)]
    + [nn.Hardswish(True), nn.Threshold(0.1, 7.0, True)],
    ids=lambda m: type(m).__name__,
)
def test_inplace(module):
    x = tensor(POINTS, requires_grad=True)
    z = x * 1
    y = module(z)
    assert y is z
    y.sum().backward()
    module.inplace = False
    u = tensor(POINTS, requires_grad=True)
    out = module(u)
    out.sum().backward()
    np.testing.assert_array_equal(array(y), array(out))
    np.testing.assert_allclose(array(x.grad), array(u.grad), rtol=1e-12)


def test_activation_errors():
    x = ad.ones(2, 3)
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        F.glu(x)
    with pytest.raises(RuntimeError, match="0-dimensional"):
        F.glu(ad.tensor(1.0))
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        F.gelu(x, "exact")
    with pytest.raises(ValueError, match="min_val cannot be greater than max_val"):
        F.hardtanh(x, 1.0, -1.0)
    with pytest.raises(AssertionError, match="must be greater than min_val"):
        nn.Hardtanh(1.0, 1.0)
    with pytest.raises(RuntimeError, match="alpha cannot be 0"):
        F.celu(x, 0)
    with pytest.raises(RuntimeError, match="lambda must be in range"):
        F.softshrink(x, -1)
    with pytest.raises(RuntimeError, match="Found parameter numbers = 2 and channel size = 3"):
        F.prelu(x, ad.ones(2))
    for function in (F.softmax, F.log_softmax, F.softmin):
        with pytest.warns(UserWarning, match="Implicit dimension choice"):
            assert tuple(function(x).shape) == (2, 3)


def test_prelu_by_channel():
    x = -np.ones((2, 3, 4))
    y = array(F.prelu(tensor(x), tensor([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(y[:, :, 0], [[-1, -2, -3]] * 2)


# ---- the rest -------------------------------------------------------------------------------------------


def test_normalize():
    x = RNG.standard_normal((3, 4))
    np.testing.assert_allclose(array(F.normalize(tensor(x))), x / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(array(F.normalize(tensor(x), 1.0, 0)), x / np.abs(x).sum(0))
    assert array(F.normalize(tensor([[0.0, 0.0]]))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("pads, widths", [((1, 2), ((0, 0), (1, 2))), ((0, 1, 2, 0), ((2, 0), (0, 1)))])
def test_pad(pads, widths):
    x = RNG.standard_normal((2, 3))
    expected = np.pad(x, widths, constant_values=5.0)
    y = tensor(x, requires_grad=True)
    padded = F.pad(y, pads, value=5.0)
    np.testing.assert_array_equal(array(padded), expected)
    padded.sum().backward()
    np.testing.assert_array_equal(array(y.grad), np.ones_like(x))


def test_pad_cuts_and_refuses():
    x = ad.arange(4)
    assert F.pad(x, (-1, 2)).tolist() == [1, 2, 3, 0, 0]
    assert F.pad(x, (2, -4)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="must be divisible by 2"):
        F.pad(x, (1,))
    with pytest.raises(RuntimeError, match="two times the input dimension"):
        F.pad(x, (1, 1, 1, 1))
    with pytest.raises(RuntimeError, match="negative"):
        F.pad(x, (-3, -2))
    with pytest.raises(NotImplementedError, match="Only 2D, 3D, 4D, 5D padding"):
        F.pad(x, (1, 1), mode="reflect")
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode"):
        F.pad(x, (1, 1), mode="sideways")


def test_one_hot():
    assert F.one_hot(ad.tensor([1, 0])).tolist() == [[0, 1], [1, 0]]
