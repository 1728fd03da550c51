"""adjoint.func: `grad`, `grad_and_value` and `vjp` alone, in one another, and among modes, backward and captured tensors.

What they give and whether it requires a gradient are facts about torch.func of torch 2.13, written down here.
"""

import dataclasses
import gc
import subprocess
import sys
import weakref
from collections import OrderedDict, namedtuple

import pytest

import adjoint as ad
from adjoint import func
from adjoint.func import grad, grad_and_value, vjp


def square(x):
    return x**2


def number(value=3.0, **keywords):
    return ad.tensor(value, **keywords)


def facts(t):
    """Value, and whether it requires a gradient."""
    return t.tolist(), t.requires_grad


# --- values and what depends on what ----------------------------------------------------------------------------------


def test_gradient_of_a_plain_argument_has_no_history():
    x = number()
    assert facts(grad(square)(x)) == (6.0, False)
    g, value = grad_and_value(square)(x)
    assert facts(g) == (6.0, False) and facts(value) == (9.0, False)
    assert value.grad_fn is None and x.grad is None and not x.requires_grad


def test_what_an_argument_that_requires_a_gradient_gives_does_too():
    x = number(requires_grad=True)
    g, value = grad_and_value(square)(x)
    assert facts(g) == (6.0, True) and facts(value) == (9.0, True)
    (g + value).backward()
    assert x.grad.item() == 2.0 + 6.0


def test_captured_tensors_that_require_gradients():
    x, c = number(), number(2.0, requires_grad=True)
    assert facts(grad(lambda x: x * c)(x)) == (2.0, True)
    # The gradient does not depend on c, the value does.
    g, value = grad_and_value(lambda x: x**2 + c)(x)
    assert facts(g) == (6.0, False) and facts(value) == (11.0, True)
    g = grad(lambda x: x**2 * c**3)(x)
    g.backward()
    assert c.grad.item() == 2 * 3 * 3 * 2**2
    assert facts(grad(lambda x: c * 1)(x)) == (0.0, False)


def test_aux_is_as_the_outside_sees_it():
    x, c = number(), number(2.0, requires_grad=True)
    g, (of_x, of_c, x_again, c_again, rest) = grad(
        lambda x: (x**2, (x * 3, c * 2, x, c, "text")), has_aux=True
    )(x)
    assert facts(g) == (6.0, False) and facts(of_x) == (9.0, False) and facts(of_c) == (4.0, True)
    assert x_again is x and c_again is c and rest == "text"
    y = number(requires_grad=True)
    g, aux = grad(lambda y: (y**2, {"a": y * 3, "y": y}), has_aux=True)(y)
    assert facts(g) == (6.0, True) and facts(aux["a"]) == (9.0, True) and aux["y"] is y
    g, (value, aux) = grad_and_value(lambda x: (x**2, x), has_aux=True)(x)
    assert facts(value) == (9.0, False) and aux is x


def test_a_result_that_is_the_argument_is_the_callers_tensor():
    x = number()
    g, value = grad_and_value(lambda x: x)(x)
    assert value is x and g.item() == 1.0
    value, pull = vjp(lambda x: x, x)
    assert value is x and pull(number(5.0))[0].item() == 5.0


def test_which_arguments():
    x, y = number(2.0), number(5.0)
    f = lambda a, b: a * b**2  # noqa: E731
    assert grad(f)(x, y).item() == 25.0
    assert grad(f, argnums=1)(x, y).item() == grad(f, argnums=-1)(x, y).item() == 20.0
    assert [g.item() for g in grad(f, argnums=(1, 0))(x, y)] == [20.0, 25.0]
    assert [g.item() for g in grad(f, argnums=(0,))(x, y)] == [25.0]
    assert grad(f)(x, b=y).item() == 25.0
    assert grad(lambda a, *, k: a * k)(x, k=y).item() == 5.0


Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class State:
    position: object
    speed: object
    label: object = None


