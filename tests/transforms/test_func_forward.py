"""`jvp` and `hessian`: forms and histories are those of torch.func of torch 2.13; values come from formulas."""

import threading

import far_device  # noqa: F401
import pytest

import adjoint as ad
from adjoint import func
from adjoint.func import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap


def number(value=3.0, **keywords):
    return ad.tensor(value, **keywords)


def facts(pair):
    return [(t.tolist(), t.requires_grad) for t in pair]


def square(x):
    return x**2


def test_values_and_histories():
    x, one = number(), number(1.0)
    assert facts(jvp(square, (x,), (one,))) == [(9.0, False), (6.0, False)]
    leaf = number(requires_grad=True)
    value, tangent = jvp(square, (leaf,), (one,))
    assert facts((value, tangent)) == [(9.0, True), (6.0, True)]
    tangent.backward()
    assert leaf.grad.item() == 2.0
    t = number(2.0, requires_grad=True)
    value, tangent = jvp(square, (x,), (t,))
    assert facts((value, tangent)) == [(9.0, False), (12.0, True)]
    tangent.backward()
    assert t.grad.item() == 6.0
    assert facts(jvp(lambda x: number(1.0), (x,), (one,))) == [(1.0, False), (0.0, False)]
    assert jvp(lambda x: x, (x,), (one,))[0] is x


def test_containers_and_aux():
    x, one, two = number(), number(1.0), number(2.0)
    value, tangent = jvp(lambda p, q: {"o": p["a"] * q}, ({"a": x}, x), ({"a": one}, two))
    assert value["o"].item() == 9.0 and tangent["o"].item() == 9.0
    value, tangent, aux = jvp(lambda x: (x * 2, {"a": x * 3, "kind": "text"}), (x,), (one,), has_aux=True)
    assert facts((value, tangent, aux["a"])) == [(6.0, False), (2.0, False), (9.0, False)]
    assert aux["kind"] == "text"


def test_complex():
    z, t = ad.tensor(1 + 2j, dtype=ad.complex128), ad.tensor(0.3 - 1j, dtype=ad.complex128)
    assert jvp(lambda z: z**3, (z,), (t,))[1].item() == pytest.approx(3 * (1 + 2j) ** 2 * (0.3 - 1j))
    found = jvp(lambda z: (z * z.conj()).real, (z,), (t,))[1].item()
    assert found == pytest.approx(2 * ((1 - 2j) * (0.3 - 1j)).real)


def test_hessian_vector_products():
    x, v = ad.tensor([1.0, 2.0, 3.0]), ad.tensor([1.0, 0.0, 2.0])
    f = lambda x: (x**3).sum() * x[0]  # noqa: E731

    def expected(x, v):
        cubes, e = (x**3).sum(), ad.tensor([1.0, 0.0, 0.0])
        return 3 * x**2 * v[0] + e * (3 * x**2 * v).sum() + 6 * x * v * x[0] + 0 * cubes

    assert ad.allclose(jvp(grad(f), (x,), (v,))[1], expected(x, v))
    assert ad.allclose(grad(lambda x: jvp(f, (x,), (v,))[1])(x), expected(x, v))
    assert ad.allclose(vjp(grad(f), x)[1](v)[0], expected(x, v))
    assert ad.allclose(func.hessian(f)(x) @ v, expected(x, v))
    assert not jvp(grad(f), (x,), (v,))[1].requires_grad
    # A direction that wants a gradient is not forgotten on the way.
    t = v.clone().requires_grad_()
    product = jvp(grad(f), (x,), (t,))[1]
    assert product.requires_grad
    weights = ad.tensor([0.5, -1.0, 2.0])
    (g,) = ad.autograd.grad((product * weights).sum(), t)
    assert ad.allclose(g, expected(x, weights))


def test_results_inside_leave_nothing_outside():
    x, one = number(2.0), number(1.0)
    outcome = jvp(lambda x: func.grad_and_value(lambda y: y**3)(x)[1], (x,), (one,))
    assert facts(outcome) == [(8.0, False), (12.0, False)]
    outcome = jvp(lambda x: vjp(lambda y: y**3, x)[0], (x,), (one,))
    assert facts(outcome) == [(8.0, False), (12.0, False)]


def test_nesting():
    x, one = number(2.0), number(1.0)
    d = lambda f: lambda x: jvp(f, (x,), (one,))[1]  # noqa: E731
    cube = lambda x: x**3  # noqa: E731
    for outer in (d, grad, func.jacrev, func.jacfwd):
        for inner in (d, grad, func.jacrev, func.jacfwd):
            assert outer(inner(cube))(x).item() == 12.0
            assert outer(lambda x: x * inner(lambda y: x + y)(one))(x).item() == 1.0  # noqa: B023
    assert d(d(d(d(lambda x: x**5))))(x).item() == 240.0


def test_hessian_forms():
    v = ad.tensor([2.0, 3.0])
    assert func.hessian(lambda x: (x**3).sum())(v).tolist() == [[12.0, 0.0], [0.0, 18.0]]
    leaf = v.clone().requires_grad_()
    h = func.hessian(lambda x: (x**3).sum())(leaf)
    assert h.requires_grad
    h.sum().backward()
    assert leaf.grad.tolist() == [6.0, 6.0]
    blocks = func.hessian(lambda x, y: (x * y).sum() * y[0], argnums=(0, 1))(v, v)
    assert blocks[0][0].tolist() == [[0.0, 0.0]] * 2
    assert blocks[0][1].tolist() == [[4.0, 0.0], [3.0, 2.0]] == blocks[1][0].T.tolist()
    assert func.hessian(lambda x: x**2, chunk_size=1)(v).shape == (2, 2, 2)


