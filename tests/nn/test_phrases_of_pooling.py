"""Poolings at their edges: windows outside of the image, results and images without elements, refusals in torch's words.

Embeddings and dropouts, which refuse in the same manner, are here too.
"""

import math

import numpy as np
import pytest
from helpers import array

import adjoint as ad

F, nn = ad.nn.functional, ad.nn


def refused(f, words, error=RuntimeError):
    with pytest.raises(error) as found:
        f()
    assert words in str(found.value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_windows_that_lie_outside_of_the_image_have_the_lowest_number(dtype):
    lowest = -math.inf if "float" in dtype else np.iinfo(dtype).min
    x = ad.tensor([[[3]]]).to(getattr(ad, dtype))
    values, indices = F.max_pool1d(x, 2, padding=1, dilation=2, return_indices=True)
    assert values.tolist() == [[[lowest]]] and indices.tolist() == [[[0]]]
    assert F.max_pool2d(x.unsqueeze(0), 2, padding=1, dilation=2).tolist() == [[[[lowest]]]]


def test_no_gradient_goes_to_a_window_that_lies_outside():
    x = ad.ones(1, 1, 2, requires_grad=True)
    y = F.max_pool1d(x, 2, stride=1, padding=1, dilation=3)
    y.sum().backward()
    assert y.tolist() == [[[-math.inf]]] and x.grad.tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_no_windows_have_a_gradient_of_zero(n, kind):
    pool = getattr(F, f"adaptive_{kind}_pool{n}d")
    x = ad.ones([1, 2] + [4] * n, requires_grad=True)
    y = pool(x, 0)
    assert y.shape == (1, 2) + (0,) * n
    y.sum().backward()
    assert x.grad.tolist() == ad.zeros_like(x).tolist()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_images_without_channels(n):
    x = ad.ones([2, 0] + [4] * n)
    words = "Expected input to have non-zero size for non-batch dimensions, but input has sizes"
    refused(lambda: getattr(F, f"adaptive_max_pool{n}d")(x, 2), words)
    if n < 3:
        assert getattr(F, f"adaptive_avg_pool{n}d")(x, 2).shape == (2, 0) + (2,) * n
    else:
        refused(lambda: F.adaptive_avg_pool3d(x, 2), "with dimension 1 being empty")
    if n > 1:
        refused(
            lambda: getattr(F, f"fractional_max_pool{n}d")(x, 2, 2), "Expected input to have non-zero size"
        )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling_is_of_fractions(n, kind):
    pool = getattr(F, f"adaptive_{kind}_pool{n}d")
    refused(
        lambda: pool(ad.ones([1, 1] + [4] * n, dtype=ad.int32), 2),
        "not implemented for 'Int'",
        NotImplementedError,
    )


@pytest.mark.parametrize(
    "options, words",
    [
        (([2**61], [2], [1], [1], [3]), "a window lies outside of the image"),
        (([2**62], [2], [1], [2], [3]), "is larger than any image"),
        (([3], [2], [2**62], [1], [3]), "pad should be at most half of effective kernel size"),
        (([2**61], [1], [2**60], [1], [2**60]), "a window lies outside of the image"),
    ],
)
def test_windows_beyond_sense_are_refused_before_memory_is_asked_for(options, words):
    refused(lambda: ad._C._max_pool(ad.ones(1, 2, 5), *options), words)


def test_windows_far_larger_than_the_image_take_the_image_s_time_and_memory():
    x = ad.arange(5.0, dtype=ad.float64).reshape(1, 1, 5)
    assert F.max_pool1d(x, 2**61, 1, 2**60).tolist() == [[[4.0] * 6]]
    for kernel, stride, padding in (
        (10**12, 1, 5 * 10**11),
        (10**12, 3, 5 * 10**11 - 1),
        (2**50, 2**49, 2**49),
    ):
        windows = (5 + 2 * padding - kernel) // stride + 1
        starts = [i * stride - padding for i in range(windows)]
        wanted = [x[0, 0, max(0, a) : max(0, a + kernel)].sum().item() / kernel for a in starts]
        np.testing.assert_allclose(array(F.avg_pool1d(x, kernel, stride, padding))[0, 0], wanted, rtol=1e-14)
    assert F.avg_pool1d(x, 10**12, 10**12, ceil_mode=True).tolist() == [[[2.0]]]


def test_more_windows_than_memory_has_bytes():
    refused(lambda: F.adaptive_max_pool1d(ad.ones(2, 2, 2), 2**62 - 1), "Storage size calculation overflowed")


@pytest.mark.parametrize("pool", [F.adaptive_avg_pool2d, F.adaptive_max_pool2d])
@pytest.mark.parametrize("windows", [1, 3, 4])
def test_channels_stay_innermost(pool, windows):
    whole = ad.randn(2, 6, 8, 8).contiguous(memory_format=ad.channels_last)
    for x in (whole, whole[:, ::2]):  # with gaps, too
        y, c = pool(x, windows), x.shape[1]
        assert y.stride() == (c * windows**2, 1, c * windows, c)
        np.testing.assert_allclose(array(y), array(pool(x.contiguous(), windows)), rtol=1e-5, atol=1e-6)
    assert pool(whole.contiguous()[::2, ::2], windows).is_contiguous()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_of_no_images(n):
    pool, unpool = getattr(F, f"max_pool{n}d"), getattr(F, f"max_unpool{n}d")
    x = ad.ones([0, 3] + [4] * n, requires_grad=True)
    unpool(*pool(x, 2, return_indices=True), 2).sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("n, short", [(2, (3,)), (3, (3, 3))])
def test_fractional_pooling(n, short):
    pool, x = getattr(F, f"fractional_max_pool{n}d"), ad.ones([1, 2] + [7] * n)
    refused(lambda: pool(x, short, 3), "kernel_size must either be a single Int or tuple of")
    refused(lambda: pool(x, 2, short), "output_size must either be a single Int or tuple of")
    refused(lambda: pool(x, 2, 3, _random_samples=ad.ones(3, 2, n)), "Expect _random_samples")
    assert pool(x, 2, (0,) + (1,) * (n - 1)).shape == (1, 2, 0) + (1,) * (n - 1)


def test_embeddings():
    table, bad = ad.ones(4, 3), ad.tensor([[1, 7]])
    for f in (
        lambda: nn.Embedding(4, 3, padding_idx=4),
        lambda: nn.Embedding(4, 3, padding_idx=-5),
        lambda: F.embedding(bad, table, padding_idx=9),
    ):
        refused(f, "Padding_idx must be within num_embeddings", AssertionError)
    refused(
        lambda: nn.EmbeddingBag(4, 3, padding_idx=4),
        "padding_idx must be within num_embeddings",
        AssertionError,
    )
    for mode in ("sum", "mean", "max"):
        refused(
            lambda mode=mode: F.embedding_bag(bad, table, mode=mode),
            "Index 1 of input takes value 7 which is not in the valid range [0, 4)",
        )
    weights = ad.ones(1, 2, dtype=ad.float64)
    refused(
        lambda: F.embedding_bag(ad.tensor([[1, 2]]), table, mode="sum", per_sample_weights=weights),
        "Expected tensor for argument #1 'weight' to have the same type as",
    )


def test_a_limit_of_norms_does_not_change_tangents():
    with ad.autograd.forward_ad.dual_level():
        weight = ad.autograd.forward_ad.make_dual(ad.full((3, 2), 5.0), ad.ones(3, 2))
        found = ad.autograd.forward_ad.unpack_dual(F.embedding(ad.tensor([0, 2]), weight, max_norm=1.0))
    assert found.tangent.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    np.testing.assert_allclose(array(found.primal), 0.5**0.5, rtol=1e-5)


def test_dropout_says_what_it_got():
    refused(lambda: F.dropout1d(ad.ones(1, 2, 2, 2)), "Expected 2D or 3D input, but received a 4D input")


def test_parameters_that_a_module_does_not_have_are_its_for_the_call():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def forward(self, x):
            return self.layer(x), list(self.parameters())

    model, extra = Model(), nn.Parameter(ad.ones(1))
    _, inside = ad.func.functional_call(
        model, {"layer.extra": extra, "layer.other": ad.ones(1)}, ad.ones(1, 1)
    )
    assert len(inside) == 3 and inside[2] is extra
    assert len(list(model.parameters())) == 2 and not hasattr(model.layer, "extra")
