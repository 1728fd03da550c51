"""Channels innermost in memory: what is given so is given back so, by the operators that do it in torch 2.13."""

import pytest
from helpers import array, assert_close

import adjoint as ad
from adjoint import nn

F = nn.functional
weight, other = ad.rand(8, 4, 3, 3), ad.rand(2, 4, 6, 6)

KEPT = {
    "relu": F.relu,
    "add a number": lambda x: x + 1,
    "add a usual image": lambda x: x + other,
    "scale channels": lambda x: x * ad.ones(1, 4, 1, 1),
    "where": lambda x: ad.where(x > 0.5, x, other),
    "float64": lambda x: x.double(),
    "clone": lambda x: x.clone(),
    "zeros_like": lambda x: ad.zeros_like(x),
    "conv2d": lambda x: F.conv2d(x, weight, padding=1),
    "conv2d, by the weight alone": lambda x: F.conv2d(other, weight.to(memory_format=ad.channels_last)),
    "conv2d 1x1": lambda x: F.conv2d(x, weight[:, :, :1, :1]),
    "conv2d, stride": lambda x: F.conv2d(x, weight, ad.rand(8), stride=2, padding=1),
    "conv2d, depthwise": lambda x: F.conv2d(x, ad.rand(4, 1, 3, 3), groups=4),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, ad.rand(4, 5, 2, 2), stride=2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "max_pool2d, indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_avg_pool2d, uneven": lambda x: F.adaptive_avg_pool2d(x, 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "batch_norm": nn.BatchNorm2d(4),
    "batch_norm, eval": nn.BatchNorm2d(4).eval(),
    "group_norm": nn.GroupNorm(2, 4),
    "cat": lambda x: ad.cat([x, x], 1),
    "cat of images": lambda x: ad.cat([x, x], 0),
    "interpolate, nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate, bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate, bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "interpolate, area": lambda x: F.interpolate(x, size=3, mode="area"),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "pad, reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "dropout": lambda x: F.dropout(x, 0.5),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
}
USUAL = {
    "cat with a usual image": lambda x: ad.cat([x, other], 1),
    "contiguous": lambda x: x.contiguous(),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept_with_its_gradient(name):
    x = ad.rand(2, 4, 6, 6).to(memory_format=ad.channels_last).requires_grad_()
    ad.manual_seed(0)
    y = KEPT[name](x)
    assert y.is_contiguous(memory_format=ad.channels_last) and not y.is_contiguous()
    # The numbers are those of the usual order, and so are their gradients.
    usual = x.detach().contiguous().requires_grad_()
    ad.manual_seed(0)
    if name != "dropout":
        z = KEPT[name](usual)
        assert_close(y, array(z), rtol=1e-5, atol=1e-6)
    if y.requires_grad:
        y.square().sum().backward()
        assert x.grad.is_contiguous(memory_format=ad.channels_last)
        if name != "dropout":
            z.square().sum().backward()
            assert_close(x.grad, array(usual.grad), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", USUAL)
def test_not_kept(name):
    assert USUAL[name](ad.rand(2, 4, 6, 6).to(memory_format=ad.channels_last)).is_contiguous()


def test_volumes():
    x = ad.rand(1, 3, 4, 4, 4).to(memory_format=ad.channels_last_3d)
    for y in (
        F.relu(x),
        F.max_pool3d(x, 2),
        nn.BatchNorm3d(3)(x),
        ad.cat([x, x], 1),
        F.interpolate(x, scale_factor=2),
    ):
        assert y.is_contiguous(memory_format=ad.channels_last_3d)


def test_a_network():
    model = ad.models.resnet18(num_classes=3).eval()
    x = ad.rand(2, 3, 40, 40)
    expected = array(model(x))
    seen = []
    for block in (model.layer1, model.layer4):
        block.register_forward_hook(
            lambda module, args, y: seen.append(y.is_contiguous(memory_format=ad.channels_last))
        )
    model.to(memory_format=ad.channels_last)
    assert_close(model(x.to(memory_format=ad.channels_last)), expected, rtol=1e-4, atol=1e-5)
    assert seen == [True, True]


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (2, 4, 1, 1), (0, 4, 3, 3), (1, 1, 1, 1)])
def test_where_both_orders_are_one(shape):
    x = ad.rand(shape).to(memory_format=ad.channels_last)
    assert F.conv2d(x, ad.rand(2, shape[1], 1, 1)).shape == (shape[0], 2, *shape[2:])
    assert ad.cat([x, x], 1).shape[1] == 2 * shape[1]
