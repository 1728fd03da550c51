"""gradcheck and gradgradcheck: right derivatives pass, wrong ones are caught in every mode, and the message says where.

Hooks make derivatives wrong here: `spoiled` is its argument, with a gradient that `change` gets to alter. Start reading
at `test_wrong_derivatives_are_caught`.
"""

import itertools
import os

import numpy as np
import pytest
from helpers import assert_same, normal, tensor

import adjoint as ad
from adjoint.autograd import _gradcheck_others as others
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.autograd.gradcheck import GradcheckError

MODES = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def real(*shape, seed=0):
    return tensor(normal(*shape, seed=seed), requires_grad=True)


def complex_(*shape, seed=0):
    return tensor(normal(*shape, seed=seed, kind="complex"), requires_grad=True)


def spoiled(x, change):
    y = x * 1
    y.register_hook(lambda g: None if g is None else change(g))
    return y


# --- what passes -------------------------------------------------------------------------------------------------------

RIGHT = {
    "R→R": (lambda x: x.sin() * x.sum(), lambda: [real(2, 3)]),
    "R→C": (lambda x: (x * (1 + 2j)).exp(), lambda: [real(2, 3)]),
    "C→R": (lambda z: z.abs() * z.real, lambda: [complex_(2, 3)]),
    "C→C": (lambda z: z**3 / (z.conj() + 4), lambda: [complex_(2, 3)]),
    "several inputs and outputs": (
        lambda x, z: (x * z, x.sum(), z.imag * x),
        lambda: [real(3), complex_(3)],
    ),
    "an output that is the input": (lambda x: x, lambda: [real(3)]),
    "an output that is a view": (lambda x: x.T[1:], lambda: [real(2, 3)]),
    "zero size": (lambda x: x.exp(), lambda: [real(0, 3)]),
    "zero size, complex": (lambda x: x.exp(), lambda: [complex_(2, 0)]),
    "zero-size output": (lambda x: x[:0] * 2, lambda: [real(3)]),
    "zero dimensions": (lambda x: x.exp(), lambda: [real()]),
    "zero dimensions, complex": (lambda x: x.exp(), lambda: [complex_()]),
    "transposed": (lambda x: x.exp().cumsum(0), lambda: [tensor(normal(3, 2)).T.requires_grad_()]),
    "strided": (lambda x: x.exp().cumsum(0), lambda: [tensor(normal(3, 4))[1:, ::2].requires_grad_()]),
    "strided, complex": (
        lambda x: x.exp(),
        lambda: [tensor(normal(4, kind="complex"))[::2].requires_grad_()],
    ),
    "integers beside": (lambda x, i: x[i] * 2, lambda: [real(3), ad.tensor([2, 0])]),
    "numbers beside": (lambda x, n: x**n, lambda: [real(3), 2]),
    "one tensor twice": (lambda a, b: a * b.sin(), lambda: [real(3, seed=1)] * 2),
    "an input that does not matter": (lambda a, b: a * 2 + b.detach() * 0, lambda: [real(3), real(3)]),
    "not a leaf": (lambda x: x.sin(), lambda: [real(3) * 2]),
    "in place": (lambda x: (x * 1).mul_(x).sin_(), lambda: [real(3)]),
    "constant": (lambda x: (x * 2).detach() * 0, lambda: [real(3)]),
    "a list": (lambda x: [x.sin(), x.cos()], lambda: [real(3)]),
    "an integer output": (lambda x: (x.sin(), x.argmax()), lambda: [real(3)]),
}


@MODES
@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_pass(name, fast):
    f, make = RIGHT[name]
    inputs = make()
    kept = [x.detach().clone() if isinstance(x, ad.Tensor) else x for x in inputs]
    options = {"fast_mode": fast, "check_batched_grad": True, "check_grad_dtypes": True}
    assert gradcheck(f, inputs, **options) is True
    if name != "constant":
        for strided in (False, True):
            assert gradgradcheck(f, inputs, gen_non_contig_grad_outputs=strided, **options) is True
    for x, before in zip(inputs, kept, strict=True):
        if isinstance(x, ad.Tensor):
            assert x.shape == before.shape and ad.equal(x, before)


