"""What a program may ask of a backward pass while it runs, by the names of torch's core: which nodes it runs, and in what order."""

import pytest

import adjoint as ad
from adjoint.as_torch.standins import _C as core
from adjoint.autograd import Function, grad, set_multithreading_enabled


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def node_of(tensor):
    """The node where its gradient arrives, which for a leaf is its accumulator."""
    return tensor.grad_fn or tensor.clone().grad_fn.next_functions[0][0]


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def names(nodes):
    return [node.name() for node in nodes]


# --- whether it runs a node -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selective", [False, True])
def test_nodes_of_every_kind_are_told_apart_from_those_that_do_not_run(selective):
    a, other = leaf(1.0, 2.0), leaf(3.0, 4.0)
    b = a * other
    aside = b.cos()
    c = Twice.apply(b)
    asked = {}
    nodes = {key: node_of(t) for key, t in {"a": a, "other": other, "b": b, "c": c, "aside": aside}.items()}

    def ask(gradient):
        for key, node in nodes.items():
            asked[key] = core._will_engine_execute_node(node)

    b.register_hook(ask)
    c.sum().backward(inputs=[a, b] if selective else None)
    assert asked == {"a": True, "other": not selective, "b": True, "c": True, "aside": False}


def test_leaves_cannot_be_asked_about_where_nothing_accumulates():
    a = leaf(1.0)
    b = a * 2
    accumulator = node_of(a)
    b.register_hook(lambda g: core._will_engine_execute_node(accumulator) and None)
    with pytest.raises(RuntimeError, match=r"we are currently running autograd.grad\(\)"):
        grad(b.sum(), a)


# --- the node that runs -----------------------------------------------------------------------------------------------------


def test_the_node_whose_rule_runs():
    seen = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(core._current_autograd_node())
            # A pass inside of this one has its own.
            x = leaf(1.0)
            with ad.enable_grad(), ad.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
                y = x.exp()
            y.backward()
            seen.append(core._current_autograd_node())
            return gradient

    def unpack(kept):
        seen.append(core._current_autograd_node())
        return kept

    y = Watch.apply(leaf(1.0))
    node = y.grad_fn
    y.sum().backward()
    assert [n.name() for n in seen] == ["WatchBackward", "ExpBackward0", "WatchBackward"]
    assert seen[0] is node and seen[2] is node
    assert core._current_autograd_node() is None


def test_a_hook_may_be_given_to_the_node_that_unpacks():
    x = leaf(0.5, 2.0)

    def unpack(kept):
        core._current_autograd_node().register_hook(lambda out, given: tuple(g / 2 for g in out))
        return kept

    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((x.exp() / 2).tolist())


# --- the order --------------------------------------------------------------------------------------------------------------


def test_the_order_is_told_before_it_is_run():
    a = leaf(1.0)
    b = a * 2
    first, second = b.sin(), b.cos()
    told, ran = [], []
    second.register_hook(lambda g: told.extend(core._current_graph_task_execution_order()))
    for t in (b, first, second):
        t.grad_fn.register_hook(lambda out, given, name=t.grad_fn.name(): ran.append(name))
    with set_multithreading_enabled(False):
        ad.autograd.backward([first.sum(), second.sum()])
    assert names(told) == [
        "SumBackward0",
        "SumBackward0",
        "CosBackward0",
        "SinBackward0",
        "MulBackward0",
        "AccumulateGrad",
    ]
    assert [n for n in names(told) if n in ran] == ran
    assert told[-1] is node_of(a)


def test_the_order_has_only_what_leads_to_the_inputs():
    a, b = leaf(1.0), leaf(2.0)
    c = a * b
    y = c.sin()
    told = []
    y.register_hook(lambda g: told.extend(core._current_graph_task_execution_order()))
    with set_multithreading_enabled(False):
        grad(y, c)
    assert names(told) == ["SinBackward0", "MulBackward0"]


def test_where_the_order_cannot_be_told():
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        core._current_graph_task_execution_order()
    y = leaf(1.0).exp()
    y.register_hook(lambda g: core._current_graph_task_execution_order() and None)
    with (
        set_multithreading_enabled(True),
        pytest.raises(
            RuntimeError, match="expects the current backward to be executed with multithreading disabled"
        ),
    ):
        y.sum().backward()


# --- counts of writes -------------------------------------------------------------------------------------------------------


def test_writes_that_are_not_to_be_counted():
    from adjoint.as_torch.standins._autograd import _unsafe_preserve_version_counter

    x, y = leaf(1.0, 2.0).clone(), leaf(3.0).clone()
    x.add_(1)
    with _unsafe_preserve_version_counter((x, y)):
        x.mul_(2)
        y.mul_(2)
    assert (x._version, y._version) == (1, 0)
    z = x * x
    with ad.no_grad(), _unsafe_preserve_version_counter(x):
        x.add_(1)
    z.sum().backward()  # does not know of the write
    core._autograd._unsafe_set_version_counter((x,), (0,))
    assert x._version == 0
    with pytest.raises(RuntimeError, match="Cannot set"):
        core._autograd._unsafe_set_version_counter((x,), (-1,))


def test_whether_hooks_of_saved_tensors_may_be_used():
    enabled = core._autograd._saved_tensors_hooks_is_enabled
    assert enabled()
    with ad.autograd.graph.disable_saved_tensors_hooks("not here"):
        assert not enabled()
    assert enabled()
