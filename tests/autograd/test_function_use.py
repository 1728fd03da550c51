"""Functions: ways to call and to write them, what the context holds, and which gradients fit.

What `forward` may return is in test_function_results.py. Start reading at `test_keywords_and_defaults`.
"""

import functools

import pytest
from functions import function, leaf

import adjoint as ad
from adjoint.autograd import Function, gradcheck, gradgradcheck
from adjoint.autograd.function import InplaceFunction, once_differentiable
from adjoint.autograd.graph import saved_tensors_hooks


def with_setup(forward):
    """A Function whose context keeps all inputs but the first, as setup_context was shown them."""

    def setup_context(ctx, inputs, output):
        ctx.others = inputs[1:]

    def backward(ctx, g):
        return g, *[None] * len(ctx.others)

    return function(forward, backward, setup_context=staticmethod(setup_context))


def kept(f, *args, **kwargs):
    x = leaf(1.0)
    y = f.apply(x, *args, **kwargs)
    y.backward()
    assert x.grad.tolist() == [1.0]
    return y.item(), y.grad_fn.others


# --- how forward is called ----------------------------------------------------------------------------------------------


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


class Callable:
    def __call__(self, x, k=3.0):
        return x * k


@pytest.mark.parametrize(
    "forward",
    [lambda x, k=3.0: x * k, decorated(lambda x, k=3.0: x * k), Callable()],
    ids=["function", "decorated", "object"],
)
def test_keywords_and_defaults(forward):
    f = with_setup(forward)
    assert kept(f) == (3.0, (3.0,))
    assert kept(f, 4.0) == kept(f, k=4.0) == (4.0, (4.0,))


def test_other_signatures():
    assert kept(with_setup(lambda x, k: x * k), k=4.0) == (4.0, (4.0,))
    assert kept(with_setup(lambda x, *more: x * more[0]), 3, 4) == (3.0, (3, 4))
    assert kept(with_setup(lambda x, *, k=2.0: x * k)) == (2.0, ())
    f = with_setup(lambda x, k=2.0: x * k)
    g = type("Derived", (f,), {"forward": staticmethod(lambda x, k=5.0, more=6.0: x * k * more)})
    assert kept(g) == (30.0, (5.0, 6.0))


@pytest.mark.parametrize(
    "forward, args, kwargs, phrase",
    [
        (lambda x, *, k=2: x * k, (), {"k": 3}, r"My.apply\(\) got k by keyword only"),
        (lambda x, **more: x, (), {"a": 3}, r"My.apply\(\) got a by keyword only"),
        (lambda x, k=1: x, (2,), {"k": 3}, "multiple values for argument 'k'"),
        (lambda x, k=1: x, (), {"z": 3}, "unexpected keyword argument 'z'"),
        (lambda x: x, (1,), {}, "too many positional arguments"),
        (lambda x, k: x, (), {}, "missing a required argument: 'k'"),
    ],
)
def test_arguments_that_do_not_fit(forward, args, kwargs, phrase):
    with pytest.raises(TypeError, match=phrase):
        with_setup(forward).apply(leaf(1.0), *args, **kwargs)


def test_defaults_of_a_forward_that_takes_the_context():
    x = leaf(1.0)
    function(lambda ctx, x, k=2: x * k).apply(x).backward()
    assert x.grad.tolist() == [1.0]


def test_not_to_be_instantiated():
    f = function(lambda ctx, x: x)
    for make in (f, lambda: f(leaf(1.0)), lambda: InplaceFunction(True)):
        with pytest.warns(DeprecationWarning, match="Methods on autograd functions are all static"):
            instance = make()
        with pytest.raises(RuntimeError, match=r"computes nothing: call \w+\.apply"):
            instance(leaf(1.0))

    class Old(Function):
        def forward(self, x):
            return x

        def backward(self, g):
            return g

    class Older(Old):
        pass

    for cls in (Old, Older):
        with pytest.warns(DeprecationWarning, match="should not be instantiated"):
            instance = cls()
        with pytest.raises(
            RuntimeError, match="non-static forward method is deprecated.*make forward static and call"
        ):
            instance(leaf(1.0))


