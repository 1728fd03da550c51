"""Hooks: of tensors, nodes, leaves, several tensors, saved tensors; their order, what they may change, and lifetimes."""

import gc
import warnings

import pytest
from helpers import allocated, leaf

import adjoint as ad
from adjoint.autograd import graph


def test_order():
    calls = []
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: calls.append("tensor, first"))
    y.retain_grad()
    y.register_hook(lambda g: calls.append("tensor, second") or g * 10)
    y.grad_fn.register_prehook(lambda gs: calls.append(("node, before", y.grad.tolist())))
    y.grad_fn.register_hook(lambda gi, go: calls.append(("node, after", gi[0].tolist(), go[0].tolist())))
    x.register_hook(lambda g: calls.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: calls.append(("accumulated", t.grad.tolist())))
    y.backward()
    assert calls == [
        "tensor, first",
        "tensor, second",
        ("node, before", [10.0]),
        ("node, after", [20.0], [10.0]),
        "leaf",
        ("accumulated", [20.0]),
    ]


def test_a_hook_of_a_leaf_may_return_the_leaf():
    x = leaf(1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda t: t.add_(t.grad, alpha=-0.5))
    (x * 2).sum().backward()
    assert x.tolist() == [0.0, 1.0]
    y = leaf(1.0)
    y.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="should return None, but '<lambda>' returned Tensor"):
        y.sum().backward()


def test_node_hooks_replace_gradients():
    x = leaf(1.0)
    y = x * 2
    before = y.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
    after = y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, *gi[1:]))
    (g,) = ad.autograd.grad(y, x, retain_graph=True)
    assert g.tolist() == [7.0]
    before.remove()
    after.remove()
    (g,) = ad.autograd.grad(y, x)
    assert g.tolist() == [2.0]


def test_a_leaf_hook_runs_where_its_gradient_is_asked_for():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 5)
    assert ad.autograd.grad(x * 2, x)[0].tolist() == [10.0]
    (x * 2).backward()
    assert x.grad.tolist() == [10.0]


@pytest.mark.parametrize(
    "hook, error, phrase",
    [
        (lambda g: g[:1], RuntimeError, "has changed the size of value"),
        (lambda g: g.float(), RuntimeError, "has changed the type of value"),
        (lambda g: 3.0, TypeError, "expected Variable, but hook returned"),
    ],
)
def test_what_a_hook_may_not_return(hook, error, phrase):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(error, match=phrase):
        y.sum().backward()


def test_handles():
    x = leaf(1.0)
    calls = []
    with x.register_hook(lambda g: calls.append(1)):
        (x * 2).backward()
    handle = x.register_hook(lambda g: calls.append(2))
    handle.remove()
    handle.remove()
    (x * 2).backward()
    assert calls == [1]


def test_multi_grad_hooks():
    x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
    seen = []
    handle = graph.register_multi_grad_hook(
        (x, y, z), lambda gs: seen.append([None if g is None else g.item() for g in gs])
    )
    (x * y).backward()
    (x * y * z).backward()
    assert seen == [[2.0, 1.0, None], [6.0, 3.0, 2.0]]
    handle.remove()
    (x * y).backward()
    assert len(seen) == 2
    first = []
    graph.register_multi_grad_hook((x, y), lambda g: first.append(g.item()), mode="any")
    (x * y).backward()
    (x * y).backward()
    assert len(first) == 2


def test_callbacks_at_the_end():
    x = leaf(1.0)
    y = x * 2
    calls = []
    engine = ad.autograd.Variable._execution_engine
    y.register_hook(lambda g: engine.queue_callback(lambda: calls.append(x.grad.item())))
    y.backward()
    assert calls == [2.0]
    with pytest.raises(RuntimeError, match="only be installed during backward pass"):
        engine.queue_callback(lambda: None)


# --- saved tensors ------------------------------------------------------------------------------------------------------


def test_saved_tensors_hooks():
    x = leaf(1.0, 2.0)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        assert not ad.is_grad_enabled()
        return t.tolist()

    def unpack(kept):
        unpacked.append(kept)
        return ad.tensor(kept, dtype=ad.float64)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).exp()
    z = y * y
    assert packed == [[1.0, 2.0], [1.0, 2.0], y.tolist()]
    z.sum().backward()
    assert sorted(map(str, unpacked)) == sorted(map(str, packed))
    assert ad.allclose(x.grad, 4 * x * (2 * x * x).exp())


