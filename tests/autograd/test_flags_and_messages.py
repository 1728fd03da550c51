"""Corners of leaves, detaching and refusals: switched-off leaves, saved tensors that were detached, phrases of rarer errors.

The common cases are in test_leaves.py, test_view_relations.py and test_phrases.py.
"""

import warnings

import numpy as np
import pytest
from helpers import leaf

import adjoint as ad
from adjoint.autograd import Function, grad


def matrix():
    return ad.ones(2, 3, requires_grad=True)


# --- flags --------------------------------------------------------------------------------------------------------------


def test_a_leaf_that_was_switched_off_gets_no_gradient():
    x, w = leaf(1.0, 2.0), leaf(3.0)
    y = (x * w).sum()
    x.requires_grad = False
    y.backward()
    assert x.grad is None and w.grad.tolist() == [3]


def test_the_flag_of_a_result_cannot_be_assigned_at_all():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y


def test_reading_a_gradient_that_is_there_does_not_warn():
    x = leaf(1.0, 2.0)
    assigned, asked_for = x * 1, x * 2
    assigned.grad = ad.ones(2, dtype=ad.float64)
    asked_for.sum().backward(inputs=[asked_for])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assigned.grad.tolist() == [1, 1] and asked_for.grad.tolist() == [1, 1]
    assigned.grad = None
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert assigned.grad is None


def test_enable_grad_inside_inference_mode_is_what_it_says():
    x = leaf(1.0)
    with ad.inference_mode(), ad.enable_grad():
        assert ad.is_grad_enabled() and ad.is_inference_mode_enabled()
        assert not (x * 2).requires_grad and (x * 2).is_inference()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: ad.from_numpy(a),
        lambda a: ad.as_tensor(a),
        lambda a: ad.from_dlpack(a),
        lambda a: ad.frombuffer(bytearray(8), dtype=ad.float32),
        lambda a: ad.empty_strided((2, 2), (2, 1)),
        lambda a: ad.fft.fft(ad.ones(2)),
    ],
    ids="from_numpy as_tensor from_dlpack frombuffer empty_strided fft".split(),
)
def test_memory_of_others_makes_inference_tensors_too(make):
    with ad.inference_mode():
        assert make(np.ones(2)).is_inference()
    assert not make(np.ones(2)).is_inference()


# --- detach_ ------------------------------------------------------------------------------------------------------------


def test_saved_tensors_that_were_detached_in_place():
    """Refused as torch does, by those that saved it as an input; the node whose result it is goes on."""
    for create_graph in (False, True):
        x = leaf(3.0)
        y = x * 1
        z = y * y + x * x * 3
        assert y.detach_() is y and y.is_leaf and not y.requires_grad
        with pytest.raises(RuntimeError, match=r"detached in-place, i\.e\. with \.detach_\(\).*MulBackward0"):
            grad(z, x, create_graph=create_graph)
    result = leaf(0.0).exp()
    other = result * 1
    result.detach_()
    other.backward()
    # It can be used again, and what is saved from now on is no matter.
    y.requires_grad_()
    (y * y).backward()
    assert y.grad.item() == 6


def test_hooks_survive_detach_in_place():
    y = leaf(1.0) * 1
    calls = []
    y.register_hook(lambda g: calls.append(g.item()))
    y.detach_().requires_grad_()
    (y * 2).sum().backward()
    assert calls == [2]


# --- writes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.zero_(),
        lambda t: t.fill_(3),
        lambda t: t.copy_(ad.ones(2)),
        lambda t: t.uniform_(),
        lambda t: t.normal_(),
        lambda t: t.exponential_(),
        lambda t: t.bernoulli_(),
        lambda t: t.__setitem__(slice(None), 1.0),
    ],
    ids=range(8),
)
def test_what_was_overwritten_gets_zeros(write):
    """It was used in the graph: `grad` gives zeros, and does not call it unused."""
    x = leaf(1.0, 2.0)
    y = x * 3
    write(y)
    z = y.sum()
    (g,) = grad(z, x, retain_graph=True)
    assert y.requires_grad and g.tolist() == [0, 0]
    z.backward()
    assert x.grad.tolist() == [0, 0]


def test_integers_take_the_values_of_tracked_tensors():
    x = leaf(1.5, 2.5)
    for write in (lambda t: t.copy_(x), lambda t: t.__setitem__(0, x[0]), lambda t: t[0].copy_(x[0])):
        counts = ad.zeros(2, dtype=ad.int64)
        write(counts)
        assert counts[0].item() == 1 and not counts.requires_grad


