"""Details that programs for torch rely on: operations without a derivative, derivatives inside of checkpoints, the copies
that a write to a saved tensor makes, backward hooks of modules in second derivatives, and small questions.

Start reading at `test_operations_without_a_derivative_refuse`.
"""

import gc
import weakref

import pytest
from helpers import run_python

import adjoint as ad
from adjoint.autograd import graph
from adjoint.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


# --- no derivative -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("unique", lambda x: ad.unique(x)),
        ("unique", lambda x: ad.unique(x, return_inverse=True, return_counts=True)[0]),
        ("unique", lambda x: ad.unique(x, dim=0)),
        ("unique_consecutive", lambda x: ad.unique_consecutive(x)),
        ("unique_consecutive", lambda x: ad.unique_consecutive(x, dim=0)),
        ("unique_consecutive", lambda x: ad.unique_consecutive(x, return_counts=True)[0]),
        ("histc", lambda x: ad.histc(x, bins=3)),
    ],
)
def test_operations_without_a_derivative_refuse(name, run):
    x = leaf(2.0, 1.0, 1.0)
    y = run(x)
    assert y.requires_grad
    phrase = rf"the derivative for '{name}' is not implemented: {name}\(\) .* shape \(3,\)"
    with pytest.raises(NotImplementedError, match=phrase):
        (y.sum() + x.sum()).backward()
    assert x.grad is None
    for constant in (run(x.detach()), run(x.clone().detach())):
        assert not constant.requires_grad
        assert ad.equal(constant, y)
    with ad.no_grad():
        assert not run(x).requires_grad


def test_whole_numbers_beside_values_need_no_gradient():
    x = leaf(2.0, 1.0, 1.0)
    for several in (
        ad.unique(x, return_inverse=True, return_counts=True),
        ad.unique_consecutive(x, return_inverse=True, return_counts=True),
    ):
        assert [t.requires_grad for t in several] == [True, False, False]


@pytest.mark.parametrize(
    "split",
    [
        lambda t: t.unsafe_split(1),
        lambda t: ad.unsafe_split(t, 1),
        lambda t: t.unsafe_split_with_sizes((1, 1, 1)),
        lambda t: ad.unsafe_split_with_sizes(t, [1, 1, 1], dim=0),
        lambda t: t.unsafe_chunk(3),
    ],
)
def test_parts_that_may_be_written(split):
    x = leaf(2.0, 3.0, 5.0)
    y = x * 2
    first, second, _ = split(y)
    first.mul_(second)
    assert y.tolist() == [4.0, 6.0, 10.0]
    first.sum().backward()
    # 2 x₀ · 2 x₁
    assert x.grad.tolist() == [12.0, 8.0, 0.0]


# --- checkpoints -----------------------------------------------------------------------------------------------------------


def gradient_of(function):
    def run(x):
        with ad.enable_grad():
            return ad.autograd.grad(function(x), x, create_graph=True)[0]

    return run


def part(function):
    return lambda x: checkpoint(function, x, use_reentrant=False)


def plain(x):
    return x.sin().exp().sin()


def with_a_derivative_inside(x):
    first, second = x.sin().exp().sin(), x.cos().exp()
    return x.sin() * ad.autograd.grad(first, x)[0] + ad.autograd.grad(second, x)[0]


def nestings(f):
    g, c = gradient_of, part
    return [
        (f, [c(f), c(c(f))]),
        (g(f), [g(c(f)), g(c(c(f)))]),
        (g(g(f)), [g(c(g(f))), c(g(g(c(f)))), g(c(g(c(f))))]),
        (g(g(g(f))), [g(c(g(g(c(f))))), g(c(g(c(g(c(f))))))]),
    ]


class Mark:
    """Lies on a node, to see that it goes."""


