"""What functions of networks refuse, in torch's words, and forms that torch's own tests of them use."""

import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from adjoint.nn.utils import rnn

x1 = ad.ones(1, 1, 4)
scores = ad.zeros(2, 3)

REFUSED = [
    (
        RuntimeError,
        "both arguments to linear need to be at least 1D, but they are 0D and 2D",
        lambda: nn.Linear(1, 1)(ad.tensor(1.0)),
    ),
    (
        RuntimeError,
        "ignore_index is not supported for floating point target",
        lambda: F.cross_entropy(scores, scores, ignore_index=1),
    ),
    (
        RuntimeError,
        "input_lengths must be integral",
        lambda: F.ctc_loss(ad.zeros(4, 1, 3), ad.tensor([[1]]), ad.tensor([4.0]), ad.tensor([1])),
    ),
    (
        RuntimeError,
        "target_lengths must be integral",
        lambda: F.ctc_loss(ad.zeros(4, 1, 3), ad.tensor([[1]]), ad.tensor([4]), ad.tensor([1.0])),
    ),
    (
        RuntimeError,
        "log_probs tensor must not be empty",
        lambda: F.ctc_loss(ad.zeros(0, 0, 3), ad.tensor([], dtype=ad.int64), [], []),
    ),
    (TypeError, "expected size to be one of int or Tuple", lambda: F.interpolate(x1, size=(2.0,))),
    (TypeError, "expected size to be one of int or Tuple", lambda: F.interpolate(x1, size=(ad.tensor(2.0),))),
    (RuntimeError, "numbers of 64 bits", lambda: F.interpolate(x1, scale_factor=1e20)),
    (RuntimeError, "should be greater than 0", lambda: F.interpolate(x1, scale_factor=-1e20)),
    (
        RuntimeError,
        "channel_shuffle expects input with > 2 dims",
        lambda: F.channel_shuffle(ad.ones(1, 2), 2),
    ),
    (
        RuntimeError,
        "Number of groups to divide channels in must be positive",
        lambda: F.channel_shuffle(x1, 0),
    ),
    (RuntimeError, "Number of channels must be divisible by groups", lambda: F.channel_shuffle(x1, 2)),
    (
        RuntimeError,
        r"calculated shape of the array of sliding blocks as \(-4, -3\), which is too small",
        lambda: F.fold(ad.ones(1, 12, 12), (4, 5), 2, dilation=8),
    ),
    (
        ValueError,
        "fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints.",
        lambda: F.fractional_max_pool2d(ad.ones(1, 1, 4, 4), 2, output_ratio=(0.5, 0.5, 0.5)),
    ),
    (
        ValueError,
        "Expected more than 1 value per channel when training",
        lambda: F.group_norm(ad.ones(1, 4, 1), 4),
    ),
    (
        RuntimeError,
        "expected common dtype to be floating point, yet common dtype is",
        lambda: F.cosine_similarity(ad.tensor([1, 2]), ad.tensor([1, 2]), 0),
    ),
    (RuntimeError, "Expected iterable for input sequences, but got arg of type", lambda: rnn.pad_sequence(5)),
    (
        RuntimeError,
        "expected grid to have size 1 in last dimension",
        lambda: F.grid_sample(ad.ones(1, 2, 2), ad.ones(1, 1, 1, 2), align_corners=False),
    ),
    (
        ValueError,
        "expected input's size at dim=1 to match num_features",
        lambda: nn.InstanceNorm1d(4, affine=True)(ad.ones(3, 2, 2)),
    ),
    (AssertionError, "module should be of type", lambda: nn.Sequential().insert(0, [nn.ReLU()])),
]


@pytest.mark.parametrize("error, text, call", REFUSED, ids=[text for _, text, _ in REFUSED])
def test_refused(error, text, call):
    with pytest.raises(error, match=text):
        call()


def test_a_number_of_features_that_is_not_used():
    with pytest.warns(UserWarning, match="which is not used because affine=False"):
        nn.InstanceNorm2d(4)(ad.randn(3, 2, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.InstanceNorm2d(2)(ad.randn(3, 2, 4, 4))


def test_an_empty_generator_of_parameters():
    with pytest.warns(UserWarning, match="is an empty generator"):
        assert nn.utils.clip_grad_norm_((p for p in ()), 1.0).item() == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.utils.clip_grad_norm_([], 1.0)


def test_cosines_of_integers_beside_floats():
    a = np.array([3, 4], np.int8)
    result = F.cosine_similarity(ad.tensor(a), ad.tensor([1.0, 0.0]), 0)
    assert result.dtype == ad.float32 and abs(result.item() - 0.6) < 1e-6


@pytest.mark.parametrize("p", [0, 1, 2, 1.5, float("inf")])
def test_distances_of_rows_without_elements(p):
    x = ad.zeros(4, 0, dtype=ad.float64, requires_grad=True)
    result = F.pdist(x, p)
    assert result.tolist() == [0.0] * 6
    result.sum().backward()
    assert tuple(x.grad.shape) == (4, 0)


def test_pixels_keep_the_order_in_memory():
    x = ad.randn(2, 18, 4, 4).contiguous(memory_format=ad.channels_last)
    there = F.pixel_shuffle(x, 3)
    assert there.is_contiguous(memory_format=ad.channels_last)
    assert F.pixel_unshuffle(there, 3).is_contiguous(memory_format=ad.channels_last)
    np.testing.assert_array_equal(F.pixel_unshuffle(there, 3).numpy(), x.numpy())


@pytest.mark.parametrize("dtype", [ad.bfloat16, ad.float16])
def test_gradients_of_the_nearest_are_summed_in_single(dtype):
    x = ad.zeros(1, 1, 2, 2, dtype=dtype, requires_grad=True)
    g = ad.tensor(np.random.default_rng(0).normal(size=(1, 1, 32, 32))).to(dtype)
    F.interpolate(x, scale_factor=16, mode="nearest").backward(g)
    expected = g.double().numpy().reshape(2, 16, 2, 16).sum((1, 3))
    exact = ad.tensor(expected).to(dtype).double().numpy()
    np.testing.assert_allclose(
        x.grad.double().numpy()[0, 0], exact, rtol=2.0**-8 if dtype == ad.bfloat16 else 2.0**-10
    )


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_linear_layers_with_sparse_weights(layout, shape):
    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=(5, 4)) * (rng.random((5, 4)) > 0.4), rng.normal(size=5), rng.normal(size=shape)
    layer = nn.Linear(4, 5, dtype=ad.float64)
    layer.weight = nn.Parameter(getattr(ad.tensor(w), layout)())
    layer.bias = nn.Parameter(ad.tensor(b))
    t = ad.tensor(x, requires_grad=True)
    result = layer(t)
    np.testing.assert_allclose(result.detach().numpy(), x @ w.T + b, rtol=1e-12)
    g = rng.normal(size=result.shape)
    dw, dx, db = ad.autograd.grad(result, [layer.weight, t, layer.bias], ad.tensor(g))
    assert dw.layout == layer.weight.layout
    np.testing.assert_allclose(dx.numpy(), g @ w, rtol=1e-12)
    np.testing.assert_allclose(db.numpy(), g.reshape(-1, 5).sum(0), rtol=1e-12)
    full = g.reshape(-1, 5).T @ x.reshape(-1, 4)
    np.testing.assert_allclose(dw.to_dense().numpy()[w != 0], full[w != 0], rtol=1e-12)


def test_the_other_name_of_the_gradient():
    p = nn.Parameter(ad.zeros(2))
    p._grad = ad.ones(2)
    assert p._grad is p.grad and p.grad.tolist() == [1.0, 1.0]