def test_a_hook_of_a_view_stays_behind_when_the_view_is_written():
    """The view's old history is no part of the new one: what is written goes on from the base's."""
    x = leaf(1.0, 2.0)
    y = x * 1
    v = y[0]
    v.register_hook(lambda g: g * 10)
    v.mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [2, 1]


# --- in-place forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["aminmax_", "cummax_", "cummin_", "kthvalue_", "sort_", "std_mean_", "topk_", "var_mean_"]
)
def test_operators_of_several_results_have_no_form_in_place(name):
    assert not hasattr(ad.Tensor, name)


# --- phrases ------------------------------------------------------------------------------------------------------------


def returned(result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return result

    Wrong.apply(matrix(), 3).sum().backward()


def prehook():
    y = matrix() * 2

    def halve(gradients):
        return (gradients[0][:1],)

    y.grad_fn.register_prehook(halve)
    y.sum().backward()


def no_tensor():
    y = matrix() * 2
    y.register_hook(lambda g: 3.0)
    y.sum().backward()


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def no_grad_multiple():
    y = matrix() * 1
    with ad.no_grad():
        v = y.unbind()[0]
    v.add_(1)


CASES = [
    (
        "unused",
        lambda: grad((matrix() * 2).sum(), matrix()),
        "The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True if this is "
        "the desired behavior.",
        ["[2, 3]"],
    ),
    (
        "gradient of what is no tensor",
        lambda: returned((ad.ones(2, 3), ad.ones(1))),
        "function WrongBackward returned a gradient different than None at position 2, but the corresponding forward input "
        "was not a Variable",
        [],
    ),
    (
        "gradient of another kind",
        lambda: returned((ad.ones(2, 3, dtype=ad.complex64), None)),
        "WrongBackward",
        ["complex64", "float32"],
    ),
    ("prehook", prehook, "hook 'halve' has changed the size of value", ["[2, 3]", "[1, 3]"]),
    ("no tensor", no_tensor, "expected Variable, but hook returned 'float'", []),
    (
        "integers",
        lambda: ad.ones(2, dtype=ad.int64).requires_grad_(),
        "only Tensors of floating point dtype can require gradients",
        ["int64", "[2]"],
    ),
    (
        "split",
        lambda: (matrix() * 1).split(1)[1].add_(1),
        "Output 1 of Split is a view and is being modified inplace.",
        ["[1, 3]"],
    ),
    (
        "chunk",
        lambda: (matrix() * 1).chunk(2)[1].add_(1),
        "Output 1 of Split is a view and is being modified inplace.",
        ["[1, 3]"],
    ),
    (
        "an item of a leaf",
        lambda: matrix().__setitem__(0, 1.0),
        "a view of a leaf Variable that requires grad is being used in an in-place operation",
        ["__setitem__", "[2, 3]"],
    ),
    (
        "one of several, of no_grad",
        no_grad_multiple,
        "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        "both the view and the inplace either both inside the no_grad block",
        ["[3]"],
    ),
    (
        "a leaf in a Function",
        lambda: Doubled.apply(matrix()),
        "a leaf Variable that requires grad has been used in an in-place operation.",
        ["Doubled", "[2, 3]"],
    ),
    (
        "a gradient of another shape",
        lambda: setattr(matrix(), "grad", ad.ones(3)),
        "attempting to assign a gradient of size '[3]' to a tensor of size '[2, 3]'. Please ensure that the gradient and the "
        "tensor are the same size",
        [],
    ),
    (
        "a gradient of another dtype",
        lambda: setattr(matrix(), "grad", ad.ones(2, 3, dtype=ad.float64)),
        "attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'.",
        [],
    ),
    (
        "a flag of a result",
        lambda: setattr(matrix() * 2, "requires_grad", False),
        "you can only change requires_grad flags of leaf variables.",
        ["MulBackward0", "[2, 3]"],
    ),
    ("data", lambda: setattr(matrix(), "data", 3), "Variable data has to be a tensor, but got int", []),
    ("volatile", lambda: ad.Tensor([1.0], volatile=True), "volatile", ["no_grad()", "inference_mode()"]),
]


@pytest.mark.parametrize("program, phrase, rest", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_phrase(program, phrase, rest):
    with pytest.raises((RuntimeError, TypeError)) as caught:
        program()
    before, found, after = str(caught.value).partition(phrase)
    assert found, str(caught.value)
    for part in rest:
        assert part in before + after, str(caught.value)
