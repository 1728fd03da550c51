"""Complex tensors: construction, parts, views, conjugate Wirtinger gradients, what is refused."""

import cmath
import math

import numpy as np
import pytest
from helpers import (
    array,
    assert_close,
    assert_same,
    check_derivatives,
    normal,
    shares_memory,
    tensor,
    uniform,
)

import adjoint as ad

Z = normal(3, 4, kind="complex")


def test_construction():
    a, b = normal(3), normal(3, seed=1)
    assert_same(ad.complex(tensor(a), tensor(b)), a + 1j * b, ad.complex128)
    assert ad.complex(ad.zeros(2), ad.ones(2)).dtype == ad.complex64
    assert_close(ad.polar(tensor(np.abs(a)), tensor(b)), np.abs(a) * np.exp(1j * b))
    assert ad.tensor(1 + 2j).dtype == ad.complex64
    assert ad.tensor([1, 2j]).tolist() == [1 + 0j, 2j]
    with pytest.raises(RuntimeError, match="(?i)dtype|type"):
        ad.complex(ad.zeros(2), ad.zeros(2, dtype=ad.float64))
    with pytest.raises((RuntimeError, NotImplementedError), match="(?i)float"):
        ad.complex(ad.tensor([1]), ad.tensor([1]))


def test_parts():
    z = tensor(Z)
    assert_same(z.real, Z.real, ad.float64)
    assert_same(ad.real(z), Z.real)
    assert_same(ad.imag(z), Z.imag)
    assert_same(z.conj(), Z.conj())
    assert_close(ad.angle(z), np.angle(Z))
    assert_close(z.abs(), np.abs(Z), dtype=ad.float64)
    assert_close(ad.sgn(z), Z / np.abs(Z))
    assert_same(ad.angle(ad.tensor([-1.0, 0.0, 2.0], dtype=ad.float64)), np.angle([-1.0, 0.0, 2.0]))
    x = ad.tensor([1.0])
    assert x.real is x or ad.equal(x.real, x)
    with pytest.raises(RuntimeError, match="(?i)imag.* (is )?not implemented for tensors with non-complex"):
        x.imag  # noqa: B018


def test_parts_are_views():
    z = tensor(Z)
    assert shares_memory(z, z.real) and shares_memory(z, z.imag)
    z.real.zero_()
    z.imag[0] = 5
    expected = 1j * Z.imag
    expected[0] = 5j
    assert_same(z, expected)
    z.real = ad.ones(3, 4, dtype=ad.float64)
    assert_same(z, expected + 1)


def test_view_as_real_and_back():
    z = tensor(Z)
    r = ad.view_as_real(z)
    assert r.shape == (3, 4, 2) and shares_memory(z, r)
    assert_same(r, np.stack([Z.real, Z.imag], -1))
    back = ad.view_as_complex(r)
    assert shares_memory(z, back)
    assert_same(back, Z)
    with pytest.raises(RuntimeError, match="(?i)complex"):
        ad.view_as_real(ad.zeros(2))
    with pytest.raises(RuntimeError, match="size 2"):
        ad.view_as_complex(ad.zeros(2, 3))
    with pytest.raises(RuntimeError, match="stride"):
        ad.view_as_complex(ad.zeros(2, 4)[:, ::2])


UNARY = {
    "abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "real": lambda z: z.real * 2,
    "imag": lambda z: z.imag**2,
    "conj": lambda z: z.conj() * z,
    "sgn": lambda z: ad.sgn(z),
    "view_as_real": lambda z: ad.view_as_real(z) ** 2,
    "exp": ad.exp,
    "log": ad.log,
    "sin": ad.sin,
    "cos": ad.cos,
    "tan": ad.tan,
    "sinh": ad.sinh,
    "cosh": ad.cosh,
    "tanh": ad.tanh,
    "sqrt": ad.sqrt,
    "rsqrt": ad.rsqrt,
    "reciprocal": ad.reciprocal,
    "square": ad.square,
    "asin": ad.asin,
    "acos": ad.acos,
    "atan": ad.atan,
    "sigmoid": ad.sigmoid,
    "power": lambda z: z**2.5,
    "real power of complex": lambda z: z ** (1 + 2j),
    "sum": lambda z: z.sum(0),
    "mean": lambda z: z.mean(),
    "prod": lambda z: z.prod(1),
    "cumsum": lambda z: z.cumsum(0),
    "cumprod": lambda z: z.cumprod(1),
    "var": lambda z: z.var(0),
    "norm": lambda z: ad.linalg.vector_norm(z, 2, 1),
}