def test_arguments_are_containers():
    x, y = number(2.0), number(5.0)
    assert grad(lambda p: p["a"] * p["b"][0])({"a": x, "b": [y]}) == {"a": y, "b": [x]}
    g = grad(lambda p: p.a * p.b**2)(Pair(x, y))
    assert type(g) is Pair and g == Pair(number(25.0), number(20.0))
    g = grad(lambda s: s.position * s.speed**2)(State(x, y))
    assert type(g) is State and g == State(number(25.0), number(20.0))
    g = grad(lambda p: p["b"] * p["a"] ** 2)(OrderedDict(b=x, a=y))
    assert type(g) is OrderedDict and list(g) == ["b", "a"] and g["a"].item() == 20.0
    value, pull = vjp(lambda p, q: {"o": p["a"] * q, "s": (q,)}, {"a": x}, y)
    assert value["o"].item() == 10.0 and value["s"][0] is y
    assert pull({"o": number(1.0), "s": (number(3.0),)}) == ({"a": y}, number(5.0))


def test_unused_and_constant():
    x = number()
    assert facts(grad(lambda x: number(1.0))(x)) == (0.0, False)
    assert grad(lambda x, y: y * 1.0, argnums=(0, 1))(x, x)[0].item() == 0.0
    assert grad(lambda x: x.long())(x).item() == 0.0
    value, pull = vjp(lambda x: ad.ones(2), x)
    assert facts(pull(ad.ones(2))[0]) == (0.0, False)
    value, pull = vjp(lambda: x)
    assert value is x and pull(x) == ()


def test_complex_arguments():
    z = ad.tensor(1 + 2j)
    assert grad(lambda z: (z * z.conj()).real)(z).item() == 2 + 4j
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got"):
        grad(lambda z: z * z)(z)
    with ad.autograd.complex_convention("holomorphic"):
        assert grad(lambda z: z**3)(z).item() == pytest.approx(3 * (1 + 2j) ** 2)


def test_the_name_and_documentation_of_the_function_stay():
    for transform in (grad, grad_and_value, func.jacrev):
        assert transform(square).__name__ == "square"


# --- vjp ----------------------------------------------------------------------------------------------------------------


def test_vjp_can_be_called_again():
    value, pull = vjp(square, number())
    assert facts(value) == (9.0, False)
    assert [facts(pull(number(v))[0]) for v in (1.0, 2.0)] == [(6.0, False), (12.0, False)]
    # A cotangent that wants a gradient makes a result that has a history.
    v = number(1.0, requires_grad=True)
    (g,) = pull(v)
    assert facts(g) == (6.0, True)
    g.backward()
    assert v.grad.item() == 6.0
    assert pull(None)[0].item() == 6.0
    pull(number(1.0), retain_graph=False)
    with pytest.raises(RuntimeError, match="second time"):
        pull(number(1.0))


def test_vjp_of_what_requires_a_gradient():
    x = number(requires_grad=True)
    value, pull = vjp(square, x)
    (g,) = pull(number(1.0))
    assert facts(value) == (9.0, True) and facts(g) == (6.0, True)
    with ad.no_grad():
        assert facts(pull(number(1.0))[0]) == (6.0, False)
    assert facts(pull(number(1.0), create_graph=False)[0]) == (6.0, False)
    g.backward()
    assert x.grad.item() == 2.0


def test_vjp_stays_when_its_result_is_written():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    value, pull = vjp(lambda x: x * 3, x)
    value *= 5
    assert pull(ad.ones(2))[0].tolist() == [3.0, 3.0]


