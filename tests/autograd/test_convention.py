"""The two meanings of a complex gradient, against Jacobians by finite differences."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import complex_convention, functional

Z = 0.7 - 0.4j
FUNCTIONS = {
    "holomorphic": lambda z: z.sin() * z.exp(),
    "of the conjugate": lambda z: z.conj() * z.conj(),
    "of both": lambda z: z * z.conj() + z.exp(),
    "real": lambda z: z.abs() ** 2 + z.real,
}


def jacobian(f, z, h=1e-6):
    """[[∂u/∂x, ∂u/∂y], [∂v/∂x, ∂v/∂y]]."""

    def at(value):
        with ad.no_grad():
            return complex(f(ad.tensor(value, dtype=ad.complex128)).item())

    x = (at(z + h) - at(z - h)) / (2 * h)
    y = (at(z + 1j * h) - at(z - 1j * h)) / (2 * h)
    return np.array([[x.real, y.real], [x.imag, y.imag]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_and_jvp(name):
    f = FUNCTIONS[name]
    jac = jacobian(f, Z)
    z = ad.tensor(Z, dtype=ad.complex128, requires_grad=True)
    y = f(z)
    c, d = (1.3, -0.6) if y.is_complex() else (1.3, 0.0)
    v = ad.tensor(complex(c, d) if y.is_complex() else c, dtype=y.dtype)
    (plain,) = ad.autograd.grad(f(z), z, v)
    with complex_convention("holomorphic"):
        (g,) = ad.autograd.grad(f(z), z, v)
        f(z).backward(v)
    row = np.array([c, -d]) @ jac
    assert abs(g.item() - (row[0] - 1j * row[1])) < 1e-6
    assert g.item() == z.grad.item()
    column = np.array([c, d]) @ jac
    assert abs(plain.item() - (column[0] + 1j * column[1])) < 1e-6
    t = 0.2 + 0.9j
    for convention in ("conjugate", "holomorphic"):
        with complex_convention(convention):
            _, tangent = functional.jvp(f, z.detach(), ad.tensor(t, dtype=ad.complex128))
        u, w = jac @ np.array([t.real, t.imag])
        assert abs(tangent.item() - complex(u, w)) < 1e-6


def test_backward_on_a_complex_scalar():
    z = ad.tensor(Z, dtype=ad.complex128, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match=r"grad can be implicitly created only for real scalar outputs.*complex_convention\('holomorphic'\)",
    ):
        (z**3).backward()
    with complex_convention("holomorphic"):
        (z**3).backward()
    assert abs(z.grad.item() - 3 * Z**2) < 1e-12


def test_real_inputs_have_real_gradients():
    x = ad.tensor(0.3, dtype=ad.float64, requires_grad=True)
    for convention in ("conjugate", "holomorphic"):
        with complex_convention(convention):
            (g,) = ad.autograd.grad(x * Z, x, ad.tensor(1 + 0j, dtype=ad.complex128))
        assert g.dtype is ad.float64 and abs(g.item() - Z.real) < 1e-12


def test_second_derivatives():
    z = ad.tensor(Z, dtype=ad.complex128, requires_grad=True)
    with complex_convention("holomorphic"):
        (g,) = ad.autograd.grad(z**3, z, create_graph=True)
        (h,) = ad.autograd.grad(g, z)
    assert abs(h.item() - 6 * Z) < 1e-12


def test_setting_and_bad_names():
    setting = complex_convention("holomorphic")
    z = ad.tensor(Z, dtype=ad.complex128, requires_grad=True)
    (z * z).backward()
    setting.__exit__()
    with pytest.raises(RuntimeError):
        (z * z).backward()
    with pytest.raises(ValueError, match="expected one of"):
        complex_convention("wirtinger?")


def test_what_runs_inside_a_pass_keeps_its_own_meaning():
    z = ad.tensor(Z, dtype=ad.complex128, requires_grad=True)
    with complex_convention("holomorphic"):
        y = z * 1
        y.retain_grad()
        ad.utils.checkpoint.checkpoint(lambda t: t**2, y, use_reentrant=True).backward()
        assert ad.autograd.gradcheck(lambda t: t**2, z.detach().requires_grad_())
    assert abs(z.grad.item() - 2 * Z) < 1e-12 and abs(y.grad.item() - 2 * Z) < 1e-12


def test_a_retained_gradient_is_counted_once():
    x = ad.ones(1, requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).backward(inputs=[y])
    assert y.grad.tolist() == [4.0]
