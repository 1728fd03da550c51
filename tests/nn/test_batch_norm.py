"""Normalisation over batches, instances and groups against NumPy; derivatives against finite differences."""

import numpy as np
import pytest
from helpers import array, assert_close, check_derivatives, name_of, normal, tensor

import adjoint as ad
from adjoint import nn

F = nn.functional
SHAPES = {1: (4, 3, 5), 2: (2, 3, 4, 3), 3: (2, 3, 2, 2, 3)}


def standardised(x, over, eps):
    mean = x.mean(over, keepdims=True)
    return (x - mean) / np.sqrt(x.var(over, keepdims=True) + eps)


@pytest.mark.parametrize("n", SHAPES)
def test_batch_norm(n):
    x = normal(*SHAPES[n])
    over = (0, *range(2, n + 2))
    layer = getattr(nn, f"BatchNorm{n}d")(3, eps=0.1, momentum=0.3, dtype=ad.float64)
    assert list(layer.state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    with ad.no_grad():
        layer.weight.copy_(ad.tensor([1.0, 2.0, 3.0]))
        layer.bias.copy_(ad.tensor([-1.0, 0.0, 1.0]))
    scale, shift = (v.reshape(-1, *(1,) * n) for v in (np.array([1.0, 2, 3]), np.array([-1.0, 0, 1])))
    assert_close(layer(tensor(x)), standardised(x, over, 0.1) * scale + shift)
    count = x.size // 3
    mean, var = 0.3 * x.mean(over), 0.7 + 0.3 * x.var(over) * count / (count - 1)
    assert_close(layer.running_mean, mean)
    assert_close(layer.running_var, var)
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    mean, var = mean.reshape(scale.shape), var.reshape(scale.shape)
    assert_close(layer(tensor(x)), (x - mean) / np.sqrt(var + 0.1) * scale + shift)
    assert layer.num_batches_tracked.item() == 1
    layer.reset_running_stats()
    assert layer.running_var.tolist() == [1, 1, 1] and layer.num_batches_tracked.item() == 0


def test_momentum_none_is_the_mean_over_batches():
    layer = nn.BatchNorm1d(2, momentum=None, dtype=ad.float64)
    batches = [normal(5, 2, seed=s) for s in range(3)]
    for x in batches:
        layer(tensor(x))
    assert_close(layer.running_mean, np.mean([x.mean(0) for x in batches], 0))
    assert_close(layer.running_var, np.mean([x.var(0, ddof=1) for x in batches], 0))


def test_without_running_statistics():
    layer = nn.BatchNorm1d(2, affine=False, track_running_stats=False).eval()
    assert list(layer.state_dict()) == []
    x = normal(5, 2)
    assert_close(layer(tensor(x)), standardised(x, (0,), 1e-5))
    assert nn.BatchNorm2d(2, bias=False).bias is None


@pytest.mark.parametrize("n", SHAPES)
def test_derivatives(n):
    x, w, b = normal(*SHAPES[n]), normal(3, seed=1), normal(3, seed=2)
    mean, var = normal(3, seed=3), abs(normal(3, seed=4)) + 1
    check_derivatives(lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=0.1), [x, w, b])
    check_derivatives(lambda x, w, b: F.batch_norm(x, tensor(mean), tensor(var), w, b), [x, w, b])
    check_derivatives(lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=0.1), [x, w, b])
    check_derivatives(lambda x, w, b: F.group_norm(x, 3, w, b, eps=0.1), [x, w, b])
    check_derivatives(lambda x, w, b: F.group_norm(x, 1, w, b, eps=0.1), [x, w, b])
    check_derivatives(lambda x: F.local_response_norm(x, 2, 0.5), [x])


@pytest.mark.parametrize("n", SHAPES)
def test_instance_norm(n):
    x = normal(*SHAPES[n])
    over = tuple(range(2, n + 2))
    plain = getattr(nn, f"InstanceNorm{n}d")(3)
    assert list(plain.state_dict()) == []
    assert_close(plain(tensor(x)), standardised(x, over, 1e-5))
    assert_close(plain(tensor(x[0])), standardised(x, over, 1e-5)[0])
    layer = getattr(nn, f"InstanceNorm{n}d")(
        3, affine=True, track_running_stats=True, momentum=0.2, dtype=ad.float64
    )
    layer(tensor(x))
    mean, var = 0.2 * x.mean(over).mean(0), 0.8 + 0.2 * x.var(over, ddof=1).mean(0)
    assert_close(layer.running_mean, mean)
    assert_close(layer.running_var, var)
    mean, var = (v.reshape(-1, *(1,) * n) for v in (mean, var))
    assert_close(layer.eval()(tensor(x)), (x - mean) / np.sqrt(var + 1e-5))


