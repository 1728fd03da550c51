"""Functions for SciPy's solvers: derivatives against SciPy's own and finite differences, solvers that converge, bad input."""

import collections
import sys

import numpy as np
import pytest
from scipy import integrate, optimize

import adjoint as ad
from adjoint import scipy as ads

Point = collections.namedtuple("Point", "x y")


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_derivatives_of_an_objective():
    f = ads.Objective(rosenbrock)
    x, p = np.random.default_rng(0).normal(size=(2, 6))
    value, gradient = ads.value_and_grad(rosenbrock)(x)
    assert isinstance(value, float) and value == pytest.approx(optimize.rosen(x), rel=1e-13)
    assert gradient.dtype == np.float64 and np.allclose(gradient, optimize.rosen_der(x), rtol=1e-12)
    assert f.value(x) == value and np.array_equal(f.grad(x), gradient)
    assert np.allclose(f.hess(x), optimize.rosen_hess(x), rtol=1e-12)
    assert np.allclose(f.hessp(x, p), optimize.rosen_hess_prod(x, p), rtol=1e-12)
    assert np.allclose(f.hess_operator(x) @ p, optimize.rosen_hess_prod(x, p), rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "derivatives"),
    [
        ("BFGS", {}),
        ("L-BFGS-B", {}),
        ("CG", {}),
        ("TNC", {}),
        ("SLSQP", {}),
        ("Newton-CG", {"hessp": True}),
        ("trust-ncg", {"hessp": True}),
        ("trust-krylov", {"hessp": True}),
        ("trust-exact", {"hess": True}),
        ("dogleg", {"hess": True}),
        ("trust-constr", {"hess": True}),
    ],
)
def test_minimisers_converge(method, derivatives):
    """Each method that takes derivatives finds the minimum of Rosenbrock's function in five dimensions."""
    f = ads.Objective(rosenbrock)
    # Near enough for `dogleg`, which needs positive definite Hessians.
    start = np.array([0.9, 1.1, 0.95, 1.05, 1.0])
    found = optimize.minimize(
        f.value_and_grad, start, jac=True, method=method, **{name: getattr(f, name) for name in derivatives}
    )
    assert np.allclose(found.x, 1, atol=1e-3), found


def test_newton_converges_quadratically():
    """With exact Hessians the distance to the minimum is squared in each step."""
    f = ads.Objective(lambda x: (x.exp() - x).sum() + (x[0] - x[1]) ** 2 / 4)  # least at 0
    x, distances = np.array([0.5, -0.4]), [0.5]
    for _ in range(5):
        x = x - np.linalg.solve(f.hess(x), f.grad(x))
        distances.append(np.abs(x).max())
    assert distances[-1] < 1e-14 and all(b < a * a + 1e-14 for a, b in zip(distances, distances[1:]))


def test_nested_parameters_and_arguments():
    like = {"w": Point(ad.zeros(2, 3), 1), "b": [ad.tensor(2.0, dtype=ad.float32), ad.zeros(0)]}

    def f(p, scale, shift):
        assert isinstance(p["w"], Point) and p["w"].x.shape == (2, 3) and p["b"][1].shape == (0,)
        return scale * (p["w"].x ** 2).sum() + (p["w"].y - shift) ** 2 + p["b"][0] ** 4

    g = ads.value_and_grad(f, like)
    assert g.x0.tolist() == [0, 0, 0, 0, 0, 0, 1, 2] and g.x0.dtype == np.float64
    found = optimize.minimize(g, g.x0 + 0.1, args=(3.0, 5.0), jac=True)
    p = g.unravel(found.x)
    assert p["w"].y.item() == pytest.approx(5, abs=1e-5) and p["w"].x.abs().max() < 1e-5


