"""autograd.functional: products and matrices against closed forms and finite differences, strict mode, refusals.

Start reading at `test_products_agree_with_the_matrices`.
"""

import numpy as np
import pytest
from helpers import array, assert_close, assert_same, normal, tensor

import adjoint as ad
from adjoint.autograd import functional, gradcheck
from adjoint.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

A = tensor(normal(3, 2, seed=9))


def two_outputs(x, y):
    return (x.sin() @ A) * y, (x * x).sum() * y.sum()


def scalar(x, y):
    return (x.exp() @ A @ y**2).sum() + (y**3).sum()


def leaves(requires_grad=False):
    xs = tensor(normal(3)), tensor(normal(2, seed=1))
    return tuple(x.requires_grad_(requires_grad) for x in xs)


# --- values ------------------------------------------------------------------------------------------------------------


def test_closed_forms():
    x = tensor(normal(3))
    assert_close(jacobian(ad.sin, x), np.diag(np.cos(array(x))))
    assert_close(jacobian(lambda x: A.T @ x, x), array(A).T)
    assert_close(hessian(lambda x: (x**3).sum(), x), np.diag(6 * array(x)))
    assert_close(hessian(lambda x: x[0] * x[1], x), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    v = tensor([1.0, -1.0, 2.0])
    assert_close(vjp(ad.exp, x, v)[1], np.exp(array(x)) * array(v))
    assert_close(jvp(ad.exp, x, v)[1], np.exp(array(x)) * array(v))
    assert_close(jvp(ad.exp, x, v)[0], np.exp(array(x)))


def test_jacobian_by_differences():
    x, y = leaves()
    blocks = jacobian(two_outputs, (x, y))
    assert [[tuple(b.shape) for b in row] for row in blocks] == [[(2, 3), (2, 2)], [(3,), (2,)]]
    eps = 1e-6
    for j, moved in enumerate((x, y)):
        for k in range(moved.numel()):
            step = tensor(np.eye(moved.numel())[k] * eps)
            ahead = two_outputs(*[t + step if t is moved else t for t in (x, y)])
            behind = two_outputs(*[t - step if t is moved else t for t in (x, y)])
            for i in range(2):
                assert_close(
                    blocks[i][j][..., k], array((ahead[i] - behind[i]) / (2 * eps)), rtol=1e-6, atol=1e-8
                )


def test_products_agree_with_the_matrices():
    x, y = leaves()
    vx, vy = tensor(normal(3, seed=2)), tensor(normal(2, seed=3))
    wa, wb = tensor(normal(2, seed=4)), tensor(1.7)
    (ax, ay), (bx, by) = jacobian(two_outputs, (x, y))
    value, rows = vjp(two_outputs, (x, y), (wa, wb))
    assert_same(value[0], array(two_outputs(x, y)[0]))
    assert_close(rows[0], array(wa @ ax + wb * bx))
    assert_close(rows[1], array(wa @ ay + wb * by))
    value, columns = jvp(two_outputs, (x, y), (vx, vy))
    assert_same(value[1], array(two_outputs(x, y)[1]))
    assert_close(columns[0], array(ax @ vx + ay @ vy))
    assert_close(columns[1], array(bx @ vx + by @ vy))
    (hxx, hxy), (hyx, hyy) = hessian(scalar, (x, y))
    assert_close(hxy, array(hyx.T))
    for product in (vhp, hvp):
        value, (px, py) = product(scalar, (x, y), (vx, vy))
        assert_same(value, array(scalar(x, y)))
        assert_close(px, array(hxx @ vx + hxy @ vy))
        assert_close(py, array(hyx @ vx + hyy @ vy))


def test_tuples_come_back_as_tuples():
    x = tensor(normal(3))
    f = lambda x: x.sum().sin()  # noqa: E731
    one = lambda x: (x.sum().sin(),)  # noqa: E731
    assert jacobian(f, x).shape == (3,)
    assert jacobian(f, (x,))[0].shape == (3,)
    assert jacobian(one, x)[0].shape == (3,)
    assert jacobian(one, (x,))[0][0].shape == (3,)
    assert hessian(f, x).shape == (3, 3)
    assert hessian(f, (x,))[0][0].shape == (3, 3)
    value, rows = vjp(one, (x,), (ad.ones((), dtype=ad.float64),))
    assert isinstance(value, tuple) and isinstance(rows, tuple)
    value, rows = vjp(f, x)
    assert value.shape == () and rows.shape == (3,)
    for product in (vhp, hvp):
        assert isinstance(product(f, (x,), (x,))[1], tuple)
        assert product(f, x, x)[1].shape == (3,)


def test_shapes_of_zero_size_and_zero_dimensions():
    x = tensor(np.zeros((2, 0)))
    assert jacobian(lambda x: x * 2, x).shape == (2, 0, 2, 0)
    assert jacobian(lambda x: x[:, :0], tensor(np.ones((2, 3)))).shape == (2, 0, 2, 3)
    assert jacobian(lambda x: x.sum(), x).shape == (2, 0)
    assert hessian(lambda x: x.sum(), x).shape == (2, 0, 2, 0)
    s = tensor(0.5)
    assert_close(jacobian(ad.sin, s), np.cos(0.5))
    assert_close(hessian(ad.sin, s), -np.sin(0.5))
    assert_close(hessian(lambda x: ad.sin(x).reshape(1, 1), s), -np.sin(0.5))
    assert_close(jvp(ad.sin, s)[1], np.cos(0.5))
    assert_close(hvp(ad.sin, s)[1], -np.sin(0.5))
    assert_close(vhp(ad.sin, s)[1], -np.sin(0.5))


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_results_are_like(create_graph):
    """As the inputs and outputs, with a graph where there is something to follow."""
    x, y = leaves(requires_grad=True)
    a, _ = jacobian(lambda x, y: x.float() ** 2, (x, y), create_graph=create_graph)
    assert a.dtype is ad.float64 and a.requires_grad is create_graph
    assert jacobian(lambda x: x * 1j, x, vectorize=True).dtype is ad.float64
    for constant in (lambda x: x.long(), lambda x: ad.ones(3)):
        j = jacobian(constant, x, create_graph=create_graph)
        assert_same(j, np.zeros((3, 3)))
        assert not j.requires_grad
    assert jacobian(lambda x: (), x, create_graph=create_graph) == ()
    value, rows = vjp(
        lambda x: x * 2, x.detach(), tensor(normal(3), requires_grad=True), create_graph=create_graph
    )
    assert value.requires_grad is rows.requires_grad is create_graph


def test_what_does_not_depend_on_an_input_gives_zeros():
    x, y = leaves()
    f = lambda x, y: (x * 2, x.detach() * 2)  # noqa: E731
    blocks = jacobian(f, (x, y))
    assert_same(blocks[0][1], np.zeros((3, 2)))
    assert_same(blocks[1][0], np.zeros((3, 3)))
    assert_same(vjp(f, (x, y), (x, x))[1][1], np.zeros(2))
    assert_same(jvp(f, (x, y), (x, y))[1][1], np.zeros(3))
    linear = lambda x, y: x.sum()  # noqa: E731
    assert_same(hessian(linear, (x, y))[0][1], np.zeros((3, 2)))
    for product in (vhp, hvp):
        assert_same(product(linear, (x, y), (x, y))[1][1], np.zeros(2))


def test_captured_tensors_are_constants():
    """What the function closes over is not its argument, although it is the same tensor."""
    x = tensor(normal(3), requires_grad=True)
    assert_close(jacobian(lambda z: z * x, x), np.diag(array(x)))
    assert_close(jacobian(lambda z: z * x, x, create_graph=True), np.diag(array(x)))
    assert_close(hessian(lambda z: (z * z * x).sum(), x), np.diag(2 * array(x)))
    assert x.grad is None


def test_nothing_is_left_behind():
    x = tensor(normal(3), requires_grad=True)
    v = tensor(normal(3))
    f = lambda x: (x**3).sum()  # noqa: E731
    for found in (vjp(ad.sin, x, v), jvp(ad.sin, x, v), vhp(f, x, v), hvp(f, x, v)):
        assert not any(t.requires_grad for t in found)
    assert not jacobian(ad.sin, x).requires_grad and not hessian(f, x).requires_grad
    assert x.grad is None and x.requires_grad
    plain = tensor(normal(3))
    jacobian(ad.sin, plain, create_graph=True)
    assert not plain.requires_grad
    with ad.no_grad():
        assert_close(jacobian(ad.sin, plain), np.diag(np.cos(array(plain))))
        assert not ad.is_grad_enabled()


# --- create_graph ------------------------------------------------------------------------------------------------------


def test_create_graph():
    x, y = leaves(requires_grad=True)
    v = tensor(normal(3, seed=5), requires_grad=True), tensor(normal(2, seed=6), requires_grad=True)
    w = tensor(normal(2, seed=7), requires_grad=True), tensor(0.4, requires_grad=True)

    def flat(nested):
        return [t for part in nested for t in (flat(part) if isinstance(part, tuple) else [part])]

    def with_graph(call, f, *more):
        return lambda *xs: tuple(flat((call(f, xs[:2], *more, create_graph=True),)))

    assert gradcheck(with_graph(jacobian, two_outputs), (x, y))
    assert gradcheck(with_graph(hessian, scalar), (x, y))
    assert gradcheck(with_graph(vjp, two_outputs, w), (x, y))
    assert gradcheck(with_graph(jvp, two_outputs, v), (x, y))
    assert gradcheck(with_graph(vhp, scalar, v), (x, y))
    assert gradcheck(with_graph(hvp, scalar, v), (x, y))
    # By the vectors too.
    assert gradcheck(lambda a, b: vjp(two_outputs, (x, y), (a, b), create_graph=True)[1], w)
    assert gradcheck(lambda a, b: jvp(two_outputs, (x, y), (a, b), create_graph=True)[1], v)
    assert gradcheck(lambda a, b: hvp(scalar, (x, y), (a, b), create_graph=True)[1], v)


def test_they_nest():
    x = tensor(0.3)
    third = jacobian(lambda x: hessian(lambda x: x**4, x, create_graph=True), x)
    assert_close(third, 24 * 0.3)
    x = tensor(normal(2))
    third = jacobian(lambda x: hessian(lambda x: (x**4).sum(), x, create_graph=True), x)
    assert third.shape == (2, 2, 2)
    assert_close(third[1, 1, 1], 24 * array(x)[1])


# --- complex numbers ---------------------------------------------------------------------------------------------------


def test_complex_numbers():
    """vjp gives the conjugate Wirtinger derivative; jvp the change itself."""
    z = tensor(normal(3, kind="complex"))
    v = tensor(normal(3, kind="complex", seed=1))
    assert_close(vjp(ad.exp, z, v)[1], np.conj(np.exp(array(z))) * array(v))
    assert_close(jvp(ad.exp, z, v)[1], np.exp(array(z)) * array(v))
    assert_close(jvp(lambda z: z.conj(), z, v)[1], np.conj(array(v)))
    assert_close(jvp(lambda z: (z * z.conj()).real, z, v)[1], 2 * (np.conj(array(z)) * array(v)).real)
    assert_close(jacobian(lambda z: (z * z.conj()).real, z), np.diag(2 * array(z)))
    x = tensor(normal(3))
    assert_close(jvp(lambda x: x * 1j, x, x)[1], 1j * array(x))
    assert vjp(lambda x: x * 1j, x, z)[1].dtype is ad.float64


def test_jacobian_of_complex_outputs():
    z = tensor(normal(2, kind="complex"))
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for real scalar outputs but got"
    ):
        jacobian(ad.exp, z)
    assert_close(jacobian(ad.exp, z, vectorize=True), np.diag(np.conj(np.exp(array(z)))))
    both = jacobian(lambda z: ad.view_as_real(ad.exp(z)), z)
    # From Re f and Im f the holomorphic derivative: f' = conj of the gradient of Re f.
    assert_close(both[:, 0], np.diag(np.conj(np.exp(array(z)))))
    assert_close(both[:, 1], np.diag(1j * np.conj(np.exp(array(z)))))


