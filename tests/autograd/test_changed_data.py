"""Data that changes between forward and backward: by `.data`, by modules that convert, by hooks.

What was saved is as it was saved, or is refused; over the whole table of operators. Start reading at
`test_every_operator`.
"""

import numpy as np
import pytest
from helpers import tensor
from samples import OPERATORS, cases

import adjoint as ad
from adjoint.autograd import forward_ad

DIFFERENTIABLE = [o for o in OPERATORS if o["differentiable"]]
REFUSED = "the size or type of one of the variables needed for gradient computation has changed"


def results(found):
    found = found if isinstance(found, (tuple, list)) else [found]
    return [y for y in found if y is not None and y.requires_grad]


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=[o["name"] for o in DIFFERENTIABLE])
@pytest.mark.parametrize("kind", ["smaller", "larger", "narrower"])
def test_every_operator(op, kind):
    """An input gets other data, then the pass runs: the gradient of the others is right, or something is refused."""
    dtype = "float64"
    for case in cases(op, dtype) if dtype in op["types"] else ():
        if case.bound().get("vectors") is False:
            continue
        f, arrays = case.differentiable()
        for k in range(len(arrays)):
            before = [tensor(a, requires_grad=True) for a in arrays]
            xs = [tensor(a, requires_grad=True) for a in arrays]
            wanted, ys = results(f(*before)), results(f(*xs))
            if not ys:
                continue
            seeds = [ad.ones_like(y) for y in ys]
            expected = ad.autograd.grad(wanted, before, seeds, allow_unused=True)
            shape = {"smaller": (1,) * xs[k].ndim or (2,), "larger": (*xs[k].shape, 3)}.get(
                kind, tuple(xs[k].shape)
            )
            width = {
                ad.float64: ad.float32,
                ad.complex128: ad.complex64,
                ad.float32: ad.float16,
                ad.complex64: ad.complex128,
            }
            xs[k].data = ad.full(shape, 0.5, dtype=width[xs[k].dtype] if kind == "narrower" else xs[k].dtype)
            others = [i for i in range(len(xs)) if i != k]
            try:
                found = ad.autograd.grad(ys, [xs[i] for i in others] or xs, seeds, allow_unused=True)
            except RuntimeError as error:
                assert str(error)
                continue
            for i, g in zip(others or [0], found, strict=True):
                if others and g is not None:
                    np.testing.assert_array_equal(g.numpy(), expected[i].numpy(), err_msg=str(case))
                assert g is None or g.shape == before[i].shape


def squared(n, **options):
    x = ad.full((n,), 0.5, requires_grad=True, **options)
    return x, x * x


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "function", [lambda x: x * x, ad.sin, ad.Tensor.exp, lambda x: ad.hypot(x, x), lambda x: x @ x]
)
def test_the_error_says_what_was_saved_and_what_was_found(function, create_graph):
    x = ad.full((5000,), 0.5, requires_grad=True)
    z = function(x)
    x.data = ad.full((3,), 0.5)
    if "Exp" in z.grad_fn.name():  # its derivative takes the result
        with pytest.raises(
            RuntimeError, match=r"a gradient of shape \[5000\] arrived for a leaf of shape \[3\]"
        ):
            z.sum().backward(create_graph=create_graph)
        return
    with pytest.raises(
        RuntimeError,
        match=REFUSED + r".*Backward0.* float32 of shape \[5000\], but found float32 of shape \[3\]",
    ):
        z.sum().backward(create_graph=create_graph)


def test_data_of_the_same_size_are_taken_and_so_are_those_that_come_back():
    x, z = squared(50)
    x.data = ad.full((50,), 2.0)
    z.sum().backward(retain_graph=True)
    assert (x.grad == 4.0).all()
    x.data = ad.ones(3)
    with pytest.raises(RuntimeError, match=REFUSED):
        z.sum().backward(retain_graph=True)
    x.data = ad.full((50,), 3.0)
    x.grad = None
    z.sum().backward()
    assert (x.grad == 6.0).all()


def test_two_changes_in_a_row_and_a_graph_between():
    x = ad.ones(5, requires_grad=True)
    x.data = ad.full((7,), 2.0)
    z = x * x
    x.data = ad.ones(9)
    with pytest.raises(RuntimeError, match=REFUSED + r".*but found float32 of shape \[9\]"):
        z.sum().backward(retain_graph=True)
    x.data = ad.full((7,), 3.0)
    z.sum().backward()
    assert (x.grad == 6.0).all()


def test_a_module_that_is_converted_between():
    norm = ad.nn.LayerNorm(9)
    z = norm(ad.ones(2, 9, requires_grad=True))
    norm.half()
    with pytest.raises(RuntimeError, match=REFUSED + ".*LayerNormBackward0.*but found float16"):
        z.sum().backward()


