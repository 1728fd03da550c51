"""Calls that torch's programs make at the edges: results without elements, refusals, keywords, and what errors say."""

import re

import numpy as np
import pytest

import adjoint as ad

F, nn = ad.nn.functional, ad.nn


@pytest.mark.parametrize(
    "call, shape",
    [
        (lambda: F.grid_sample(ad.ones(0, 1, 2, 2), ad.ones(0, 2, 2, 2), align_corners=False), (0, 1, 2, 2)),
        (lambda: F.grid_sample(ad.ones(1, 0, 2, 2), ad.ones(1, 3, 2, 2), align_corners=False), (1, 0, 3, 2)),
        (lambda: F.pad(ad.ones(1, 1, 2, 2), [-1, -1, 0, 0], mode="circular"), (1, 1, 2, 0)),
        (lambda: F.pad(ad.ones(1, 1, 2, 2), [-1, -1, 0, 0], mode="replicate"), (1, 1, 2, 0)),
        (lambda: F.interpolate(ad.ones(1, 1, 2), size=0, mode="area"), (1, 1, 0)),
        (lambda: F.conv_transpose1d(ad.ones(0, 1, 2), ad.ones(1, 1, 2), output_padding=1), (0, 1, 4)),
    ],
)
def test_results_without_elements(call, shape):
    assert call().shape == shape


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: ad.zeros(2, names=("a",)), TypeError, "unexpected keyword argument 'names'"),
        (lambda: ad.full((2,), 1.0, names=("a",)), TypeError, "unexpected keyword argument 'names'"),
        (lambda: ad.lobpcg(ad.eye(9), bogus_=1), TypeError, "bogus_"),
        (
            lambda: F.fractional_max_pool2d(ad.ones(1, 1, 4, 4), 2, output_ratio=0.5),
            TypeError,
            "output_ratio",
        ),
        (
            lambda: F.avg_pool3d(ad.ones(1, 1, 2, 2, 2), 3, ceil_mode=True),
            RuntimeError,
            "smaller than kernel size",
        ),
        (
            lambda: F.lp_pool3d(ad.ones(1, 1, 2, 2, 2), 2, 3, ceil_mode=True),
            RuntimeError,
            "smaller than kernel size",
        ),
        (
            lambda: ad.Tensor.__torch_function__(ad.ones(1), (), (), ad.ones(1)),
            TypeError,
            "must be dict, not",
        ),
        (lambda: ad.linalg.inv_ex(ad.zeros(2, 2), check_errors=True), RuntimeError, "linalg.inv_ex: "),
        (
            lambda: ad.linalg.cholesky_ex(ad.zeros(2, 2), check_errors=True),
            RuntimeError,
            "linalg.cholesky_ex: ",
        ),
        (lambda: ad.linalg.inv(ad.zeros(2, 2)), RuntimeError, "linalg.inv: "),
        (lambda: ad.linalg.cholesky(ad.zeros(2, 2)), RuntimeError, "linalg.cholesky: "),
        (
            lambda: nn.Linear(3, 4)(ad.ones(2, 3, dtype=ad.float64)),
            RuntimeError,
            "mat1 and mat2 must have the same dtype): the input is float64, the weight float32",
        ),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


def test_a_level_of_forward_mode_is_left_once():
    level = ad.autograd.forward_ad.dual_level()
    level.__enter__()
    level.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        level.__exit__(None, None, None)


def test_creation_and_types():
    assert ad.arange(0, 1, 0.3, dtype=ad.int8).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="step must be nonzero"):
        ad.arange(0, 1, 0.3, dtype=ad.int64)
    start = ad.tensor(1.0, requires_grad=True)
    assert ad.linspace(start, 3, 1).tolist() == [1.0]
    ad.linspace(start, 3, 3).sum().backward()
    assert start.grad == 1.5

    assert ad.result_type(ad.ones(2, dtype=ad.int32), np.float64(1.5)) is ad.float32


def test_distributions():
    low, high = ad.tensor(0.0, requires_grad=True), ad.tensor(2.0, requires_grad=True)
    p = ad.distributions.Uniform(low, high, validate_args=False).log_prob(ad.tensor(3.0))
    assert p == -ad.inf and [g.item() for g in ad.autograd.grad(p, (low, high))] == [0.5, -0.5]
    one, half = ad.tensor(1.0), ad.tensor([0.5, 0.5])
    assert repr(ad.distributions.LogNormal(0.0, 1.0)) == "LogNormal()"
    assert repr(ad.distributions.HalfNormal(one)) == "HalfNormal()"
    assert repr(ad.distributions.InverseGamma(one, one)) == "InverseGamma()"
    assert repr(ad.distributions.Multinomial(3, half)) == "Multinomial()"


def test_the_state_of_lbfgs_has_the_weights_of_its_last_direction():
    x = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.LBFGS([x], history_size=5)

    def closure():
        optimizer.zero_grad()
        loss = (x**4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    state = optimizer.state[x]
    assert len(state["al"]) == 5 and sum(a is not None for a in state["al"]) == len(state["old_dirs"])


def test_dimensions_are_named_by_their_numbers():
    x = ad.zeros(2, 5)
    for call, words in (
        (lambda: ad.flatten(x, 1, -2), "they are 1 and -2"),
        (lambda: ad.diag_embed(x, 0, -1, 2), "identical -1, 2"),
        (lambda: ad.diagonal(x, 0, 1, -1), "identical 1, -1"),
        (lambda: ad.unbind(ad.zeros(()), 0), "specified as 0 but"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=words):
            call()