def marks_on_the_graph_of(function):
    out = function(leaf(0.7).sum())
    seen, waiting, marks = set(), [out.grad_fn], []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        node.metadata["mark"] = mark = Mark()
        marks.append(weakref.ref(mark))
        waiting += [following for following, _ in node.next_functions]
    return marks


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("function", [plain, with_a_derivative_inside])
def test_derivatives_and_checkpoints_inside_each_other(function, early_stop):
    x = ad.tensor(0.7, dtype=ad.float64, requires_grad=True)
    with set_checkpoint_early_stop(early_stop):
        for expected, variants in nestings(function):
            want = expected(x)
            for variant in variants:
                assert ad.allclose(variant(x), want)
                assert [m() for m in marks_on_the_graph_of(variant) if m() is not None] == []


def test_a_backward_pass_inside_of_the_one_that_computes_again():
    for early_stop in (True, False):
        a = leaf(1.0)
        with set_checkpoint_early_stop(early_stop):
            middle, out = checkpoint(lambda t: (t.sin().cos(), t.sin().cos().sin()), a, use_reentrant=False)
        runs = []

        def again(*gradients, root=middle, runs=runs):
            runs.append(len(gradients))
            root.backward(retain_graph=True)

        out.grad_fn.register_hook(again)
        out.sum().backward(retain_graph=True)
        inner = -a.sin().sin() * a.cos()
        assert runs == [2], early_stop
        assert ad.allclose(a.grad, inner + a.sin().cos().cos() * inner)


def test_what_is_no_operator_is_refused_in_torchs_words():
    with pytest.raises(ValueError, match=r"Expected op in `op_list` to be an OpOverload but got: 2"):
        create_selective_checkpoint_contexts([2])
    with pytest.raises(TypeError, match=r"either a function or a list of ops."):
        create_selective_checkpoint_contexts(2)


