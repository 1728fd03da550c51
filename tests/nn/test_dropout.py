"""Leaving out: how often and in which blocks, means and variances, modes, dimensions, gradients, errors."""

import numpy as np
import pytest
from helpers import announced, array

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

SATURATED = -1.7580993408473766
CHANNELS = [
    (nn.Dropout1d, (40, 50, 3)),
    (nn.Dropout1d, (2000, 3)),
    (nn.Dropout2d, (40, 50, 2, 3)),
    (nn.Dropout3d, (40, 50, 2, 1, 3)),
    (nn.Dropout3d, (2000, 2, 1, 3)),
]


@pytest.mark.parametrize("module, shape", CHANNELS)
@pytest.mark.parametrize("inplace", [False, True])
def test_channels_are_left_out_whole(module, shape, inplace):
    p = 0.3
    x = ad.ones(shape)
    y = module(p, inplace)(x)
    assert (y is x) == inplace and tuple(y.shape) == shape
    spatial = {nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}[module]
    channels = array(y).reshape(-1, int(np.prod(shape[-spatial:])))
    assert (channels == channels[:, :1]).all()
    np.testing.assert_allclose(sorted(set(channels[:, 0].tolist())), [0, 1 / (1 - p)], rtol=1e-6)
    assert abs((channels[:, 0] == 0).mean() - p) < 0.05


@pytest.mark.parametrize(
    "function, shape", [(F.alpha_dropout, (300, 300)), (F.feature_alpha_dropout, (300, 300, 2))]
)
def test_alpha_dropout_keeps_mean_and_variance(function, shape):
    x = ad.randn(shape)
    y = array(function(x, 0.3, training=True))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    # An affine map of x where it stays, of the saturated value where not.
    a = 1 / np.sqrt((SATURATED**2 * 0.3 + 1) * 0.7)
    values, counts = np.unique(y, return_counts=True)
    assert abs(values[counts.argmax()] - (a * SATURATED - a * SATURATED * 0.3)) < 1e-5
    gone = y == values[counts.argmax()]
    kept = a * array(x) - a * SATURATED * 0.3
    assert np.isclose(np.where(gone, kept, y), kept, atol=1e-5).all()
    assert abs(gone.mean() - 0.3) < 0.02
    if len(shape) == 3:
        # A number may have been the saturated one before.
        assert (gone.any(-1) != gone.all(-1)).sum() <= 2


@pytest.mark.parametrize(
    "name", ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
)
def test_what_all_have_in_common(name):
    function = getattr(F, name)
    module = getattr(nn, "".join(part.capitalize() for part in name.split("_")).replace("1d", "1d"))
    shape = {"dropout2d": (4, 5, 3, 3), "dropout3d": (4, 5, 3, 3, 2)}.get(name, (4, 5, 3))
    x = ad.randn(shape)
    assert function(x, 0.5, training=False) is x and module(0.5).eval()(x) is x
    assert bool((function(x, 0.0, training=True) == x).all())
    assert bool((function(x, 1.0, training=True) == 0).all())
    written = x.clone()
    assert function(written, 0.5, training=True, inplace=True) is written
    for p in (-0.1, 1.1, float("nan")):
        for call in (lambda p=p: function(x, p, training=True), lambda p=p: module(p)):
            with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got"):
                call()
    assert repr(module(0.25)) == f"{module.__name__}(p=0.25, inplace=False)"
    leaf = ad.randn(shape, requires_grad=True)
    ad.manual_seed(5)
    y = function(leaf, 0.4, training=True)
    y.sum().backward()
    ad.manual_seed(5)
    step = function(leaf.detach() + 1, 0.4, training=True) - y.detach()
    np.testing.assert_allclose(array(leaf.grad), array(step), rtol=1e-3, atol=1e-5)


def test_dimensions():
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 4D input"):
        F.dropout1d(ad.ones(1, 2, 3, 4))
    with pytest.warns(
        UserWarning, match="Received a 3D input to dropout2d and assuming that channel-wise 1D"
    ):
        y = F.dropout2d(ad.ones(20, 30, 4))
    assert bool((y == y[..., :1]).all())
    with announced(UserWarning, match="dropout2d: Received a 2-D input to dropout2d, which is deprecated"):
        F.dropout2d(ad.ones(20, 30))
    with announced(UserWarning, match="dropout3d: Received a 3-D input to dropout3d, which is deprecated"):
        F.dropout3d(ad.ones(20, 30, 4))
    with pytest.raises(RuntimeError, match="Feature dropout requires at least 2 dimensions"):
        F.feature_alpha_dropout(ad.ones(5), training=True)
