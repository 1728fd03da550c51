"""Derivatives that are zero almost everywhere, and gradients at kinks and at NaN.

Under create_graph the gradient of what is not linear can be differentiated again, to zeros where it is constant; that of what
is linear is not recorded, as in torch. At kinks gradients are the house's, at NaN they are torch's, written down here.
tests/ops/test_table.py asks the first of every element-wise operator.
"""

import math

import numpy as np
import pytest
from helpers import array, check_gradient, check_second_derivative, leaf, tensor

import adjoint as ad

F = ad.nn.functional
NAN, INF = float("nan"), float("inf")
CLASS = ad.tensor([1])

CONSTANT_GRADIENTS = {
    "relu": ad.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "leaky_relu": F.leaky_relu,
    "hardsigmoid": F.hardsigmoid,
    "abs": ad.abs,
    "sign": ad.sign,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0.5),
    "floor": ad.floor,
    "round": ad.round,
    "nan_to_num": ad.nan_to_num,
    "maximum": lambda x: ad.maximum(x, ad.zeros(3)),
    "where": lambda x: ad.where(x > 0, x, 0 * x.abs()),
    "pow 1": lambda x: x**1,
    "pow 0": lambda x: x**0,
    "max": lambda x: x.max(),
    "max along": lambda x: x.max(0)[0],
    "amax": lambda x: x.amax(),
    "median": lambda x: x.median(),
    "cummax": lambda x: x.cummax(0)[0],
    "cummin": lambda x: x.cummin(0)[0],
    "sort": lambda x: x.sort()[0],
    "norm 1": lambda x: x.norm(p=1),
    "reflect": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    "circular": lambda x: F.pad(x[None], (1, 1), mode="circular"),
    "replicate": lambda x: F.pad(x[None], (1, 1), mode="replicate"),
    "nll_loss": lambda x: F.nll_loss(x[None], CLASS),
    "l1_loss": lambda x: F.l1_loss(x, ad.ones(3)),
    "relu of relu": lambda x: ad.relu(ad.relu(x) * 2 - 0.1),
    "matrix_power 0": lambda x: ad.linalg.matrix_power(x.reshape(3, 1, 1), 0),
    "addmv": lambda x: ad.addmv(x, ad.ones(3, 2), ad.ones(2), beta=0),
    "addr": lambda x: ad.addr(x, ad.ones(2), ad.ones(3), beta=0),
}
LINEAR = {
    "mul": lambda x: 2 * x,
    "neg": ad.neg,
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "cumsum": lambda x: x.cumsum(0),
    "matmul": lambda x: ad.ones(2, 3) @ x,
    "view": lambda x: x[1:].reshape(2, 1).expand(2, 4),
    "gather": lambda x: x.gather(0, ad.tensor([0, 0, 2])),
    "scatter": lambda x: ad.zeros(5).scatter(0, ad.tensor([0, 1, 2]), x),
    "masked_fill": lambda x: x.masked_fill(ad.tensor([True, False, False]), 0.0),
    "where": lambda x: ad.where(ad.tensor([True, False, True]), x, 1.0),
    "to": lambda x: x.to(ad.float64),
    "pad": lambda x: F.pad(x, (1, 1)),
    "frac": ad.frac,
}