def test_operators_by_torchs_names():
    done = run_python(
        "-m",
        "adjoint.as_torch",
        "-c",
        """
import functools, torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
assert torch.ops.aten.sin(torch.zeros(1)).item() == 0
asked = []
def policy(ctx, op, *args, **kwargs):
    asked.append(op)
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE
x = torch.eye(2).requires_grad_()
for keep in (policy, [torch.ops.aten.mm.default]):
    contexts = functools.partial(create_selective_checkpoint_contexts, keep)
    checkpoint(lambda t: torch.mm(t, t).sin().sum(), x, use_reentrant=False, context_fn=contexts).backward()
assert asked[:2] == [torch.ops.aten.mm.default, torch.ops.aten.sin.default]
try:
    create_selective_checkpoint_contexts([torch.ops.aten.sin])
except ValueError as error:
    print("update the OpOverloadPacket to a specific OpOverload" in str(error))
for missing in ("torch.ops.aten.no_such_thing", "torch.ops.mylib.f"):
    try:
        eval(missing)
    except AttributeError as error:
        print(error)
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True"
    assert "torch.ops.aten.no_such_thing" in done.stdout
    assert "'_OpNamespace' 'mylib' object has no attribute 'f'" in done.stdout


# --- copies on write ------------------------------------------------------------------------------------------------------


def test_one_copy_for_all_that_saved_the_same():
    with graph.allow_mutation_on_saved_tensors() as originals:
        x = leaf(0.1, 0.2, 0.3)
        a = x.clone()
        b, c = a.sin(), a.sin()
        assert len(originals.cloned) == 0
        a.mul_(2)
        assert len(originals.cloned) == 1
        d = a.sin()
        a.mul_(2)
        assert len(originals.cloned) == 2
        (b + c).sum().backward()
        assert ad.allclose(x.grad, 2 * x.cos())
        del b, c
        assert len(originals.cloned) == 1
        x.grad = None
        d.sum().backward()
        assert ad.allclose(x.grad, 2 * (2 * x).cos())
        del d
        assert len(originals.cloned) == 0


def test_a_part_and_the_whole_are_copied_each():
    with graph.allow_mutation_on_saved_tensors() as originals:
        x = leaf(0.1, 0.2, 0.3)
        a = x.clone()
        whole, half = a.sin(), a[1:].sin()
        a.zero_()
        assert len(originals.cloned) == 2
        (whole.sum() + half.sum()).backward()
        assert ad.allclose(x.grad, x.cos() * ad.tensor([1.0, 2.0, 2.0]))


def test_nothing_is_copied_once_it_is_not_needed():
    with graph.allow_mutation_on_saved_tensors() as originals:
        a = leaf(0.1, 0.2).clone()
        a.sin().sum().backward()
        a.mul_(2)
        assert len(originals.cloned) == 0
        # What is known of memory goes with what was saved of it.
        for _ in range(100):
            a.clone().sin()
        gc.collect()
        assert len(originals._by_memory) <= 2


# --- small questions ------------------------------------------------------------------------------------------------------


def test_a_second_derivative_past_the_outputs_runs_no_module_hook():
    x, y = leaf(1.0, 2.0), ad.tensor([0.5, 0.5], dtype=ad.float64)
    loss, calls = ad.nn.MSELoss(), []
    loss.register_full_backward_hook(lambda module, given, got: calls.append(got[0]))
    (first,) = ad.autograd.grad(loss(x, y), x, create_graph=True)
    assert len(calls) == 1
    (second,) = ad.autograd.grad(first.sum(), x)
    assert len(calls) == 1
    assert second.tolist() == [1.0, 1.0]
    # A graph that runs twice asks twice.
    out = loss(x, y)
    out.backward(retain_graph=True)
    out.backward()
    assert len(calls) == 3


def test_whether_several_threads_are_allowed():
    allowed, switch = ad.autograd.is_multithreading_enabled, ad.autograd.set_multithreading_enabled
    assert allowed()
    with switch(False):
        assert not allowed()
        with switch(True):
            assert allowed()
        assert not allowed()
    assert allowed()
    switch(False)
    assert not allowed()
    switch(True)
    assert allowed()


def test_is_inference_is_a_function_too():
    with ad.inference_mode():
        made = ad.ones(2)
    assert ad.is_inference(made)
    assert not ad.is_inference(ad.ones(2))


def test_a_leaf_of_inference_mode_can_be_resized_there():
    with ad.inference_mode():
        made = ad.ones(1, 2, 3, requires_grad=True)
        assert made.resize_(1, 2) is made
        assert (made.shape, made.requires_grad, made.is_inference()) == ((1, 2), True, True)
    with pytest.raises(RuntimeError):
        made.resize_(2)
    usual = leaf(1.0)
    with ad.inference_mode(), pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        usual.resize_(2)


def test_the_type_of_what_nodes_keep():
    node = (leaf(1.0) * leaf(2.0)).grad_fn
    assert isinstance(node._raw_saved_self, ad.autograd.SavedTensor)
    assert not isinstance(node._saved_self, ad.autograd.SavedTensor)


@pytest.mark.parametrize("mode", [ad.no_grad, ad.inference_mode])
def test_a_view_without_a_valid_history_can_be_looked_at(mode):
    base = leaf(1.0, 2.0).clone()
    with mode():
        view = base.view(2, 1)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        _ = view.grad_fn
    text = "tensor([[2.],\n        [4.]], dtype=adjoint.float64, grad_fn=<Invalid>)"
    assert (repr(view), str(view)) == (text, text)


def test_a_number_on_the_left_comes_second_where_the_order_is_free():
    """As in torch, programs walk to the tensor by ``next_functions[0]``."""
    inner = ad.ones(2, requires_grad=True).sin()
    for y in (2 * inner, inner * 2, 1 + inner, inner + 1):
        (first, _), (second, _) = y.grad_fn.next_functions
        assert first is inner.grad_fn and second is None
    assert (2 * ad.tensor([True, False])).tolist() == [2, 0] and (1.5 + ad.tensor([1])).dtype is ad.float32
    assert (3 & ad.tensor([5])).tolist() == [1]