def test_members_for_forward_mode_and_batching_are_accepted():
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)
        return "what it returns does not matter"

    f = function(
        lambda x: x * 2,
        lambda ctx, g: g * 2,
        setup_context=staticmethod(setup_context),
        jvp=staticmethod(lambda ctx, t: t * 2),
        vmap=staticmethod(lambda info, in_dims, x: (x * 2, in_dims[0])),
    )
    x = leaf(1.0)
    f.apply(x).backward()
    g = function(lambda ctx, x: (ctx.save_for_forward(x), x * 2)[1], generate_vmap_rule=True)
    g.apply(x).backward()
    assert x.grad.tolist() == [3.0]
    assert Function.generate_vmap_rule is False and g.generate_vmap_rule
    for method in (Function.jvp, Function.vmap, Function.backward):
        with pytest.raises(NotImplementedError, match="[Yy]ou must"):
            method(None, None)


def test_backward_and_vjp_exclude_each_other():
    both = function(lambda ctx, x: x, vjp=staticmethod(lambda ctx, g: g))
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        both.apply(ad.ones(1, requires_grad=True)).backward()


# --- the context ----------------------------------------------------------------------------------------------------------


def test_attributes():
    def forward(ctx, x):
        ctx.a, ctx.b = [1], {"k": ctx}
        del ctx.b
        assert not hasattr(ctx, "b") and getattr(ctx, "c", 5) == 5
        ctx.a.append(2)
        return x * 2

    def backward(ctx, g):
        assert ctx.a == [1, 2] and not hasattr(ctx, "b")
        ctx.calls = getattr(ctx, "calls", 0) + 1
        return g * ctx.calls

    x = leaf(1.0)
    y = function(forward, backward).apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [3.0] and y.grad_fn.calls == 2 and y.grad_fn.a == [1, 2]
    with pytest.raises(AttributeError, match="nothing"):
        function(lambda ctx, x: ctx.nothing).apply(x)
    with pytest.raises(AttributeError, match="saved_tensors"):
        function(lambda ctx, x: setattr(ctx, "saved_tensors", ())).apply(x)


def test_the_last_call_of_save_for_backward_counts():
    def forward(ctx, x):
        assert ctx.saved_tensors == ()
        ctx.save_for_backward(x)
        ctx.save_for_backward(x * 2, None)
        return x * 2

    x = leaf(1.0)
    y = function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    assert y.grad_fn.saved_tensors[1] is None
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_a_saved_input_is_the_input():
    x = leaf(1.0)
    y = function(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1]).apply(x)
    (saved,) = y.grad_fn.saved_tensors
    assert saved is x


def test_needs_input_grad_in_each_method():
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append(ctx.needs_input_grad)

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return tuple(g if needed else None for needed in ctx.needs_input_grad)

    f = function(lambda x, y, k: x + y, backward, setup_context=staticmethod(setup_context))
    x = leaf(1.0)
    f.apply(ad.ones(1), x, 3).backward()
    assert seen == [(False, True, False)] * 2 and x.grad.tolist() == [1.0]
    with ad.no_grad():
        f.apply(ad.ones(1), ad.ones(1), 3)
    assert seen[2] == (False, False, False)


def test_a_context_kept_longer_than_its_graph():
    contexts = []

    def forward(ctx, x):
        contexts.append(ctx)
        ctx.note = 5
        ctx.save_for_backward(x)
        return x * 2

    y = function(forward).apply(leaf(1.0))
    y.backward()
    (ctx,) = contexts
    assert ctx.note == 5 and ctx.needs_input_grad == (True,)
    with pytest.raises(RuntimeError, match="access saved tensors after they have already been freed"):
        ctx.saved_tensors
    del y
    assert ctx.note == 5


def test_inference_tensors_cannot_be_saved():
    with ad.inference_mode():
        constant = ad.ones(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        function(lambda ctx, x, c: (ctx.save_for_backward(c), x * 1)[1]).apply(leaf(1.0), constant)


def test_hooks_of_saved_tensors_and_of_the_node():
    steps = []
    x = leaf(2.0)
    with saved_tensors_hooks(lambda t: steps.append("pack") or t, lambda t: steps.append("unpack") or t):
        y = function(
            lambda ctx, x: (ctx.save_for_backward(x, None, x * 2), x * 2)[1],
            lambda ctx, g: g * ctx.saved_tensors[2],
        ).apply(x)
    y.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: steps.append((gi[0].item(), go[0].item())))
    y.backward()
    assert steps == ["pack", "pack", "unpack", "unpack", (40.0, 10.0)] and x.grad.tolist() == [40.0]


