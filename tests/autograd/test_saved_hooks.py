"""What nodes keep, seen from Python: hooks that pack and unpack it, and the attributes of nodes.

First things are in test_hooks.py; that a write to what was saved is found, in test_versions.py.
"""

import math
import threading

import pytest

import adjoint as ad
from adjoint.autograd import graph

FREED = "Trying to backward through the graph a second time|register_hooks on a saved tensor after it has been freed"


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def same(t):
    return t


# --- contexts -----------------------------------------------------------------------------------------------------------


def test_the_innermost_hooks_pack_and_each_tensor_is_unpacked_by_its_own():
    calls = []

    def hooks(name):
        return graph.saved_tensors_hooks(
            lambda t: calls.append(name + " packs") or t, lambda t: calls.append(name + " unpacks") or t
        )

    x = leaf(2.0)
    with hooks("outer"):
        with hooks("inner"):
            a = x.exp()
        b = a.exp()
    b.exp().backward()
    assert calls == ["inner packs", "outer packs", "outer unpacks", "inner unpacks"]


def test_what_is_packed():
    packed = []
    x, c = leaf(2.0), ad.ones(1, dtype=ad.float64)
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, same):
        y = x.sin()
        assert packed[-1] is x and packed[-1].requires_grad
        y = x.exp()
        assert ad.equal(packed[-1], y)
        count = len(packed)
        # For the gradient of c nobody asks, and the others need no value.
        _ = c.exp(), x + c, x - c, x.view(1, 1), x.detach().sin()
        with ad.no_grad():
            x.exp()
    assert len(packed) == count == 2


def test_what_is_packed_has_its_history():
    packed = []
    x = leaf(2.0)
    y = x * 3
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, same):
        z = y.sin()
    assert packed == [y] and packed[0] is y
    # Returned as it came, it is kept without history: a write to it would make a cycle else.
    kept = z.grad_fn._raw_saved_self.data
    assert kept.grad_fn is None and kept.data_ptr() == y.data_ptr()
    z.backward()
    assert x.grad.item() == pytest.approx(3 * math.cos(6.0))


def test_numbers_are_not_packed():
    packed = []
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, same):
        _ = x * 3, x / 2
    assert packed == []


def test_it_is_packed_once_each_and_unpacked_at_every_use():
    calls = []
    x = leaf(2.0)
    with graph.saved_tensors_hooks(
        lambda t: calls.append("pack") or t, lambda t: calls.append("unpack") or t
    ):
        y = x * x
    assert calls == ["pack"] * 2
    y.backward(retain_graph=True)
    assert calls == ["pack"] * 2 + ["unpack"] * 2
    assert y.grad_fn._saved_self.item() == 2.0
    y.backward()
    assert calls == ["pack"] * 2 + ["unpack"] * 5 and x.grad.tolist() == [8.0]


def test_anything_may_be_kept():
    x = leaf(2.0)
    with graph.saved_tensors_hooks(
        lambda t: ("on disk", t.item()), lambda kept: ad.tensor([kept[1]], dtype=ad.float64)
    ):
        y = x.sin()
    assert y.grad_fn._saved_self is not x and y.grad_fn._saved_self.tolist() == [2.0]
    y.backward()
    assert ad.allclose(x.grad, x.cos())


def test_functions_pack_too():
    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    calls = []
    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: calls.append("pack") or t.tolist(), lambda v: leaf(*v).detach()):
        y = Square.apply(x)
    assert calls == ["pack"]
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_hooks_are_of_their_thread():
    calls = []
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: calls.append("pack") or t, same):
        thread = threading.Thread(target=x.exp)
        thread.start()
        thread.join()
    assert calls == []


def test_the_context_ends_with_an_error():
    calls = []
    x = leaf(2.0)
    with pytest.raises(KeyError), graph.saved_tensors_hooks(lambda t: calls.append("pack") or t, same):
        raise KeyError
    x.exp()
    assert calls == []


def test_save_on_cpu():
    x = leaf(2.0, 3.0)
    with graph.save_on_cpu(), graph.save_on_cpu(pin_memory=False):
        y = x * 1
        z = (y * y).sum()
    # They are copies: what happens to the original does not matter.
    y.mul_(5)
    z.backward()
    assert x.grad.tolist() == [4.0, 6.0]


# --- misuse -------------------------------------------------------------------------------------------------------------


def run(pack, unpack):
    x = leaf(2.0, 3.0)
    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * 1).exp()
    y.sum().backward()


