"""Whole Jacobians: forms, shapes and histories are those of torch.func of torch 2.13; values come from formulas."""

import doctest

import pytest

import adjoint as ad
from adjoint import func
from adjoint.func import jacrev, linearize

V = ad.tensor([2.0, 3.0])


def m(x):
    return ad.stack([x[0] * x[1], x.sum()])


JACOBIAN = [[3.0, 2.0], [1.0, 1.0]]
JACOBIANS = [getattr(func, name) for name in ("jacrev", "jacfwd") if hasattr(func, name)]
by_both = pytest.mark.parametrize("jacobian", JACOBIANS, ids=lambda f: f.__name__)


@by_both
def test_values_and_histories(jacobian):
    j = jacobian(m)(V)
    assert j.tolist() == JACOBIAN and not j.requires_grad
    x = ad.tensor([2.0, 3.0], requires_grad=True)
    j = jacobian(m)(x)
    assert j.tolist() == JACOBIAN and j.requires_grad
    j.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with ad.no_grad():
        assert not jacobian(m)(x).requires_grad
    c = ad.tensor(2.0, requires_grad=True)
    jacobian(lambda x: c * x)(V).sum().backward()
    assert c.grad.item() == 2.0


@by_both
def test_containers(jacobian):
    f = lambda p, q: {"o": p["a"] * q, "s": (q.sum(),)}  # noqa: E731
    p = {"a": ad.tensor([1.0, 2.0]), "b": ad.tensor(1.0)}
    j = jacobian(f, argnums=(0, 1))(p, V)
    assert j["o"][0]["a"].tolist() == [[2.0, 0.0], [0.0, 3.0]] and j["o"][0]["b"].tolist() == [0.0, 0.0]
    assert j["o"][1].tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert j["s"][0][0]["b"].tolist() == 0.0 and j["s"][0][1].tolist() == [1.0, 1.0]
    assert jacobian(m, argnums=(0,))(V)[0].tolist() == JACOBIAN
    j, aux = jacobian(lambda x: (m(x), x * 2), has_aux=True)(V)
    assert j.tolist() == JACOBIAN and aux.tolist() == [4.0, 6.0] and not aux.requires_grad
    assert jacobian(lambda x, *, k: x * k)(V, k=2).tolist() == [[2.0, 0.0], [0.0, 2.0]]


@by_both
def test_shapes(jacobian):
    x = ad.arange(6.0).reshape(2, 3)
    j = jacobian(lambda x: x @ x.T)(x)
    assert j.shape == (2, 2, 2, 3)
    assert j[0, 1].tolist() == [x[1].tolist(), x[0].tolist()]
    assert jacobian(lambda x: x * 2)(ad.tensor(3.0)).item() == 2.0
    assert jacobian(lambda x: x * 2)(ad.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: ad.ones(3))(V).tolist() == [[0.0, 0.0]] * 3
    assert jacobian(lambda x: x.sum(0, keepdim=True))(V).tolist() == [[1.0, 1.0]]
    assert jacobian(lambda x: (x, x[0]))(V)[1].tolist() == [1.0, 0.0]
    assert jacobian(lambda p: x * 2)({}) == {}
    # Many more outputs than inputs, and the other way round.
    v = ad.tensor([0.3, -0.5], dtype=ad.float64)
    k = ad.arange(12.0, dtype=ad.float64).reshape(2, 6)
    tall = jacobian(lambda x: ((x @ k).sin(), (x @ k).sum()))(v)
    assert ad.allclose(tall[0], (v @ k).cos()[:, None] * k.T) and ad.allclose(tall[1], k.sum(1))
    wide = jacobian(lambda u: (k @ u).sin())(v.repeat(3))
    assert ad.allclose(wide, (k @ v.repeat(3)).cos()[:, None] * k)
    for size in (1, 2, 5):
        assert jacobian(lambda x: (x @ k).sin(), chunk_size=size)(v).shape == (6, 2)
        assert jacobian(m, chunk_size=size)(V).tolist() == JACOBIAN
        assert jacobian(lambda x: (x.T @ x).exp(), chunk_size=size)(x / 6).shape == (3, 3, 2, 3)


@by_both
def test_inside_of_one_another(jacobian):
    f = lambda x: x[0] ** 3 * x[1] ** 2  # noqa: E731
    for other in JACOBIANS:
        assert jacobian(other(f))(V).tolist() == [[6 * 2 * 9.0, 3 * 4 * 6.0], [3 * 4 * 6.0, 8 * 2.0]]
    assert jacobian(func.grad(f))(V).tolist() == [[6 * 2 * 9.0, 3 * 4 * 6.0], [3 * 4 * 6.0, 8 * 2.0]]
    assert func.grad(lambda x: jacobian(f)(x).sum())(V).tolist() == [180.0, 88.0]


@by_both
def test_errors(jacobian):
    name = jacobian.__name__
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"{name}: `chunk_size` should be greater than 0"):
            jacobian(m, chunk_size=size)
    z = ad.tensor([1 + 1j])
    for f, x, which in ((lambda z: z * z, z, "inputs"), (lambda x: x * 1j, V, "outputs")):
        with pytest.raises(
            RuntimeError, match=f"{name}: Expected all {which} to be real but received complex"
        ):
            jacobian(f)(x)
    with pytest.raises(RuntimeError, match="to return only tensors, got unsupported type <class 'int'>"):
        jacobian(lambda x: 3)(V)
    with pytest.raises(RuntimeError, match="non-empty output"):
        jacobian(lambda x: ())(V)
    with pytest.raises(RuntimeError, match="Got argnum=3, but only 1 positional inputs"):
        jacobian(m, argnums=3)(V)
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        jacobian(m)(3.0)
    with pytest.raises((RuntimeError, ValueError), match="floating point"):
        jacobian(lambda x: x * 1.0)(ad.tensor([1, 2]))


