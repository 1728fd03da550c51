"""Facts about torch's engine, views and versions that programs for torch rely on, one after the other.

The expectations are literal: what torch 2.13 does in the same program.
"""

import gc
import weakref

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function, grad, graph


def leaf(n):
    return ad.arange(1.0, n + 1).requires_grad_()


def note(log, name, change=None):
    def values(x):
        return None if x is None else [values(g) for g in x] if isinstance(x, tuple) else x.tolist()

    def hook(*arguments):
        log.append((name, *map(values, arguments)))
        return change(*arguments) if change else None

    return hook


class Two(Function):
    """Two results; with one of them unused its gradient is None."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return None if a is None else a * 2


# --- hooks ---------------------------------------------------------------------------------------------------------------


def test_hooks_of_tensors_come_before_those_of_their_node():
    y, log = leaf(1) * 2, []
    y.grad_fn.register_prehook(note(log, "node"))
    y.register_hook(note(log, "first"))
    y.grad_fn.register_prehook(note(log, "node again"))
    y.register_hook(note(log, "second", lambda g: g * 3))
    y.grad_fn.register_hook(note(log, "after"))
    y.backward()
    assert log == [
        ("first", [1.0]),
        ("second", [1.0]),
        ("node", [[3.0]]),
        ("node again", [[3.0]]),
        ("after", [[6.0], None] if len(y.grad_fn.next_functions) == 2 else [[6.0]], [[3.0]]),
    ]


def test_hooks_of_an_accumulator_stand_around_the_accumulation():
    x, log = leaf(1), []
    node = graph.get_gradient_edge(x).node
    node.register_prehook(lambda g: log.append(("before", x.grad)))
    node.register_prehook(note(log, "doubles", lambda g: (g[0] * 2,)))
    x.register_hook(note(log, "tensor"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.item())))
    node.register_hook(lambda gi, go: log.append(("after", gi, x.grad.item())))
    (x * 3).backward()
    assert log == [
        ("tensor", [3.0]),
        ("before", None),
        ("doubles", [[3.0]]),
        ("accumulated", 6.0),
        ("after", (), 6.0),
    ]


def test_grad_runs_what_comes_before_a_leaf():
    x, log = leaf(1), []
    node = graph.get_gradient_edge(x).node
    node.register_prehook(note(log, "node", lambda g: (g[0] * 2,)))
    x.register_hook(note(log, "tensor"))
    node.register_hook(note(log, "after"))
    assert grad(x * 3, x)[0].item() == 3 and [name for name, *_ in log] == ["tensor"]
    assert x.grad is None


def test_hooks_see_that_nothing_arrived():
    x, log = leaf(1), []
    h = x * 1
    a, b = Two.apply(h)
    for name, t in (("x", x), ("h", h), ("a", a), ("b", b)):
        t.register_hook(note(log, name))
    h.retain_grad()
    h.grad_fn.register_prehook(note(log, "before h"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad)))
    b.sum().backward()
    assert log == [
        ("a", None),
        ("b", [1.0]),
        ("h", None),
        ("before h", [None]),
        ("x", None),
        ("accumulated", None),
    ]
    assert x.grad is None and h.grad is None


def test_parts_that_got_no_gradient():
    first, second = leaf(4).split(2)
    log = []
    second.register_hook(note(log, "second"))
    first.sum().backward()
    assert log == [("second", None)]


def test_nothing_cannot_be_replaced():
    a, b = Two.apply(leaf(1))
    b.register_hook(lambda g: ad.ones(1))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        a.sum().backward()


def test_what_leads_to_no_input_runs_no_hooks():
    x, w, log = leaf(1), leaf(1), []
    y, z = x * 2, w * 2
    z.register_hook(note(log, "z"))
    w.register_hook(note(log, "w"))
    grad(y * z, x)
    (w * x).backward(inputs=[x])
    assert log == []


def test_several_hooked_tensors_of_which_one_gets_nothing():
    class First(Two):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 2

        @staticmethod
        def backward(ctx, a, b):
            return a, None

    x, y, log = leaf(1), leaf(1), []
    graph.register_multi_grad_hook(
        [x, y], lambda gs: log.append([None if g is None else g.item() for g in gs])
    )
    a, b = First.apply(x, y)
    (a + b).backward()
    assert log == [[1.0, None]]


def test_backward_with_a_result_among_the_inputs():
    x, log = leaf(1), []
    y = x * 2
    y.grad_fn.register_prehook(note(log, "before", lambda g: (g[0] * 2,)))
    y.register_hook(note(log, "tensor"))
    y.grad_fn.register_hook(note(log, "after"))
    (y * 3).backward(inputs=[y])
    assert [name for name, *_ in log] == ["tensor", "before", "after"]
    assert all(g is None for g in log[2][1]) and log[2][2] == [[6.0]]
    assert y.grad.tolist() == [3.0] and y.retains_grad and x.grad is None
    log.clear()
    assert grad(y * 3, y)[0].item() == 3 and [name for name, *_ in log] == ["tensor"]


@pytest.mark.parametrize(
    "program, expected",
    [
        (lambda y: (y.retain_grad(), y.register_hook(lambda g: g * 2)), 2),
        (lambda y: (y.register_hook(lambda g: g * 2), y.retain_grad(), y.register_hook(lambda g: g * 5)), 10),
        (lambda y: (y.retain_grad(), y.grad_fn.register_prehook(lambda g: (g[0] * 7,))), 1),
        (lambda y: (y.retain_grad(), y.mul_(3)), 1),
        (lambda y: (y.register_hook(lambda g: g * 2), y.retain_grad(), y.mul_(3)), 1),
        (lambda y: (y.retain_grad(), y.mul_(3), y.register_hook(lambda g: g * 5)), 5),
    ],
)
def test_what_is_retained_beside_hooks(program, expected):
    y = leaf(1) * 2
    program(y)
    y.backward()
    assert y.grad.item() == expected


def test_a_linear_layer_has_its_bias_first():
    log = []
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name))
    model(ad.ones(1, 2)).sum().backward()
    assert log == ["2.bias", "2.weight", "0.bias", "0.weight"]
    for shape in ((2,), (4, 2), (2, 4, 2)):
        log.clear()
        layer, x = nn.Linear(2, 3), ad.ones(shape, requires_grad=True)
        for name, t in (("x", x), ("weight", layer.weight), ("bias", layer.bias)):
            t.register_hook(lambda g, name=name: log.append(name))
        layer(x).sum().backward()
        assert log[0] == "bias" and sorted(log) == ["bias", "weight", "x"]


def test_hooks_of_modules_are_freed_after_a_recorded_pass():
    def once(create_graph):
        m, x = nn.Linear(2, 2), ad.ones(1, 2, requires_grad=True)
        m.register_full_backward_hook(lambda m, gi, go: None)
        y = m(x)
        grads = grad((y * y).sum(), [x, *m.parameters()], create_graph=create_graph)
        assert grads[0].requires_grad == create_graph
        return weakref.ref(m), weakref.ref(x)

    gc.disable()
    try:
        assert [r() for r in once(False)] == [None, None]
    finally:
        gc.enable()
    references = once(True)
    gc.collect()
    assert [r() for r in references] == [None, None]


# --- edges ---------------------------------------------------------------------------------------------------------------


def test_edges_have_three_fields():
    x = leaf(2)
    y = x * x
    edge = graph.GradientEdge(y.grad_fn, 0)
    assert (*edge,) == (y.grad_fn, 0, None) and edge.ownership_token is None
    assert grad(edge, x, ad.ones(2), retain_graph=True)[0].tolist() == [2, 4]
    assert grad((y * y).sum(), [graph.get_gradient_edge(y), x])[0].tolist() == [2, 8]
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got"):
        grad((y * y).sum(), [y.grad_fn])


# --- views and versions --------------------------------------------------------------------------------------------------


class Part(Function):
    @staticmethod
    def forward(ctx, x):
        return x[:2]

    @staticmethod
    def backward(ctx, g):
        return ad.cat([g, g])


VIEWS_WITHOUT_HISTORY = {
    "several": (lambda b: b.split(2)[0], "returns multiple views"),
    "view of one of several": (lambda b: b.split(2)[0].view(2), "returns multiple views"),
    "no_grad": (lambda b: ad.no_grad()(lambda: b[:2])(), "created in no_grad mode"),
    "inference": (lambda b: ad.inference_mode()(lambda: b[:2])(), "created in inference mode"),
    "Function": (Part.apply, "created inside a custom Function"),
}


@pytest.mark.parametrize("view, phrase", VIEWS_WITHOUT_HISTORY.values(), ids=VIEWS_WITHOUT_HISTORY)
def test_a_recorded_write_is_refused_though_the_base_needs_no_gradient(view, phrase):
    base = ad.ones(4)
    v = view(base)
    if "Function" not in phrase:  # without anything to record, it is an ordinary view
        with pytest.raises(RuntimeError, match=phrase):
            v.mul_(leaf(2))
    assert base.tolist() == [1, 1, 1, 1]
    v.mul_(2)
    assert base.tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("name", ["several", "no_grad", "Function"])
def test_a_write_without_recording_ends_the_history_of_such_a_view(name):
    base = leaf(4) * 1
    v = VIEWS_WITHOUT_HISTORY[name][0](base)
    with ad.no_grad():
        v.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        v.grad_fn  # noqa: B018
    assert "grad_fn=<Invalid>" in repr(v)
    # The base goes on, and so does an ordinary view.
    ordinary = base[:2]
    with ad.no_grad():
        ordinary.mul_(2)
    ordinary.sum().backward()


def test_detach_in_place_of_views():
    for base in (ad.ones(4), leaf(4) * 1):
        with pytest.raises(RuntimeError, match=r"Can't detach views in-place\. Use detach\(\) instead"):
            base[:2].detach_()


def test_data_keeps_the_version_and_views_share_it():
    x = ad.ones(4)
    v, y = x[:2], ad.ones(4)
    x.add_(1)
    y.add_(1).add_(1)
    x.data = y
    assert (x._version, v._version, y._version) == (1, 1, 2)
    x.add_(1)
    assert (x._version, v._version, y._version) == (2, 2, 2)
    v.add_(1)
    assert (x._version, v._version, y._version) == (3, 3, 2)
    assert x.tolist() == y.tolist() == [4] * 4 and v.tolist() == [3, 3]
    x.data = ad.zeros(3)
    assert x._version == v._version == 3
    v.add_(1)
    assert x._version == v._version == 4


def test_data_given_many_times_keeps_no_memory():
    x = ad.zeros(100000)
    before = ad.memory_stats()["allocated_bytes"] if hasattr(ad, "memory_stats") else None
    for _ in range(2000):
        x.data = x.data.view(-1)
        x.data = x
    assert x._version == 0
    x.data = ad.ones(100000)
    if before is not None:
        assert ad.memory_stats()["allocated_bytes"] <= before + 10000


def test_what_was_saved_before_data_changed():
    x, w = ad.ones(2), leaf(2)
    y = w * x
    x.data = ad.zeros(2)
    y.sum().backward()
    assert w.grad.tolist() == [0, 0]  # as torch has it: replacing the data is no write
    y = w * x
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_set_gives_a_leaf_another_accumulator():
    x, log = leaf(2), []
    old = (x * 1).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: log.append(g.shape))
    with ad.no_grad():
        x.set_(ad.ones(3))
    y = x * 3
    assert y.grad_fn.next_functions[0][0] is not old and old.variable is x
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3] and log == [(3,)]


def test_views_of_inference_tensors():
    with ad.inference_mode():
        x = ad.ones(4)
        inside = x[:2]
    outside = x[:2]
    assert (
        inside.is_inference()
        and outside.is_inference()
        and x.detach().is_inference()
        and x.data.is_inference()
    )
    assert inside._base is x._base is None or True
    for v in (x, outside):
        with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
            v._version  # noqa: B018
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        outside.mul_(2)
    with pytest.raises(
        RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"
    ):
        outside.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        outside * leaf(2)


def test_a_view_that_requires_grad_itself_is_a_leaf():
    v = ad.ones(4)[:2].requires_grad_()
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
    ):
        v.mul_(2)


FRESH = {
    "rand": lambda: ad.rand(2),
    "randn": lambda: ad.randn(2),
    "randint": lambda: ad.randint(3, (2,)),
    "randperm": lambda: ad.randperm(3),
    "rand_like": lambda: ad.rand_like(ad.ones(2)),
    "randn_like": lambda: ad.randn_like(ad.ones(2)),
    "randint_like": lambda: ad.randint_like(ad.ones(2), 3),
    "normal": lambda: ad.normal(0.0, 1.0, (2,)),
    "normal of tensors": lambda: ad.normal(ad.ones(2), ad.ones(2)),
    "bernoulli": lambda: ad.bernoulli(ad.ones(2)),
    "bernoulli with p": lambda: ad.bernoulli(ad.ones(2), 0.5),
    "multinomial": lambda: ad.multinomial(ad.ones(3), 2),
    "dropout": lambda: nn.functional.dropout(ad.ones(3)),
    "complex": lambda: ad.randn(2, dtype=ad.complex64),
}


@pytest.mark.parametrize("make", FRESH.values(), ids=FRESH)
def test_fresh_random_tensors_were_not_written(make):
    assert make()._version == 0


def test_random_numbers_put_into_a_tensor_are_a_write():
    for write in ("uniform_", "normal_", "exponential_", "random_", "bernoulli_"):
        assert getattr(ad.ones(2), write)()._version == 1
