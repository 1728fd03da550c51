"""Inside of vmap: printing, statistics of BatchNorm, what lives on, and gradients through writes seen by views."""

import gc
import warnings

import pytest
from helpers import allocated, assert_near

import adjoint as ad
from adjoint import func

X = ad.arange(6.0).reshape(2, 3)


def seen_inside(f, *xs, inside=func.vmap):
    """What f told of its argument, which must not make vmap run sample by sample."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside(lambda *a: (found.append(f(*a)), a[0].sum())[1])(*xs)
    assert len(found) == 1
    return found[0]


# --- printing -----------------------------------------------------------------------------------------------------------

TEXT = "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0., 1., 2.],\n            [3., 4., 5.]])\n)"


def test_printing_shows_all_samples():
    assert seen_inside(repr, X) == seen_inside(str, X) == seen_inside(lambda x: f"{x}", X) == TEXT
    assert seen_inside(lambda x: f"{x[0]}", X).startswith(
        "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([0., 3.])"
    )


def test_printing_levels_histories_and_tangents():
    nested = seen_inside(repr, X, inside=lambda f: func.vmap(func.vmap(f)))
    assert nested.startswith(
        "BatchedTensor(lvl=2, bdim=0, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[0."
    )
    assert seen_inside(repr, X, inside=lambda f: func.vmap(func.grad(f))).endswith("\n, requires_grad=True)")
    recorded = seen_inside(lambda x: repr(x * 2), X, inside=lambda f: func.vmap(func.grad(f)))
    assert recorded.endswith("\n, grad_fn=<MulBackward0>)")
    dual = seen_inside(repr, X, inside=lambda f: lambda x: func.jvp(lambda x: func.vmap(f)(x), (x,), (x,)))
    assert "\n, tangent=BatchedTensor(lvl=1" in dual


def test_printing_what_escaped():
    kept = []
    func.vmap(lambda x: (kept.append(x), x)[1])(X)
    assert repr(kept[0]) == TEXT.replace("lvl=1", "lvl=closed")


def test_numbers_in_a_format_are_asked_for():
    with pytest.raises(RuntimeError, match="calling .item\\(\\) on a Tensor"):
        func.vmap(lambda x: f"{x.sum():.2f}" and x, strict=True)(X)


def test_debug_unwrap():
    x = ad.ones(3)
    assert func.debug_unwrap(x) is x
    assert seen_inside(func.debug_unwrap, X).tolist() == X.tolist()
    all_of_both = seen_inside(func.debug_unwrap, X, inside=lambda f: func.vmap(func.vmap(f)))
    assert all_of_both.tolist() == X.tolist()
    one = seen_inside(
        lambda x: repr(func.debug_unwrap(x, recurse=False)), X, inside=lambda f: func.vmap(func.vmap(f))
    )
    assert one == TEXT
    inside = seen_inside(lambda x: func.debug_unwrap(x * 2), X, inside=func.grad)
    assert not inside.requires_grad and inside.tolist() == (X * 2).tolist()
    assert seen_inside(
        lambda x: repr(func.debug_unwrap(x)), x, inside=lambda f: lambda x: func.jvp(f, (x,), (x,))
    ) == repr(x)


# --- statistics of BatchNorm ----------------------------------------------------------------------------------------------

WORDS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
    "batched.*replace_all_batch_norm_modules_"
)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("strict", [False, True])
def test_statistics_of_all_samples_are_refused(momentum, strict):
    x = ad.randn(5, 4, 3)
    layer = ad.nn.BatchNorm1d(3, momentum=momentum)
    with pytest.raises(RuntimeError, match=f"(?s){WORDS}"):
        func.vmap(layer, strict=strict)(x)
    with pytest.raises(RuntimeError, match=f"(?s){WORDS}"):
        params, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())
        func.vmap(
            func.grad(lambda p, x: func.functional_call(layer, (p, buffers), (x,)).sum()), in_dims=(None, 0)
        )(params, x)
    # As they were.
    assert layer.running_mean.tolist() == [0, 0, 0] and layer.running_var.tolist() == [1, 1, 1]
    assert layer.num_batches_tracked.item() == 0
    func.replace_all_batch_norm_modules_(layer)
    found = func.vmap(layer)(x)
    assert ad.allclose(found, ad.stack([ad.nn.BatchNorm1d(3)(s) for s in x]), atol=1e-5)


def test_statistics_are_one_where_only_weights_are_mapped():
    x, weights, biases = ad.randn(5, 3), ad.rand(2, 3), ad.rand(2, 3)
    normalised = ad.nn.functional.batch_norm
    for training in (True, False):
        mean, variance = ad.zeros(3), ad.ones(3)
        found = func.vmap(lambda w, b: normalised(x, mean, variance, w, b, training=training), strict=True)(
            weights, biases
        )
        expected_mean, expected_variance = ad.zeros(3), ad.ones(3)
        plain = normalised(x, expected_mean, expected_variance, training=training)
        assert_near(found, plain * weights[:, None] + biases[:, None])
        assert_near(mean, expected_mean)
        assert_near(variance, expected_variance)


def test_statistics_by_sample_and_under_grad():
    x = ad.randn(5, 4, 3)
    layers = [ad.nn.BatchNorm1d(3) for _ in range(5)]
    params, buffers = func.stack_module_state(layers)
    found = func.vmap(lambda p, b, x: func.functional_call(layers[0], (p, b), (x,)))(params, buffers, x)
    wanted = ad.stack([layer(s) for layer, s in zip(layers, x, strict=True)])
    assert ad.allclose(found, wanted, atol=1e-5)
    for name, b in buffers.items():
        assert ad.allclose(
            b.to(ad.float32), ad.stack([dict(m.named_buffers())[name].to(ad.float32) for m in layers])
        )
    # Written once by a gradient, and without history.
    layer = ad.nn.BatchNorm1d(3)
    gradient = func.grad(lambda x: layer(x).pow(3).sum())(x[0])
    assert gradient.shape == (4, 3) and layer.num_batches_tracked.item() == 1
    assert not layer.running_mean.requires_grad
    assert ad.allclose(layer.running_mean, layers[0].running_mean)


# --- what lives on --------------------------------------------------------------------------------------------------------


def written(x):
    y = x * 1
    z = y.sin()
    return y.mul_(z)


def written_before_a_view(x):
    y = x * 1
    z = y.sin()
    y[0] = z[1]
    return z


def written_through_a_view(x):
    y = x * 1
    z = y.sin()
    y[0].copy_(z[1])
    return z


@pytest.mark.parametrize("f", [written, written_before_a_view, written_through_a_view])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_write_leaves_no_cycle(f, where):
    """A node keeps a tensor that is written afterwards, by what depends on the node."""

    def once():
        if where == "inside":
            func.vmap(lambda x: f(x.clone().requires_grad_()).detach())(X)
        else:
            func.vmap(f)(X.clone().requires_grad_())

    once()
    gc.collect()
    gc.disable()
    try:
        before = allocated()
        for _ in range(5):
            once()
        assert allocated() == before
    finally:
        gc.enable()


# --- gradients through writes -------------------------------------------------------------------------------------------------


def test_a_write_reaches_samples_that_were_viewed_before():
    """A tensor that has views is written; what it was is kept by them no less than by nodes."""

    def f(x):
        y = x * 1.0
        part = y[::2]
        y.copy_(ad.zeros(3))
        return (part.sum() + y.sum()) + x.prod()

    x = (X + 1).requires_grad_()
    func.vmap(f)(x).sum().backward()
    wanted = ad.stack([func.grad(lambda v: v.prod())(v) for v in X + 1])
    assert ad.equal(x.grad, wanted)


def test_values_with_more_dimensions_than_their_place():
    x = ad.rand(2, 3)
    wide = x.reshape(2, 1, 3)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[1, 3\]"
    ):
        func.vmap(lambda x, w: (x * 1).copy_(w))(x, wide)

    def whole(x, w):
        y = x * 0
        y[:] = w
        return y

    assert ad.equal(func.vmap(whole)(x, wide), x)

    def by_index(x, w):
        y = ad.zeros(3)
        y[ad.tensor([0, 2])] = w[:, 1:2]
        return y

    assert ad.equal(func.vmap(by_index)(x, wide)[:, 2], x[:, 1])


def test_an_outer_batch_made_inside_takes_values_of_an_inner_one():
    x, y = ad.rand(2, 3), ad.rand(4, 3)

    def f(a, b):
        made = a * 1.0
        made[1:].add_(b[1:])
        return made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = func.vmap(lambda a: func.vmap(lambda b: f(a, b))(y))(x)
    assert ad.equal(found, ad.stack([ad.stack([f(a, b) for b in y]) for a in x]))


def test_a_dual_tensor_made_inside_is_still_made_inside_after_its_first_view():
    def f(x):
        made = ad.zeros(3)
        made.index_add_(0, ad.tensor([2, 2, 0]), x)
        return made

    t = ad.rand(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, tangent = func.jvp(lambda x: func.vmap(f)(x), (X,), (t,))
    assert ad.equal(value, ad.stack([f(v) for v in X])) and ad.allclose(tangent, ad.stack([f(v) for v in t]))


# --- no loops --------------------------------------------------------------------------------------------------------------

ROWS = ad.arange(24.0, dtype=ad.float64).reshape(2, 3, 4).sin()
WITHOUT_LOOPS = {
    "masked_fill by a value for each sample": lambda x: x.masked_fill(x > 0, x[0, 0]),
    "masked_fill_ by a value for each sample": lambda x: x.clone().masked_fill_(
        x.new_tensor([True, False, True, True]) > 0, x[1, 1]
    ),
    "roll as if it were flat": lambda x: x.roll(5),
    "roll of a number": lambda x: x[0, 0].roll(3),
    "index_fill at negative indices": lambda x: x.index_fill(0, x[:, 0].argsort()[:2] - 3, 0.5),
    "index_select at indices of an outer batch": lambda x: func.vmap(
        lambda row: row.index_select(0, _order(x))
    )(x),
    "index_add at indices of an outer batch": lambda x: func.vmap(
        lambda row: row.index_add(0, _order(x), row)
    )(x),
}


def _order(x):
    return x[0].argsort()


@pytest.mark.parametrize("name", WITHOUT_LOOPS)
def test_without_loops(name):
    f = WITHOUT_LOOPS[name]
    func.vmap_fallbacks(reset=True)
    found = func.vmap(f, strict=True)(ROWS)
    assert func.vmap_fallbacks() == {}
    assert_near(found, ad.stack([f(x) for x in ROWS]))
    gradients = func.vmap(func.grad(lambda x: (f(x) ** 2).sum()))(ROWS)
    assert_near(gradients, ad.stack([func.grad(lambda x: (f(x) ** 2).sum())(x) for x in ROWS]))
    outside = func.grad(lambda xs: (func.vmap(f)(xs) ** 2).sum())(ROWS)
    assert_near(outside, gradients)


def test_a_value_that_its_type_cannot_hold_is_refused_for_each_sample():
    numbers, values = ad.zeros(2, 3, dtype=ad.uint8), ad.tensor([1.0, 300.0])
    with pytest.raises(RuntimeError, match="overflow"):
        func.vmap(lambda x, v: x.masked_fill(x == 0, v))(numbers, values)
    filled = func.vmap(lambda x, v: x.masked_fill(x == 0, v))(numbers, ad.tensor([1.0, 30.0]))
    assert filled.tolist() == [[1, 1, 1], [30, 30, 30]] and filled.dtype == ad.uint8


# --- inside of which vmap ---------------------------------------------------------------------------------------------------


def quietly(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f()


#: How a tensor is made in the outer function.
MADE = {
    "zeros": lambda a: ad.zeros(3),
    "zeros of many": lambda a: ad.zeros(300)[:3],
    "of a batch": lambda a: a * 0,
    "a view": lambda a: ad.zeros(2, 3)[1],
    "detached": lambda a: ad.zeros(3).detach(),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_an_outer_vmap_made_takes_no_values_of_an_inner_one(make):
    """One tensor cannot hold a value for each inner sample: as in torch, whatever vmap it was made in."""
    x, y = ad.rand(2, 3), ad.rand(4, 3)

    def outer(a):
        made = make(a)

        def inner(b):
            made.add_(b)
            return made * 1

        return func.vmap(inner)(y)

    with pytest.raises(RuntimeError, match="inplace arithmetic.*is not possible"):
        quietly(lambda: func.vmap(outer)(x))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_an_inner_vmap_made_takes_values_of_both(make):
    x, y = ad.rand(2, 3), ad.rand(4, 3)

    def inner(a, b):
        made = make(a)
        made.add_(b)
        made.mul_(a)
        return made * 1

    found = quietly(lambda: func.vmap(lambda a: func.vmap(lambda b: inner(a, b))(y))(x))
    assert ad.allclose(found, ad.stack([ad.stack([b * a for b in y]) for a in x]))


def test_what_an_outer_vmap_made_takes_values_of_its_own_in_an_inner_one():
    x, y = ad.rand(2, 3), ad.rand(4, 3)

    def outer(a):
        made = ad.zeros(3)

        def inner(b):
            return b * 2

        result = func.vmap(inner)(y).sum(0)
        made.add_(a)
        return made + result

    assert ad.allclose(func.vmap(outer)(x), x + 2 * y.sum(0))


def test_a_tensor_that_outlived_its_vmap_is_outside_of_the_next():
    kept = []
    func.vmap(lambda x: kept.append(ad.zeros(3)) or x)(ad.rand(2, 3))
    with pytest.raises(RuntimeError, match="inplace arithmetic.*is not possible"):
        func.vmap(lambda x: kept[0].add_(x))(ad.rand(2, 3))
    assert kept[0].tolist() == [0, 0, 0]


def test_memory_of_an_outer_vmap_is_not_written_twice():
    """An inner function that has to be run again for single samples has written nothing that was there before it."""
    x, y = ad.rand(2, 3), ad.tensor([[1.0, 2.0], [3.0, 4.0]])

    def outer(a):
        made = a * 0

        def inner(b):
            made.add_(a)
            return b * 2 if b.sum().item() > 4 else b

        return func.vmap(inner)(y), made

    with pytest.raises(RuntimeError, match="item"):
        quietly(lambda: func.vmap(outer)(x))


def test_inference_mode_inside_leaves_what_is_made_inside_as_it_is():
    def f(x):
        with ad.inference_mode():
            ad.zeros(1)
        made = ad.zeros(3)
        made.add_(x)
        return made

    x = ad.rand(2, 3)
    assert ad.equal(func.vmap(f)(x), x)


@pytest.mark.parametrize("index", [0, [0], [0, 0, 0]])
def test_gradients_of_reads_from_a_number(index):
    x, index = ad.tensor([1.5, -2.0, 3.0], dtype=ad.float64), ad.tensor(index)

    def f(v):
        return (v.gather(0, index) ** 2).sum() * v

    assert_near(func.vmap(func.grad(f))(x), ad.stack([func.grad(f)(v) for v in x]))
    assert_near(func.grad(lambda x: func.vmap(f)(x).sum())(x), ad.stack([func.grad(f)(v) for v in x]))


@pytest.mark.parametrize(
    "returned, fits",
    [
        (lambda y: (y, 0), True),
        (lambda y: ([y, y], 0), True),
        (lambda y: ({"a": y, "b": (y, y)}, {"a": 0, "b": (0, 1)}), True),
        (lambda y: (y, (0,)), False),
        (lambda y: ([y], (0,)), False),
        (lambda y: ((y, y), (0, 0, 0)), False),
    ],
)
def test_results_of_a_rule_of_a_function_s_own_have_any_form(returned, fits):
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(x):
            raise AssertionError("the rule computes")

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return returned(x * 2)

    x = ad.arange(6.0).reshape(2, 3)
    if not fits:
        with pytest.raises(RuntimeError, match=r"returned an incompatible \(output, out_dims\) tuple"):
            ad.vmap(Double.apply)(x)
        return
    wanted = returned(x * 2)[0]
    found = ad.vmap(lambda x: Double.apply(x))(x)
    if isinstance(wanted, dict):
        assert found["a"].tolist() == found["b"][0].tolist() == (x * 2).tolist()
    else:
        assert ad.tree.map(ad.Tensor.tolist, found) == ad.tree.map(ad.Tensor.tolist, wanted)


def test_requires_grad_inside_is_that_of_the_samples_there():
    seen = []

    def f(x):
        seen.append((x.requires_grad, x.sin().requires_grad))
        return (x * x).sum()

    x = ad.ones(3, 2, requires_grad=True)
    assert func.vmap(f)(x).requires_grad and func.vmap(func.grad(f))(x).requires_grad
    assert seen == [(False, False), (True, True)]


def test_histograms_for_each_sample():
    x, w = ad.rand(4, 50), ad.rand(4, 50)
    for f in (
        lambda x, w: ad.histogram(x, 5, range=(0.1, 0.9)).hist,
        lambda x, w: ad.histogram(x, ad.tensor([0.0, 0.4, 0.5, 2.0]), weight=w, density=True).hist,
        lambda x, w: ad.histogramdd(ad.stack([x, w], 1), bins=[3, 2], range=[0.0, 1.0, 0.2, 0.9]).hist,
    ):
        expected = ad.stack([f(*row) for row in zip(x, w)])
        ad.testing.assert_close(func.vmap(f, strict=True)(x, w), expected)