def test_a_hook_that_changes_data():
    x, z = squared(5000)

    def change(g):
        x.data = ad.ones(3)

    z.register_hook(change)
    with pytest.raises(RuntimeError, match=REFUSED):
        z.sum().backward()


def test_a_function_sees_what_it_saved_as_it_is():
    seen = []

    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            seen.append(tuple(ctx.saved_tensors[0].shape))
            return 2 * g

    x = ad.ones(5, requires_grad=True)
    z = Square.apply(x)
    x.data = ad.ones(2)
    with pytest.raises(RuntimeError, match=r"a gradient of shape \[5\] arrived for a leaf of shape \[2\]"):
        z.sum().backward()
    assert seen == [(2,)]


@pytest.mark.parametrize("lay", [lambda t: t, lambda t: t.t()])
def test_a_gradient_for_a_leaf_of_another_shape(lay):
    x = ad.ones(5, 7, requires_grad=True)
    z = x.sum()
    x.data = lay(ad.ones(3, 2))
    with pytest.raises(RuntimeError, match=r"a gradient of shape \[5, 7\] arrived for a leaf of shape"):
        z.backward()


def test_the_base_of_a_view_gets_other_data():
    b = ad.ones(40000, requires_grad=True).clone()
    v = b[10:20]
    b.data = ad.ones(3)
    with pytest.raises(
        RuntimeError, match=r"a view of shape \[10\] is no part of its base any more.*has shape \[3\] now"
    ):
        v.mul_(2)


def test_a_view_of_a_base_whose_data_had_the_same_shape():
    w = ad.nn.Parameter(ad.arange(10.0))
    v = w[2:4]
    w.data = ad.ones(10)
    with ad.no_grad():
        w.add_(1)
    (v * w[2:4]).sum().backward()
    assert w.grad.tolist() == [0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_a_dual_number_gets_other_data():
    with forward_ad.dual_level():
        d = forward_ad.make_dual(ad.ones(5000), ad.ones(5000))
        d.data = ad.ones(3)
        with pytest.raises(RuntimeError, match=r"must match the existing size \(5000\)"):
            d * d


# --- gradients and tangents from elsewhere ---------------------------------------------------------------------------------

DEVICE = "expected device cpu but got meta"


def on_meta(*shape):
    return ad.ones(*shape, device="meta")


class Astray(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return on_meta(3)

    @staticmethod
    def jvp(ctx, t):
        return on_meta(3)


def recorded():
    return ad.ones(3, requires_grad=True).exp()


def hooked(register):
    y = recorded().sin()
    register(y)
    y.sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        lambda: recorded().backward(on_meta(3)),
        lambda: ad.autograd.grad(x := ad.ones(3, requires_grad=True), x, on_meta(3)),
        lambda: ad.func.vjp(ad.sin, ad.ones(3))[1](on_meta(3)),
        lambda: hooked(lambda y: y.register_hook(lambda g: on_meta(3))),
        lambda: hooked(lambda y: y.grad_fn.register_prehook(lambda g: (on_meta(3),))),
        lambda: hooked(lambda y: y.grad_fn.register_hook(lambda out, g: (on_meta(3),))),
        lambda: recorded().grad_fn(on_meta(3)),
        lambda: Astray.apply(recorded()).sum().backward(),
        lambda: ad.func.jvp(lambda x: x * 2, (ad.ones(3),), (on_meta(3),)),
        lambda: ad.func.jvp(Astray.apply, (ad.ones(3),), (ad.ones(3),)),
    ],
)
def test_gradients_and_tangents_lie_where_their_tensors_do(program):
    with pytest.raises(RuntimeError, match=DEVICE + "|expected cpu but got meta"):
        program()


def test_a_leafs_hook_lies_where_the_leaf_does():
    x = ad.ones(3, requires_grad=True)
    x.register_hook(lambda g: on_meta(3))
    with pytest.raises(RuntimeError, match=DEVICE):
        x.sum().backward()


def test_a_tangent_of_the_cpu_for_a_tensor_without_elements():
    with pytest.raises(RuntimeError, match="expected meta but got cpu"):
        ad.func.jvp(lambda x: x * 2, (on_meta(3),), (ad.ones(3),))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="expected meta but got cpu"):
        forward_ad.make_dual(on_meta(3), ad.ones(3))


def test_a_number_goes_to_the_device_of_its_root():
    x = ad.ones((), requires_grad=True, device="meta")
    x.sin().backward(ad.ones(()))
    assert x.grad.is_meta


def test_unpacked_on_another_device():
    x = ad.ones(5, requires_grad=True)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: on_meta(5)):
        z = x.sin()
    with pytest.raises(RuntimeError, match="on meta, but what was saved has shape .* on cpu"):
        z.sum().backward()
