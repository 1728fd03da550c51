"""Forms and refusals of functions of networks that torch's own tests pin: integers, `out=`, empty batches, and messages."""

import subprocess
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F


def same(result, expected):
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)


# ---- transposed convolution ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride, padding, more, dilation", [(2, 2, 3, 4), (1, 1, 3, 4), (1, 0, 1, 3)])
def test_output_padding_of_whole_steps(stride, padding, more, dilation):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=5), rng.normal(size=3)
    size = (5 - 1) * stride - 2 * padding + dilation * 2 + more + 1
    expected = np.zeros(size)
    for i in range(5):
        for k in range(3):
            place = i * stride + k * dilation - padding
            if 0 <= place < size:
                expected[place] += x[i] * w[k]
    t, v = (ad.tensor(a, requires_grad=True) for a in (x, w))
    options = {"stride": stride, "padding": padding, "output_padding": more, "dilation": dilation}
    result = F.conv_transpose1d(t.reshape(1, 1, 5), v.reshape(1, 1, 3), **options)
    same(result.detach().reshape(-1), expected)
    assert ad.autograd.gradcheck(
        lambda a, b: F.conv_transpose1d(a.reshape(1, 1, 5), b.reshape(1, 1, 3), **options), (t, v)
    )


CONVOLUTIONS = [
    (
        lambda: F.conv2d(ad.ones(1, 1, 4, 3), ad.ones(1, 2, 2, 4), padding=-1),
        "negative padding is not supported",
    ),
    (lambda: F.conv1d(ad.ones(1, 1, 4), ad.ones(1, 2)), "weight should have at least three dimensions"),
    (
        lambda: F.conv2d(ad.ones(1, 1, 4, 3), ad.ones(1, 2, 2), padding="same"),
        "Expected 3-dimensional input for 3-dimensional weight",
    ),
    (
        lambda: F.conv2d(ad.ones(1, 2, 4, 3), ad.ones(2, 2, 1, 1), groups=3),
        "expected weight to be at least 3 at dimension 0, but got weight of size",
    ),
]


@pytest.mark.parametrize("call, message", CONVOLUTIONS)
def test_messages_of_convolutions(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


# ---- pooling -----------------------------------------------------------------------------------------------------------


def test_means_of_integers_are_cut_off():
    x = -ad.arange(16).reshape(1, 4, 4)
    assert F.avg_pool2d(x, 3, 1).tolist() == [[[-5, -6], [-9, -10]]]
    assert F.avg_pool1d(ad.arange(7).reshape(1, 7), 2).dtype is ad.int64
    assert F.avg_pool3d(-ad.arange(27).reshape(1, 3, 3, 3), 2, 1, divisor_override=3)[0, 0].tolist() == [
        [-17, -20],
        [-25, -28],
    ]
    with pytest.raises(NotImplementedError, match='"avg_pool2d" not implemented for'):
        F.avg_pool2d(x.int(), 2)
    normal = F.local_response_norm(ad.arange(6).reshape(1, 6, 1), 2)
    assert normal.dtype is ad.float32 and normal[0, 1].item() == pytest.approx(1 / 1**0.75)


def test_pooling_and_activations_into_out():
    x = ad.randn(2, 3, 4, 4, dtype=ad.float64)
    calls = [
        lambda **o: F.avg_pool2d(x, 2, **o),
        lambda **o: F.avg_pool3d(x, 2, **o),
        lambda **o: F.normalize(x, dim=1, **o),
        lambda **o: F.gelu(x, **o),
        lambda **o: F.softplus(x, **o),
        lambda **o: F.logsigmoid(x, **o),
        lambda **o: F.softshrink(x, **o),
        lambda **o: F.hardshrink(x, **o),
        lambda **o: F.linear(x, ad.ones(5, 4, dtype=ad.float64), **o),
    ]
    for call in calls:
        expected = call()
        out = ad.empty_like(expected)
        assert call(out=out) is out and ad.equal(out, expected)
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call(out=ad.empty_like(expected, requires_grad=True))


POOLING = [
    (ValueError, lambda: F.adaptive_avg_pool2d(ad.ones(2, 2), 2), "Input dimension should be at least 3"),
    (ValueError, lambda: F.adaptive_max_pool3d(ad.ones(2, 2, 2), 2), "Input dimension should be at least 4"),
    (
        RuntimeError,
        lambda: F.adaptive_max_pool1d(ad.ones(1, 2, 3), ()),
        "'output_size' should contain one int",
    ),
    (RuntimeError, lambda: F.adaptive_max_pool2d(ad.ones(1, 2, 3, 3), ()), "internal error"),
    (
        RuntimeError,
        lambda: F.adaptive_max_pool2d(ad.ones(1, 2, 3, 3), (-1, 2)),
        "Trying to create tensor with negative dimension -1",
    ),
    (RuntimeError, lambda: F.avg_pool2d(ad.ones(0, 1, 49), 2, 50, -1), "pad must be non-negative"),
    (
        RuntimeError,
        lambda: F.max_pool2d(ad.ones(0, 1, 49), 2, 50, 4),
        "pad should be at most half of effective",
    ),
    (
        RuntimeError,
        lambda: F.max_pool1d(ad.ones(3, 3, 3), 1, 0),
        r"max_pool1d\(\) stride must be greater than zero",
    ),
    (
        RuntimeError,
        lambda: F.max_pool1d(ad.ones(3, 3, 3), 1, dilation=0),
        r"max_pool1d\(\) dilation must be greater",
    ),
]


@pytest.mark.parametrize("kind, call, message", POOLING)
def test_messages_of_pooling(kind, call, message):
    with pytest.raises(kind, match=message):
        call()


def test_fractional_pooling_of_no_images_and_draws_for_more():
    assert F.fractional_max_pool3d(ad.ones(0, 1, 4, 5, 4), (2, 2, 1), output_size=2).shape == (0, 1, 2, 2, 2)
    x, draws = ad.randn(4, 7, 7, 7), ad.rand(2, 4, 3)
    one, batched = (
        F.fractional_max_pool3d(t, 2, output_size=3, _random_samples=s)
        for t, s in ((x, draws), (x[None], draws[:1]))
    )
    assert ad.equal(one, batched[0])


# ---- normalisation -------------------------------------------------------------------------------------------------------


def test_an_empty_batch_leaves_running_statistics():
    layer = nn.BatchNorm2d(3)
    assert layer(ad.ones(0, 3, 2, 2)).shape == (0, 3, 2, 2)
    assert layer.running_mean.tolist() == [0.0] * 3 and layer.running_var.tolist() == [1.0] * 3
    assert layer.num_batches_tracked.item() == 1


def test_eps_of_batch_norm_is_positive():
    for eps in (-1.0, 0.0):
        with pytest.raises(
            ValueError, match=f"batch_norm eps must be positive during training, but got {eps}"
        ):
            nn.BatchNorm1d(2, eps=eps)(ad.ones(3, 2))
    with pytest.raises(ValueError, match="batch_norm eps must be non-negative, but got -1.0"):
        F.batch_norm(ad.ones(3, 2), ad.ones(2), ad.ones(2), eps=-1.0)


def test_rms_norm_names_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match="Expected normalized_shape to be at least 1-dimensional"):
        F.rms_norm(ad.ones(1, 2, 3), ())
    with pytest.raises(RuntimeError, match="Expected weight to be of same shape as normalized_shape"):
        F.rms_norm(ad.ones(1, 2, 3), (1, 2, 3), ad.ones(1, 2))