@pytest.mark.parametrize("name", CONSTANT_GRADIENTS)
def test_constant_gradients_are_differentiated_again(name):
    x = leaf(0.3, -0.9, 2.2, dtype="float32")
    y = CONSTANT_GRADIENTS[name](x)
    assert y.requires_grad
    (gradient,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    assert gradient.requires_grad
    (second,) = ad.autograd.grad(gradient.sum(), x, create_graph=True)
    assert second.shape == x.shape and second.tolist() == [0, 0, 0]
    # Without create_graph nothing is recorded.
    (plain,) = ad.autograd.grad(CONSTANT_GRADIENTS[name](x).sum(), x)
    assert not plain.requires_grad and plain.tolist() == gradient.tolist()


@pytest.mark.parametrize("name", CONSTANT_GRADIENTS)
def test_constant_gradients_below_a_weight(name):
    """The gradient is a function of the weight anyhow, and of the input still, with the derivative zero."""
    x, w = leaf(0.3, -0.9, 2.2, dtype="float32"), leaf(2.0, dtype="float32")
    y = (CONSTANT_GRADIENTS[name](x) * w).sum()
    (gradient,) = ad.autograd.grad(y, x, create_graph=True)
    (second,) = ad.autograd.grad(gradient.sum(), x, allow_unused=True)
    if name in ("max along", "cummax", "cummin", "sort", "addmv", "addr"):
        assert second is None  # their gradient reads positions alone, or nothing, also in torch
    else:
        assert second.tolist() == [0, 0, 0]


@pytest.mark.parametrize("flat, width", [(F.relu, 4), (F.leaky_relu, 4), (lambda h: F.max_pool1d(h, 2), 2)])
def test_laplacian_and_gradient_penalty_of_a_network(flat, width):
    ad.manual_seed(0)
    lower, upper, x = ad.nn.Linear(3, 4), ad.nn.Linear(width, 4), ad.randn(5, 3, requires_grad=True)
    (slope,) = ad.autograd.grad(flat(upper(flat(lower(x)))).sum(), x, create_graph=True)
    (second,) = ad.autograd.grad(slope.sum(), x, retain_graph=True)
    assert second.shape == x.shape and not second.any()
    (slope**2).sum().backward()
    assert lower.weight.grad.any() and not lower.bias.grad.any() and not upper.bias.grad.any()


@pytest.mark.parametrize("name", LINEAR)
def test_gradients_of_linear_functions_are_not_recorded(name):
    x = leaf(0.3, -0.9, 2.2, dtype="float32")
    (gradient,) = ad.autograd.grad(LINEAR[name](x).sum(), x, create_graph=True)
    assert not gradient.requires_grad


def test_constant_gradients_keep_all_inputs_that_are_read():
    a, b = leaf(1.0, 2.0), leaf(2.0, 1.0)
    (ga,) = ad.autograd.grad(ad.maximum(a, b).sum(), a, create_graph=True)
    assert [g.tolist() for g in ad.autograd.grad(ga.sum(), [a, b])] == [[0, 0], [0, 0]]
    # Broadcast inputs and other dtypes get zeros of their own form.
    a, b = leaf(1.0, -2.0, dtype="float32").reshape(2, 1), leaf(2.0, 1.0)
    (ga,) = ad.autograd.grad(ad.minimum(a, b).sum(), a, create_graph=True)
    ga, gb = ad.autograd.grad(ga.sum(), [a, b])
    assert ga.shape == (2, 1) and ga.dtype is ad.float32 and gb.shape == (2,) and gb.dtype is ad.float64


def test_empty_extremes_are_differentiated_again():
    for scan in (ad.cummax, ad.cummin):
        x = ad.zeros(0, requires_grad=True)
        (gradient,) = ad.autograd.grad(scan(x, 0)[0].sum(), x, create_graph=True)
        assert gradient.requires_grad and gradient.shape == (0,)


def test_hessian_of_a_network_of_relus():
    w = tensor(np.array([[1.0, -2.0], [0.5, 1.0]]))
    hessian = ad.autograd.functional.hessian(lambda x: (ad.relu(w @ x)).sum(), tensor(np.array([1.0, 2.0])))
    assert hessian.tolist() == [[0, 0], [0, 0]]


#: The gradient of the sum of the function at [NaN, 0.3], as torch has it.
AT_NAN = {
    "abs": (ad.abs, [0, 1]),
    "norm 1": (lambda x: x.norm(p=1), [0, 1]),
    "norm 2": (lambda x: x.norm(), [NAN, NAN]),
    "norm inf": (lambda x: x.norm(p=INF), [0, 0]),
    "clamp": (lambda x: x.clamp(-1, 1), [0, 1]),
    "clamp_min": (lambda x: x.clamp(min=-1), [0, 1]),
    "clamp_max": (lambda x: x.clamp(max=1), [0, 1]),
    "relu": (ad.relu, [1, 1]),
    "relu6": (F.relu6, [1, 1]),
    "hardtanh": (F.hardtanh, [1, 1]),
    "hardshrink": (F.hardshrink, [1, 0]),
    "softshrink": (F.softshrink, [1, 0]),
    "leaky_relu": (F.leaky_relu, [0.01, 1]),
    "threshold": (lambda x: F.threshold(x, 0.0, 0.0), [1, 1]),
    "elu": (F.elu, [1, 1]),
    "selu": (F.selu, [1.0507009873554805, 1.0507009873554805]),
    "celu": (F.celu, [1, 1]),
    "hardsigmoid": (F.hardsigmoid, [0, 1 / 6]),
    "hardswish": (F.hardswish, [1, 0.6]),
    "sign": (ad.sign, [0, 0]),
    "floor": (ad.floor, [0, 0]),
    "nan_to_num": (ad.nan_to_num, [0, 1]),
    "logit": (ad.logit, [NAN, 1 / 0.21]),
    "max": (lambda x: x.max(), [1, 0]),
    "min": (lambda x: x.min(), [1, 0]),
    "max along": (lambda x: x.max(0)[0], [1, 0]),
    "amax": (lambda x: x.amax(), [NAN, NAN]),
    "amin": (lambda x: x.amin(0), [NAN, NAN]),
    "aminmax": (lambda x: x.aminmax()[1], [NAN, NAN]),
    "median": (lambda x: x.median(), [1, 0]),
    "nanmedian": (lambda x: x.nanmedian(), [0, 1]),
    "prod": (lambda x: x.prod(), [NAN, NAN]),
    "cumprod": (lambda x: x.cumprod(0), [NAN, NAN]),
    "sum": (lambda x: x.sum(), [1, 1]),
    "nansum": (lambda x: x.nansum(), [0, 1]),
    "pow 0": (lambda x: x**0, [0, 0]),
    "pow 1": (lambda x: x**1, [1, 1]),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", AT_NAN)
def test_gradients_at_nan(name, create_graph):
    function, expected = AT_NAN[name]
    x = leaf(NAN, 0.3)
    (gradient,) = ad.autograd.grad(function(x).sum(), x, create_graph=create_graph)
    np.testing.assert_allclose(array(gradient), expected, rtol=1e-7)


def test_ties():
    def gradients(function, *values):
        xs = [leaf(*v) for v in values]
        return [g.tolist() for g in ad.autograd.grad(function(*xs).sum(), xs)]

    assert gradients(ad.maximum, [1.0], [1.0]) == gradients(ad.minimum, [1.0], [1.0]) == [[0.5], [0.5]]
    assert gradients(ad.fmax, [1.0, NAN, 1.0], [1.0, 1.0, NAN]) == [[1, 0, 1], [0, 1, 0]]
    assert gradients(ad.fmin, [1.0, NAN, 1.0], [1.0, 1.0, NAN]) == [[1, 0, 1], [0, 1, 0]]
    for whole in (ad.max, ad.median, ad.nanmedian, ad.amax):
        assert gradients(whole, [2.0, 2.0, 2.0, 1.0] if whole is ad.median else [2.0, 2.0, 2.0]) == [
            [1 / 3] * 3 + [0.0] * (whole is ad.median)
        ]
    assert gradients(ad.nanmedian, [NAN, 3.0, 3.0, 5.0, 1.0]) == [[0, 0.5, 0.5, 0, 0]]
    assert gradients(lambda x: x.median(0)[0], [2.0, 2.0, 2.0])[0].count(1.0) == 1
    assert gradients(ad.atan2, [0.0, 1.0], [0.0, 0.0]) == [[0, 0], [0, -1]]


def test_logit_outside_its_domain():
    x = leaf(-0.5, 1.5, 0.0, 0.25)
    (gradient,) = ad.autograd.grad(ad.logit(x).sum(), x)
    np.testing.assert_array_equal(array(gradient), [NAN, NAN, INF, 1 / 0.1875])
    (gradient,) = ad.autograd.grad(ad.logit(x, eps=0.1).sum(), x)
    np.testing.assert_array_equal(array(gradient), [0, 0, 0, 1 / 0.1875])


@pytest.mark.parametrize(
    ("write", "slope"),
    [
        (lambda y: F.elu_(y, -0.7), lambda x: -0.7 * math.exp(x)),
        (lambda y: F.celu_(y, -0.7), lambda x: math.exp(x / -0.7)),
        (lambda y: F.leaky_relu_(y, -0.5), lambda x: -0.5),
        (lambda y: F.leaky_relu(y, -0.5, inplace=True), lambda x: -0.5),
        (ad.nn.LeakyReLU(-0.5, inplace=True), lambda x: -0.5),
        (ad.nn.ELU(-0.7, inplace=True), lambda x: -0.7 * math.exp(x)),
    ],
)
def test_negative_slope_in_place(write, slope):
    """The sign of the result does not say on which side of 0 the input was: torch refuses the derivative that is had here."""
    x = leaf(-1.0, -0.25, 2.0)
    write(x * 1).sum().backward()
    assert x.grad.tolist() == pytest.approx([slope(-1.0), slope(-0.25), 1.0])


def test_hardswish_in_half_precision():
    """One rounding, from float32: near its knee too."""
    for dtype in (ad.float16, ad.bfloat16):
        x = ad.tensor([-2.998, 2.998, 2.5, 0.1, -3.0, 3.0], dtype=dtype, requires_grad=True)
        y = F.hardswish(x)
        (gradient,) = ad.autograd.grad(y.sum(), x)
        wide = x.detach().to(ad.float64)
        inside = (wide > -3) & (wide < 3)
        value = wide * (wide + 3).clamp(0, 6) / 6
        slope = ad.where(inside, wide / 3 + 0.5, (wide >= 3).to(ad.float64))
        assert (y.to(ad.float64) - value).abs().max() <= 2 * ad.finfo(dtype).eps * 3
        assert (gradient.to(ad.float64) - slope).abs().max() <= ad.finfo(dtype).eps


def test_xlog1py_at_zero():
    x, y = leaf(0.0, 0.0, 1.0), leaf(0.5, -1.0, 0.5)
    gx, gy = ad.autograd.grad(ad.special.xlog1py(x, y).sum(), [x, y])
    np.testing.assert_allclose(array(gx), [math.log1p(0.5), 0, math.log1p(0.5)], rtol=1e-15)
    np.testing.assert_allclose(array(gy), [0, 0, 1 / 1.5])
    assert ad.special.xlog1py(ad.tensor([1, 0]), 3).tolist() == pytest.approx([math.log(4), 0])
    assert ad.special.xlog1py(2, ad.tensor([3])).item() == pytest.approx(2 * math.log(4))


@pytest.mark.parametrize(
    "kind", ["special.ndtri", "special.erfinv", "special.log_ndtr", "special.ndtr", "sinc", "special.entr"]
)
def test_second_derivatives_of_special_functions(kind):
    function = ad.special
    for part in kind.split("."):
        function = getattr(
            ad if part == "special" else function if function is not ad.special or "." in kind else ad, part
        )
    x = np.array([0.02, 0.3, 0.5, 0.8, 0.97])
    check_gradient(function, [x], rtol=1e-5)
    check_second_derivative(function, [x], rtol=1e-4, atol=1e-4)


def test_scatter_multiply():
    index = ad.tensor([[0, 1, 0], [2, 2, 2]])
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 2, (2, 4)), rng.uniform(0.5, 2, (2, 3))

    def product(x, src):
        return x.scatter(1, index, src, reduce="multiply")

    check_gradient(product, [a, b])
    check_second_derivative(product, [a, b])
    # A zero among the factors, alone at its place and not.
    b[1, 1] = b[0, 1] = 0
    check_gradient(product, [a, b])
    # An index smaller than the source, complex numbers, a number for all.
    check_gradient(lambda x, src: x.scatter(1, index[:1, :2], src, reduce="multiply"), [a, b])
    check_gradient(product, [a + 1j, b - 2j])
    check_gradient(lambda x: x.scatter(1, index, 3.0, reduce="multiply"), [a])
    x, src = tensor(a, requires_grad=True), tensor(b, requires_grad=True)
    with pytest.raises(NotImplementedError, match="second derivative of 'scatter'"):
        ad.autograd.grad(product(x, src).sum(), src, create_graph=True)
