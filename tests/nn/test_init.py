"""Initialisation: bounds, moments, structure, errors, and that nothing is recorded."""

import math

import numpy as np
import pytest
from scipy import stats

import adjoint as ad
from adjoint import nn
from adjoint.nn import init


@pytest.fixture(autouse=True)
def seed():
    ad.manual_seed(7)


def array(t):
    return np.asarray(t.detach().tolist(), dtype=np.float64)


def fits(values, distribution):
    """Kolmogorov-Smirnov: false alarms once in 10⁵ seeds, and the seed is fixed."""
    return stats.kstest(values.reshape(-1), distribution.cdf).pvalue > 1e-5


@pytest.mark.parametrize(
    "name, expected",
    [
        ("linear", 1.0),
        ("conv2d", 1.0),
        ("conv_transpose3d", 1.0),
        ("sigmoid", 1.0),
        ("tanh", 5 / 3),
        ("relu", math.sqrt(2)),
        ("selu", 0.75),
        ("leaky_relu", math.sqrt(2 / 1.0001)),
    ],
)
def test_gain(name, expected):
    assert init.calculate_gain(name) == pytest.approx(expected, rel=1e-15)


def test_gain_with_a_slope():
    assert init.calculate_gain("leaky_relu", 2) == pytest.approx(math.sqrt(2 / 5))
    for wrong in (True, "steep"):
        with pytest.raises(ValueError, match="not a valid number"):
            init.calculate_gain("leaky_relu", wrong)
    with pytest.raises(ValueError, match="Unsupported nonlinearity cosine"):
        init.calculate_gain("cosine")


SHAPE = (60, 40, 2)  # fan_in 80, fan_out 120


@pytest.mark.parametrize(
    "fill, distribution",
    [
        (lambda t: init.uniform_(t, -2.0, 3.0), stats.uniform(-2, 5)),
        (lambda t: init.normal_(t, 1.0, 2.0), stats.norm(1, 2)),
        (lambda t: init.trunc_normal_(t, 0.5, 2.0, -1.0, 3.0), stats.truncnorm(-0.75, 1.25, 0.5, 2.0)),
        (lambda t: init.xavier_uniform_(t, 2.0), stats.uniform(-2 * 0.03**0.5, 4 * 0.03**0.5)),
        (lambda t: init.xavier_normal_(t), stats.norm(0, 0.1)),
        (
            lambda t: init.kaiming_uniform_(t, nonlinearity="relu"),
            stats.uniform(-(0.075**0.5), 2 * 0.075**0.5),
        ),
        (
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
            stats.norm(0, (1 / 60) ** 0.5),
        ),
        (lambda t: init.kaiming_normal_(t, a=1.0), stats.norm(0, (1 / 80) ** 0.5)),
    ],
)
def test_distributions(fill, distribution):
    t = nn.Parameter(ad.empty(SHAPE))
    assert fill(t) is t and t.grad_fn is None and t.requires_grad
    assert fits(array(t), distribution)
    # The test itself can tell a distribution apart that is a tenth wider.
    assert not fits(array(t) * 1.1 + 0.1 * array(t).std(), distribution)


def test_generators_decide():
    def draw(seed):
        generator = ad.Generator()
        generator.manual_seed(seed)
        return init.normal_(ad.empty(5), generator=generator).tolist()

    assert draw(1) == draw(1) != draw(2)


def test_constants():
    t = ad.empty(2, 3)
    assert init.constant_(t, 0.5) is t and t.tolist() == [[0.5] * 3] * 2
    assert init.ones_(t).sum().item() == 6.0 and init.zeros_(t).abs().sum().item() == 0.0
    np.testing.assert_array_equal(array(init.eye_(t)), np.eye(2, 3))


def test_dirac():
    w = init.dirac_(ad.empty(4, 2, 3), groups=2)
    expected = np.zeros((4, 2, 3))
    for out, channel in ((0, 0), (1, 1), (2, 0), (3, 1)):
        expected[out, channel, 1] = 1
    np.testing.assert_array_equal(array(w), expected)
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(ad.empty(3, 2, 3), groups=2)
    with pytest.raises(ValueError, match="3, 4, or 5 dimensions"):
        init.dirac_(ad.empty(3, 2))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (3, 2, 2)])
def test_orthogonal(shape):
    w = array(init.orthogonal_(ad.empty(*shape, dtype=ad.float64), gain=2.0)).reshape(shape[0], -1)
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-10)


def test_sparse():
    w = array(init.sparse_(ad.empty(10, 4), 0.35, std=2.0))
    assert ((w == 0).sum(0) == 4).all()


def test_errors_and_warnings():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(ad.empty(3))
    with pytest.raises(ValueError, match="Mode sideways not supported"):
        init.kaiming_normal_(ad.empty(2, 2), mode="sideways")
    for fill in (init.eye_, lambda t: init.sparse_(t, 0.5)):
        with pytest.raises(ValueError, match="Only tensors with 2 dimensions"):
            fill(ad.empty(3))
    with pytest.raises(ValueError, match="2 or more dimensions"):
        init.orthogonal_(ad.empty(3))
    with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
        init.kaiming_uniform_(ad.empty(0, 3))
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(ad.empty(3), mean=10.0)
