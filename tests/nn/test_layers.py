"""Layers: values against NumPy, parameters, repr, errors; gradients against central differences."""

import copy
import math
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

RNG = np.random.default_rng(3)


def tensor(array, **options):
    return ad.tensor(np.asarray(array).tolist(), dtype=ad.float64, **options)


def array(t):
    return np.asarray(t.detach().tolist(), dtype=np.float64)


def normal(*shape):
    return RNG.standard_normal(shape)


def check_gradients(module, *inputs, step=1e-6):
    """Every derivative of a weighted sum of the output against a central difference."""
    module = module.double()
    xs = [tensor(x, requires_grad=True) for x in inputs]
    leaves = xs + list(module.parameters())
    weights = tensor(normal(*module(*xs).shape))

    def value():
        with ad.no_grad():
            return (module(*xs) * weights).sum().item()

    (module(*xs) * weights).sum().backward()
    for leaf in leaves:
        grad = array(leaf.grad).reshape(-1)
        flat = leaf.detach().view(-1)
        for i in range(flat.shape[0]):
            kept = flat[i].item()
            flat[i] = kept + step
            up = value()
            flat[i] = kept - step
            down = value()
            flat[i] = kept
            np.testing.assert_allclose(grad[i], (up - down) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_linear(bias, leading):
    layer = nn.Linear(5, 3, bias=bias, dtype=ad.float64)
    x = normal(*leading, 5)
    expected = x @ array(layer.weight).T + (array(layer.bias) if bias else 0)
    np.testing.assert_allclose(array(layer(tensor(x))), expected, rtol=1e-12)
    check_gradients(layer, x)
    bound = 1 / math.sqrt(5)
    assert all(p.detach().abs().max().item() <= bound for p in layer.parameters())


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_linear_without_inputs_or_with_wrong_ones():
    assert tuple(nn.Linear(0, 2)(ad.zeros(3, 0)).shape) == (3, 2)
    with pytest.raises(RuntimeError):
        nn.Linear(5, 3)(ad.ones(2, 4))


def test_linear_freezing_saves_the_input_only_where_needed():
    layer = nn.Linear(2, 2).requires_grad_(False)
    x = ad.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and x.grad is not None


def test_identity():
    x = ad.ones(2)
    assert nn.Identity(54, unused=1)(x) is x


@pytest.mark.parametrize("bias", [True, False])
def test_bilinear(bias):
    layer = nn.Bilinear(2, 3, 4, bias=bias, dtype=ad.float64)
    a, b = normal(5, 2), normal(5, 3)
    expected = np.einsum("ni,oij,nj->no", a, array(layer.weight), b) + (array(layer.bias) if bias else 0)
    np.testing.assert_allclose(array(layer(tensor(a), tensor(b))), expected, rtol=1e-12)
    check_gradients(layer, a, b)
    assert tuple(layer(tensor(a[0]), tensor(b[0])).shape) == (4,)
    with pytest.raises(RuntimeError, match="batch dimensions do not match"):
        layer(tensor(a), tensor(b[:2]))
    with pytest.raises(RuntimeError, match="do not match weight"):
        layer(tensor(b), tensor(a))
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 1, 1)


def test_embedding():
    layer = nn.Embedding(6, 3, dtype=ad.float64)
    index = [[0, 5], [5, 2]]
    y = layer(ad.tensor(index))
    np.testing.assert_array_equal(array(y), array(layer.weight)[index])
    y.sum().backward()
    np.testing.assert_array_equal(array(layer.weight.grad)[:, 0], [1, 0, 1, 0, 0, 2])
    with pytest.raises(IndexError):
        layer(ad.tensor([6]))


def test_embedding_padding():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0.0, 0.0]
    layer(ad.tensor([3, 1, 3])).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(4, 2, padding_idx=4)


