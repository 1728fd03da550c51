"""Operators that Python declares: their rows, nodes, rules, and what they refuse. Start reading at `product`."""

import gc
import weakref

import numpy as np
import pytest
from helpers import array, normal, tensor

import adjoint as ad
from adjoint.library import primitive


def product(**rules):
    """x y by NumPy, with rules for each."""
    rules = {"vjp": {"x": lambda g, y: g * y, "y": lambda g, x: g * x}, **rules}

    @primitive("numpy_product(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor", **rules)
    def numpy_product(x, y, scale):
        """A product."""
        return ad.from_numpy(np.asarray(scale * x.numpy() * y.numpy()))

    return numpy_product


def leaves(*shapes, kind="real"):
    return [tensor(normal(*shape, kind=kind, seed=k), requires_grad=True) for k, shape in enumerate(shapes)]


# --- calls ---------------------------------------------------------------------------------------------------------------


def test_it_has_a_row_like_others():
    f = product(samples="(3, 4), (3, 4)")
    (row,) = [row for row in ad._C.operators() if row["name"] == "numpy_product"]
    assert row["signature"] == "numpy_product(x, y, scale=1.0)"
    assert row["differentiable"] and row["samples"] == ["(3, 4), (3, 4)"]
    assert row["doc"] == "A product." and row["arguments"] == ["x", "y", "scale"]
    assert f.__name__ == "numpy_product" and ad._C.numpy_product is f


def test_arguments_are_read_as_those_of_any_operator():
    f = product()
    x, y = ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0])
    for result in (f(x, y, 2), f(x, y, scale=2.0), f(y=y, x=x, scale=2), f(x, y=y, scale=2.0)):
        assert result.tolist() == [6.0, 16.0]
    out = ad.empty(2)
    assert f(x, y, out=out) is out and out.tolist() == [3.0, 8.0]
    for wrong, words in [
        ((x,), "missing required argument 'y'"),
        ((x, "y"), r"argument 'y' \(position 2\) must be Tensor, not str"),
        ((x, y, "2"), "argument 'scale' .* must be float, not str"),
        ((x, y, 2.0, 3), "takes 3 positional arguments but 4 were given"),
    ]:
        with pytest.raises(TypeError, match=words):
            f(*wrong)


def test_every_type_of_argument_reaches_the_function():
    seen = []

    @primitive(
        "every(x: Tensor, others: list[Tensor], n: int, f: float, b: bool, s: str, d: dtype, k: list[int], w: list[float], *, "
        "o: Tensor | None = None, c: Number = 1, m: int | None = None, e: list[int] = (1, 2), q: str = 'q') -> list[Tensor]"
    )
    def every(x, others, n, f, b, s, d, k, w, *, o, c, m, e, q):
        seen.append((n, f, b, s, d, k, w, o, c, m, e, q))
        return [t.clone() for t in (x, *others)]

    x = ad.ones(2)
    results = every(x, [x, x], 1, 2, True, "s", ad.float64, [1, 2], [0.5], c=2j, q="r")
    assert [r.tolist() for r in results] == [[1.0, 1.0]] * 3
    assert seen == [(1, 2.0, True, "s", ad.float64, (1, 2), (0.5,), None, 2j, None, (1, 2), "r")]


def test_nothing_is_recorded_inside():
    inside = []

    @primitive("inside(x)", vjp=lambda g: g)
    def watched(x):
        inside.append(((x * 2).requires_grad, ad.is_grad_enabled()))
        return x * 2

    assert watched(ad.ones(2, requires_grad=True)).grad_fn.name() == "InsideBackward0"
    assert inside == [(False, False)]


def test_results_are_checked():
    x = ad.ones(3, requires_grad=True)

    def returning(result, results=""):
        return primitive("returning(x)" + results, vjp=lambda g: None)(lambda x: result(x))

    with pytest.raises(TypeError, match="'returning' must return .* not int"):
        returning(lambda x: 3)(x)
    with pytest.raises(TypeError, match="'returning' must return"):
        returning(lambda x: x.detach().numpy())(x)
    with pytest.raises(ValueError, match="2 results of returning"):
        returning(lambda x: [x.clone()], " -> tuple[Tensor, Tensor]")(x)
    for shared in (lambda x: x, lambda x: x[:2], lambda x: x.detach()):
        with pytest.raises(
            RuntimeError, match=r"may not alias any inputs .* argument 'x': return a clone\(\)"
        ):
            returning(shared)(x)