@MODES
def test_a_single_tensor(fast):
    assert gradcheck(ad.sin, real(3), fast_mode=fast)
    assert gradgradcheck(ad.sin, real(3), real(3, seed=1), fast_mode=fast)
    assert gradgradcheck(ad.sin, (real(3),), (normal_without_gradient(3),), fast_mode=fast)


def normal_without_gradient(*shape):
    return tensor(normal(*shape, seed=3))


@MODES
def test_a_function_may_close_over_its_inputs(fast):
    model = ad.nn.Sequential(ad.nn.Linear(3, 2), ad.nn.Tanh()).double()
    data = normal_without_gradient(4, 3)
    parameters = tuple(model.parameters())
    assert gradcheck(lambda *_: model(data), parameters, fast_mode=fast)
    assert gradgradcheck(lambda *_: model(data), parameters, fast_mode=fast)


def test_random_numbers_are_left_alone():
    ad.manual_seed(3)
    first = ad.rand(3)
    ad.manual_seed(3)
    gradcheck(ad.sin, real(3), fast_mode=True, check_batched_grad=True)
    gradgradcheck(ad.sin, real(3))
    assert_same(ad.rand(3), first.tolist())


# --- what is caught ----------------------------------------------------------------------------------------------------

PAIRS = {
    "R→R": (lambda x: x.sin(), real),
    "R→C": (lambda x: x * (1 + 2j), real),
    "C→R": (lambda z: z.real * z.imag, complex_),
    "C→C": (lambda z: z * z, complex_),
    "zero dimensions": (lambda x: x.sum().sin(), lambda *_: real()),
}


@MODES
@pytest.mark.parametrize("name", PAIRS)
def test_wrong_derivatives_are_caught(name, fast):
    f, make = PAIRS[name]
    wrong = {
        "scaled": lambda x: f(spoiled(x, lambda g: g * 1.01)),
        "negative": lambda x: f(spoiled(x, lambda g: -g)),
        "lost": lambda x: f(x) + f(x.detach()),
        "lost altogether": lambda x: f(x.detach()),
    }
    if "zero" not in name:
        wrong["one element"] = lambda x: f(spoiled(x, lambda g: g + g * first_only(g)))
        wrong["in the wrong order"] = lambda x: f(spoiled(x, lambda g: g.flip(0)))
    if make is complex_:
        wrong["conjugated"] = lambda x: f(spoiled(x, lambda g: g.conj()))
        wrong["real part only"] = lambda x: f(spoiled(x, lambda g: g.real + 0j))
    for kind, g in wrong.items():
        with pytest.raises(GradcheckError, match="Jacobian mismatch|expected to be zero"):
            gradcheck(g, make(3), fast_mode=fast)
            pytest.fail(f"{kind} was not noticed")
        assert gradcheck(g, make(3), fast_mode=fast, raise_exception=False) is False


def first_only(g):
    return tensor([1.0] + [0.0] * (g.shape[0] - 1))


@MODES
@pytest.mark.parametrize("name", PAIRS)
def test_wrong_second_derivatives_are_caught(name, fast):
    f, make = PAIRS[name]
    wrong = {
        "constant gradient": lambda x: f(spoiled(x, lambda g: g.detach())),
        "gradient wrong by a detached factor": lambda x: f(
            spoiled(x, lambda g: g * (g * 0 + 2) - g.detach())
        ),
    }
    for kind, g in wrong.items():
        assert gradcheck(g, make(3), fast_mode=fast), kind
        with pytest.raises(GradcheckError, match="Jacobian mismatch|expected to be zero"):
            gradgradcheck(g, make(3), fast_mode=fast)
            pytest.fail(f"{kind} was not noticed")
        assert gradgradcheck(g, make(3), fast_mode=fast, raise_exception=False) is False