def test_representations_and_attributes():
    assert repr(nn.GroupNorm(3, 6)) == "GroupNorm(3, 6, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.GroupNorm(3, 6, affine=False)) == "GroupNorm(3, 6, eps=1e-05, affine=False, bias=False)"
    layers = [nn.TransformerEncoderLayer(4, 2, activation=a) for a in ("relu", nn.GELU(), ad.tanh)]
    assert [layer.activation_relu_or_gelu for layer in layers] == [1, 2, 0]


# ---- activations, images ---------------------------------------------------------------------------------------------------


def test_activations_of_integers():
    x = ad.arange(5)
    assert F.threshold(x, 2, 7).tolist() == [7, 7, 7, 3, 4] and F.threshold(x, 2, 7).dtype is ad.int64
    y = x.clone()
    assert F.threshold(y, 2, 7, inplace=True) is y and y.tolist() == [7, 7, 7, 3, 4]
    same(F.softsign(x), np.float32(np.arange(5) / (1 + np.arange(5))))
    np.testing.assert_allclose(F.tanhshrink(x).numpy(), np.arange(5) - np.tanh(np.arange(5)), rtol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("options", [{}, {"align_corners": True}, {"antialias": True}])
def test_images_of_bytes_are_rounded(mode, options):
    x = ad.arange(0, 256, 16, dtype=ad.uint8).reshape(1, 1, 4, 4)
    result = F.interpolate(x, size=(5, 3), mode=mode, **options)
    wide = F.interpolate(x.double(), size=(5, 3), mode=mode, **options).clamp(0, 255)
    assert result.dtype is ad.uint8 and (result - wide).abs().max().item() <= 0.5 + 1e-4


ACTIVATIONS = [
    (lambda: F.prelu(ad.ones(()), ad.ones(2)), "Not allow zero-dim input tensor."),
    (
        lambda: F.prelu(ad.ones(2, 8, 3), ad.ones(2, 4)),
        "Expected `weight` to be a scalar or 1D tensor, but got: ndim = 2",
    ),
    (
        lambda: F.softshrink(ad.ones(1), -0.5),
        r"lambda must be in range \[0, 3.40282e\+38\] for input dtype Float, but found -0.5",
    ),
]


@pytest.mark.parametrize("call, message", ACTIVATIONS)
def test_messages_of_activations(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


# ---- losses ----------------------------------------------------------------------------------------------------------------


def test_losses_of_one_score():
    assert F.multi_margin_loss(ad.tensor(2.0), ad.tensor(0)).item() == 0.0
    assert F.multilabel_margin_loss(ad.tensor(2.0), ad.tensor(0)).item() == 0.0


def test_a_variance_for_each_place_of_one_dimension():
    x, y, var = ad.randn(4, 3), ad.randn(4, 3), ad.rand(1, 3) + 0.5
    assert ad.allclose(F.gaussian_nll_loss(x, y, var), F.gaussian_nll_loss(x, y, var.expand(4, 3)))


X = ad.ones(2, 3)
LOSSES = [
    (
        RuntimeError,
        lambda: F.cross_entropy(X, X.long()),
        "Expected floating point type for target with class probabilities",
    ),
    (
        RuntimeError,
        lambda: F.cross_entropy(X, ad.ones(2)),
        "expected target dtype to be Long or Byte, but got Float",
    ),
    (
        RuntimeError,
        lambda: F.cross_entropy(X, X, ignore_index=1),
        "ignore_index is not supported for floating point target",
    ),
    (
        ValueError,
        lambda: F.cross_entropy(X, ad.ones(4, 3)),
        r"Expected input batch_size \(2\) to match target batch_size \(4\)",
    ),
    (
        RuntimeError,
        lambda: F.multi_margin_loss(ad.ones(5, 4), ad.ones(5)),
        "expected scalar type Long but found Float",
    ),
    (
        ValueError,
        lambda: F.multilabel_margin_loss(X, X.long(), reduction="abc"),
        "abc is not a valid value for reduction",
    ),
    (ValueError, lambda: F.gaussian_nll_loss(X, X, ad.ones(2, 2)), "var is of incorrect size"),
    (ValueError, lambda: F.gaussian_nll_loss(X, X, X, reduction="abc"), "abc is not valid"),
    (
        RuntimeError,
        lambda: F.nll_loss(X, ad.ones(2).long(), ad.ones(3).half()),
        "expected scalar type Float but found Half",
    ),
    (TypeError, lambda: F.huber_loss(X, X, delta=1j), "delta must be a float or int, got: <class 'complex'>"),
    (
        RuntimeError,
        lambda: ad.broadcast_tensors(ad.ones(5, 4), ad.ones(5)),
        r"The size of tensor a \(4\) must match the size of tensor b \(5\) at non-singleton dimension 1",
    ),
]


@pytest.mark.parametrize("kind, call, message", LOSSES)
def test_messages_of_losses(kind, call, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_module_of_the_loss_of_huber_refuses_other_deltas():
    with pytest.raises(TypeError, match="delta must be a float or int, got: <class 'complex'>"):
        nn.HuberLoss(delta=1j)


# ---- images, attention ---------------------------------------------------------------------------------------------------


def test_pixels_are_never_shared():
    x = ad.ones(1, 2, 3, 3)
    for f in (F.pixel_shuffle, F.pixel_unshuffle):
        result = f(x, 1)
        assert ad.equal(result, x) and result.data_ptr() != x.data_ptr()


ATTENTION = """
import adjoint
torch = adjoint.as_torch()
F = torch.nn.functional
torch.manual_seed(0)
q, k, mask = torch.randn(2, 2, 6, 8), torch.randn(2, 2, 5, 8), torch.rand(6, 5) > 0.3
mask[2] = False
scores = q @ k.mT / 8**0.5
causal = torch.ones(6, 5, dtype=torch.bool).tril()
for options, seen in (({}, mask | True), ({"attn_mask": mask}, mask), ({"is_causal": True}, causal)):
    torch.manual_seed(3)
    result = F.scaled_dot_product_attention(q, k, k, dropout_p=0.4, **options)
    torch.manual_seed(3)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)
    assert torch.allclose(result, F.dropout(weights, 0.4) @ k, atol=1e-6), options
"""


def test_attention_drops_what_dropout_drops_in_torch_s_stream():
    """Under `as_torch`, the mask is drawn as for the matrix of all weights."""
    subprocess.run([sys.executable, "-c", ATTENTION], check=True, timeout=100)


def test_circular_padding_names_the_ranks_it_takes():
    with pytest.raises(ValueError, match=r"expected 3D or 4D input \(got 2D input\)"):
        nn.CircularPad2d(3)(ad.ones(2, 3))


@pytest.mark.parametrize("dtype", [ad.int8, ad.int32, ad.int64], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_sizes_to_interpolate_to_may_be_tensors(dtype, mode):
    """A library draws them: ``size=[rnd, rnd]`` with `rnd` of one element, and of a dtype that holds no large limits."""
    x = ad.rand(1, 2, 4, 4)
    size = ad.tensor([7], dtype=dtype)
    expected = ad.nn.functional.interpolate(x, size=(7, 7), mode=mode)
    assert ad.equal(ad.nn.functional.interpolate(x, size=[size, size], mode=mode), expected)