# --- gradients ------------------------------------------------------------------------------------------------------------


def test_grad_mode_of_forward_and_backward():
    seen = []

    def forward(ctx, x):
        seen.append(ad.is_grad_enabled())
        with ad.enable_grad():
            inside = x * 3
            assert inside.requires_grad
        return inside

    def backward(ctx, g):
        seen.append(ad.is_grad_enabled())
        return g * 100

    x = leaf(1.0)
    y = function(forward, backward).apply(x)
    y.backward(retain_graph=True)
    ad.autograd.grad(y, x, create_graph=True)
    # What forward recorded for itself is no part of the graph.
    assert seen == [False, False, True] and x.grad.tolist() == [100.0]


@pytest.mark.parametrize(
    "gradient, phrase",
    [
        (
            lambda g: g.expand(5, 2)[:, :1],
            r"invalid gradient at index 0 - got \[5, 1\] .* compatible with \[2\]",
        ),
        (lambda g: g.sum(), r"invalid gradient at index 0 - got \[\] .* compatible with \[2\]"),
        (lambda g: (g, g), r"MyBackward returned an incorrect number of gradients \(expected 1, got 2\)"),
        (lambda g: "text", r"MyBackward .*expected Variable or None \(got str\)"),
        (lambda g: {"x": g}, r"expected Variable or None \(got dict\)"),
        (lambda g: (t for t in [g]), r"expected Variable or None \(got generator\)"),
    ],
)
def test_gradients_that_do_not_fit(gradient, phrase):
    x = leaf(1.0, 2.0)
    with pytest.raises((RuntimeError, TypeError), match=phrase):
        function(lambda ctx, x: x * 2, lambda ctx, g: gradient(g)).apply(x).sum().backward()
    assert x.grad is None and ad.is_grad_enabled()


@pytest.mark.parametrize("dtype", [ad.float16, ad.float32, ad.int64, ad.bool], ids=str)
def test_gradients_of_another_dtype_are_cast(dtype):
    x = leaf(1.0, 2.0)
    function(lambda ctx, x: x * 2, lambda ctx, g: ad.ones(2, dtype=dtype)).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0] and x.grad.dtype is ad.float64


def test_gradients_that_nobody_asked_for_are_dropped():
    x, k = leaf(1.0, 2.0), ad.ones(2)
    function(lambda ctx, x, k: x * k, lambda ctx, g: (g, g, None, None)).apply(x, k).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0] and k.grad is None


def test_second_derivatives():
    def forward(ctx, x, w):
        y = x.exp() * w
        ctx.save_for_backward(w, y)
        return y, x * w

    def backward(ctx, g, h):
        w, y = ctx.saved_tensors
        return g * y + h * w, (g * y / w).sum() + (h * (y / w).log()).sum()

    f = function(forward, backward).apply
    inputs = leaf(0.3, -0.4), leaf(1.7).reshape(()).detach().requires_grad_()
    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def test_once_differentiable_results():
    x, w = leaf(3.0), leaf(2.0)
    # Where the incoming gradient is a constant, the result is one as well.
    (g,) = ad.autograd.grad(Square.apply(x), x, create_graph=True)
    assert g.tolist() == [6.0] and not g.requires_grad
    # Used twice in one graph, and that graph twice.
    y = (Square.apply(Square.apply(x)) * w).sum()
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    y.backward()
    assert g.tolist() == x.grad.tolist() == [216.0]
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function .*Square.backward"):
        (g * g).sum().backward()

    @once_differentiable
    def backward(ctx, g):
        return None, g * 2, "text"

    y = function(lambda ctx, a, x, text: x * 2, backward).apply(w, x, "text")
    with pytest.raises(RuntimeError, match="gradient different .* None at position 3"):
        y.backward()