def test_the_message():
    a, b = real(2), real(3)

    def product(a, b):
        return a.sum(), spoiled(b, lambda g: g * 2)

    with pytest.raises(GradcheckError) as caught:
        gradcheck(product, (a, b))
    text = str(caught.value)
    assert text.startswith(
        "Jacobian mismatch for output 1 with respect to input 1,\nnumerical:tensor([[1.0000,"
    )
    assert "\nanalytical:tensor([[2., 0., 0.]," in text
    assert "output element 0 by input element 0" in text and "analytical 2.0" in text and "product" in text


def test_the_message_names_positions_among_all_arguments_and_results():
    def f(n, x):
        return None, x.argmax(), spoiled(x, lambda g: g * 2)

    with pytest.raises(GradcheckError, match="for output 2 with respect to input 1,"):
        gradcheck(f, (3, real(2)))


def test_the_message_for_complex_numbers():
    with pytest.raises(
        GradcheckError, match="^While considering the real part of complex outputs only, Jacobian"
    ):
        gradcheck(lambda z: ad.complex(spoiled(z.real, lambda g: g * 2), z.imag), complex_(2))
    with pytest.raises(
        GradcheckError, match="^While considering the imaginary part of complex outputs only, Jacobian"
    ):
        # Where both are wrong, this one is named.
        gradcheck(lambda z: spoiled(z, lambda g: g * 2), complex_(2))


def test_the_message_of_fast_mode():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: spoiled(x, lambda g: g * 2), real(2), fast_mode=True)
    text = str(caught.value)
    assert "are computed in fast mode" in text
    assert (
        "The max per-element difference (slow mode) is: 1.0" in text
        or "difference (slow mode) is: 0.99" in text
    )


def test_fast_mode_may_fail_where_slow_mode_passes():
    """Each element is within its relative tolerance, but their sum nearly cancels; the message says so."""
    values = normal(6, 6, seed=4)
    right, almost = tensor(values), tensor(values * (1 + 0.09 * np.sign(normal(6, 6, seed=6))))

    def f(x):
        return almost @ (x - x.detach()) + right @ x.detach()

    options = {"rtol": 0.1, "atol": 1e-8}
    assert gradcheck(f, real(6), **options)
    with pytest.raises(GradcheckError, match="so that the check passes with fast_mode=False"):
        gradcheck(f, real(6), fast_mode=True, **options)


def test_an_input_that_no_path_leads_to():
    with pytest.raises(GradcheckError, match="no path from the output to it"):
        gradcheck(lambda a, b: a * b.detach(), (real(2), real(2, seed=1)))


@MODES
def test_not_a_number_is_a_mismatch(fast):
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: spoiled(x, lambda g: g * ad.nan), real(2), fast_mode=fast)


@MODES
def test_outputs_without_a_gradient_must_be_constant(fast):
    assert gradcheck(lambda x: ad.ones(2), real(3), fast_mode=fast)
    assert gradcheck(lambda x: x.argmax(), real(3), fast_mode=fast)
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, real(3), fast_mode=fast)


@MODES
def test_nondeterminism(fast):
    def f(size):
        count = itertools.count()
        return lambda x: spoiled(x, lambda g: g + g * size * next(count))

    assert gradcheck(f(0), real(3), fast_mode=fast)
    phrase = (
        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times"
    )
    with pytest.raises(
        GradcheckError, match=phrase + ".*although analytical gradient matches numerical gradient"
    ):
        gradcheck(f(1e-7), real(3), fast_mode=fast)
    with pytest.raises(GradcheckError, match="does not match the numerical gradient either"):
        gradcheck(lambda x: f(0.5)(spoiled(x, lambda g: g * 3)), real(3), fast_mode=fast)
    assert gradcheck(f(1e-9), real(3), fast_mode=fast, nondet_tol=1e-5)


@MODES
def test_a_backward_that_adds_to_the_gradient(fast):
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(lambda x: spoiled(x, lambda g: g + 1e-10), real(3), fast_mode=fast)


