"""`vmap` of Functions, modules and forward mode. The rest is in test_vmap.py."""

import subprocess
import sys
import warnings
from collections import namedtuple

import numpy as np
import pytest
from helpers import assert_near

import adjoint as ad
import adjoint.utils.checkpoint
from adjoint.func import grad, jvp, vmap, vmap_fallbacks

X = ad.arange(12.0).reshape(3, 4)


Pair = namedtuple("Pair", "a b")


class Plain(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class WithNumpy(ad.autograd.Function):
    @staticmethod
    def forward(x):
        return ad.tensor(np.asarray(x.detach().numpy()) ** 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class WithRule(Plain):
    calls: list = []  # noqa: RUF012

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info, in_dims, x):
        WithRule.calls.append((info.batch_size, info.randomness, in_dims))
        return WithRule.apply(x.movedim(in_dims[0], -1)), -1


@pytest.mark.parametrize("function", [Plain, WithNumpy, WithRule])
def test_functions_inside_and_outside_of_gradients(function):
    def f(x):
        return (function.apply(x.sin()) * x).sum()

    def reference(x):
        return (x.sin() ** 2 * x).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_near(vmap(f)(X), vmap(reference)(X))
        assert_near(vmap(grad(f))(X), vmap(grad(reference))(X))
        x = X.clone().requires_grad_()
        assert_near(ad.autograd.grad(vmap(f)(x).sum(), x)[0], vmap(grad(reference))(X))


class InPlace(ad.autograd.Function):
    """Writes its argument, and states a jvp, which writes the tangent."""

    @staticmethod
    def forward(x):
        return x.exp_()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(ctx.saved_tensors[0])


class InPlaceWithRule(InPlace):
    @staticmethod
    def vmap(info, in_dims, x):
        return InPlaceWithRule.apply(x), in_dims[0]


class InPlaceWithNumpy(InPlace):
    @staticmethod
    def forward(x):
        values = x.numpy()
        np.exp(values, values)
        return x


class WithRuleAndTangent(WithRule):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, t):
        return 2 * ctx.saved_tensors[0] * t