def test_second_derivatives_through_packed_tensors():
    x = leaf(0.3, -0.7)
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * x.sin()).exp()
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x)
    z = (x * x.sin()).exp()
    (g,) = ad.autograd.grad(z.sum(), x, create_graph=True)
    (expected,) = ad.autograd.grad(g.sum(), x)
    assert ad.allclose(h, expected)


def test_raw_saved():
    x = leaf(1.0, 2.0)
    y = x.exp()
    seen = []
    y.grad_fn._raw_saved_result.register_hooks(
        lambda t: seen.append("pack") or t.clone(), lambda t: seen.append("unpack") or t
    )
    assert seen == ["pack"]
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    raw = y.grad_fn._raw_saved_result
    y.sum().backward()
    assert seen == ["pack", "unpack"]
    with pytest.raises(RuntimeError, match="second time"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._saved_result


def test_misuse_of_saved_tensors_hooks():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            (x * 1).exp()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        y.backward()
    for wrong in (ad.ones(0), ad.ones(2, dtype=ad.float64), ad.ones(1)):
        with graph.saved_tensors_hooks(lambda t: t, lambda t, wrong=wrong: wrong):
            y = x.exp()
        with pytest.raises(RuntimeError, match="unpack_hook returned a tensor of shape"):
            y.backward()
    with pytest.raises(ZeroDivisionError):
        with graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
            x.exp()
    with graph.disable_saved_tensors_hooks("none in here"):
        with pytest.raises(RuntimeError, match="none in here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass
    with graph.save_on_cpu():
        y = x.exp()
    y.backward()
    assert ad.allclose(x.grad, x.exp())


def test_allow_mutation_on_saved_tensors():
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y.zero_()
        w = z.exp()
        z.zero_()
        w.sum().backward()
    assert ad.allclose(x.grad, 2 * x * (x * x).exp())


# --- edges, anomalies, lines --------------------------------------------------------------------------------------------


def test_gradient_edges():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    z = (y * y).sum()
    out = graph.get_gradient_edge(z)
    del y
    (g,) = ad.autograd.grad(z, edge, retain_graph=True)
    assert g.tolist() == [4.0, 8.0]
    (g,) = ad.autograd.grad(out, (x,), retain_graph=True)
    assert g.tolist() == [8.0, 16.0]
    ad.autograd.backward(out, inputs=graph.get_gradient_edge(x))
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(ad.ones(1))


def test_anomalies():
    x = leaf(0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ad.autograd.detect_anomaly():
            y = x.sqrt() * 0
            with pytest.raises(
                RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"
            ):
                y.backward()
    assert any("y = x.sqrt() * 0" in str(w.message) for w in caught)
    y = x.sqrt() * 0
    y.backward()
    assert x.grad.isnan().all()


def test_the_error_names_both_lines():
    x = leaf(1.0)
    y = x * 1
    z = y * y
    y.mul_(3)
    with pytest.raises(RuntimeError, match=r"last written by mul_\(\).*set_record_lines"):
        z.backward()
    before = graph.set_record_lines(True)
    try:
        y = x * 1
        z = y * y  # saved here
        y.mul_(3)  # written here
        with pytest.raises(RuntimeError) as caught:
            z.backward()
    finally:
        graph.set_record_lines(before)
    text = str(caught.value)
    assert text.count("test_hooks.py:") == 2 and "MulBackward0" in text and "float64 [1]" in text
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    numbers = [int(part.split()[0]) for part in text.split("test_hooks.py:")[1:]]
    assert [lines[n - 1].split("# ")[-1] for n in numbers] == ["saved here", "written here"]


def test_hooks_leave_nothing_behind():
    x = ad.rand(100, requires_grad=True)

    def run():
        y = x * 2
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        y.grad_fn.register_hook(lambda gi, go: None)
        y.grad_fn.register_prehook(lambda go: None)
        graph.register_multi_grad_hook((y,), lambda gs: None)
        with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            z = y.exp()
        z.sum().backward()
        x.grad = None

    gc.collect()
    gc.disable()
    try:
        run()
        before = allocated()
        run()
        assert allocated() == before
    finally:
        gc.enable()