def test_vectorize_gives_the_same():
    x, y = leaves()
    plain, vectorized = (jacobian(two_outputs, (x, y), vectorize=v) for v in (False, True))
    for a, b in zip(plain, vectorized, strict=True):
        for c, d in zip(a, b, strict=True):
            assert_same(c, array(d))
    assert_same(hessian(scalar, (x, y), vectorize=True)[0][1], array(hessian(scalar, (x, y))[0][1]))


# --- strict ------------------------------------------------------------------------------------------------------------

CALLS = {
    "vjp": lambda f, x, **o: vjp(f, x, ad.ones((), dtype=ad.float64), **o),
    "jvp": lambda f, x, **o: jvp(f, x, ad.ones(2, dtype=ad.float64), **o),
    "vhp": lambda f, x, **o: vhp(f, x, ad.ones(2, dtype=ad.float64), **o),
    "hvp": lambda f, x, **o: hvp(f, x, ad.ones(2, dtype=ad.float64), **o),
    "jacobian": jacobian,
    "hessian": hessian,
}
SECOND = {"vhp", "hvp", "hessian"}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_strict(name, create_graph):
    call = CALLS[name]
    x = tensor([0.5, 2.0], requires_grad=True)

    def strictly(f):
        return call(f, x, strict=True, create_graph=create_graph)

    for constant in (lambda x: x.detach().sum(), lambda x: ad.ones((), dtype=ad.float64)):
        with pytest.raises(
            RuntimeError, match="Output 0 of the user-provided function does not require gradients"
        ):
            strictly(constant)
    strictly(lambda x: (x**3).sum())
    linear = lambda x: x.sum()  # noqa: E731
    if name in SECOND:
        with pytest.raises(
            RuntimeError, match="jacobian of the user-provided function with respect to input 0 is indep"
        ):
            strictly(linear)
    elif create_graph:
        with pytest.raises(
            RuntimeError, match="The jacobian of the user-provided function is independent of input 0"
        ):
            strictly(linear)
    else:
        strictly(linear)
    other = tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="is independent of (the )?input|does not require gradients"):
        strictly(lambda x: (other**3).sum())