def test_embedding_max_norm_rescales_what_is_used():
    layer = nn.Embedding.from_pretrained(ad.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), max_norm=1.0)
    np.testing.assert_allclose(array(layer(ad.tensor([0, 1]))), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(array(layer.weight), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)
    assert not layer.weight.requires_grad


def test_embedding_scaled_by_frequency():
    layer = nn.Embedding(3, 1, scale_grad_by_freq=True)
    layer(ad.tensor([0, 0, 0, 2])).sum().backward()
    np.testing.assert_allclose(array(layer.weight.grad)[:, 0], [1.0, 0.0, 1.0], rtol=1e-6)
    weight = ad.ones(
        3, 2, dtype=ad.float16, requires_grad=True
    )  # in torch's order: the frequency is before sparse
    ad.embedding(weight, ad.tensor([[0, 1], [1, 1]]), 0, True, False).sum().backward()
    assert weight.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        nn.Embedding(3, 1, scale_grad_by_freq=True, sparse=True)(ad.tensor([0]))


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_layer_norm(shape):
    layer = nn.LayerNorm(shape, eps=1e-3).double()
    with ad.no_grad():
        layer.weight.copy_(tensor(normal(*shape)))
        layer.bias.copy_(tensor(normal(*shape)))
    x = normal(2, *shape)
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    expected = centred / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    expected = expected * array(layer.weight) + array(layer.bias)
    np.testing.assert_allclose(array(layer(tensor(x))), expected, rtol=1e-10)
    check_gradients(layer, x)


def test_layer_norm_options():
    assert list(nn.LayerNorm(3, elementwise_affine=False).parameters()) == []
    assert list(nn.LayerNorm(3, bias=False).state_dict()) == ["weight"]
    assert nn.LayerNorm(3).normalized_shape == (3,)
    with pytest.raises(RuntimeError):
        nn.LayerNorm(3)(ad.ones(2, 4))


def test_rms_norm():
    layer = nn.RMSNorm(4, eps=1e-3).double()
    assert layer(x=ad.ones(4).double()).shape == (4,)
    x = normal(3, 4)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(array(layer(tensor(x))), expected, rtol=1e-12)
    check_gradients(layer, x)
    with pytest.raises(RuntimeError, match="expected input with shape"):
        layer(tensor(normal(2, 3)))


def test_dropout():
    ad.manual_seed(1)
    layer, x = nn.Dropout(0.25), ad.ones(20000)
    y = array(layer(x))
    np.testing.assert_allclose(np.unique(y), [0.0, 4 / 3], rtol=1e-6)
    # Five standard deviations of a binomial share.
    assert abs((y == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 20000)
    ad.manual_seed(1)
    np.testing.assert_array_equal(array(layer(x)), y)
    assert layer.eval()(x) is x
    assert nn.Dropout(1.0)(x).abs().sum().item() == 0.0 and nn.Dropout(0.0)(x) is x
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            nn.Dropout(p)


def test_dropout_gradient_and_inplace():
    x = ad.ones(100, requires_grad=True)
    y = nn.Dropout(0.5)(x)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    z = ad.ones(100)
    assert nn.Dropout(0.5, inplace=True)(z) is z and 0.0 in z.tolist()


def test_flatten_and_unflatten():
    x = ad.arange(24.0).reshape(2, 3, 4)
    assert tuple(nn.Flatten()(x).shape) == (2, 12)
    assert tuple(nn.Flatten(0, 1)(x).shape) == (6, 4)
    back = nn.Unflatten(1, (3, 4))(nn.Flatten()(x))
    assert back.tolist() == x.tolist()
    with pytest.raises(TypeError, match="unflattened_size must be a tuple of ints"):
        nn.Unflatten(1, 3)
    with pytest.raises(TypeError, match="found element of type str at pos 1"):
        nn.Unflatten(1, (2, "x"))
    with pytest.raises(TypeError, match="dim must be an int"):
        nn.Unflatten("name", (2,))


def test_distances():
    a, b = normal(4, 3), normal(4, 3)
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(array(nn.CosineSimilarity()(tensor(a), tensor(b))), cosine, rtol=1e-12)
    distance = np.linalg.norm(a - b + 1e-6, axis=1)
    np.testing.assert_allclose(array(nn.PairwiseDistance()(tensor(a), tensor(b))), distance, rtol=1e-12)
    one = np.abs(a - b + 1e-6).sum(1, keepdims=True)
    np.testing.assert_allclose(
        array(nn.PairwiseDistance(p=1.0, keepdim=True)(tensor(a), tensor(b))), one, rtol=1e-12
    )


REPRS = {
    "Linear(in_features=2, out_features=3, bias=True)": lambda: nn.Linear(2, 3),
    "Bilinear(in1_features=1, in2_features=2, out_features=3, bias=False)": lambda: nn.Bilinear(
        1, 2, 3, False
    ),
    "Identity()": lambda: nn.Identity(3),
    "Embedding(3, 4)": lambda: nn.Embedding(3, 4),
    "Embedding(3, 4, padding_idx=2, max_norm=2.0, norm_type=1.0)": lambda: nn.Embedding(3, 4, -1, 2.0, 1.0),
    "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)": lambda: nn.LayerNorm(3),
    "RMSNorm((3,), eps=None, elementwise_affine=True)": lambda: nn.RMSNorm(3),
    "Dropout(p=0.5, inplace=False)": lambda: nn.Dropout(),
    "Flatten(start_dim=1, end_dim=-1)": lambda: nn.Flatten(),
    "Unflatten(dim=1, unflattened_size=(2, 3))": lambda: nn.Unflatten(1, (2, 3)),
    "ReLU()": lambda: nn.ReLU(),
    "ReLU(inplace=True)": lambda: nn.ReLU(True),
    "LeakyReLU(negative_slope=0.01)": lambda: nn.LeakyReLU(),
    "ELU(alpha=1.0)": lambda: nn.ELU(),
    "GELU(approximate='tanh')": lambda: nn.GELU("tanh"),
    "Softplus(beta=1.0, threshold=20.0)": lambda: nn.Softplus(),
    "Softshrink(0.5)": lambda: nn.Softshrink(),
    "Hardtanh(min_val=-1.0, max_val=1.0)": lambda: nn.Hardtanh(),
    "ReLU6()": lambda: nn.ReLU6(),
    "Threshold(threshold=0.1, value=2)": lambda: nn.Threshold(0.1, 2),
    "PReLU(num_parameters=3)": lambda: nn.PReLU(3),
    "Softmax(dim=1)": lambda: nn.Softmax(1),
    "GLU(dim=-1)": lambda: nn.GLU(),
    "CrossEntropyLoss()": lambda: nn.CrossEntropyLoss(),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    module = REPRS[text]()
    assert repr(module) == text
    assert repr(copy.deepcopy(module)) == text and repr(pickle.loads(pickle.dumps(module))) == text


def test_a_bias_may_be_broadcast():
    x, w = tensor(normal(4, 3)), tensor(normal(2, 3))
    for shape in ((1, 2), (4, 2), (4, 1)):
        bias = tensor(normal(*shape)).requires_grad_()
        y = F.linear(x, w, bias)
        np.testing.assert_allclose(array(y), array(x @ w.T + bias))
        (g,) = ad.autograd.grad(y.sum(), bias)
        assert g.shape == shape and g.sum().item() == 8
    with pytest.raises(RuntimeError, match="bias has shape"):
        F.linear(x, w, tensor(normal(3)))


def test_cells_with_one_bias():
    x, w, b = tensor(normal(1, 2)), tensor(normal(2, 2)), tensor(normal(2))
    both = ad.rnn_tanh_cell(x, x, w, w, b, ad.zeros_like(b))
    assert ad.equal(ad.rnn_tanh_cell(x, x, w, w, b), both)
    assert ad.equal(ad.rnn_tanh_cell(x, x, w, w, None, b), both)
    x, w, b = tensor(normal(1, 1)), tensor(normal(4, 1)), tensor(normal(4))
    both = ad.lstm_cell(x, (x, x), w, w, b, ad.zeros_like(b))
    for given in ((b,), (None, b)):
        assert all(map(ad.equal, ad.lstm_cell(x, (x, x), w, w, *given), both))


def test_poisson_losses_keep_the_type_of_the_input():
    loss = F.poisson_nll_loss(ad.zeros(2, dtype=ad.bfloat16), ad.tensor([3, 0]), full=True, reduction="none")
    assert loss.dtype is ad.bfloat16 and loss[0].item() > 2