def test_vjp_errors():
    x = number()
    _, pull = vjp(lambda x: (x, x), x)
    for cotangents in (x, (x,), [x, x]):
        with pytest.raises(
            RuntimeError, match=r"Expected pytree structure of cotangents .* primal output: \(\*, \*\)"
        ):
            pull(cotangents)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        vjp(square, ad.ones(2))[1](x)
    with pytest.raises(RuntimeError, match="expected cotangents to be tensors, got <class 'float'>"):
        vjp(square, x)[1](1.0)
    cases = [
        (lambda x: 3, RuntimeError, "to return only tensors, got unsupported type <class 'int'>"),
        (lambda x: (), RuntimeError, r"has non-empty output \(got output = \[\]\)"),
        (lambda x: None, RuntimeError, r"has non-empty output \(got output = \[None\]\)"),
        (lambda x: (x, "a"), RuntimeError, "to return only tensors, got unsupported type <class 'str'>"),
        (lambda x: x.long(), RuntimeError, "must be floating-point or complex Tensors"),
        (lambda x: (x, x.long()), RuntimeError, "must be floating-point or complex Tensors"),
    ]
    for f, error, message in cases:
        with pytest.raises(error, match=message):
            vjp(f, x)
    with pytest.raises(RuntimeError, match=r"should be a tuple: \(output, aux\) if has_aux is True"):
        vjp(square, x, has_aux=True)
    with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor"):
        vjp(square, 3.0)


# --- wrong arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argnums, message",
    [
        (2, "Got argnum=2, but only 2 positional inputs"),
        (-3, "Got argnum=-3, but only 2 positional inputs"),
        ((0, 0), r"argnums elements must be unique, got \(0, 0\)"),
        ((), "argnums must be non-empty"),
        ("a", r"argnums must be int or Tuple\[int, ...\], got: <class 'str'>"),
        (1.0, r"argnums must be int or Tuple\[int, ...\], got: <class 'float'>"),
        ([0], r"argnums must be int or Tuple\[int, ...\], got: <class 'list'>"),
        ((0, "a"), "argnum must be int, got: <class 'str'>"),
    ],
)
@pytest.mark.parametrize("transform", [grad, grad_and_value, func.jacrev], ids=lambda t: t.__name__)
def test_argnums_that_do_not_fit(transform, argnums, message):
    with pytest.raises(RuntimeError, match=message):
        transform(lambda x, y: x * y, argnums=argnums)(number(), number())


def test_errors_of_grad():
    x = number()
    cases = [
        (lambda x: 3.0, {}, "Expected f.* to return a Tensor, got <class 'float'>"),
        (lambda x: (x, x), {}, "Expected f.* to return a Tensor, got <class 'tuple'>"),
        (lambda x: x.reshape(1), {}, "to return a scalar Tensor, got tensor with 1 dims"),
        (lambda x: x, {"has_aux": True}, r"should be a tuple: \(output, aux\) if has_aux is True"),
        (lambda x: (x, x, x), {"has_aux": True}, r"should be a tuple: \(output, aux\) if has_aux is True"),
        (lambda x: [x, x], {"has_aux": True}, r"should be a tuple: \(output, aux\) if has_aux is True"),
    ]
    for f, keywords, message in cases:
        with pytest.raises(RuntimeError, match=message):
            grad(f, **keywords)(x)
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        grad(square)(ad.tensor(3))
    for wrong in (3.0, None, {"a": x, "b": None}):
        with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor"):
            grad(lambda p: x)(wrong)
    with pytest.raises(RuntimeError, match="but only 0 positional inputs"):
        grad(lambda: x)()


def test_arguments_may_not_be_written():
    def scale(x):
        x.mul_(2)
        return x.sum()

    message = "a leaf Variable that requires grad is being used in an in-place operation"
    for x in (ad.ones(2), ad.ones(2, requires_grad=True) * 1):
        with pytest.raises(RuntimeError, match=message):
            grad(scale)(x)
        with pytest.raises(RuntimeError, match=message):
            vjp(scale, x)
    with pytest.raises(RuntimeError, match=message):
        grad(lambda x: grad(scale)(x).sum())(ad.ones(2))
    # A view of the argument is the argument.
    with pytest.raises(RuntimeError, match="of a leaf Variable that requires grad|" + message):
        grad(lambda x: grad(lambda x: (x[0].mul_(2), x.sum())[1])(x).sum())(ad.ones(2))
    with pytest.raises(RuntimeError, match="requires_grad_"):
        grad(lambda x: x.requires_grad_(False).sum())(ad.ones(2))

    def unrecorded(x):
        with ad.no_grad():
            x.mul_(2)
        return (x * x).sum()

    x = ad.tensor([1.0, 2.0])
    assert grad(unrecorded)(x).tolist() == [4.0, 8.0] and x.tolist() == [2.0, 4.0]

    def local(x):
        y = x.clone()
        y.mul_(2)
        y[0].sin_()
        return y.sum()

    assert grad(local)(ad.tensor([0.0, 2.0])).tolist() == [2.0, 2.0]


