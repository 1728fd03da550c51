"""Leaves and their flags: who may require a gradient, what `.grad` accepts, `detach`, `.data` and `detach_`, `volatile`.

Modes are in test_modes.py, versions and writes in test_writes.py.
"""

import warnings

import pytest
from helpers import ALL_DTYPES, allocated, dtype_of, leaf, shares_memory

import adjoint as ad

grad = ad.autograd.grad
FLAGS = "you can only change requires_grad flags of leaf variables"
NOT_A_LEAF = "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
BY_KIND = {True: [], False: []}
for _name in ALL_DTYPES:
    BY_KIND[_name.startswith(("float", "bfloat", "complex"))].append(_name)


# --- requires_grad ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_KIND[True])
def test_floating_and_complex_tensors_may_require_gradients(name):
    dtype = dtype_of(name)
    made = [
        ad.tensor([1.0], dtype=dtype, requires_grad=True),
        ad.ones(1, dtype=dtype, requires_grad=True),
        ad.ones(1, dtype=dtype).requires_grad_(),
    ]
    for x in made:
        assert x.requires_grad and x.is_leaf
        (x * 2).sum().backward(ad.ones((), dtype=dtype))
        assert x.grad.dtype == dtype and x.grad.tolist() == [2]


@pytest.mark.parametrize("name", BY_KIND[False])
def test_other_tensors_may_not(name):
    dtype = dtype_of(name)
    x = ad.ones(2, dtype=dtype)
    for ask in (
        x.requires_grad_,
        lambda: setattr(x, "requires_grad", True),
        lambda: ad.tensor([1], dtype=dtype, requires_grad=True),
        lambda: ad.zeros(1, dtype=dtype, requires_grad=True),
        lambda: ad.full((1,), 1, dtype=dtype, requires_grad=True),
        lambda: ad.empty(1, dtype=dtype, requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match="can require gradients, but this one is " + name):
            ask()
    assert not x.requires_grad
    # What is so already may be asked for.
    assert x.requires_grad_(False) is x
    x.requires_grad = False


def test_flags_change_only_on_leaves():
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match=FLAGS):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match=FLAGS):
        y.requires_grad_(False)
    with ad.no_grad(), pytest.raises(RuntimeError, match=FLAGS):
        y.requires_grad_(False)
    assert y.requires_grad and y.requires_grad_() is y
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad
    x.requires_grad = True
    assert (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1


def test_the_flag_can_go_and_come_between_forward_and_backward():
    x = leaf(1.0, 2.0)
    y = (x * 2).sum()
    x.requires_grad = False
    x.requires_grad = True
    y.backward()
    assert x.grad.tolist() == [2, 2]


WITHOUT_GRADIENT = [
    lambda x: x > 0,
    lambda x: x == x,
    lambda x: x.argmax(),
    lambda x: x.argsort(),
    lambda x: x.isnan(),
    lambda x: x.long(),
    lambda x: x.bool(),
    lambda x: x.max(0)[1],
    lambda x: x.sort()[1],
    lambda x: x.topk(1)[1],
    lambda x: x.count_nonzero(),
    lambda x: x.logical_not(),
]


@pytest.mark.parametrize("f", WITHOUT_GRADIENT, ids=range(len(WITHOUT_GRADIENT)))
def test_what_cannot_be_differentiated_never_carries_the_flag(f):
    y = f(leaf(3.0, 1.0, 2.0))
    assert not y.requires_grad and y.grad_fn is None and y.is_leaf
    if not y.is_floating_point():
        with pytest.raises(RuntimeError, match="can require gradients"):
            y.requires_grad_()


def test_values_beside_indices_carry_it():
    values, indices = leaf(3.0, 1.0, 2.0).sort()
    assert values.requires_grad and values.grad_fn is not None and not indices.requires_grad


def test_nothing_is_recorded_or_saved_where_no_input_needs_it():
    x = ad.rand(1000)
    x.exp()
    before = allocated()
    y = x.exp().sin() * x
    assert y.grad_fn is None and y.is_leaf
    del y
    y = x.detach()
    for _ in range(10):
        y = (y * x).tanh()
    # One result lives; none of those before it was kept.
    assert allocated() - before < 2 * (x.nbytes + 1000)
    packed = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        x.exp() * x
    assert packed == []


def test_leaf_output_number_and_retaining():
    x = leaf(3.0, 1.0)
    a, b = x.unbind()
    assert (x.output_nr, a.output_nr, b.output_nr, x.max(0)[0].output_nr, ad.ones(1).output_nr) == (
        0,
        0,
        1,
        0,
        0,
    )
    assert x.is_leaf and not a.is_leaf and ad.ones(1).is_leaf and a.detach().is_leaf
    assert not x.retains_grad and not a.retains_grad
    x.retain_grad()
    assert not x.retains_grad  # a leaf has its gradient anyway
    a.retain_grad()
    assert a.retains_grad and not b.retains_grad


# --- grad ---------------------------------------------------------------------------------------------------------------


def test_assigning_a_gradient():
    x = leaf(1.0, 2.0)
    g = ad.tensor([3.0, 4.0], dtype=ad.float64)
    x.grad = g
    assert x.grad is g
    (x * 1).sum().backward()
    assert x.grad.tolist() == [4, 5]
    x.grad = None
    assert x.grad is None
    x.grad = g
    del x.grad
    assert x.grad is None
    # A tensor that needs none may carry one.
    y = ad.ones(2)
    y.grad = ad.zeros(2)
    assert y.grad.tolist() == [0, 0]


@pytest.mark.parametrize(
    "value, error, phrase",
    [
        (ad.ones(3, dtype=ad.float64), RuntimeError, r"\[3\].*\[2\]"),
        (ad.ones(1, 2, dtype=ad.float64), RuntimeError, r"\[1, 2\].*\[2\]"),
        (ad.ones((), dtype=ad.float64), RuntimeError, r"\[\].*\[2\]"),
        (ad.ones(2), (RuntimeError, TypeError), "float32.*float64"),
        (ad.ones(2, dtype=ad.complex128), (RuntimeError, TypeError), "complex128.*float64"),
        (ad.ones(2, dtype=ad.int64), (RuntimeError, TypeError), "int64.*float64"),
        (3, TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"),
        ([1.0, 2.0], TypeError, "got grad of type list"),
    ],
)
def test_what_grad_refuses(value, error, phrase):
    x = leaf(1.0, 2.0)
    kept = x.grad = ad.zeros(2, dtype=ad.float64)
    with pytest.raises(error, match=phrase):
        x.grad = value
    assert x.grad is kept


def test_a_tensor_is_not_its_own_gradient():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_reading_the_gradient_of_a_result_warns():
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.warns(UserWarning, match=NOT_A_LEAF):
        assert y.grad is None
    y.sum().backward(retain_graph=True)
    with pytest.warns(UserWarning, match="retain_grad"):
        assert y.grad is None


def test_reading_other_gradients_does_not_warn():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    with ad.no_grad():
        quiet = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None and y.grad is None and quiet.grad is None and y.detach().grad is None
        y.sum().backward()
        assert x.grad.tolist() == [2, 2] and y.grad.tolist() == [1, 1]


# --- detach, data, detach_ ----------------------------------------------------------------------------------------------


def test_detach_shares_storage_and_version():
    x = leaf(1.0, 2.0)
    y = x * 1
    d = y.detach()
    assert shares_memory(d, y) and d is not y and d.is_leaf and not d.requires_grad
    d.add_(1)
    assert y.tolist() == [2, 3] and y._version == d._version == 1
    y.add_(1)
    assert y._version == d._version == 2
    z = (x * x).sum()
    x.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_data_shares_storage_and_not_the_version():
    x = leaf(1.0, 2.0)
    x.detach().add_(0)
    d = x.data
    assert shares_memory(d, x) and d.is_leaf and not d.requires_grad and d._version == 0
    d.add_(1)
    assert x.tolist() == [2, 3] and (x._version, d._version) == (1, 1)
    d.add_(1)
    assert (x._version, d._version) == (1, 2)
    x.detach().add_(1)
    assert (x._version, d._version) == (2, 2) and x.data._version == 0
    # Writes through it are the writer's own affair, as the name has always meant.
    z = (x * x).sum()
    x.data.zero_()
    z.backward()
    assert x.grad.tolist() == [0, 0]


def test_setting_data():
    x = leaf(1.0, 2.0)
    x.data = ad.zeros(3, dtype=ad.float64)
    assert x.shape == (3,) and x.requires_grad and x.is_leaf
    x.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        x.data = ad.ones(3, dtype=ad.int64)
    with pytest.raises(TypeError, match="data"):
        x.data = 3


def test_detach_in_place():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * 3
    assert y.detach_() is y
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None and y.output_nr == 0 and y._version == 0
    # What was computed from it before keeps its history.
    y.requires_grad_()
    (z + y).sum().backward()
    assert x.grad.tolist() == [6, 6] and y.grad.tolist() == [1, 1]


def test_detach_in_place_of_leaves():
    x = leaf(1.0)
    assert x.detach_() is x and not x.requires_grad and x.is_leaf
    c = ad.ones(2)
    assert c.detach_() is c
    d = leaf(1.0).detach()
    assert d.detach_() is d


@pytest.mark.parametrize(
    "make",
    [
        lambda: ad.ones(2)[0],
        lambda: (leaf(1.0, 2.0) * 1)[0],
        lambda: (leaf(1.0, 2.0) * 1).unbind()[1],
        lambda: (leaf(1.0, 2.0) * 1).expand(3, 2),
        lambda: leaf(1.0, 2.0).detach().view(2, 1),
    ],
    ids=range(5),
)
def test_views_do_not_detach_in_place(make):
    v = make()
    for mode in (ad.enable_grad, ad.no_grad):
        with (
            mode(),
            pytest.raises(RuntimeError, match=r"Can't detach views in-place.*Use detach\(\) instead"),
        ):
            v.detach_()


def test_a_view_keeps_its_history_when_its_base_forgets():
    x = leaf(1.0, 2.0)
    y = x * 3
    v = y[0]
    y.detach_()
    assert v.requires_grad and not y.requires_grad
    v.backward()
    assert x.grad.tolist() == [3, 0]


# --- volatile -----------------------------------------------------------------------------------------------------------


def volatile_attribute():
    ad.ones(1).volatile = True


def volatile_of_the_type_of_old():
    from adjoint.as_torch._legacy import TYPES

    TYPES["FloatTensor"]([1.0], volatile=True)


@pytest.mark.parametrize(
    "program",
    [
        lambda: ad.tensor([1.0], volatile=True),
        lambda: ad.autograd.Variable(ad.ones(1), volatile=True),
        lambda: ad.autograd.Variable(ad.ones(1), False, True),
        lambda: ad.ones(1).new([1.0], volatile=True),
        volatile_attribute,
        volatile_of_the_type_of_old,
    ],
    ids=["tensor", "Variable", "Variable by position", "new", "attribute", "FloatTensor"],
)
def test_volatile_names_its_successors(program):
    with pytest.raises(TypeError, match=r"no_grad\(\).*inference_mode\(\)"):
        program()


def test_volatile_that_is_false_is_harmless():
    x = ad.autograd.Variable(ad.ones(1), volatile=False)
    with pytest.warns(
        UserWarning, match=r"volatile was removed \(Variable.volatile is always False\).*no_grad"
    ):
        assert x.volatile is False
    x.volatile = False
    assert "volatile" not in dir(x)