def test_a_tensor_that_the_function_keeps_gets_no_history():
    kept = ad.ones(3)
    f = primitive("keeping(x)", vjp=lambda g: g)(lambda x: kept)
    y = f(ad.ones(3, requires_grad=True))
    assert y.requires_grad and not kept.requires_grad and y is not kept
    viewed = primitive("viewing(x)", vjp=lambda g: g)(lambda x: x.exp()[:])
    y = viewed(ad.ones(3, requires_grad=True))
    y.mul_(2)
    assert y.requires_grad and not y._is_view()


def test_arrays_that_somebody_else_holds_are_compared():
    def reader(array_of):
        return lambda x: ad.from_numpy(array_of())

    held = np.ones(3)
    kept = []
    x = ad.ones(3, dtype=ad.float64, requires_grad=True)
    for name, array_of in {
        "whole": lambda: held,
        "part": lambda: held[:2],
        "leaked": lambda: kept.append(held + 1) or kept[-1],
    }.items():
        f = primitive(f"{name}(x)", vjp=lambda g: g)(reader(array_of))
        y = f(x).sin()
        held += 1
        for a in kept:
            a += 1
        with pytest.raises(RuntimeError, match="belongs to somebody else"):
            y.sum().backward()
    fresh = primitive("fresh(x)", vjp=lambda g: g)(lambda x: ad.from_numpy(x.detach().numpy() + 1))
    y = fresh(x)
    version = y._version
    z = y.sin()
    y.data.add_(1)  # seen in the memory of others alone
    z.sum().backward()
    assert y._version == version


def test_an_error_of_the_function_is_the_callers():
    def forward(x):
        raise KeyError("what is wrong")

    with pytest.raises(KeyError, match="what is wrong"):
        primitive("failing(x)")(forward)(ad.ones(1))
    f = primitive("failing(x)", vjp=lambda g: g.missing)(lambda x: x.clone())
    with pytest.raises(AttributeError, match="missing"):
        f(ad.ones(1, requires_grad=True)).backward()


# --- derivatives ---------------------------------------------------------------------------------------------------------


def test_derivatives_of_both_orders_in_both_modes():
    f = product()
    x, y = leaves((3, 2), (3, 2))
    assert ad.autograd.gradcheck(f, (x, y), check_forward_ad=True, check_batched_grad=True)
    assert ad.autograd.gradgradcheck(f, (x, y), check_fwd_over_rev=True)


def test_complex_derivatives():
    f = product(vjp={"x": lambda g, y: g * y.conj(), "y": lambda g, x: g * x.conj()})
    x, y = leaves((3,), (3,), kind="complex")
    assert ad.autograd.gradcheck(f, (x, y), check_forward_ad=True)


def test_only_what_is_needed_is_kept():
    f = product()
    x, y = leaves((3,), (3,))
    for a, b, kept in [
        (x, y.detach(), {"_saved_y"}),
        (x.detach(), y, {"_saved_x"}),
        (x, y, {"_saved_x", "_saved_y"}),
    ]:
        node = f(a, b).grad_fn
        assert {name for name in ("_saved_x", "_saved_y") if getattr(node, name) is not None} == kept
    shape_only = primitive("shape_only(x, by: float)", vjp=lambda g, x_shape, by: g.expand(x_shape) * by)(
        lambda x, by: x.sum() * by
    )
    x = ad.randn(5, requires_grad=True)
    here = weakref.ref(x)
    y = shape_only(x * 1, 2.0)
    assert y.grad_fn._saved_by == 2.0
    y.backward()
    assert x.grad.tolist() == [2.0] * 5 and here() is x


def test_one_rule_for_all_sees_what_is_asked_for():
    asked = []

    def vjp(g, x, y, needs_input_grad, scale, result):
        asked.append((needs_input_grad, scale, result.shape))
        return g * y * scale, g * x * scale if needs_input_grad[1] else None

    f = product(vjp=vjp)
    x, y = leaves((2,), (2,))
    f(x, y.detach(), 3.0).sum().backward()
    np.testing.assert_allclose(array(x.grad), 3 * array(y))
    f(x, y, scale=2.0).sum().backward()
    assert asked == [((True, False), 3.0, (2,)), ((True, True), 2.0, (2,))]


