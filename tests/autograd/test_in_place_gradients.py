"""An operator in place has the gradient of the operator itself, its result copied over what was there.

Over every in-place name of Tensor: ``y.op_(…)`` and ``y.copy_(y.op(…))`` give the same gradients, for tensors and for
views of them. What has no derivative (comparisons, argmax, any …) leaves none: the gradient of what was overwritten is
zero.
"""

import warnings

import numpy as np
import pytest
from helpers import array
from structured_reference import MISSING

import adjoint as ad

NAMES = sorted(
    n for n in dir(ad.Tensor) if n.endswith("_") and not n.startswith("_") and hasattr(ad.Tensor, n[:-1])
)
COMPARISONS = [
    "eq_",
    "ne_",
    "lt_",
    "le_",
    "gt_",
    "ge_",
    "less_",
    "less_equal_",
    "greater_",
    "greater_equal_",
    "not_equal_",
]
#: They give the object another shape or history and write nothing, so that their base does not change.
RELABEL = {"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "detach_"}
RANDOM = {"bernoulli_", "dropout_", "alpha_dropout_", "feature_dropout_", "rrelu_"}

#: Arguments to try: the first with which both forms can be called.
OTHER = ad.tensor([[0.4, 1.3, 0.7], [0.2, 0.9, 1.6], [1.1, 0.3, 0.6]], dtype=ad.float64)
INDEX = ad.tensor([[0, 1, 2], [2, 1, 0], [1, 1, 0]])
ARGUMENTS = [
    (),
    (OTHER,),
    (0,),
    (0.5, 1.5),
    (OTHER, OTHER),
    (OTHER[0],),
    (OTHER[0], OTHER[0]),
    (OTHER, 0.3),
    (OTHER > 0.5, 0.3),
    (OTHER > 0.5, OTHER),
    (0, INDEX, OTHER),
    (0, INDEX[0], OTHER),
    (0, INDEX[0], 0.5),
    (0, INDEX, OTHER, "sum"),
    (0, 1),
    ((INDEX[0],), OTHER),
    (1, 0, 1),
]


MATRIX = [[0.3, 0.8, 0.5], [0.6, 0.35, 0.45], [0.55, 0.7, 0.15]]


def start(values=MATRIX):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def gradient(write, view, values):
    x = start(values)
    y = x * 1
    write(y if view is None else y[view])
    weights = ad.tensor(np.arange(1.0, y.numel() + 1).reshape(y.shape))
    if not y.requires_grad:
        return array(y), np.zeros(x.shape)
    return array(y), array(ad.autograd.grad((y * weights).sum(), x)[0])


def forms(name, arguments):
    def in_place(y):
        getattr(y, name)(*arguments)

    def copied(y):
        y.copy_(getattr(y.clone(), name[:-1])(*arguments))

    return in_place, copied


def callable_with(name):
    """Values and arguments with which both forms can be called: a matrix, or what keeps its shape under a reduction."""
    for values in (MATRIX, 0.3, [0.3]):
        for arguments in ARGUMENTS:
            y = start(values).detach()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(y.clone(), name)(*arguments)
                    if getattr(y, name[:-1])(*arguments).shape == y.shape:
                        return values, arguments
            except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
                continue
    return None


FOUND = {
    name: found
    for name in NAMES
    if name not in RANDOM | RELABEL
    and (name[:-1], "self") not in MISSING
    and (found := callable_with(name)) is not None
}


@pytest.mark.parametrize(
    "view", [None, slice(None), (slice(None), slice(None))], ids=["itself", "view", "another view"]
)
@pytest.mark.parametrize("name", FOUND)
def test_in_place_is_the_result_copied(name, view):
    values, arguments = FOUND[name]
    if values is not MATRIX and view is not None:
        view = ... if values == 0.3 else slice(None)
    in_place, copied = forms(name, arguments)
    value, g = gradient(in_place, view, values)
    wanted_value, wanted = gradient(copied, view, values)
    np.testing.assert_allclose(value, wanted_value, 1e-12)
    np.testing.assert_allclose(g, wanted, 1e-12)


def test_enough_forms_were_found():
    assert len(FOUND) > 120, sorted(set(NAMES) - set(FOUND))
    assert set(COMPARISONS) <= set(FOUND)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_takes_the_history_away(name):
    x = ad.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1
    getattr(y, name)(100.0)
    assert ad.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 0, 0]
    y = x * 1
    getattr(y[1:3], name)(9.0)
    assert ad.autograd.grad(y.sum(), x)[0].tolist() == [1, 0, 0, 1]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(x, name)(1.0)