@pytest.mark.parametrize(
    "function, reference",
    [
        (WithRuleAndTangent, lambda x: x**2),
        *[(f, lambda x: x.exp()) for f in (InPlace, InPlaceWithRule, InPlaceWithNumpy)],
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "order", ["vmap of jvp", "jvp of vmap", "vmap of grad", "grad of vmap", "jvp of grad of vmap"]
)
def test_functions_under_several_transforms(function, reference, order):
    def f(x):
        return function.apply(x.sin()) * x

    def g(x):
        return reference(x.sin()) * x

    ways = {
        "vmap of jvp": lambda f: vmap(lambda x: jvp(f, (x,), (x.cos(),))[1])(X),
        "jvp of vmap": lambda f: jvp(vmap(f), (X,), (X.cos(),))[1],
        "vmap of grad": lambda f: vmap(grad(lambda x: f(x).sum()))(X),
        "grad of vmap": lambda f: grad(lambda x: (vmap(f)(x) * X).sum())(X),
        "jvp of grad of vmap": lambda f: jvp(grad(lambda x: (vmap(f)(x) * X).sum()), (X,), (X.cos(),))[1],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if order == "jvp of grad of vmap" and function.vmap is not ad.autograd.Function.vmap:
            with pytest.raises(NotImplementedError, match="has no rule for samples"):
                ways[order](f)
            return
        assert_near(ways[order](f), ways[order](g))


def test_tangents_of_a_gradient_through_vmap():
    """What nodes save of samples carries tangents, as it does without vmap."""

    def of(f):
        return jvp(grad(lambda x: (f(x) * X).sum()), (X,), (X.cos(),))[1]

    for f in (ad.sin, lambda x: x * x * 3, lambda x: (x.exp() * x).cumsum(-1), lambda x: x / (1 + x * x)):
        assert_near(of(vmap(f)), of(f))
        assert_near(of(lambda x: vmap(lambda r: f(r.sin()) * r)(x)), of(lambda x: f(x.sin()) * x))


def test_gradients_of_what_all_samples_share():
    """Of a Function that is its own rule, where what is mapped needs none."""

    class Product(ad.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    w = ad.tensor([1.0, 2.0, 3.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in (lambda w, x: Product.apply(w, x), lambda w, x: Product.apply(x, w)):
            assert_near(grad(lambda w, call=call: vmap(call, (None, 0))(w, X).sum())(w), X.sum(0))
            assert_near(grad(lambda w, call=call: vmap(lambda x: call(w, x))(X).sum())(w), X.sum(0))


def test_a_rule_of_a_function_is_told_of_the_batch():
    WithRule.calls.clear()
    vmap(WithRule.apply, in_dims=1)(X)
    assert WithRule.calls[0] == (4, "error", (1,))


def test_loops_are_counted():
    vmap_fallbacks(reset=True)
    vmap(lambda x: WithNumpy.apply(x))(X)
    assert vmap_fallbacks()["WithNumpy"] == 1


def test_strict_refuses_a_function_that_states_nothing():
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Plain.apply, strict=True)(X)


def test_as_torch_is_strict_as_torch_is():
    program = (
        "import adjoint; adjoint.as_torch(); import torch\n"
        "print(torch.vmap(torch.sin)(torch.zeros(2)))\n"
        "try: torch.func.vmap(lambda x: x * x.item())(torch.ones(2))\n"
        "except RuntimeError as e: print(str(e)[:50])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "tensor([0., 0.])\nvmap: It looks like you're calling .item() on a Te\n"


# --- modules ----------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_loop():
    models = [ad.nn.Sequential(ad.nn.Linear(4, 5), ad.nn.Tanh(), ad.nn.Linear(5, 2)) for _ in range(3)]
    parameters, buffers = ad.func.stack_module_state(models)

    def call(p, b, x):
        return ad.func.functional_call(models[0], (p, b), (x,))

    assert_near(
        vmap(call, in_dims=(0, 0, None))(parameters, buffers, X).detach(),
        ad.stack([m(X) for m in models]).detach(),
    )


@pytest.mark.parametrize("bias_dim", [0, None])
@pytest.mark.parametrize("rows_dim", [0, None])
def test_layers_of_an_ensemble_start_from_their_biases(rows_dim, bias_dim):
    rng = np.random.default_rng(4)
    drawn = lambda *shape: ad.tensor(rng.standard_normal(shape))  # noqa: E731
    rows, weights, biases = drawn(3, 5, 7), drawn(3, 20, 7), drawn(3, 20)
    rows, biases = rows if rows_dim == 0 else rows[0], biases if bias_dim == 0 else biases[0]
    dims = (rows_dim, 0, bias_dim)

    def loss(by):
        return lambda *args: (by(*args).sin() ** 2).sum()

    def loop(x, w, b):
        pick = lambda t, d, i: t if d is None else t[i]  # noqa: E731
        return ad.stack(
            [ad.nn.functional.linear(pick(x, rows_dim, i), w[i], pick(b, bias_dim, i)) for i in range(3)]
        )

    mapped = vmap(ad.nn.functional.linear, in_dims=dims)
    arguments = (rows, weights, biases)
    assert_near(mapped(*arguments), loop(*arguments))
    for found, expected in zip(
        grad(loss(mapped), (0, 1, 2))(*arguments), grad(loss(loop), (0, 1, 2))(*arguments), strict=True
    ):
        assert_near(found, expected)
    directions = tuple(t.cos() for t in arguments)
    assert_near(jvp(mapped, arguments, directions)[1], jvp(loop, arguments, directions)[1])
    inside = vmap(grad(loss(ad.nn.functional.linear), (1, 2)), in_dims=dims)(*arguments)
    assert_near(inside[0], grad(loss(loop), 1)(*arguments))


def test_per_sample_gradients_of_a_convolutional_network():
    model = ad.nn.Sequential(
        ad.nn.Conv2d(2, 3, 3), ad.nn.ReLU(), ad.nn.MaxPool2d(2), ad.nn.Flatten(), ad.nn.Linear(12, 5)
    )
    parameters = {k: v.detach() for k, v in model.named_parameters()}
    images, labels = ad.randn(4, 2, 6, 6), ad.tensor([0, 1, 2, 3])

    def loss(p, image, label):
        out = ad.func.functional_call(model, p, (image.unsqueeze(0),))
        return ad.nn.functional.cross_entropy(out, label.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    for i in range(4):
        alone = grad(loss)(parameters, images[i], labels[i])
        for name, g in alone.items():
            assert_near(found[name][i], g)


# --- forward mode -----------------------------------------------------------------------------------------------------


def smooth(x):
    return (x.softmax(0) * x.tanh()).sum() * x.sin()


def writing(x):
    z = ad.zeros(4)
    z[0] = x[1] * 2
    z[1:].add_(x[1:] * x[0])
    return z * x


@pytest.mark.parametrize("f", [smooth, writing])
def test_forward_mode_inside_and_outside(f):
    tangents = X.cos()

    def push(x, t):
        return ad.func.jvp(f, (x,), (t,))[1]

    expected = ad.stack([push(x, t) for x, t in zip(X, tangents)])
    assert_near(vmap(push)(X, tangents), expected)
    assert_near(ad.func.jvp(vmap(f), (X,), (tangents,))[1], expected)


def test_forward_mode_of_what_is_captured():
    w = ad.eye(4) * 0.5

    def push(x):
        return ad.func.jvp(lambda w: (w @ x).sin(), (w,), (w,))[1]

    found = ad.func.jvp(lambda w: vmap(lambda x: (w @ x).sin())(X), (w,), (w,))[1]
    assert_near(found, ad.stack([push(x) for x in X]))


def test_hessians_of_samples():
    def f(x):
        return smooth(x).sum()

    assert_near(vmap(ad.func.hessian(f))(X), ad.stack([ad.func.hessian(f)(x) for x in X]))


def test_gradients_of_samples_in_memory_of_others():
    """What nodes keep of such memory is compared when it is used: of a sample, all of them."""
    array = np.arange(12.0).reshape(3, 4)
    x = ad.from_numpy(array)
    assert_near(vmap(grad(lambda x: (x**3).sum()), strict=True)(x), 3 * array**2)

    def f(x):
        y = (x**3).sum()
        array[0] += 1
        return y

    with pytest.raises(RuntimeError, match="belongs to somebody else"):
        vmap(grad(f), strict=True)(x)


# --- checkpoints --------------------------------------------------------------------------------------------------------------


def test_checkpoints_inside_of_a_batch():
    def part(x):
        return (x.sin() * x).sum()

    def kept(x):
        return ad.utils.checkpoint.checkpoint(part, x, use_reentrant=False) * x[0]

    def plain(x):
        return part(x) * x[0]

    assert_near(vmap(kept)(X), vmap(plain)(X))
    assert_near(vmap(grad(kept))(X), vmap(grad(plain))(X))
    assert_near(grad(lambda x: vmap(kept)(x).sum())(X), grad(lambda x: vmap(plain)(x).sum())(X))
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    vmap(vmap(lambda v: kept(v[None])))(x).sum().backward()
    vmap(vmap(lambda v: plain(v[None])))(y).sum().backward()
    assert_near(x.grad, y.grad)
    assert_near(jvp(vmap(kept), (X,), (X.cos(),))[1], jvp(vmap(plain), (X,), (X.cos(),))[1])


def test_padding_rows_of_tables_by_sample_have_no_gradient():
    tables, rows = ad.arange(24.0).reshape(2, 4, 3), ad.tensor([[0, 1, 1], [2, 0, 0]])

    def total(tables):
        return vmap(lambda table, at: ad.nn.functional.embedding(at, table, padding_idx=0).sum())(
            tables, rows
        ).sum()

    assert grad(total)(tables)[..., 0].tolist() == [[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    assert total(tables).item() == pytest.approx(sum(tables[k][rows[k]].sum().item() for k in range(2)))


def test_one_hot_of_a_given_number_of_classes():
    classes = ad.tensor([[0, 2], [1, 1], [2, 0]])
    expected = ad.nn.functional.one_hot(classes, 3)
    for dims in 0, 1:
        got = ad.func.vmap(lambda c: ad.nn.functional.one_hot(c, 3), dims, dims)(classes)
        assert got.tolist() == expected.tolist() and got.dtype == ad.int64
    with pytest.raises(RuntimeError, match="smaller than num_classes, but 2 >= 2"):
        ad.func.vmap(lambda c: ad.nn.functional.one_hot(c, 2))(classes)