def test_group_norm():
    x = normal(2, 6, 3, 2)
    grouped = standardised(x.reshape(2, 3, 2, 3, 2), (2, 3, 4), 1e-5).reshape(x.shape)
    layer = nn.GroupNorm(3, 6, dtype=ad.float64)
    assert_close(layer(tensor(x)), grouped)
    assert tuple(layer.weight.shape) == (6,) and nn.GroupNorm(3, 6, affine=False).weight is None


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_norm(size):
    x = normal(2, 4, 3, 2)
    expected = np.empty_like(x)
    for c in range(4):
        near = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        expected[:, c] = x[:, c] / (2 + 0.5 * (near**2).sum(1) / size) ** 0.75
    assert_close(nn.LocalResponseNorm(size, 0.5, 0.75, 2.0)(tensor(x)), expected)
    assert_close(F.local_response_norm(tensor(x[:, :, :, 0]), size, 0.5, 0.75, 2.0), expected[:, :, :, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(dtype):
    # Squares overflow float16: statistics are found in float32.
    x = ad.tensor([[600.0], [-600.0]]).to(getattr(ad, dtype))
    y = F.batch_norm(x, None, None, training=True)
    assert name_of(y.dtype) == dtype and [round(v) for v in array(y.float()).ravel()] == [1, -1]


def test_empty_batch():
    layer = nn.BatchNorm2d(2).eval()
    assert tuple(layer(ad.ones(0, 2, 3, 3)).shape) == (0, 2, 3, 3)
    assert tuple(F.group_norm(ad.ones(0, 4, 3), 2).shape) == (0, 4, 3)


REFUSED = {
    "Expected more than 1 value per channel when training, got input size": (
        ValueError,
        lambda: F.batch_norm(ad.ones(1, 2), None, None, training=True),
    ),
    "expected 4D input (got 3D input)": (ValueError, lambda: nn.BatchNorm2d(2)(ad.ones(2, 3, 4))),
    "expected 2D or 3D input (got 4D input)": (ValueError, lambda: nn.InstanceNorm1d(2)(ad.ones(1, 2, 3, 4))),
    "running_mean should contain 2 elements not 3": (
        RuntimeError,
        lambda: F.batch_norm(ad.ones(2, 2), ad.ones(3), ad.ones(3)),
    ),
    "Expected running_mean and running_var to be defined when training=False": (
        RuntimeError,
        lambda: F.batch_norm(ad.ones(2, 2), None, None),
    ),
    "Expected number of channels in input to be divisible by num_groups, but got input of shape [1, 2, 5] and "
    "num_groups=3": (RuntimeError, lambda: F.group_norm(ad.ones(1, 2, 5), 3)),
    "Expected more than 1 spatial element when training, got input size": (
        ValueError,
        lambda: F.instance_norm(ad.ones(1, 2, 1)),
    ),
    "num_channels (4) must be divisible by num_groups (3)": (ValueError, lambda: nn.GroupNorm(3, 4)),
    "Expected 3D or higher dimensionality": (ValueError, lambda: F.local_response_norm(ad.ones(2, 2), 2)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    kind, f = REFUSED[message]
    with pytest.raises(kind) as error:
        f()
    assert message in str(error.value)


def test_repr():
    text = "eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    assert repr(nn.BatchNorm2d(3)) == f"BatchNorm2d(3, {text}"
    assert repr(nn.GroupNorm(1, 2)) == "GroupNorm(1, 2, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.LocalResponseNorm(2)) == "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_statistics_that_move_after_a_call_by_them_do_not_reach_its_gradient(layer):
    norm = layer(2, affine=True, track_running_stats=True, dtype=ad.float64).eval()
    with ad.no_grad():
        norm.running_mean.copy_(ad.tensor([1.0, -1.0]))
        norm.running_var.copy_(ad.tensor([4.0, 0.25]))
    x = tensor(normal(3, 2, 4), requires_grad=True)
    wanted = ad.autograd.grad(norm(x).square().sum(), (x, norm.weight))
    y = norm(x)
    norm.train()(x.detach() * 5)
    found = ad.autograd.grad(y.square().sum(), (x, norm.weight))
    assert all(ad.equal(g, w) for g, w in zip(found, wanted))