def test_strict_with_an_unused_input():
    x, y = leaves()
    one = ad.ones(3, dtype=ad.float64)
    with pytest.raises(
        RuntimeError, match="The output of the user-provided function is independent of input 1"
    ):
        vjp(lambda x, y: x * 2, (x, y), one, strict=True)
    with pytest.raises(
        RuntimeError, match="The output of the user-provided function is independent of input 1"
    ):
        jvp(lambda x, y: x * 2, (x, y), (x, y), strict=True)
    with pytest.raises(
        RuntimeError, match="Output 0 of the user-provided function is independent of input 1"
    ):
        jacobian(lambda x, y: x * 2, (x, y), strict=True)


def test_strict_with_a_constant_hessian():
    x = tensor(normal(2), requires_grad=True)
    quadratic = lambda x: (x * x).sum()  # noqa: E731
    for product in (vhp, hvp):
        product(quadratic, x, x.detach(), strict=True)
        with pytest.raises(
            RuntimeError, match="hessian of the user-provided function is independent of input 0"
        ):
            product(quadratic, x, x.detach(), strict=True, create_graph=True)
    with pytest.raises(RuntimeError, match="`strict=True` and `vectorized=True` are not supported together"):
        jacobian(ad.sin, x, strict=True, vectorize=True)