@pytest.mark.parametrize("name", UNARY)
def test_gradient(name):
    check_derivatives(UNARY[name], [normal(2, 3, kind="complex", seed=4)])


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - 2j * y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "matmul": lambda x, y: x @ y.mT,
    "dot of rows": lambda x, y: (x * y.conj()).sum(1),
    "where": lambda x, y: ad.where(ad.tensor([True, False, True]), x * y, y),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kinds", [("complex", "complex"), ("complex", "real"), ("real", "complex")])
def test_binary_gradient(name, kinds):
    if name in ("matmul",) and kinds[0] != kinds[1]:
        pytest.skip("a product takes one dtype")
    x, y = (normal(2, 3, kind=k, seed=s) for k, s in zip(kinds, (5, 6), strict=True))
    if name == "pow" and kinds[0] == "real":
        x = np.abs(x) + 0.5
    check_derivatives(BINARY[name], [x, y])


def test_constructors_have_gradients():
    check_derivatives(lambda a, b: ad.complex(a, b) ** 2, [normal(3), normal(3, seed=1)])
    check_derivatives(lambda a, b: ad.polar(a, b) ** 2, [uniform(0.5, 2, 3), normal(3, seed=1)])
    check_derivatives(lambda a: ad.view_as_complex(a) ** 3, [normal(3, 2)])
    check_derivatives(lambda a: (a * 1j).exp(), [normal(3)])


def test_gradient_points_uphill():
    """For a real loss the gradient is ∂L/∂a + i ∂L/∂b: of |z|² it is 2z, so that z − lr·g descends."""
    z = ad.tensor([1 + 2j, -3j], dtype=ad.complex128, requires_grad=True)
    (z.abs() ** 2).sum().backward()
    assert_close(z.grad, 2 * array(z))
    w = ad.tensor(0.5 + 1j, dtype=ad.complex128, requires_grad=True)
    (g,) = ad.autograd.grad((w**2).real, w)
    assert_close(g, np.conj(2 * (0.5 + 1j)))


def test_holomorphic_gradient_is_conjugated():
    z = ad.tensor(0.3 - 0.8j, dtype=ad.complex128, requires_grad=True)
    (g,) = ad.autograd.grad(ad.sin(z), z, ad.ones((), dtype=ad.complex128))
    assert_close(g, np.conj(cmath.cos(0.3 - 0.8j)))


def test_backward_of_a_complex_scalar_needs_a_gradient():
    z = ad.tensor(1j, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be (implicitly )?created only for real scalar outputs"):
        (z * z).backward()
    (z * z).backward(ad.ones((), dtype=ad.complex64))
    assert z.grad.item() == pytest.approx(-2j)


REFUSED = [
    lambda z: z > z,
    lambda z: z.max(),
    lambda z: z.sort(),
    lambda z: z.floor(),
    lambda z: z % z,
    lambda z: z.clamp(0),
    lambda z: ad.maximum(z, z),
    lambda z: ad.atan2(z, z),
    lambda z: z.argmax(),
    lambda z: z.median(),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_has_no_order_is_refused(call):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError), match="(?i)complex"):
        call(tensor(Z))


def test_edges():
    with np.errstate(all="ignore"):
        assert abs(ad.tensor(complex(3, 4))).item() == 5
        assert ad.tensor(complex(math.inf, math.nan)).abs().item() == math.inf
        big = ad.tensor(complex(1e200, 1e200), dtype=ad.complex128)
        assert big.abs().item() == pytest.approx(math.sqrt(2) * 1e200)
        assert_close(big / big, 1.0 + 0j)
        assert ad.sqrt(ad.tensor(-1 + 0j)).item() == pytest.approx(1j)


def test_tolist_and_item():
    assert ad.tensor([1 + 2j]).tolist() == [1 + 2j]
    assert complex(ad.tensor(1 - 1j)) == 1 - 1j
    assert ad.tensor(1 - 1j).conj().item() == 1 + 1j
    with pytest.raises((RuntimeError, TypeError), match="(?i)complex|real|overflow"):
        float(ad.tensor(1 - 1j))