@MODES
def test_undefined_gradients(fast):
    def refuses_zeros(x):
        return spoiled(x, lambda g: 1 // int(bool((g != 0).any())) * g)

    def adds_to_zeros(x):
        return spoiled(x, lambda g: g if bool((g != 0).any()) else g + 1e-3)

    assert gradcheck(lambda x: tuple(ad.var_mean(x, 0)), real(3), fast_mode=fast)
    assert gradcheck(lambda x: tuple(x.sort()[:1]) + tuple(x.unbind()), real(3), fast_mode=fast)
    x = real(3)
    for f, phrase in (
        (refuses_zeros, "Expected backward function to handle undefined output grads"),
        (
            adds_to_zeros,
            "Expected all input grads to be undefined or zero when all output grads are undefined",
        ),
    ):
        # Gradients of zeros would already be noticed before, by the check that gradients are proportional.
        with pytest.warns(
            UserWarning, match="undefined gradient support checking feature is enabled by default"
        ):
            with pytest.raises(GradcheckError, match=phrase):
                others.check_undefined(lambda x, f=f: (f(x), x * 2), (x,), (x,), GradcheckError)


@MODES
def test_a_function_that_cannot_take_undefined_gradients(fast):
    class Twice(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.warns(UserWarning, match="undefined gradient"):
        with pytest.raises(
            GradcheckError, match="Expected backward function to handle undefined output grads"
        ):
            gradcheck(Twice.apply, real(3), fast_mode=fast)
    assert gradcheck(Twice.apply, real(3), fast_mode=fast, check_undefined_grad=False)


# --- what is refused ---------------------------------------------------------------------------------------------------


def test_inputs_that_require_no_gradient():
    for x in (tensor(normal(2)), ad.tensor([1, 2])):
        with pytest.raises(
            ValueError, match="gradcheck expects at least one input tensor to require gradient"
        ):
            gradcheck(lambda x: x, x, raise_exception=False)
    with pytest.raises(
        ValueError, match="gradgradcheck expects func to return a tensor that requires a gradient"
    ):
        gradgradcheck(lambda x: x.detach(), real(2))


@MODES
@pytest.mark.parametrize("result", [None, 1.0, (None, "text")], ids=str)
def test_functions_that_return_no_tensor(result, fast):
    """Nothing would be compared, and that pass."""
    with pytest.raises(TypeError, match="gradcheck expects func to return a tensor"):
        gradcheck(lambda x: result, real(2), fast_mode=fast, raise_exception=False)


def test_single_precision_is_warned_about():
    x = ad.ones(2, requires_grad=True)
    with pytest.warns(
        UserWarning, match="Input #1 requires gradient and is not a double precision"
    ) as caught:
        gradcheck(lambda n, x: x * n, (2, x), eps=1e-2, atol=1e-1)
    assert os.path.basename(caught[0].filename) == os.path.basename(__file__)


def test_memory_that_overlaps():
    x = ad.ones(1, dtype=ad.float64).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(ad.sin, x)
    x = ad.ones(4, dtype=ad.float64).as_strided((3, 2), (1, 1)).requires_grad_()
    with pytest.raises(RuntimeError, match="The 1th input has several elements at one memory location"):
        gradcheck(ad.mul, (2.0, x))
    # Interleaved dimensions, each element at an address of its own.
    x = ad.rand(12, dtype=ad.float64).as_strided((2, 3), (3, 2)).requires_grad_()
    assert gradcheck(ad.sin, x)
    assert gradcheck(ad.sin, ad.ones(1, dtype=ad.float64).expand(1).requires_grad_())


def test_outputs_that_change_shape_or_type():
    x = tensor([1.0], requires_grad=True)
    with pytest.raises(AssertionError, match="outputs with the same shape when inputs are perturbed"):
        gradcheck(lambda x: x.expand(2) if bool((x <= 1).all()) else x.expand(3), x)
    with pytest.raises(AssertionError, match="outputs with the same dtype when inputs are perturbed"):
        gradcheck(lambda x: x * 1 if bool((x <= 1).all()) else x.to(ad.float32), x)
    with pytest.raises(AssertionError, match="same number of outputs"):
        gradcheck(lambda x: (x * 1, x * 2) if bool((x <= 1).all()) else x * 1, x)
    assert x.item() == 1.0


def test_an_error_in_the_function_comes_through():
    x = tensor([1.0], requires_grad=True)

    def f(x):
        if x.item() != 1.0:
            raise KeyError("mine")
        return x * 1

    for fast in (False, True):
        with pytest.raises(KeyError, match="mine"):
            gradcheck(f, x, fast_mode=fast, raise_exception=False)
        assert x.item() == 1.0


def test_arguments_that_exclude_each_other():
    x = real(2)
    with pytest.raises(
        AssertionError, match="Expected at least one of check_forward_ad or check_backward_ad"
    ):
        gradcheck(ad.sin, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_backward_ad"):
        gradcheck(ad.sin, x, check_backward_ad=False, check_forward_ad=True, check_batched_grad=True)
    with pytest.raises(AssertionError, match="check_batched_forward_grad=True requires check_forward_ad"):
        gradcheck(ad.sin, x, check_batched_forward_grad=True)
    with pytest.raises(
        AssertionError, match="Expected at least one of check_fwd_over_rev or check_rev_over_rev"
    ):
        gradgradcheck(ad.sin, x, check_rev_over_rev=False)
    with pytest.raises(AssertionError, match="check_undefined_grad=True requires check_rev_over_rev"):
        gradgradcheck(ad.sin, x, check_rev_over_rev=False, check_fwd_over_rev=True)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_rev_over_rev"):
        gradgradcheck(
            ad.sin,
            x,
            check_rev_over_rev=False,
            check_fwd_over_rev=True,
            check_undefined_grad=False,
            check_batched_grad=True,
        )
    with pytest.raises(TypeError):
        gradcheck(ad.sin, x, 1e-6)


def test_the_tolerances():
    slightly = lambda x: spoiled(x, lambda g: g * 1.01)  # noqa: E731
    for fast in (False, True):
        assert gradcheck(slightly, real(3), rtol=0.1, fast_mode=fast)
        assert gradcheck(slightly, real(3), atol=0.1, fast_mode=fast)
        assert not gradcheck(slightly, real(3), fast_mode=fast, raise_exception=False)


def test_errors_within_the_tolerance_may_add_up_in_fast_mode():
    for count in range(1, 30):
        x = real(count)
        assert gradcheck(
            lambda x: spoiled(x, lambda g: g * 1.009).sum(), x, atol=1e-2, rtol=0, fast_mode=True
        )


# --- the attributes that gradients must have ---------------------------------------------------------------------------


def test_attributes_of_gradients():
    from adjoint.autograd._gradcheck_jacobians import parts

    x = real(2)
    (part,) = parts([(0, x)])
    check = lambda g, dtypes=False: others.check_attributes([[g]], [(0, x)], part, dtypes, GradcheckError)  # noqa: E731
    check(None, True)
    check(x.float())
    with pytest.raises(GradcheckError, match="Analytical gradient has incorrect size"):
        check(x[:1])
    with pytest.raises(GradcheckError, match="Gradient has dtype mismatch"):
        check(x.float(), True)


def test_batched_gradients_that_differ(monkeypatch):
    grad = ad.autograd.grad

    def wrong(*arguments, is_grads_batched=False, **options):
        found = grad(*arguments, is_grads_batched=is_grads_batched, **options)
        return tuple(g * 2 for g in found) if is_grads_batched else found

    def failing(*arguments, is_grads_batched=False, **options):
        if is_grads_batched:
            raise RuntimeError("no batches")
        return grad(*arguments, **options)

    monkeypatch.setattr(ad.autograd, "grad", wrong)
    assert gradcheck(ad.sin, real(2))
    with pytest.raises(
        GradcheckError, match="(?s)For output 0 and input 0.*failed while testing batched gradient"
    ):
        gradcheck(ad.sin, real(2), check_batched_grad=True)
    monkeypatch.setattr(ad.autograd, "grad", failing)
    with pytest.raises(GradcheckError, match="While computing batched gradients, got: no batches"):
        gradcheck(ad.sin, real(2), check_batched_grad=True)