# --- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [vjp, jvp, vhp, hvp, jacobian, hessian])
def test_only_tensors(call):
    name = call.__name__
    x = tensor(normal(2))
    with pytest.raises(
        TypeError, match=f"The inputs given to {name} must be .* the given inputs has type .*list"
    ):
        call(lambda x: x, [x])
    with pytest.raises(TypeError, match=f"The inputs given to {name} must be .* at index 1 has type .*int"):
        call(lambda x: x, (x, 3))
    if call in (jacobian, hessian):
        more = ()
    else:
        more = (x,)
        if call is not vjp:
            with pytest.raises(TypeError, match=f"The v given to {name} must be .* given v has type .*int"):
                call(lambda x: x.sum(), x, 3)
    with pytest.raises(
        TypeError, match="The outputs of the user-provided function given to .* has type .*int"
    ):
        call(lambda x: 3, x, *more)


@pytest.mark.parametrize("call", [jvp, vhp, hvp])
def test_vectors_of_the_wrong_form(call):
    x, y = leaves()
    f = lambda *xs: sum((x**2).sum() for x in xs)  # noqa: E731
    with pytest.raises(
        RuntimeError, match="The vector v can only be None if the input to the user-provided function"
    ):
        call(f, x)
    with pytest.raises(RuntimeError, match=r"^v has invalid size: should be .*3.* but got .*2"):
        call(f, x, y)
    with pytest.raises(RuntimeError, match=r"Entry 1 in v has invalid size: should be .*2.* but got .*3"):
        call(f, (x, y), (x, x))
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        call(f, x, (x, x))
    with pytest.raises(RuntimeError, match="v is a tuple of invalid length: should be 2 but got 3"):
        call(f, (x, y), (x, y, y))
    with pytest.raises(RuntimeError, match="should be a tuple of 2"):
        call(f, (x, y), x)


def test_vectors_of_vjp():
    x = tensor(normal(3))
    with pytest.raises(
        RuntimeError, match="The vector v can only be None if the user-provided function returns"
    ):
        vjp(ad.sin, x)
    with pytest.raises(RuntimeError, match="v has invalid size"):
        vjp(ad.sin, x, ad.ones(2))


@pytest.mark.parametrize("call", [hessian, vhp, hvp])
def test_only_one_number_has_a_hessian(call):
    x = tensor(normal(3))
    more = () if call is hessian else (x,)
    with pytest.raises(
        RuntimeError, match=f"The function given to {call.__name__} should return a single Tensor"
    ):
        call(lambda x: (x.sum(), x.sum()), x, *more)
    with pytest.raises(
        RuntimeError, match=f"function given to {call.__name__} should contain a single element"
    ):
        call(lambda x: x * 2, x, *more)


def test_strategies():
    x = tensor(normal(2))
    with pytest.raises(
        AssertionError, match='Expected strategy to be either "forward-mode" or "reverse-mode"'
    ):
        jacobian(ad.sin, x, strategy="sideways")


def test_published_names():
    assert ad.autograd.functional is functional
    assert set(functional.__all__) == {"vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"}