# --- in one another ---------------------------------------------------------------------------------------------------


def test_grad_of_grad():
    f = lambda x: x**5  # noqa: E731
    x, expected = number(3.0), [5 * 3**4, 20 * 3**3, 60 * 3**2, 120 * 3, 120]
    for value in expected:
        f = grad(f)
        assert facts(f(x)) == (value, False)


def test_perturbations_do_not_mix():
    one = number(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(x))(number(2.0)).item() == 4.0
    assert grad(lambda x: grad(lambda y: x.detach() * y * x)(x))(number(3.0)).item() == 3.0
    # d/dx (x · d/dy (x² y³)) at y = x: x · 3 x⁴ with x² and y² both of x.
    assert grad(lambda x: x * grad(lambda y: x**2 * y**3)(x))(number(2.0)).item() == 5 * 3 * 2.0**4


def test_inner_functions_of_outer_arguments_and_captured_tensors():
    a, x = number(2.0, requires_grad=True), number(3.0)
    outer = grad(lambda x: grad(lambda y: a * x**2 * y**3)(x))
    g = outer(x)  # d/dx of a·3·x²·y² with y = x: 12 a x³
    assert facts(g) == (12 * 2 * 27.0, True)
    g.backward()
    assert a.grad.item() == 12 * 27.0


def test_autograd_inside():
    inner = lambda x: ad.autograd.grad(x**3, x, create_graph=True)[0]  # noqa: E731
    assert grad(inner)(number(3.0)).item() == 18.0
    assert grad(lambda x: ad.autograd.grad(x**3, x)[0] * x)(number(3.0)).item() == 27.0


