"""Recording and the reverse engine as a user sees them: leaves, nodes, backward, accumulation, modes."""

import threading

import numpy as np
import pytest
from helpers import array, assert_close, normal, tensor

import adjoint as ad

grad = ad.autograd.grad


def test_the_first_example():
    x = ad.tensor(3.0, requires_grad=True)
    y = x**2 + 2 * x + 1
    y.backward()
    assert x.grad.item() == 8 and y.item() == 16


def test_leaves():
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    assert x.is_leaf and x.grad_fn is None and x.grad is None
    assert not y.is_leaf and y.requires_grad and y.grad_fn is not None
    z = ad.ones(2)
    assert z.is_leaf and not z.requires_grad
    assert (z * z).is_leaf and (z * z).grad_fn is None
    assert z.requires_grad_() is z and z.requires_grad
    z.requires_grad = False
    assert not z.requires_grad


NAMES = [
    (lambda x: x + x, "AddBackward0"),
    (lambda x: x - x, "SubBackward0"),
    (lambda x: x * x, "MulBackward0"),
    (lambda x: x / x, "DivBackward0"),
    (lambda x: -x, "NegBackward0"),
    (lambda x: x**2, "PowBackward0"),
    (lambda x: x.sin(), "SinBackward0"),
    (lambda x: x.exp(), "ExpBackward0"),
    (lambda x: x.tanh(), "TanhBackward0"),
    (lambda x: x.relu(), "ReluBackward0"),
    (lambda x: x.sum(), "SumBackward0"),
    (lambda x: x.mean(), "MeanBackward0"),
    (lambda x: x.T, "PermuteBackward0|TBackward0"),
    (lambda x: x.clone(), "CloneBackward0"),
    (lambda x: x[0], "SelectBackward0"),
    (lambda x: x[0:1], "SliceBackward0"),
    (lambda x: x @ x, "MmBackward0"),
    (lambda x: ad.cat([x, x]), "CatBackward0"),
    (lambda x: ad.stack([x, x]), "StackBackward0"),
    (lambda x: x.expand(3, 2, 2), "ExpandBackward0"),
    (lambda x: ad.where(x > 0, x, x), "WhereBackward0"),
    (lambda x: ad.softmax(x, 0), "SoftmaxBackward0"),
]


@pytest.mark.parametrize("make, names", NAMES, ids=[n for _, n in NAMES])
def test_node_names(make, names):
    node = make(ad.ones(2, 2, requires_grad=True)).grad_fn
    assert node.name() in names.split("|")
    assert node.name() in repr(node) or type(node).__name__ == node.name()


def test_next_functions():
    x, c = ad.ones(2, requires_grad=True), ad.ones(2)
    y = x * c
    (first, n1), (second, n2) = y.grad_fn.next_functions
    assert first.name().endswith("AccumulateGrad") and first.variable is x and n1 == 0
    assert second is None and n2 == 0
    z = y.sin() + y
    (a, _), (b, _) = z.grad_fn.next_functions
    assert a.name() == "SinBackward0" and b is y.grad_fn
    assert a.next_functions[0][0] is y.grad_fn
    # All leaves' uses meet in one accumulator.
    assert (x * 2).grad_fn.next_functions[0][0] is first
    assert y.grad_fn is y.grad_fn
    parts = ad.ones(3, requires_grad=True).unbind()
    assert parts[0].grad_fn is parts[1].grad_fn
    assert (parts[2] * 1).grad_fn.next_functions[0] == (parts[2].grad_fn, 2)


def test_saved_values():
    x, w = ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    assert y.grad_fn._saved_self is x and y.grad_fn._saved_other is w
    e = x.exp()
    assert ad.equal(e.grad_fn._saved_result, e)
    assert (x**3).grad_fn._saved_exponent == 3
    assert x.sin().grad_fn._saved_self is x
    assert x.sum(0, keepdim=True).grad_fn._saved_dim == (0,)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_self  # noqa: B018


def test_only_what_is_needed_is_saved():
    x, c = ad.ones(2, requires_grad=True), ad.ones(2)
    assert (x * c).grad_fn._saved_self is None and (x * c).grad_fn._saved_other is not None
    assert (c * x).grad_fn._saved_other is None