def test_dtypes():
    assert jacrev(lambda x: x.double())(V).dtype == ad.float32
    assert func.jacfwd(lambda x: x.double())(V).dtype == ad.float64


def test_the_function_runs_once():
    count = []
    f = lambda x: count.append(1) or m(x)  # noqa: E731
    for transform in (*JACOBIANS, func.hessian):
        transform(f)(V)
    assert len(count) == 3


def test_linearize():
    count = []

    def f(p, q):
        count.append(1)
        return {"o": p["a"] ** 2 * q.sin(), "s": q.sum(), "none": ad.ones(2)}

    a, q = ad.tensor([1.0, 2.0], dtype=ad.float64), ad.tensor([0.3, 0.4], dtype=ad.float64)
    value, push = linearize(f, {"a": a}, q)
    for _ in range(3):
        t, s = ad.randn(2, dtype=ad.float64), ad.randn(2, dtype=ad.float64)
        out = push({"a": t}, s)
        assert ad.allclose(out["o"], 2 * a * t * q.sin() + a**2 * q.cos() * s)
        assert ad.allclose(out["s"], s.sum()) and out["none"].tolist() == [0.0, 0.0]
        assert not out["o"].requires_grad
    assert ad.allclose(value["o"], a**2 * q.sin()) and not value["o"].requires_grad
    assert len(count) == 1
    value, push = linearize(lambda x: x, V)
    assert value is V and push(ad.ones(2)).tolist() == [1.0, 1.0]


def test_linearize_of_complex_functions():
    z = ad.tensor([1 + 2j, 0.5 - 1j], dtype=ad.complex128)
    t = ad.tensor([0.3 - 1j, 2 + 0.1j], dtype=ad.complex128)
    assert ad.allclose(linearize(lambda z: z**3, z)[1](t), 3 * z**2 * t)
    # Linear over the real numbers alone: d(z z̄) = z̄ t + z t̄.
    assert ad.allclose(linearize(lambda z: z * z.conj(), z)[1](t), z.conj() * t + z * t.conj())
    assert ad.allclose(linearize(lambda z: z.abs(), z)[1](t), (z.conj() * t).real / z.abs())


def test_linearize_can_be_differentiated():
    x = ad.tensor(3.0, requires_grad=True)
    value, push = linearize(lambda x: x**3, x)
    t = ad.tensor(2.0, requires_grad=True)
    out = push(t)
    assert out.item() == 54.0
    gx, gt = ad.autograd.grad(out, (x, t))
    assert gx.item() == 6 * 3 * 2.0 and gt.item() == 27.0
    assert func.grad(lambda x: linearize(lambda y: y**3, x)[1](ad.tensor(2.0)))(ad.tensor(3.0)).item() == 36.0
    c = ad.tensor(5.0, requires_grad=True)
    linearize(lambda x: c * x, ad.tensor(1.0))[1](ad.tensor(2.0)).backward()
    assert c.grad.item() == 2.0


def test_errors_of_linearize():
    _, push = linearize(lambda x: x**2, V)
    cases = [
        ((V, V), r"(?s)Expected the tangents TreeSpec\(tuple.* to have the same argspec as the primals"),
        ((ad.ones(1),), "tangent:0 with shape .* in flattened pytree doesn't match the shape .* of the corresponding primal"),
        ((ad.ones(2, dtype=ad.float64),), "tangent:0 with dtype .* doesn't match the dtype .* of the corresponding primal"),
        ((1.0,), "tangent:0 in flattened pytree should be a Tensor, got <class 'float'>"),
    ]  # fmt: skip
    for tangents, message in cases:
        with pytest.raises(RuntimeError, match=message):
            push(*tangents)
    with pytest.raises(RuntimeError, match="to return only tensors"):
        linearize(lambda x: 3, V)


def test_a_hessian_by_arguments_of_several_types_keeps_each_gradients_type():
    x, w = ad.tensor([1.0, 1 + 1e-12], dtype=ad.float64), ad.tensor([0.5, 0.25])
    (xx, xw), (wx, ww) = func.hessian(lambda x, w: (x**2 * w.double() ** 2).sum(), (0, 1))(x, w)
    assert [t.dtype for t in (xx, xw, wx, ww)] == [ad.float64, ad.float64, ad.float32, ad.float32]
    # 4 x w, of which float32 would lose what makes x differ from 1.
    assert xw[1, 1].item() - 1.0 == pytest.approx(1e-12, rel=1e-3)
    assert xx.tolist() == [[0.5, 0.0], [0.0, 0.125]]


def test_a_hessian_of_many_results_takes_as_many_passes_as_there_are_inputs():
    """Of 24 numbers of 24: 24 passes through a gradient of 24 * 24 numbers, not one for each of these."""
    x = ad.linspace(0.1, 1, 24, dtype=ad.float64)
    before = ad.memory_statistics()["allocated_bytes"]
    ad.reset_peak_memory_statistics()
    found = func.hessian(lambda x: (x.sin() * x).cumsum(0))(x)
    assert ad.memory_statistics()["peak_allocated_bytes"] - before < 12 * 24**3 * 8
    second = 2 * x.cos() - x * x.sin()
    assert ad.allclose(found, ad.ones(24, 24, dtype=ad.float64).tril()[:, :, None] * ad.diag(second))


@pytest.mark.parametrize("name", func.__all__)
def test_examples(name):
    function = getattr(func, name)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (example,) = finder.find(function, name, globs={})
    assert example.examples, f"{name} shows no example"
    assert runner.run(example).failed == 0