@pytest.mark.parametrize(
    "pack, unpack, error, phrase",
    [
        (lambda t: t.add_(1), same, RuntimeError, "A saved tensor pack hook is modifying its input in place"),
        (same, lambda t: 3, TypeError, "unpack_hook expected to be a Tensor but got result of type int"),
        (same, lambda t: None, TypeError, "expected to be a Tensor but got result of type NoneType"),
        (lambda t: 1 / 0, same, ZeroDivisionError, "division"),
        (same, lambda t: 1 / 0, ZeroDivisionError, "division"),
        (lambda: None, same, TypeError, "0 positional arguments"),
        (same, lambda: None, TypeError, "0 positional arguments"),
        (same, lambda t: t.float(), RuntimeError, "unpack_hook returned a tensor of shape"),
        (same, lambda t: t[:1], RuntimeError, "unpack_hook returned a tensor of shape"),
        (3, 4, TypeError, "callable"),
    ],
)
def test_misuse(pack, unpack, error, phrase):
    with pytest.raises(error, match=phrase):
        run(pack, unpack)
    assert ad.is_grad_enabled()
    run(same, same)


def test_disabled_hooks():
    x = leaf(2.0)
    hooks = graph.saved_tensors_hooks(same, same)
    with graph.disable_saved_tensors_hooks("none in here"):
        with pytest.raises(RuntimeError, match="none in here"), hooks:
            pass
        with graph.disable_saved_tensors_hooks("nor here"):
            with pytest.raises(RuntimeError, match="nor here"), hooks:
                pass
        with pytest.raises(RuntimeError, match="none in here"), graph.save_on_cpu():
            pass
        x.exp().backward()
    # Where some are in use, they cannot be disabled.
    with hooks, pytest.raises(RuntimeError, match="too late"), graph.disable_saved_tensors_hooks("too late"):
        pass

    @graph.disable_saved_tensors_hooks("in a function")
    def function():
        with hooks:
            return x.exp()

    with pytest.raises(RuntimeError, match="in a function"):
        function()
    with hooks:
        x.exp().backward()


# --- attributes of nodes ------------------------------------------------------------------------------------------------


def test_hooks_of_one_saved_tensor():
    x = leaf(2.0)
    y = x.exp()
    z = y.sin()
    node = z.grad_fn
    raw = node._raw_saved_self
    assert type(raw).__name__ == "SavedTensor"
    with pytest.raises(TypeError):
        raw.register_hooks(same)
    with pytest.raises(TypeError, match="callable"):
        raw.register_hooks(3, 4)
    raw.register_hooks(lambda t: ("kept", t.clone()), lambda kept: kept[1])
    with pytest.raises(
        RuntimeError, match="register_hooks on a saved tensor whose hooks have already been set"
    ):
        raw.register_hooks(same, same)
    assert ad.equal(node._saved_self, y)
    z.backward()
    for gone in (
        lambda: raw.register_hooks(same, same),
        lambda: node._saved_self,
        lambda: node._raw_saved_self,
        lambda: y.grad_fn._saved_result,
        lambda: y.grad_fn._raw_saved_result,
    ):
        with pytest.raises(RuntimeError, match=FREED):
            gone()


def test_hooks_of_one_saved_tensor_misused():
    x = leaf(2.0)
    y = x * x
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach().add_(1), same)
    with graph.saved_tensors_hooks(same, same):
        z = x.exp()
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        z.grad_fn._raw_saved_result.register_hooks(same, same)
    z.backward()


def test_raw_outlives_its_node():
    raw = leaf(2.0).exp().grad_fn._raw_saved_result
    raw.register_hooks(same, same)
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(same, same)


def test_attributes():
    x = leaf(2.0)
    y = x.exp()
    node = y.grad_fn
    assert isinstance(node, graph.Node) and node is y.grad_fn and {node: 1}[y.grad_fn] == 1
    assert node.name() == type(node).__name__ == "ExpBackward0"
    assert node.metadata == {}
    node.metadata["seen"] = node.metadata.get("seen", 0) + 1
    assert y.grad_fn.metadata == {"seen": 1}
    assert {"_saved_result", "_raw_saved_result", "name", "metadata", "next_functions"} <= set(dir(node))
    ((accumulator, number),) = node.next_functions
    assert accumulator.variable is x and number == 0 and accumulator.next_functions == ()
    assert x.grad_fn is None
    for missing in ("_saved_nothing", "_raw_saved_nothing", "nothing"):
        with pytest.raises(AttributeError, match=missing):
            getattr(node, missing)
    with pytest.raises(AttributeError):
        node.nothing = 1


def test_metadata_lives_with_the_node():
    class Note:
        pass

    import weakref

    y = leaf(2.0).exp()
    note = Note()
    y.grad_fn.metadata["note"] = note
    dead = weakref.ref(note)
    del note
    assert y.grad_fn.metadata["note"] is dead()
    del y
    assert dead() is None
