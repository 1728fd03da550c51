"""Ends of ranges, nothing to reduce, and dtypes that meet in compositions: literal facts, one by one."""

import math

import numpy as np
import pytest
from helpers import array

import adjoint as ad

F = ad.nn.functional


def test_arange_over_all_of_int64():
    assert ad.arange(-(2**63), 2**63 - 1, 2**62).tolist() == [-(2**63), -(2**62), 0, 2**62]
    assert ad.arange(2**63 - 1, -(2**63), -(2**62)).tolist() == [2**63 - 1, 2**62 - 1, -1, -(2**62) - 1]
    assert ad.arange(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2]
    assert ad.arange(2**53, 2**53 + 3).tolist() == [2**53, 2**53 + 1, 2**53 + 2]
    with pytest.raises(RuntimeError, match="overflow"):
        ad.arange(-(2**63), 2**63 - 1)
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        ad.arange(0, 3, 0)
    with pytest.raises(RuntimeError, match="bound"):
        ad.arange(3, 0, 1)


def test_take_along_dim_counts_from_the_end():
    x = ad.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    y = ad.take_along_dim(x, ad.tensor([[-1, 0, -3]]), 1)
    assert y.tolist() == [[3, 1, 1]]
    assert ad.autograd.grad(y.sum(), x)[0].tolist() == [[2, 0, 1]]
    for index in (3, -4):
        with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
            ad.take_along_dim(x, ad.tensor([[index]]), 1)


def test_all_and_any_over_no_dimensions():
    x = ad.tensor([[1.0, 0.0]])
    assert ad.all(x, dim=()).tolist() == [[True, False]] and ad.any(x, dim=()).tolist() == [[True, False]]
    assert ad.any(x.to(ad.uint8), dim=()).dtype == ad.uint8
    assert x.sum(dim=()).item() == 1


def test_histc_of_one_point():
    x = ad.tensor([-1.0, 2.0])
    for both in (-1, 0, 5):
        assert ad.histc(x, bins=3, min=both, max=both).tolist() == [1, 0, 1]
    assert ad.histc(ad.tensor([2.0, 2.0]), bins=3, min=0, max=0).tolist() == [0, 2, 0]
    assert ad.histc(ad.tensor([-1.0, -1.0]), bins=3, min=-1, max=-1).tolist() == [0, 2, 0]
    assert ad.histc(ad.tensor([]), bins=3, min=0, max=0).tolist() == [0, 0, 0]


def test_norms_of_nothing():
    for shape in ((0, 3), (3, 0), (0, 0)):
        for ord in (1, math.inf):
            assert ad.linalg.norm(ad.ones(shape), ord).item() == 0
    assert ad.linalg.norm(ad.ones(0, 0), 1, dim=(0, 1)).item() == 0
    assert ad.linalg.matrix_norm(ad.ones(2, 0, 3), 1).tolist() == [0, 0]
    assert ad.linalg.matrix_norm(ad.ones(2, 0, 3), math.inf, keepdim=True).tolist() == [[[0]], [[0]]]
    assert ad.cdist(ad.ones(8, 0), ad.ones(1, 0), p=math.inf).tolist() == [[0.0]] * 8
    with pytest.raises((RuntimeError, IndexError)):
        ad.linalg.norm(ad.ones(0, 3), -math.inf)
    with pytest.raises(RuntimeError, match="does not have an identity"):
        ad.linalg.vector_norm(ad.ones(0), math.inf)


def test_rms_norm_of_half_types_has_the_epsilon_of_float32():
    x = [[1e-3, 2e-3, 3e-3]]
    wanted = np.array(x) / np.sqrt(np.mean(np.square(x)) + 2.0**-23)
    for dtype, tolerance in ((ad.float16, 2e-3), (ad.bfloat16, 1e-2), (ad.float32, 1e-5)):
        found = F.rms_norm(ad.tensor(x, dtype=dtype), (3,))
        assert found.dtype == dtype
        np.testing.assert_allclose(array(found).astype(np.float64), wanted, tolerance)


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_losses_of_mixed_types():
    single, double = ad.tensor([1.0]), ad.tensor(2.0, dtype=ad.float64)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss):
        # In one shape first: no side is a weak number then.
        assert loss(single, double).dtype == ad.float64
        assert loss(single[0], double).dtype == ad.float64
    assert F.huber_loss(single, double).dtype == ad.float32
    assert F.huber_loss(single[0], double).dtype == ad.float32
    assert F.huber_loss(single.half(), ad.tensor(2.0)).dtype == ad.float16


