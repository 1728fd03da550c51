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
    with pytest.warns(UserWarning, match="firing when gradients are computed with respect to module outputs"):
        m(ad.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]
    with ad.no_grad():
        m(ad.ones(1, 2))
    m.register_full_backward_hook(lambda module, gi, go: (ad.ones(1, 2),))
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="where no input requires gradient should always return None"),
    ):
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


class Pair(nn.Module):
    def forward(self, a, b, c):
        return a * b, b * c


def test_several_inputs_with_gradients():
    m, seen = Pair(), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    a, b = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    x, y = m(a, b, 4.0)
    (x + y).backward(retain_graph=True)
    ((gi, go),) = seen
    assert (gi[0].item(), gi[1].item(), gi[2]) == (3, 6, None) and [g.item() for g in go] == [1, 1]
    seen.clear()
    a.grad = b.grad = None
    y.backward()
    ((gi, go),) = seen
    assert (gi[0].item(), gi[1].item(), gi[2]) == (0, 4, None) and go[0] is None and go[1].item() == 1
    assert a.grad.item() == 0 and b.grad.item() == 4


def test_gradients_of_several_inputs_and_outputs_are_replaced():
    m = Pair()
    m.register_full_backward_pre_hook(lambda module, go: (go[0] * 2, go[1]))
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 10, gi[1] * 100, None))
    a, b = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    x, y = m(a, b, 4.0)
    (x + y).backward()
    assert a.grad.item() == 60 and b.grad.item() == 800


def test_modules_in_modules_in_the_order_of_the_pass():
    log = []
    m = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
    for name, module in m.named_modules():
        module.register_full_backward_hook(lambda mod, gi, go, name=name: log.append(name))
        module.register_full_backward_pre_hook(lambda mod, go, name=name: log.append("pre " + name))
    m(ad.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == ["pre ", "pre 1", "pre 1.1", "1.1", "pre 1.0", "1.0", "1", "pre 0", "0", ""]


def test_writes_to_what_hooks_watch_are_refused():
    m = nn.ReLU(inplace=True)
    m.register_full_backward_hook(lambda *x: None)
    with pytest.raises(
        RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace"
    ):
        m(ad.ones(2, requires_grad=True) * 1)


def test_an_output_that_is_no_tensor_is_warned_of():
    class M(nn.Module):
        def forward(self, x):
            return {"y": x * 2}

    m = M()
    m.register_full_backward_hook(lambda *x: None)
    with pytest.warns(
        UserWarning, match="module output should be a Tensor or a tuple of Tensors but received"
    ):
        m(ad.ones(2, requires_grad=True))["y"].sum().backward()


def test_the_hook_of_old_sees_the_last_operation():
    m, seen = Pair(), []
    handle = m.register_backward_hook(
        lambda module, gi, go: seen.append((module, gi, go)) or (gi[0] * 10, gi[1] * 20)
    )
    a, b = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    with pytest.warns(
        FutureWarning, match="that does not take as input a single Tensor or a tuple of Tensors"
    ):
        m(a, b, 4.0)[0].backward()
    ((module, gi, go),) = seen
    assert module is m and [g.item() for g in gi] == [3, 2] and go[0].item() == 1
    assert a.grad.item() == 30 and b.grad.item() == 40
    for first, second in ((m, m.register_full_backward_hook), (nn.ReLU(), None)):
        if second is None:
            first.register_full_backward_hook(lambda *x: None)
            second = first.register_backward_hook
        with pytest.raises(
            RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"
        ):
            second(lambda *x: None)
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m(a, b, 4.0)[0].backward()


def test_tables_of_hooks_may_be_taken_away():
    m = nn.Linear(2, 2)
    del m._forward_pre_hooks
    with pytest.raises(AttributeError):
        m(ad.ones(1, 2))


def test_wrong_number_of_gradients():
    m = nn.Tanh()
    m.register_full_backward_hook(lambda module, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(ad.tensor(0.0, requires_grad=True)).backward()


def test_no_hooks_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.Identity()(1) == 1


def test_tables_hold_the_hooks_themselves():
    m = Add()

    def hook(*x):
        pass

    before = m.register_forward_pre_hook(hook, with_kwargs=True)
    after = m.register_forward_hook(hook, always_call=True)
    assert list(m._forward_pre_hooks.values()) == [hook] == list(m._forward_hooks.values())
    assert before.id in m._forward_pre_hooks_with_kwargs and after.id in m._forward_hooks_always_called
    assert before.hooks_dict_ref() is m._forward_pre_hooks
    before.remove()
    after.remove()
    assert not m._forward_pre_hooks_with_kwargs and not m._forward_hooks_always_called


class OfOne(nn.Module):
    """What a test says it computes."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize(
    "function, args, what",
    [
        (lambda l: l[0] * l[1], 1, "does not take as input a single Tensor or a tuple of Tensors"),
        (lambda a, b: [a * 2, b * 2], 2, "does not return a single Tensor or a tuple of Tensors"),
        (lambda a, b: (a * 2, b * 2), 2, "outputs are generated by different autograd Nodes"),
        (lambda a, b: a * b * 2, 2, "the forward contains multiple autograd Nodes"),
    ],
)
def test_what_a_hook_of_old_does_not_see(function, args, what):
    a, b = ad.tensor(1.0, requires_grad=True), ad.tensor(2.0, requires_grad=True)
    m = OfOne(function)
    m.register_backward_hook(lambda *x: None)
    with pytest.warns(FutureWarning, match=what):
        m(*([(a, b)] if args == 1 else [a, b]))


def test_a_removed_hook_still_watches_the_calls_before():
    m, seen = nn.Tanh(), []
    handle = m.register_full_backward_hook(lambda *x: seen.append(1))
    y = m(ad.tensor(0.0, requires_grad=True))
    handle.remove()
    y.backward()
    assert seen == [1]