@pytest.mark.parametrize(
    "f, primals, tangents, keywords, error, message",
    [
        (square, 3.0, 1.0, {}, RuntimeError, "Expected primals to be a tuple. E.g. it should be valid to call"),
        (square, [number()], [number()], {}, RuntimeError, "Expected primals to be a tuple"),
        (square, (number(),), (number(), number()), {}, RuntimeError, "(?s)to have the same python structure.*TreeSpec"),
        (square, (3.0,), (number(),), {}, RuntimeError, "Expected primals to only contain Tensors, got <class 'float'>"),
        (square, (number(),), (1.0,), {}, RuntimeError, "Expected tangents to only contain Tensors, got <class 'float'>"),
        (lambda: number(), (), (), {}, RuntimeError, "Expected primals to contain at least one Tensor"),
        (lambda x: 3, (number(),), (number(),), {}, RuntimeError, r"expected f\(\*primals\) to return only tensors, got"),
        (lambda x: (), (number(),), (number(),), {}, RuntimeError, "has non-empty output"),
        (lambda x: None, (number(),), (number(),), {}, RuntimeError, "has non-empty output"),
        (square, (number(),), (number(),), {"has_aux": True}, RuntimeError, "output of function f should be a tuple"),
        (lambda x: number(1.0), (number(),), (number(),), {"strict": True}, RuntimeError, "is independent of the inputs"),
        (square, (number(),), (ad.ones(1),), {}, RuntimeError, "size|shape"),
        (square, (ad.tensor(3),), (ad.tensor(1),), {}, (RuntimeError, ValueError), "floating point"),
    ],
)  # fmt: skip
def test_errors(f, primals, tangents, keywords, error, message):
    with pytest.raises(error, match=message):
        jvp(f, primals, tangents, **keywords)
    # Nothing is left behind.
    assert jvp(square, (number(),), (number(1.0),))[1].item() == 6.0


def test_ten_threads():
    found = {}

    def work(k):
        x, v = ad.tensor([0.1 * k, 0.2]), ad.tensor([1.0, float(k)])
        f = lambda x: (x.sin() * x.exp()).sum()  # noqa: E731
        found[k] = [
            [
                jvp(grad(f), (x,), (v,))[1].tolist(),
                func.jacrev(grad(f))(x).tolist(),
                func.linearize(f, x)[1](v).item(),
            ]
            for _ in range(20)
        ]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    one_by_one = found.copy()
    for k in range(10):
        work(k)
        assert found[k] == one_by_one[k]


def test_memory_of_a_large_expression():
    """A tangent for each tensor that lives, and nothing beside: the terms of a product's tangent are no tensors."""
    x, t = ad.rand(1_000_000), ad.rand(1_000_000)

    def f(x):
        return (ad.tanh(x) * x + ad.exp(-x * x)).sum()

    def peak(g):
        ad.reset_peak_memory_statistics()
        before = ad.memory_statistics()["allocated_bytes"]
        g()
        return (ad.memory_statistics()["peak_allocated_bytes"] - before) / 4_000_000

    plain = peak(lambda: f(x))
    assert peak(lambda: jvp(f, (x,), (t,))) <= 2 * plain + 0.1


@pytest.mark.parametrize("device", ["meta", "far:1"])
def test_large_tensors_elsewhere_have_tangents_there(device):
    x = ad.ones(20_000).to(device)
    value, tangent = jvp(lambda x: x * x, (x,), (x,))
    assert value.device == tangent.device == x.device and tangent.shape == (20_000,)


def test_writes_that_forward_mode_allows():
    """To results that a pass backward would need, and to one of several views."""

    def f(x):
        a = x.exp()
        a[0] = 0.0
        return a

    def g(x, y):
        b = x.relu() * 1
        b.unbind(0)[1].mul_(y)
        return {"b": b, "sum": b.sum()}, "rest"

    x, wanted = ad.zeros(2), ad.tensor([[0.0, 0.0], [0.0, 1.0]])
    assert ad.equal(jacfwd(f)(x), wanted) and ad.equal(vmap(jacfwd(f))(ad.zeros(3, 2))[1], wanted)
    value, push = linearize(f, x)
    assert value.tolist() == [0.0, 1.0] and push(ad.tensor([2.0, 3.0])).tolist() == [0.0, 3.0]
    found, rest = jacfwd(g, argnums=(0, 1), has_aux=True)(ad.ones(2), ad.tensor(2.0))
    assert rest == "rest" and found["sum"][0].tolist() == [1.0, 2.0] and found["b"][1].tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        jacrev(f)(x)

    def noisy(x):
        a = x.exp()
        return a.mul_(ad.randn(2))

    value, push = linearize(noisy, x)
    assert ad.equal(push(ad.ones(2)), value) and ad.equal(push(ad.ones(2)), value)


def test_a_function_writes_to_the_tangent_that_was_given():
    a, b = ad.tensor([0.5, 2.0]), ad.tensor([1.0, 3.0])

    def f(z):
        b.copy_(z)
        return z * 2

    value, tangent = ad.func.jvp(f, (a,), (b,))
    assert value.tolist() == [1.0, 4.0]
    assert tangent.tolist() == [1.0, 4.0]  # of what the given tangent is by then
    assert b.tolist() == [0.5, 2.0]
