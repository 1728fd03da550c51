"""Derivatives of first and second order at kinks, and where a function or its slope ends."""

import math

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
INF = math.inf


def slopes(f, at):
    """The first and the second derivative at a number."""
    x = ad.tensor(at, dtype=ad.float64, requires_grad=True)
    (first,) = ad.autograd.grad(f(x), x, create_graph=True)
    return first.item(), ad.autograd.grad(first, x)[0].item()


@pytest.mark.parametrize(
    ("name", "at", "first", "second"),
    [
        ("asin", 1.0, INF, INF),
        ("asin", -1.0, INF, -INF),
        ("acos", 1.0, -INF, -INF),
        ("acos", -1.0, -INF, INF),
        ("atanh", 1.0, INF, INF),
        ("atanh", -1.0, INF, -INF),
        ("erfinv", 1.0, INF, INF),
        ("erfinv", -1.0, INF, -INF),
        ("sqrt", 0.0, INF, -INF),
        ("log", 0.0, INF, -INF),
    ],
)
def test_infinite_slopes_at_ends(name, at, first, second):
    assert slopes(getattr(ad, name), at) == (first, second)


@pytest.mark.parametrize("name", ["asin", "acos", "atanh"])
def test_slopes_beside_the_ends_keep_their_digits(name):
    import mpmath as mp

    near = 1 - 2.0**-40
    first, second = slopes(getattr(ad, name), near)
    with mp.workdps(50):
        expected = [float(mp.diff(getattr(mp, name), mp.mpf(near), n, h=mp.mpf(2) ** -120)) for n in (1, 2)]
    assert (first, second) == pytest.approx(expected, rel=1e-14)


def test_prelu_has_no_mixed_derivative_at_its_kink():
    x = ad.tensor([0.0, 1.0, -1.0], dtype=ad.float64, requires_grad=True)
    w = ad.tensor([0.25], dtype=ad.float64, requires_grad=True)
    by_x, by_w = ad.autograd.grad(F.prelu(x, w).sum(), (x, w), create_graph=True)
    assert by_x.tolist() == [0.25, 1.0, 0.25] and by_w.tolist() == [-1.0]
    assert ad.autograd.grad(by_x.sum(), w, retain_graph=True)[0].tolist() == [1.0]
    assert ad.autograd.grad(by_w.sum(), x)[0].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("f", [F.selu, F.elu, F.celu, lambda x: F.softplus(x, threshold=0)])
def test_second_derivatives_at_kinks_are_of_the_right_side(f):
    assert slopes(f, 0.0)[1] == 0


def test_an_impossible_alignment_has_no_gradient():
    """The loss is infinite, its derivative no number; other samples of the batch keep theirs."""
    scores = np.random.default_rng(0).normal(size=(3, 2, 4))
    targets, given, spelled = ad.tensor([[1, 1, 1], [1, 2, 0]]), [3, 3], [3, 2]

    def gradient(columns, **options):
        x = ad.tensor(scores[:, columns]).log_softmax(-1).requires_grad_()
        chosen = [part[columns.start : columns.stop] for part in (given, spelled)]
        loss = F.ctc_loss(x, targets[columns], *chosen, reduction="none", **options)
        return loss, ad.autograd.grad(loss.sum(), x)[0]

    loss, found = gradient(slice(0, 2))
    assert loss[0] == INF and found[:, 0].isnan().any() and not found[:, 1].isnan().any()
    assert found[:, 1:].equal(gradient(slice(1, 2))[1])
    loss, found = gradient(slice(0, 2), zero_infinity=True)
    assert loss[0] == 0 and found[:, 0].count_nonzero() == 0 and found[:, 1].count_nonzero() > 0


def test_nan_to_num_of_complex_numbers():
    z = ad.tensor(
        [complex(math.nan, 1), complex(1, INF), complex(-INF, math.nan), 1 + 1j], dtype=ad.complex128
    )
    most = ad.finfo(ad.float64).max
    assert z.nan_to_num().tolist() == [1j, complex(1, most), complex(-most, 0), 1 + 1j]
    assert z.nan_to_num(2, 3, 4).tolist() == [2 + 1j, 1 + 3j, 4 + 2j, 1 + 1j]
    x = z.requires_grad_()
    y = x.nan_to_num(posinf=5.0)
    (g,) = ad.autograd.grad(y, x, ad.full_like(y, 2 + 3j), create_graph=True)
    assert g.tolist() == [3j, 2, 0, 2 + 3j]
    assert z.clone().detach().to(ad.complex64).nan_to_num_().dtype is ad.complex64


def test_whether_something_holds_may_be_written_as_bytes():
    x = ad.tensor([[0.0, 2.0], [0.0, 0.0]])
    for f, expected in ((ad.any, [1, 0]), (ad.all, [0, 0])):
        out = ad.empty(2, dtype=ad.uint8)
        assert f(x, dim=1, out=out) is out and out.tolist() == expected
    with pytest.raises(RuntimeError, match="dtype bool, but got float"):
        ad.any(x, out=ad.empty(()))


@pytest.mark.parametrize("f", [ad.gcd, ad.lcm])
def test_common_divisors_promote_as_other_operators(f):
    for a, b, dtype in (
        (ad.uint8, ad.bool, ad.uint8),
        (ad.int8, ad.uint8, ad.int16),
        (ad.int32, ad.int64, ad.int64),
    ):
        x, y = ad.tensor([[4], [6]], dtype=a), ad.tensor([1, 1, 1], dtype=b)
        assert f(x, y).dtype is dtype and f(x, y).shape == (2, 3)
        assert f(x, y).tolist() == getattr(np, f.__name__)([[4], [6]], [1, 1, 1]).tolist()


@pytest.mark.parametrize("a", [-0.0, 0.0, 4.0, -4.0])
@pytest.mark.parametrize("b", [2.0, -2.0])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(a, b):
    for n in (1, 40):
        found = ad.full((n,), a) % ad.full((n,), b)
        assert math.copysign(1, found[-1].item()) == math.copysign(1, a % b)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
def test_the_zeros_of_sinc_have_no_sign(dtype):
    whole = ad.arange(-9, 10, dtype=dtype)
    assert not ad.signbit(ad.sinc(whole)).any()
    assert ad.sinc(whole).tolist() == [0.0] * 9 + [1.0] + [0.0] * 9