def test_accumulation():
    x = ad.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 5] and x.grad is first
    x.grad = None
    (x * x * x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    x.grad.zero_()
    y = x + x + x
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_gradient_does_not_alias_what_the_user_holds():
    x = ad.ones(2, requires_grad=True)
    seed = ad.tensor([1.0, 2.0])
    (x * 1.0 + 0).backward(seed)
    (x + 0).backward(seed)
    assert seed.tolist() == [1, 2]
    a, b = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    (a + b).backward(seed)
    a.grad.add_(1)
    assert b.grad.tolist() == [1, 2] and seed.tolist() == [1, 2]


def test_second_backward_needs_retain_graph():
    x = ad.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    # A node that saved nothing has nothing to miss.
    z = (x + 1).sum()
    z.backward()
    z.backward()


def test_backward_leaves_other_gradients_alone():
    x, w = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    y = (x * w).sum()
    assert grad(y, x, retain_graph=True)[0].tolist() == [1, 1]
    assert x.grad is None and w.grad is None
    y.backward(inputs=[w])
    assert x.grad is None and w.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="`?inputs`? argument.*cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_create_graph():
    x = ad.tensor(2.0, requires_grad=True)
    y = x**4
    (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g, x, create_graph=True)
    (t,) = grad(h, x, create_graph=True)
    assert (g.item(), h.item(), t.item()) == (32, 48, 48)
    (f,) = grad(t, x)
    assert f.item() == 24 and not f.requires_grad
    (x.sin() * x).backward(create_graph=True)
    assert x.grad.requires_grad


def test_gradient_penalty():
    w = tensor(normal(3, 2), requires_grad=True)
    x = tensor(normal(4, 3, seed=1), requires_grad=True)
    y = ad.tanh(x @ w).sum()
    (g,) = grad(y, x, create_graph=True)
    (g**2).sum().backward()
    assert w.grad is not None and np.all(np.isfinite(array(w.grad)))


def test_unused_inputs():
    x, u = ad.ones(2, requires_grad=True), ad.ones(3, requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(
        RuntimeError, match="appears to not have been used in the graph. Set allow_unused=True"
    ):
        grad(y, [x, u], retain_graph=True)
    gx, gu = grad(y, [x, u], allow_unused=True)
    assert gx.tolist() == [2, 2] and gu is None
    gx, gu = grad((x * 2).sum(), (x, u), materialize_grads=True)
    assert gu.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="allow_unused"):
        grad((x * 2).sum(), (x, u), materialize_grads=True, allow_unused=False)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad((x * 2).sum(), ad.ones(2))


def test_input_that_is_the_output_or_in_between():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = (y * y).sum()
    gz, gy, gx = grad(z, (z, y, x), retain_graph=True)
    assert gz.item() == 1 and gy.tolist() == [6, 12] and gx.tolist() == [18, 36]
    assert grad(x, x, ad.ones(2))[0].tolist() == [1, 1]
    assert [g.tolist() for g in grad(z, (x, x))] == [[18, 36], [18, 36]]


def test_several_roots():
    x = ad.ones(2, requires_grad=True)
    a, b = x * 2, (x * 3).sum()
    ad.autograd.backward([a, b], [ad.tensor([1.0, 10.0]), None], retain_graph=True)
    assert x.grad.tolist() == [5, 23]
    (g,) = grad([a, b], x, [ad.ones(2), ad.tensor(2.0)])
    assert g.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="[Gg]ot 2 tensors and 1 gradients"):
        ad.autograd.backward([x * 1, x * 2], [ad.ones(2)])
    (g,) = grad((x.sum(), x.sum()), x)
    assert g.tolist() == [2, 2]


def test_backward_of_one_element():
    x = ad.ones(1, 1, requires_grad=True)
    (x * 2).backward()
    assert x.grad.tolist() == [[2]]
    x.grad = None
    y = ad.tensor(1.0, requires_grad=True)
    y.backward()
    assert y.grad.item() == 1


def test_retain_grad():
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4, 4] and x.grad.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        ad.ones(1).retain_grad()
    with pytest.warns(
        UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
    ):
        assert (x * 1).grad is None


def test_detach():
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.grad_fn is None and d.is_leaf
    (g,) = grad((y * d).sum(), x)
    assert g.tolist() == [4, 4]
    z = x * 3
    assert z.detach_() is z and not z.requires_grad


