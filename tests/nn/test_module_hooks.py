"""Hooks on modules: before and after forward, around backward, in order, removable, copied."""

import copy
import pickle
import warnings

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.utils.hooks import HookTable, RemovableHandle


class Add(nn.Module):
    def forward(self, a, b=0.0):
        return a + b


class Scale(nn.Module):
    """Several inputs and outputs."""

    def forward(self, a, factor):
        return a * factor, a + factor


def test_pre_hook_replaces_arguments():
    m = Add()
    m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    assert m(3.0) == 6.0
    m.register_forward_pre_hook(lambda module, args: args[0] + 1)
    assert m(3.0) == 7.0


def test_pre_hook_with_kwargs():
    m = Add()
    m.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"b": kwargs["b"] * 10}), with_kwargs=True
    )
    assert m(1.0, b=2.0) == 21.0
    m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        m(1.0, b=2.0)


def test_forward_hook_replaces_the_output():
    m, seen = Add(), []
    m.register_forward_hook(lambda module, args, output: seen.append((module, args, output)))
    m.register_forward_hook(lambda module, args, kwargs, output: output + kwargs["b"], with_kwargs=True)
    assert m(1.0, b=2.0) == 5.0
    assert seen == [(m, (1.0,), 3.0)]


def test_order_prepend_and_removal():
    m, order = Add(), []
    a = m.register_forward_hook(lambda *x: order.append("a"))
    m.register_forward_hook(lambda *x: order.append("b"))
    m.register_forward_hook(lambda *x: order.append("c"), prepend=True)
    m(1.0)
    assert order == ["c", "a", "b"]
    a.remove()
    a.remove()
    m(1.0)
    assert order[3:] == ["c", "b"]
    with m.register_forward_pre_hook(lambda *x: order.append("pre")):
        m(1.0)
    m(1.0)
    assert order.count("pre") == 1
    assert len(m._forward_hooks) == 2 and len(m._forward_pre_hooks) == 0


def test_always_call():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    m, seen = Broken(), []
    m.register_forward_hook(lambda *x: seen.append("plain"))
    m.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        m(1)
    assert seen == [None]

    def failing(*x):
        raise KeyError("hook")

    m.register_forward_hook(failing, always_call=True)
    with pytest.warns(UserWarning, match="always_call"), pytest.raises(ValueError, match="broken"):
        m(1)


def test_hooks_travel_with_copies():
    m = Add()
    m.register_forward_hook(double)
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert twin(1.0) == 2.0
        twin.register_forward_hook(double)
        assert twin(1.0) == 4.0
    assert m(1.0) == 2.0


def double(module, args, output):
    return output * 2


def test_handle_does_not_keep_its_table():
    table = HookTable()
    handle = table.add("x")
    copied = pickle.loads(pickle.dumps(handle))
    assert copied.id == handle.id
    copied.remove()
    assert len(table) == 1
    del table
    handle.remove()
    other = {}
    assert isinstance(handle, RemovableHandle) and other == {}


# ---- backward -------------------------------------------------------------------------------------------


def test_full_backward_hook_sees_only_this_call():
    m, seen = nn.Tanh(), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append((gi[0].item(), go[0].item())))
    x = ad.tensor(0.0, requires_grad=True)
    (m(x) * 3 + x * 10).backward()
    assert seen == [(3.0, 3.0)] and x.grad.item() == 13.0


def test_full_backward_hook_replaces_the_gradient():
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    x = ad.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    expected = 2 * m.weight.detach()
    assert x.grad.tolist() == expected.tolist()
    assert m.weight.grad.tolist() == [[1.0, 1.0]]


def test_full_backward_pre_hook():
    m = nn.Linear(2, 1)
    m.register_full_backward_pre_hook(lambda module, go: (go[0] * 5,))
    seen = []
    m.register_full_backward_hook(lambda module, gi, go: seen.append(go[0].tolist()))
    x = ad.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    assert m.bias.grad.tolist() == [5.0] and seen == [[[5.0]]]


def test_inputs_without_gradient():
    m, seen = nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go[0].tolist())))
    m(ad.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]
    with ad.no_grad():
        m(ad.ones(1, 2))
    m.register_full_backward_hook(lambda module, gi, go: gi)
    with pytest.raises(RuntimeError, match="where no input requires gradient should always return None"):
        m(ad.ones(1, 2)).sum().backward()


def test_several_outputs():
    m, seen = Scale(), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    a = ad.tensor(2.0, requires_grad=True)
    first, second = m(a, 3.0)
    (first + second * 10).backward()
    ((gi, go),) = seen
    assert gi[0].item() == 13.0 and gi[1] is None
    assert [g.item() for g in go] == [1.0, 10.0]
    first, second = m(a, 3.0)
    first.backward()
    assert seen[1][1][1] is None and seen[1][0][0].item() == 3.0


def test_a_graph_run_twice():
    m, seen = nn.Tanh(), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append(go[0].item()))
    x = ad.tensor(0.0, requires_grad=True)
    y = m(x)
    y.backward(retain_graph=True)
    (y * 2).backward()
    assert seen == [1.0, 2.0]


def test_what_is_not_provided_says_so():
    m = Scale()
    handle = m.register_full_backward_hook(lambda *x: None)
    a, b = ad.tensor(1.0, requires_grad=True), ad.tensor(1.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match="Scale was called with 2 tensors that require gradients"):
        m(a, b)
    handle.remove()
    m.register_full_backward_pre_hook(lambda *x: None)
    with pytest.raises(NotImplementedError, match="Scale returned 2 differentiable tensors"):
        m(a, 2.0)
    with pytest.raises(NotImplementedError, match="register_full_backward_hook"):
        m.register_backward_hook(lambda *x: None)


def test_wrong_number_of_gradients():
    m = nn.Tanh()
    m.register_full_backward_hook(lambda module, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(ad.tensor(0.0, requires_grad=True)).backward()


def test_no_hooks_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.Identity()(1) == 1