def test_inside_of_backward():
    seen = []
    x = number(3.0, requires_grad=True)
    y = x * 1
    y.register_hook(lambda g: seen.append(grad(square)(x).item()) or g * grad(square)(g))
    y.backward(number(5.0))
    assert seen == [6.0] and x.grad.item() == 50.0

    class Cube(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * grad(lambda x: x**3)(x)

    assert grad(Cube.apply)(number(2.0)).item() == 12.0
    assert grad(grad(Cube.apply))(number(2.0)).item() == 12.0  # 6x
    ad.autograd.gradgradcheck(Cube.apply, (ad.tensor(0.7, dtype=ad.float64, requires_grad=True),))


def test_inside_of_checkpoint_and_checkpoint_inside():
    from adjoint.utils.checkpoint import checkpoint

    x = number(2.0, requires_grad=True)
    checkpoint(lambda x: grad(lambda y: y**3 * x)(x), x, use_reentrant=False).backward()
    assert x.grad.item() == 3 * 3 * 4.0
    # The two modes of checkpoint: one pass more, or hooks of saved tensors.
    assert grad(lambda x: checkpoint(lambda x: x**3, x, use_reentrant=False))(number(2.0)).item() == 12.0


# --- modes ------------------------------------------------------------------------------------------------------------


def test_no_grad_inside_and_outside():
    def partly(x):
        with ad.no_grad():
            c = x**2
        return x - c

    assert grad(partly)(number()).item() == 1.0
    x, c = number(requires_grad=True), number(2.0, requires_grad=True)
    with ad.no_grad():
        assert facts(grad(square)(x)) == (6.0, False)
        g, value = grad_and_value(lambda x: x * c)(x)
        assert facts(g) == (2.0, False) and facts(value) == (6.0, False)
        value, pull = vjp(square, x)
        assert facts(value) == (9.0, False) and facts(pull(number(1.0))[0]) == (6.0, False)
        assert not ad.is_grad_enabled()
    assert facts(pull(number(1.0))[0]) == (6.0, False)

    def between(x):
        with ad.no_grad():
            return grad(square)(x)

    assert facts(grad(between)(number())) == (0.0, False)


def test_inference_mode():
    with ad.inference_mode():
        x = number(2.0) * 1
        first, second = grad(square)(x), grad(grad(lambda x: x**3))(x)
        assert first.item() == 4.0 and second.item() == 12.0 and not first.is_inference()
        assert ad.is_inference_mode_enabled()
    assert grad(square)(x).item() == 4.0


def test_an_exception_leaves_modes_as_they_were():
    def fails(x):
        raise ZeroDivisionError

    for mode in (ad.no_grad, ad.enable_grad, ad.inference_mode):
        with mode():
            before = ad.is_grad_enabled(), ad.is_inference_mode_enabled()
            for f in (fails, lambda x: 3.0, lambda x: grad(fails)(x), lambda x: ad.ones(2) + ad.ones(3)):
                with pytest.raises((ZeroDivisionError, RuntimeError)):
                    grad(f)(number())
                with pytest.raises((ZeroDivisionError, RuntimeError)):
                    func.jacrev(f)(number())
                assert (ad.is_grad_enabled(), ad.is_inference_mode_enabled()) == before


def test_nothing_stays_alive():
    gc.disable()
    try:
        x = ad.ones(3)
        kept = []

        def f(x):
            y = x.exp()
            kept.append(weakref.ref(y))
            return (y * y).sum()

        g, value = grad_and_value(f)(x)
        grad(lambda x: grad(f)(x).sum())(x)
        del g, value
        assert [r() for r in kept] == [None, None]
    finally:
        gc.enable()


def test_hooks_of_saved_tensors():
    count = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: count.append(1) or t, lambda t: t):
        assert grad(lambda x: (x * x).exp())(number(0.5)).item() == pytest.approx(2.718281828**0.25, rel=1e-5)
    assert count


def test_shapes_strides_and_dtypes():
    for dtype in (ad.float64, ad.float16, ad.bfloat16, ad.complex64):
        x = ad.ones(2, dtype=dtype)
        assert (
            grad(lambda x: (x * x.conj()).real.sum() if x.is_complex() else (x * x).sum())(x).dtype == dtype
        )
    x = ad.arange(6.0).reshape(2, 3)
    for view in (x.t(), x[:, ::2], x.flip(0), ad.ones(1).expand(4), ad.ones(0)):
        assert grad(lambda v: (v * v).sum())(view).tolist() == (2 * view).tolist()


def test_programs_for_torch_find_it():
    program = """
import adjoint; adjoint.as_torch()
import torch, torch.utils._pytree as pytree
from torch.func import grad, functional_call, stack_module_state, vjp
from torch._functorch.eager_transforms import jacrev
from torch._functorch.apis import grad_and_value
from torch.utils._pytree import tree_map
from torch.nn.utils.stateless import functional_call as old
assert torch.func.grad is adjoint.func.grad and pytree.tree_map is adjoint.tree.map
print(tree_map(lambda t: t + 1, {"x": grad(lambda x: x**2)(torch.tensor(3.0))}))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert run.stdout == "{'x': tensor(7.)}\n", run.stderr


def test_arguments_of_finished_functions_are_forgotten():
    one = number(1.0)
    # What the inner function depends on is finished when the outer one is differentiated.
    assert facts(grad(lambda x: grad(lambda y: x * y**2)(one))(one)) == (2.0, False)
    assert facts(grad(lambda x: vjp(lambda y: x * y**2, one)[1](one)[0])(one)) == (2.0, False)
    _, pull = vjp(square, one)
    assert facts(grad(lambda x: pull(x**2)[0])(one)) == (4.0, False)
    assert facts(func.linearize(lambda x: pull(x**2)[0], one)[1](one)) == (4.0, False)
    kept = []
    grad(lambda x: kept.append(x) or x * 1)(one)
    assert not kept[0].requires_grad
