"""The holomorphic convention across domains, and where it holds: every call that differentiates, each thread for itself.

With J the real Jacobian of (u, v) by (x, y), the PyTorch 1.6 note defines, for cotangents and tangents c + id,

    C→C:   vjp [c −d] · J · [1; −i]    jvp [1 i] · J · [c; d]
    C→R²:  vjp [c d] · J · [1; −i]     jvp J · [c; d]
    R²→C:  vjp [c −d] · J              jvp [1 i] · J · [c; d]

Start reading at `FORMS`.
"""

import threading
import warnings

import numpy as np
import pytest
from helpers import array, assert_close, tensor

import adjoint as ad
from adjoint.autograd import complex_convention, functional, grad, gradcheck, gradgradcheck

POINT = (0.7, -0.4)
C, D = 1.3, -0.6


def mixed(z):
    """Depends on z and on its conjugate."""
    return z.exp() * z.conj() + z**2


def pair(z):
    return ad.stack([(z * z.conj()).real, mixed(z).imag])


def from_pair(t):
    return mixed(ad.complex(t[0] ** 2, t[0] * t[1]))


# name → function, whether its argument is complex, whether its result is
FORMS = {
    "C→C": (mixed, True, True),
    "C→C holomorphic": (lambda z: z.sin() / (z + 2), True, True),
    "C→R²": (pair, True, False),
    "C→R² by parts": (lambda z: ad.view_as_real(mixed(z)), True, False),
    "R²→C": (from_pair, False, True),
    "R²→C by parts": (lambda t: mixed(ad.view_as_complex(t)), False, True),
}


def argument(is_complex):
    return tensor(complex(*POINT)) if is_complex else tensor(np.array(POINT))


def pair_of(value):
    """A complex number, or two real ones, as two real ones."""
    value = array(value)
    return np.array([value.real, value.imag]) if np.iscomplexobj(value) else value


def jacobian(f, is_complex, h=1e-6):
    columns = []
    for step in np.eye(2) * h:
        step = complex(*step) if is_complex else step
        with ad.no_grad():
            ahead, behind = (f(argument(is_complex) + tensor(sign * step)) for sign in (1, -1))
        columns.append((pair_of(ahead) - pair_of(behind)) / (2 * h))
    return np.stack(columns, 1)


def cotangent(is_complex):
    return tensor(complex(C, D)) if is_complex else tensor(np.array([C, D]))


@pytest.mark.parametrize("name", FORMS)
def test_vjp(name):
    f, takes, gives = FORMS[name]
    jac = jacobian(f, takes)
    row = np.array([C, -D if gives else D]) @ jac
    expected = row @ np.array([1, -1j]) if takes else row
    v = cotangent(gives)
    x = argument(takes).requires_grad_()
    with complex_convention("holomorphic"):
        (found,) = grad(f(x), x, v, create_graph=True)
        f(x).backward(v)
        _, product = functional.vjp(f, x.detach(), v)
    assert found.dtype is x.dtype
    for g in (found, x.grad, product):
        assert_close(g, expected, rtol=1e-6, atol=1e-8)
    # The settled convention is the same with cotangents and gradients conjugated.
    (plain,) = grad(f(x), x, v.conj() if gives else v)
    assert_close(plain.conj() if takes else plain, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("convention", ["conjugate", "holomorphic"])
def test_jvp(name, convention):
    f, takes, gives = FORMS[name]
    column = jacobian(f, takes) @ np.array([C, D])
    with complex_convention(convention):
        _, tangent = functional.jvp(f, argument(takes), cotangent(takes))
    assert_close(tangent, column @ np.array([1, 1j]) if gives else column, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("convention", ["conjugate", "holomorphic"])
def test_checks_of_derivatives_do_not_depend_on_it(name, convention):
    f, takes, _ = FORMS[name]
    with complex_convention(convention):
        assert gradcheck(f, argument(takes).requires_grad_())
        assert gradgradcheck(f, argument(takes).requires_grad_())


def test_the_refusal_names_both_choices():
    z = argument(True).requires_grad_()
    for differentiate in (lambda: (z * z).backward(), lambda: grad(z * z, z)):
        with pytest.raises(RuntimeError) as caught:
            differentiate()
        text = str(caught.value)
        assert "grad can be implicitly created only for real scalar outputs but got complex128" in text
        assert "pass a gradient" in text and ".real" in text
        assert "complex_convention('holomorphic')" in text
    # What is no scalar is not made one.
    with complex_convention("holomorphic"), pytest.raises(RuntimeError, match="only for scalar outputs"):
        ad.stack([z, z]).backward()


def test_calls_that_give_several_gradients():
    values = np.array([1 + 2j, 3 - 1j])
    w = tensor(values, requires_grad=True)
    f = lambda t: t**3  # noqa: E731
    with complex_convention("holomorphic"):
        (rows,) = grad(f(w), w, ad.eye(2, dtype=ad.complex128), is_grads_batched=True)
        assert_close(rows, np.diag(3 * values**2))
        assert_close(functional.jacobian(f, w, vectorize=True), np.diag(3 * values**2))
        between = w * 2
        first, second = grad([between.sum(), f(between).sum()], [w, between])
        assert_close(first, 2 + 6 * (2 * values) ** 2)
        assert_close(second, 1 + 3 * (2 * values) ** 2)
        (g,) = grad(f(w).sum(), w, create_graph=True)
        (h,) = grad(g.sum(), w, create_graph=True)
        (third,) = grad(h.sum(), w)
        assert_close(h, 6 * values)
        assert_close(third, [6, 6])


def test_gradients_are_added_in_the_convention():
    z = tensor(complex(*POINT), requires_grad=True)
    with complex_convention("holomorphic"):
        for _ in range(2):
            (z**2).backward()
        assert_close(z.grad, 4 * complex(*POINT))
        # With a graph: added out of place.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the cycle, which is broken below
            (z**2).backward(create_graph=True)
        assert_close(z.grad, 6 * complex(*POINT))
    z.grad = None


def test_it_ends_with_its_context_also_after_an_error():
    z = argument(True).requires_grad_()
    with pytest.raises(KeyError):
        with complex_convention("holomorphic"), complex_convention("conjugate"):
            with complex_convention("holomorphic"):
                (z * z).backward()
            with pytest.raises(RuntimeError, match="complex128"):
                (z * z).backward()
            raise KeyError
    with pytest.raises(RuntimeError, match="complex128"):
        (z * z).backward()


def test_each_thread_has_its_own():
    found = []

    def other():
        z = argument(True).requires_grad_()
        try:
            (z * z).backward()
        except RuntimeError as error:
            found.append("complex128" in str(error))

    with complex_convention("holomorphic"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [True]


def test_real_programs_are_the_same():
    x = tensor(np.array(POINT), requires_grad=True)
    found = []
    for convention in ("conjugate", "holomorphic"):
        with complex_convention(convention):
            (g,) = grad((from_pair(x).abs() ** 2).sum(), x, create_graph=True)
            found.append((array(g), array(grad(g.sum(), x)[0])))
    assert np.array_equal(found[0], found[1])