def test_several_results_of_which_some_are_used():
    @primitive(
        "sine_and_cosine(x) -> tuple[Tensor, Tensor]",
        vjp=lambda g, result: g[0] * result[1] - g[1] * result[0],
        jvp=lambda t, result: (t * result[1], -t * result[0]),
    )
    def sine_and_cosine(x):
        return ad.from_numpy(np.sin(x.numpy())), ad.from_numpy(np.cos(x.numpy()))

    (x,) = leaves((4,))
    sine, cosine = sine_and_cosine(x)
    (g,) = ad.autograd.grad(cosine.sum(), x)
    np.testing.assert_allclose(array(g), -np.sin(array(x)), rtol=1e-12)
    assert ad.autograd.gradcheck(sine_and_cosine, (x,), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(sine_and_cosine, (x,))


def test_lists_of_tensors_and_tensors_that_are_left_out():
    @primitive(
        "sum_of(xs: list[Tensor], weight: Tensor | None = None)",
        vjp=lambda g, xs, weight: (
            [g if weight is None else g * weight for x in xs],
            None if weight is None else sum(xs) * g,
        ),
    )
    def sum_of(xs, weight):
        total = sum(x.numpy() for x in xs)
        return ad.from_numpy(total if weight is None else total * weight.numpy())

    x, y, w = leaves((3,), (3,), (3,))
    assert ad.autograd.gradcheck(lambda x, y: sum_of([x, y]), (x, y))
    assert ad.autograd.gradcheck(lambda x, y, w: sum_of((x, y), w), (x, y, w), check_forward_ad=True)
    with pytest.raises(RuntimeError, match="expected 2, but it gave 3"):
        primitive("too_many(x, y)", vjp=lambda g: (g, g, g))(lambda x, y: x + y)(x, y).sum().backward()
    with pytest.raises(TypeError, match="must give a Tensor or None for each gradient, but it gave int"):
        primitive("no_tensor(x)", vjp=lambda g: 3)(lambda x: x + 1)(x).sum().backward()


def test_what_has_no_derivative_says_so_by_name():
    x, y = leaves((2,), (2,))
    f = primitive("without(x)")(lambda x: x + 1)
    with pytest.raises(NotImplementedError, match="'without'"):
        f(x).sum().backward()
    assert not f(x.detach()).requires_grad
    with ad.no_grad():
        f(x)
    assert primitive("counts(x)")(lambda x: (x < 0).sum())(x).item() == 2
    half = product(vjp={"x": lambda g, y: g * y})
    with pytest.raises(NotImplementedError, match="'numpy_product' with respect to argument 'y'"):
        half(x, y).sum().backward()
    half(x, y.detach()).sum().backward()
    with pytest.raises(NotImplementedError, match="without"), ad.autograd.forward_ad.dual_level():
        f(ad.autograd.forward_ad.make_dual(x.detach(), y.detach()))


def test_a_linear_operator_needs_no_forward_rule():
    calls = []

    @primitive("halved(x, n: int = 2)", linear="x")
    def halved(x, n):
        calls.append(n)
        return x / n

    x, t = ad.tensor([2.0, 4.0]), ad.tensor([1.0, 1.0])
    assert [r.tolist() for r in ad.func.jvp(lambda x: halved(x, 4), (x,), (t,))] == [[0.5, 1.0], [0.25, 0.25]]
    assert calls == [4, 4]


def test_its_own_forward_rule_is_used():
    used = []

    def jvp(t, x, y, scale, needs_input_grad):
        used.append(needs_input_grad)
        return scale * (t[0] * y + x * t[1])

    f = product(jvp=jvp)
    x, y = leaves((3,), (3,))
    assert ad.autograd.gradcheck(
        lambda x, y: f(x, y, 1.0), (x, y), check_forward_ad=True, check_backward_ad=False
    )
    ad.func.jvp(lambda x: f(x, y.detach()), (x.detach(),), (ad.ones(3, dtype=ad.float64),))
    assert used[-1] == (True, False)
    # Levels nest: the second derivative of x³ along 1.
    third = ad.func.jvp(
        lambda x: ad.func.jvp(lambda x: f(f(x, x), x), (x,), (ad.ones_like(x),))[1],
        (x.detach(),),
        (ad.ones(3, dtype=ad.float64),),
    )[1]
    np.testing.assert_allclose(array(third), 6 * array(x))


# --- transforms ----------------------------------------------------------------------------------------------------------


def test_vmap_without_a_rule_goes_sample_by_sample():
    f = product()
    x, y = (t.detach() for t in leaves((3, 2), (3, 2)))
    ad._C._forget_batching_loops()
    np.testing.assert_allclose(array(ad.vmap(f)(x, y)), array(x * y))
    assert ad._C._batching_loops() == {"numpy_product": 1}
    grads = ad.vmap(ad.func.grad(lambda x, y: f(x, y).sum()))(x, y)
    np.testing.assert_allclose(array(grads), array(y))


def test_vmap_by_the_types_of_arguments():
    @primitive("summed(x: Tensor, dim: Dim) -> Tensor", linear="x")
    def summed(x, dim):
        return ad.from_numpy(x.numpy().sum(dim))

    x = tensor(normal(3, 4, 5))
    ad._C._forget_batching_loops()
    for dim in (0, -1):
        np.testing.assert_allclose(
            array(ad.vmap(lambda x, d=dim: summed(x, d))(x)), array(ad.vmap(lambda x, d=dim: x.sum(d))(x))
        )
    np.testing.assert_allclose(
        array(ad.vmap(lambda x: summed(x, 0), in_dims=2, out_dims=1)(x)), array(x.sum(0))
    )
    assert not ad._C._batching_loops()


def test_vmap_by_a_rule():
    seen = []

    def batch(info, in_dims, x, y, scale):
        seen.append((info.batch_size, in_dims))
        if in_dims[0] is None:
            return f(x.expand_as(y), y, scale), 0
        if in_dims[1] is None:
            return f(x, y.expand_as(x), scale).movedim(0, -1), -1
        return f(x, y, scale), 0

    f = product(batch=batch)
    x, y = leaves((3, 2), (3, 2))
    np.testing.assert_allclose(array(ad.vmap(f)(x, y)), array(x * y))
    np.testing.assert_allclose(array(ad.vmap(f, (0, None))(x, y[0])), array(x * y[0]))
    np.testing.assert_allclose(array(ad.vmap(f, (None, 0))(x[0], y)), array(x[0] * y))
    assert seen == [(3, (0, 0, None)), (3, (0, None, None)), (3, (None, 0, None))]
    ad.vmap(f)(x, y).sum().backward()
    np.testing.assert_allclose(array(x.grad), array(y))
    wrong = product(batch=lambda info, dims, x, y, scale: x * y)
    with pytest.raises(RuntimeError, match="must return a tuple of the results and of the dimensions"):
        ad.vmap(wrong)(x, y)
    wrong = product(batch=lambda info, dims, x, y, scale: (x * y, 1))
    with pytest.raises(RuntimeError, match="says that the batch of 3 is dimension 1"):
        ad.vmap(wrong)(x, y)


def test_results_inside_of_vmap_can_be_written():
    f = primitive("ones_beside(x)")(lambda x: ad.from_numpy(np.ones_like(x.numpy())))
    x = tensor(normal(3, 2))
    plain = ad.ones(2, dtype=ad.float64)
    found = ad.vmap(lambda x: f(plain).add_(x), strict=True)(x)
    np.testing.assert_allclose(array(found), 1 + array(x))


def test_vmap_of_an_operator_that_takes_a_batch_in_front():
    f = product(batch="leading")
    x, y = (t.detach() for t in leaves((3, 2), (2,)))
    ad._C._forget_batching_loops()
    np.testing.assert_allclose(array(ad.vmap(f, (0, None))(x, y)), array(x * y))
    assert not ad._C._batching_loops()


# --- who looks on --------------------------------------------------------------------------------------------------------


def test_hooks_and_selective_checkpoints_see_it():
    from adjoint.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    computed = []

    @primitive("squared(x)", vjp=lambda g, x: 2 * g * x)
    def squared(x):
        computed.append(1)
        return ad.from_numpy(x.numpy() ** 2)

    for policy, times in ((CheckpointPolicy.MUST_SAVE, 1), (CheckpointPolicy.PREFER_RECOMPUTE, 2)):
        computed.clear()
        x = ad.tensor([3.0], requires_grad=True)
        y = checkpoint(
            lambda x: squared(squared(x) * 1).sin(),
            x,
            use_reentrant=False,
            context_fn=lambda p=policy: create_selective_checkpoint_contexts(
                lambda ctx, op, *a, **k: p if op is squared else CheckpointPolicy.PREFER_RECOMPUTE
            ),
        )
        y.backward()
        np.testing.assert_allclose(array(x.grad), 4 * 27 * np.cos(81), rtol=1e-5)
        assert len(computed) == 2 * times

    packed = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
        squared(ad.ones(5, requires_grad=True))
    assert packed == [(5,)]


def test_interpreters_see_one_call():
    from adjoint.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, kwargs))
            return func(*args, **(kwargs or {}))

    f, x = product(), ad.ones(2)
    with Log():
        f(x, x, scale=2.0)
    assert len(seen) == 1 and seen[0][0] is f


def test_no_cycle_is_left():
    f = product()
    gc.collect()
    gc.disable()
    try:
        x = ad.ones(3, requires_grad=True) * 1
        y = f(x, x)
        gone = [weakref.ref(x), weakref.ref(y)]
        del x, y
        assert [r() for r in gone] == [None, None]
    finally:
        gc.enable()
