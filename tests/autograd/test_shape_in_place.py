"""Changes of shape in place: `unsqueeze_`, `squeeze_`, `t_`, `transpose_`, `swapaxes_`, `swapdims_`, `as_strided_`.

They change no element, and yet count as writes: they bump the version, replace the history, and are refused where writes are.
Start reading at `CHANGES`.
"""

import pytest
from helpers import leaf

import adjoint as ad

#: Name, change in place, and the same out of place.
CHANGES = {
    "unsqueeze_": (lambda t: t.unsqueeze_(0), lambda t: t.unsqueeze(0)),
    "unsqueeze_ last": (lambda t: t.unsqueeze_(-1), lambda t: t.unsqueeze(-1)),
    "squeeze_": (lambda t: t.squeeze_(), lambda t: t.squeeze()),
    "squeeze_ of one": (lambda t: t.squeeze_(0), lambda t: t.squeeze(0)),
    "squeeze_ of several": (lambda t: t.squeeze_((0, 1)), lambda t: t.squeeze((0, 1))),
    "t_": (lambda t: t.t_(), lambda t: t.t()),
    "transpose_": (lambda t: t.transpose_(0, 1), lambda t: t.transpose(0, 1)),
    "swapaxes_": (lambda t: t.swapaxes_(0, 1), lambda t: t.transpose(0, 1)),
    "swapdims_": (lambda t: t.swapdims_(-1, 0), lambda t: t.transpose(-1, 0)),
    "as_strided_": (lambda t: t.as_strided_((2,), (1,)), lambda t: t.as_strided((2,), (1,))),
}
each_change = pytest.mark.parametrize("change, out_of_place", CHANGES.values(), ids=CHANGES)
SHAPES = [(2, 3), (1, 3)]


def computed(shape=(2, 3)):
    """A leaf and a tensor computed from it."""
    n = shape[0] * shape[1]
    x = leaf(*[k + 1.0 for k in range(n)]).detach().reshape(shape).clone().requires_grad_()
    return x, x * 1


def geometry(t):
    return tuple(t.shape), tuple(t.stride()), t.tolist()


@each_change
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_tensor_itself_changes_and_its_memory_stays(change, out_of_place, shape):
    for y in (ad.arange(6.0)[: shape[0] * shape[1]].reshape(shape).clone(), computed(shape)[1]):
        expected, number, address = geometry(out_of_place(y.detach())), id(y), y.data_ptr()
        assert change(y) is y and id(y) == number
        assert geometry(y) == expected and y.data_ptr() == address and y._version == 1
        assert y._base is None and not y._is_view()


@each_change
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_history_and_gradient(change, out_of_place, shape):
    x, y = computed(shape)
    node = y.grad_fn
    change(y)
    assert y.grad_fn is not node and y.grad_fn.next_functions[0][0] is node and not y.is_leaf
    weights = ad.arange(1.0, 7.0, dtype=ad.float64)[: y.numel()].reshape(y.shape)
    (found,) = ad.autograd.grad((y * y * weights).sum(), x)
    z = out_of_place(x * 1)
    (expected,) = ad.autograd.grad((z * z * weights).sum(), x)
    assert found.tolist() == expected.tolist() and found.shape == x.shape


@each_change
def test_later_writes_go_on_from_the_new_shape(change, out_of_place):
    x, y = computed()
    change(y)
    y.mul_(3)
    change_again = y * y
    z = out_of_place(x * 1) * 3
    (found,) = ad.autograd.grad(change_again.sum(), x)
    (expected,) = ad.autograd.grad((z * z).sum(), x)
    assert found.tolist() == expected.tolist()


@each_change
def test_what_was_saved_is_out_of_date(change, out_of_place):
    x, y = computed()
    z = (y * y).sum()
    change(y)
    with pytest.raises(
        RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"
    ):
        z.backward()
    # Aliases and views share the version.
    x, y = computed()
    d, v = y.detach(), y[0]
    change(d)
    assert y.shape == (2, 3) and y._version == v._version == 1


@each_change
def test_leaves(change, out_of_place):
    x, _ = computed()
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        change(x)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        change(x[:])
    assert x.shape == (2, 3) and x._version == 0
    with ad.no_grad():
        change(x)
    assert x.is_leaf and x.requires_grad and x.shape == out_of_place(ad.ones(2, 3)).shape and x._version == 1


@each_change
def test_views(change, out_of_place):
    """A view changes its own shape alone, and stays a view: later writes reach the base."""
    x, y = computed()
    v = y[:]
    change(v)
    assert v._is_view() and v._base is y and y.shape == (2, 3) and y.grad_fn.name() == "MulBackward0"
    assert v.shape == out_of_place(y.detach()).shape and y._version == 1
    (g,) = ad.autograd.grad(v.sum(), x, retain_graph=True)
    z = out_of_place(x * 1)
    assert g.tolist() == ad.autograd.grad(z.sum(), x)[0].tolist()
    v.mul_(3)
    assert y.grad_fn.name() == "CopySlices"
    (g,) = ad.autograd.grad(y.sum(), x)
    touched = 1 + 2 * ad.autograd.grad(out_of_place(x * 1).sum(), x)[0]
    assert g.tolist() == touched.tolist()


@each_change
def test_siblings_keep_their_place_when_the_base_changes(change, out_of_place):
    x, y = computed()
    v = y[0:1]
    change(y)
    assert v.shape == (1, 3) and v._base is y
    (g,) = ad.autograd.grad(v.sum(), x, retain_graph=True)
    assert g.tolist()[0][:2] == [1, 1]
    y.mul_(5)
    assert v.tolist()[0][:2] == [5, 10]


@each_change
def test_refused_as_writes_are(change, out_of_place):
    _, y = computed()
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        change(y.split(1)[0])
    with ad.no_grad():
        v = y[:]
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace"
    ):
        change(v)
    with ad.inference_mode():
        z = ad.ones(2, 3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        change(z)
    with ad.inference_mode():
        change(z)
    assert z.shape == out_of_place(ad.ones(2, 3)).shape


def test_expanded_tensors_may_change_shape():
    """No element is written, so it is no matter that several share an address."""
    y = ad.ones(1, 3).expand(2, 3)
    assert y.t_().shape == (3, 2) and y.unsqueeze_(0).shape == (1, 3, 2)


@each_change
def test_hooks_stay_and_retained_gradients_move(change, out_of_place):
    x, y = computed()
    seen = []
    y.register_hook(lambda g: seen.append(tuple(g.shape)))
    change(y)
    y.sum().backward()
    assert seen == [(2, 3)]


def test_bad_arguments_leave_the_tensor_as_it_was():
    y = ad.ones(2, 3, 4)
    for program in (
        lambda: y.t_(),
        lambda: y.transpose_(0, 5),
        lambda: y.unsqueeze_(7),
        lambda: y.squeeze_(9),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            program()
    assert y.shape == (2, 3, 4) and y._version == 0
