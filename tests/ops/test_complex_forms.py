"""Complex forms of functions that are mostly real: sums of exponentials, sinc, factors of addcmul and addcdiv."""

import numpy as np
import pytest
from helpers import array, assert_close, check_gradient, check_second_derivative, normal, tensor

import adjoint as ad

Z = normal(3, 4, kind="complex")
INF = float("inf")


def logsumexp(z, axis):
    return np.log(np.sum(np.exp(z), axis))


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_logsumexp(dim):
    assert_close(ad.logsumexp(tensor(Z), dim), logsumexp(Z, dim))
    assert_close(ad.logsumexp(tensor(Z), dim, keepdim=True).reshape(-1), np.reshape(logsumexp(Z, dim), -1))
    check_gradient(lambda z: ad.logsumexp(z, dim), [Z])
    check_second_derivative(lambda z: ad.logsumexp(z, dim), [Z])


def test_logsumexp_in_every_layout():
    shifted = Z + 900  # exp would overflow
    x = tensor(shifted.T.copy()).T
    assert_close(ad.logsumexp(x, 1), logsumexp(Z, 1) + 900)
    assert_close(ad.logsumexp(x[:, ::2], 0), logsumexp(Z[:, ::2], 0) + 900)
    assert_close(ad.logsumexp(tensor(Z).to(ad.complex64), 1), logsumexp(Z, 1), rtol=1e-5, dtype=ad.complex64)
    assert ad.logsumexp(ad.zeros(0, 2, dtype=ad.complex128), 0).real.tolist() == [-INF, -INF]
    assert ad.logsumexp(ad.tensor([-INF + 0j, 1j]), 0).item() == pytest.approx(1j)


@pytest.mark.parametrize("dim", [0, 1])
def test_logcumsumexp(dim):
    y = ad.logcumsumexp(tensor(Z), dim)
    assert_close(ad.exp(y), np.cumsum(np.exp(Z), dim))
    assert_close(ad.logcumsumexp(tensor(Z - 900), dim).real, np.log(np.abs(np.cumsum(np.exp(Z), dim))) - 900)
    check_gradient(lambda z: ad.logcumsumexp(z, dim), [Z])
    check_second_derivative(lambda z: ad.logcumsumexp(z, dim), [Z])


def test_sinc():
    z = np.array([0.0, 1e-9 + 1e-9j, 0.1j, 0.3 - 0.2j, 1.5 + 0.5j, -2 + 1j])
    near = np.where(z == 0, 1, z)
    assert_close(ad.sinc(tensor(z)), np.where(z == 0, 1, np.sin(np.pi * near) / (np.pi * near)))
    check_gradient(ad.sinc, [z], rtol=1e-5)
    check_second_derivative(ad.sinc, [z[2:]])
    # On the real axis it is the real function.
    assert_close(ad.sinc(tensor(z.real + 0j)).real, array(ad.sinc(tensor(z.real))))


@pytest.mark.parametrize(("function", "term"), [(ad.addcmul, np.multiply), (ad.addcdiv, np.divide)])
def test_complex_value(function, term):
    value = 0.5 - 2j
    a, b, c = Z, normal(3, 4, seed=1, kind="complex"), normal(4, seed=2, kind="complex") + 2
    wanted = a + value * term(b, c)
    assert_close(function(tensor(a), tensor(b), tensor(c), value=value), wanted)
    x = tensor(a)
    assert getattr(x, function.__name__ + "_")(tensor(b), tensor(c), value=value) is x
    assert_close(x, wanted)
    check_gradient(lambda *xs: function(*xs, value=value), [a, b, c])
    with pytest.raises(RuntimeError, match="value cannot be converted"):
        function(tensor(a.real), tensor(b.real), tensor(c.real), value=value)