def both_derivatives(f, points):
    x = ad.tensor(points, dtype=ad.float64, requires_grad=True)
    (first,) = ad.autograd.grad(f(x).sum(), x, create_graph=True)
    return first.tolist(), ad.autograd.grad(first.sum(), x)[0].tolist()


def test_second_derivatives_at_kinks_are_those_that_torch_takes():
    F, inf = ad.nn.functional, float("inf")
    for f in (F.selu, F.elu, F.celu, lambda x: F.elu(x, -1.5)):
        assert both_derivatives(f, [0.0, -0.0])[1] == [0.0, 0.0]
    assert both_derivatives(F.softplus, [20.0, 0.0])[1] == [0.0, 0.25]
    assert both_derivatives(lambda x: F.huber_loss(x, ad.zeros(3), "sum"), [0.0, 1.0, -1.0])[1] == [
        1.0,
        0.0,
        0.0,
    ]
    assert both_derivatives(ad.erfinv, [1.0, -1.0]) == ([inf, inf], [inf, -inf])
    assert both_derivatives(ad.special.ndtri, [1.0, 0.0]) == ([inf, inf], [inf, -inf])
    assert ad.polygamma(2, ad.tensor([0.0, -1.0])).tolist() == [-inf, -inf]
    x = ad.tensor(-inf, requires_grad=True)
    ad.logcumsumexp(x, 0).backward()
    assert x.grad == 1


@pytest.mark.parametrize("name", ["erfinv", "sinc", "hardtanh", "relu6", "hardsigmoid", "matrix_exp"])
def test_results_that_no_derivative_needs_may_be_written_to(name):
    f = getattr(ad, name, None) or getattr(ad.nn.functional, name)
    x = ad.full((2, 2), 0.3, requires_grad=True)
    y = f(x)
    y[0] = 0.0
    y.sum().backward()
    assert x.grad[0].tolist() == [0.0, 0.0] or name == "matrix_exp"
    assert (x.grad[1] > 0).all() or name == "sinc"


def test_members_that_are_not_finite_leave_the_other_exponentials_of_matrices_alone():
    a = ad.stack([ad.eye(2), ad.tensor([[ad.nan, 0.0], [0.0, 1.0]]), ad.tensor([[ad.inf, 0.0], [0.0, 9.0]])])
    y = ad.linalg.matrix_exp(a.requires_grad_())
    ad.testing.assert_close(y[0], ad.eye(2) * 2.718281828)
    assert y[1:].isnan().all()
    y[0].sum().backward()
    assert a.grad[0].isfinite().all()


@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128])
def test_powers_of_exponent_zero_have_their_mixed_derivative(dtype):
    a = ad.tensor([0.5, 2.0, 3.0], dtype=dtype, requires_grad=True)
    b = ad.zeros(3, dtype=dtype, requires_grad=True)
    by_a, by_b = ad.autograd.grad((a**b).sum(), (a, b), ad.tensor(1, dtype=dtype), create_graph=True)
    # d/db (b a^(b-1)) at b = 0 is 1/a, as is d/da (a^b log a).
    for of, by in ((by_a, b), (by_b, a)):
        (mixed,) = ad.autograd.grad(of.sum(), by, ad.tensor(1, dtype=dtype), retain_graph=True)
        ad.testing.assert_close(mixed, (1 / a).detach())


def test_powers_of_exponent_zero_are_flat_where_their_base_has_no_inverse():
    a = ad.tensor([0.0, 1e-320, ad.inf, ad.nan], dtype=ad.float64, requires_grad=True)
    (slope,) = ad.autograd.grad((a ** ad.zeros(4, dtype=ad.float64)).sum(), a, create_graph=True)
    assert slope.tolist() == [0.0] * 4
    (bend,) = ad.autograd.grad(slope[:3].sum(), a)
    assert bend.tolist() == [0.0] * 4