def test_residuals():
    t = np.linspace(0, 3, 25)
    y = 2.5 * np.exp(-1.3 * t) + 0.5

    def model(p):
        return {"curve": p["a"] * (-p["b"] * ad.tensor(t)).exp() + p["c"] - ad.tensor(y), "prior": 0 * p["c"]}

    r = ads.Residuals(model, {"a": 1.0, "b": 0.5, "c": 0.0})
    assert np.allclose(r.jac(r.x0), optimize.approx_fprime(r.x0, r.value), atol=1e-6) and r.jac(
        r.x0
    ).shape == (26, 3)
    found = optimize.least_squares(r.value, r.x0, jac=r.jac, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert np.allclose(found.x, [2.5, 1.3, 0.5], atol=1e-8)
    # More unknowns than equations: by rows.
    wide = ads.Residuals(lambda x: (x**2).sum().reshape(1))
    assert np.allclose(wide.jac([1.0, 2.0, 3.0]), [[2, 4, 6]])
    root = ads.Residuals(lambda x: ad.stack([x[0] + x[1] - 3, x[0] * x[1] - 2]))
    assert sorted(optimize.root(root, [0.5, 3.0], jac=root.jac).x.round(9)) == [1, 2]


def test_right_hand_side():
    def pendulum(t, y, damping):
        return {"angle": y["speed"], "speed": -damping * y["speed"] - y["angle"].sin() + t.cos() * 0.1}

    f = ads.RightHandSide(pendulum, {"angle": 1.0, "speed": ad.zeros(())})
    jac = f.jac(0.7, f.x0, 0.2)
    assert np.allclose(jac, optimize.approx_fprime(f.x0, lambda y: f(0.7, y, 0.2)), atol=1e-6)
    with_jac = integrate.solve_ivp(
        f, (0, 5), f.x0, method="Radau", jac=f.jac, args=(0.2,), rtol=1e-9, atol=1e-10
    )
    without = integrate.solve_ivp(f, (0, 5), f.x0, method="DOP853", args=(0.2,), rtol=1e-11, atol=1e-12)
    assert np.allclose(with_jac.y[:, -1], without.y[:, -1], atol=1e-7)


def test_bad_input():
    with pytest.raises(TypeError, match="expected a function, but got int"):
        ads.value_and_grad(3)
    with pytest.raises(
        TypeError, match="like: SciPy's solvers take real numbers, but found a complex tensor"
    ):
        ads.value_and_grad(rosenbrock, ad.ones(2, dtype=ad.complex64))
    with pytest.raises(TypeError, match="like: expected a container of tensors and numbers"):
        ads.value_and_grad(rosenbrock, {"a": "text"})
    with pytest.raises(TypeError, match=r"a real tensor of one element, but got shape \(2,\)"):
        ads.value_and_grad(lambda x: x)([1.0, 2.0])
    with pytest.raises(TypeError, match="a real tensor of one element, but got float"):
        ads.Objective(lambda x: 1.0).value([1.0])
    f = ads.value_and_grad(lambda p: p["a"].sum(), {"a": ad.zeros(3)})
    with pytest.raises(ValueError, match=r"a flat array of 3 elements, as x0 is, but got shape \(2,\)"):
        f([1.0, 2.0])
    with pytest.raises(TypeError, match="real tensors, but got int"):
        ads.Residuals(lambda x: 1).value([1.0])
    with pytest.raises(TypeError, match="to have the form of y"):
        ads.RightHandSide(lambda t, y: y["a"], {"a": ad.zeros(2)})(0.0, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"to have the shape of y, \(2,\), but got \(3,\)"):
        ads.RightHandSide(lambda t, y: ad.ones(3))(0.0, [1.0, 2.0])


def test_arrays_that_solvers_reuse():
    """What was computed from an array stays as it is when the solver writes into the array."""
    kept = []
    f = ads.Objective(lambda x: (kept.append(x), (x**2).sum())[1])
    x = np.ones(3)
    f.value(x)
    x[:] = 7
    assert kept[0].tolist() == [1, 1, 1]


def test_scipy_is_imported_when_it_is_used():
    import subprocess

    program = "import sys, adjoint.scipy as s; s.value_and_grad(lambda x: x.sum())([1.0]); print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