def test_diamond_and_reuse():
    x = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
    a = x.sin()
    y = a * a + a * x + x.exp() * a
    (g,) = grad(y, x)
    s, c, e = np.sin(0.5), np.cos(0.5), np.exp(0.5)
    assert_close(g, 2 * s * c + c * 0.5 + s + e * s + e * c)


def test_wide_fan_in():
    x = ad.ones(1, requires_grad=True)
    parts = [x * k for k in range(1000)]
    sum(parts[1:], parts[0]).backward()
    assert x.grad.item() == 999 * 500


def test_gradient_of_broadcast_operand_has_its_shape():
    x, b = ad.ones(4, 3, requires_grad=True), ad.ones(3, requires_grad=True)
    s = ad.tensor(2.0, requires_grad=True)
    ((x + b) * s).sum().backward()
    assert x.grad.shape == (4, 3) and b.grad.tolist() == [8, 8, 8] and s.grad.item() == 24


def test_dtype_changes_are_differentiable():
    x = ad.ones(2, requires_grad=True)
    y = (x.to(ad.float64) * ad.ones(2, dtype=ad.float64)).to(ad.float16)
    y.sum().backward()
    assert x.grad.dtype == ad.float32 and x.grad.tolist() == [1, 1]
    assert not x.to(ad.int64).requires_grad


# -- modes ------------------------------------------------------------------------------------------


def test_no_grad():
    x = ad.ones(2, requires_grad=True)
    with ad.no_grad():
        assert not ad.is_grad_enabled()
        y = x * 2
        assert not y.requires_grad and y.is_leaf
        with ad.enable_grad():
            assert (x * 2).requires_grad
        assert not ad.is_grad_enabled()
        assert ad.ones(1, requires_grad=True).requires_grad
        x.mul_(2)
    assert ad.is_grad_enabled() and x.tolist() == [2, 2] and x.is_leaf


def test_modes_are_restored_after_an_exception():
    with pytest.raises(KeyError), ad.no_grad():
        raise KeyError
    assert ad.is_grad_enabled()


def test_set_grad_enabled():
    with ad.set_grad_enabled(False):
        assert not ad.is_grad_enabled()
        with ad.set_grad_enabled(True):
            assert ad.is_grad_enabled()
    ad.set_grad_enabled(False)
    assert not ad.is_grad_enabled()
    ad.set_grad_enabled(True)


def test_modes_decorate():
    x = ad.ones(1, requires_grad=True)

    @ad.no_grad()
    def quiet():
        """Doc."""
        return x * 2

    @ad.no_grad
    def bare():
        return x * 2

    @ad.enable_grad()
    def loud():
        return x * 2

    assert not quiet().requires_grad and not bare().requires_grad
    assert quiet.__name__ == "quiet" and quiet.__doc__ == "Doc."
    with ad.no_grad():
        assert loud().requires_grad
    assert ad.is_grad_enabled()
    manager = ad.no_grad()
    for _ in range(2):
        with manager:
            assert not ad.is_grad_enabled()
        assert ad.is_grad_enabled()


def test_modes_decorate_generators():
    seen = []

    @ad.no_grad()
    def generator():
        for k in range(3):
            seen.append(ad.is_grad_enabled())
            sent = yield k
            seen.append(sent)

    running = generator()
    assert next(running) == 0 and ad.is_grad_enabled()
    assert running.send("a") == 1 and ad.is_grad_enabled()
    assert list(running) == [2] and ad.is_grad_enabled()
    assert seen == [False, "a", False, None, False, None]


def test_inference_mode():
    x = ad.ones(2, requires_grad=True)
    with ad.inference_mode():
        assert ad.is_inference_mode_enabled()
        y = x * 2
    assert not y.requires_grad and y.is_inference() and not ad.is_inference_mode_enabled()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y


def test_modes_are_thread_local():
    seen = []
    with ad.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ad.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_runs_under_no_grad():
    x = ad.ones(1, requires_grad=True)
    y = x * x
    with ad.no_grad():
        y.backward()
        assert x.grad.item() == 2
    (g,) = grad(x * x, x)
    assert not g.requires_grad
