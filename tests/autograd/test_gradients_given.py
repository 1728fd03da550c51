"""What `backward` and `grad` take: cotangents, roots, inputs; how gradients are accumulated, and what a pass frees.

The order of the sections is that of the arguments. What is found is in test_gradients_found.py, hooks are in
test_hook_order.py, threads and errors of the engine in test_engine_errors.py.
"""

import pytest

import adjoint as ad
from adjoint.autograd import backward, grad, graph


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def ones(*shape):
    return ad.ones(*shape, dtype=ad.float64)


# --- cotangents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1,), ()])
def test_a_cotangent_has_the_shape_of_its_root(shape):
    x = leaf(1.0, 2.0)
    phrase = r"Mismatch in shape: grad_output\[0\] has a shape of .* and output\[0\] has a shape of"
    with pytest.raises(RuntimeError, match=phrase):
        (x * 2).backward(ones(*shape))
    with pytest.raises(RuntimeError, match=phrase):
        grad(x * 2, x, ones(*shape))
    assert x.grad is None


@pytest.mark.parametrize("dtype", [ad.float16, ad.float32, ad.int64, ad.bool])
def test_a_cotangent_is_cast_to_the_dtype_of_its_root(dtype):
    x = leaf(1.0, 2.0)
    (g,) = grad(x * 3, x, ad.ones(2, dtype=dtype))
    assert g.dtype is ad.float64 and g.tolist() == [3.0, 3.0]


def test_a_complex_cotangent_needs_a_complex_root():
    x, z = leaf(1.0, 2.0), ad.tensor([1 + 2j], requires_grad=True)
    phrase = "both grad_output and output are required to have the same dtype"
    with pytest.raises(RuntimeError, match=phrase):
        (x * 2).backward(ad.ones(2, dtype=ad.complex128))
    with pytest.raises(RuntimeError, match=phrase):
        (z * 2).backward(ad.ones(1))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs"):
        (z * 2).sum().backward()


def test_a_cotangent_may_have_any_layout():
    x = ones(2, 3).requires_grad_()
    transposed = ad.arange(6, dtype=ad.float64).reshape(3, 2).T
    (x * 1).backward(transposed)
    assert x.grad.tolist() == transposed.tolist() and x.grad.stride() == (3, 1)
    (x * 1).backward(ones(1).expand(2, 3))
    assert x.grad.tolist() == (transposed + 1).tolist()
    (g,) = grad(x * 2, x, ad.arange(12, dtype=ad.float64).reshape(2, 6)[:, ::2])
    assert g.tolist() == [[0.0, 4.0, 8.0], [12.0, 16.0, 20.0]]


def test_what_is_no_cotangent():
    x = leaf(1.0, 2.0)
    for wrong in (3.0, [1.0], ["a"]):
        with pytest.raises(TypeError):
            (x * 2).backward(wrong)
        with pytest.raises(TypeError):
            grad(x * 2, x, wrong)


def test_a_cotangent_is_only_implied_for_one_element():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        backward([x.sum(), x * 2], [None, None])
    assert x.grad is None


def test_a_cotangent_that_needs_a_gradient_gets_one():
    x, c = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (g,) = grad(x * 2, x, c, create_graph=True)
    (second,) = grad(g.sum(), c)
    assert second.tolist() == [2.0, 2.0]
    (g,) = grad(x * 2, x, c)
    assert not g.requires_grad
    x.backward(c)
    assert not x.grad.requires_grad


def test_the_old_name_of_the_cotangents():
    x = leaf(1.0, 2.0)
    backward([x * 2], grad_variables=[ones(2)])
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="both passed to"):
        backward([x * 2], [ones(2)], grad_variables=[ones(2)])


# --- roots --------------------------------------------------------------------------------------------------------------


def test_roots_that_need_no_gradient():
    x = leaf(1.0)
    phrase = "element {} of tensors does not require grad and does not have a grad_fn"
    for root in (ad.ones(1), ad.ones(1, dtype=ad.int64), x.detach(), (x > 0).sum()):
        with pytest.raises(RuntimeError, match=phrase.format(0)):
            root.backward()
    with pytest.raises(RuntimeError, match=phrase.format(1)):
        backward([x, ad.ones(1)])
    with pytest.raises(RuntimeError, match=phrase.format(0)):
        grad(ad.ones(1), x)
    assert x.grad is None


def test_one_root_several_times_and_a_root_of_another():
    x = leaf(1.0, 2.0)
    y = x * x
    z = y.sum()
    backward([z, z], retain_graph=True)
    assert x.grad.tolist() == [4.0, 8.0]
    (g,) = grad([z, y], x, [None, ones(2)])
    assert g.tolist() == [4.0, 8.0]


def test_a_tuple_or_list_of_roots_and_their_number():
    x = leaf(1.0, 2.0)
    backward((x.sum(), x.sum()), (None, ad.tensor(2.0)))
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        backward([x * 1, x * 2], ones(2))
    with pytest.raises(RuntimeError, match="got 2 tensors and 3 gradients"):
        grad([x * 1, x * 2], x, [None, None, None])
    assert backward([]) is None


def test_edges_are_roots_and_inputs():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert repr(edge).startswith("GradientEdge(node=<MulBackward0") and edge.output_nr == 0
    assert (
        edge == (edge.node, edge.output_nr, None) and edge.ownership_token is None and edge.node is y.grad_fn
    )
    (g,) = grad(edge, x, ones(2), retain_graph=True)
    assert g.tolist() == [2.0, 2.0]
    (g,) = grad([edge, (x * x).sum()], x, [ones(2), None], retain_graph=True)
    assert g.tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        grad(edge, x)
    part = ad.ones(3, requires_grad=True).unbind()[2]
    assert graph.get_gradient_edge(part).output_nr == 2
    leaf_edge = graph.get_gradient_edge(x)
    backward((y * y).sum(), inputs=[leaf_edge])
    assert x.grad.tolist() == [8.0, 16.0] and leaf_edge.node.name().endswith("AccumulateGrad")


# --- inputs -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error:The .grad attribute of a Tensor that is not a leaf")
def test_inputs_between():
    x = leaf(1.0, 2.0)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    assert x.grad is None and y.grad.tolist() == [4.0, 8.0] and y.retains_grad
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(inputs=[y, x])
    assert x.grad.tolist() == [8.0, 16.0] and y.grad.tolist() == [4.0, 8.0]


def test_inputs_alone_are_accumulated():
    x, w, u = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(1.0)
    (x * w).sum().backward(inputs=w)
    assert x.grad is None and w.grad.tolist() == [1.0, 2.0]
    # One that the root does not depend on is no error here.
    (x * w).sum().backward(inputs=[u])
    assert u.grad is None and x.grad is None and w.grad.tolist() == [1.0, 2.0]
    (x * w).sum().backward(inputs=(x, w))
    assert x.grad.tolist() == [3.0, 4.0] and w.grad.tolist() == [2.0, 4.0]


def test_inputs_must_need_a_gradient():
    x = leaf(1.0, 2.0)
    for wrong in ([ad.ones(2)], ad.ones(2)):
        with pytest.raises(RuntimeError, match="does not require grad"):
            x.sum().backward(inputs=wrong)
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
            grad(x.sum(), wrong)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        grad(x.sum(), [])
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        x.sum().backward(inputs=())
    with pytest.raises((TypeError, RuntimeError), match="Tensors or GradientEdges, but"):
        grad(x.sum(), [3])


def test_a_gradient_for_an_edge_between_has_nowhere_to_stay():
    """There is no tensor to keep it, so `backward` only runs as far; `grad` returns it."""
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward(inputs=[edge])
    assert seen == [[1.0, 1.0]] and x.grad is None and y.grad is None
    w = leaf(3.0, 4.0)
    (y * w).sum().backward(inputs=[edge, w])
    assert w.grad.tolist() == [2.0, 4.0]
    assert grad(y.sum(), edge)[0].tolist() == [1.0, 1.0]


def test_only_nodes_that_lead_to_an_input_run():
    ran = []
    x, w = leaf(1.0), leaf(2.0)
    a, b = x.exp(), w.exp()
    a.grad_fn.register_hook(lambda gi, go: ran.append("x"))
    b.grad_fn.register_hook(lambda gi, go: ran.append("w"))
    grad(a * b, x, retain_graph=True)
    assert ran == ["x"]


# --- accumulation -------------------------------------------------------------------------------------------------------


def test_in_place_without_create_graph():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first, address = x.grad, x.grad.data_ptr()
    (x * 3).sum().backward()
    assert x.grad is first and x.grad.data_ptr() == address and first.tolist() == [5.0, 5.0]


@pytest.mark.filterwarnings("ignore:Using backward")
def test_out_of_place_with_create_graph():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first and first.tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [4.0, 6.0] and x.grad.requires_grad
    (second,) = grad(x.grad.sum(), x)
    assert second.tolist() == [2.0, 2.0]
    x.grad = None


def test_an_unshared_gradient_is_taken_and_a_shared_one_copied():
    x = leaf(1.0, 2.0)
    addresses = []
    x.register_hook(lambda g: addresses.append(g.data_ptr()))
    (x * ones(2)).backward(ones(2))
    assert x.grad.data_ptr() == addresses[0]
    x = leaf(1.0, 2.0)
    held = []
    x.register_hook(lambda g: held.append(g))
    (x * ones(2)).backward(ones(2))
    assert x.grad.data_ptr() != held[0].data_ptr()
    x.grad.add_(1)
    assert held[0].tolist() == [1.0, 1.0]
    # The cotangent itself belongs to the caller.
    seed = ones(2)
    for make in (lambda: x, lambda: x + 0, lambda: x.view(2)):
        x.grad = None
        make().backward(seed)
        x.grad.add_(5)
        assert seed.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_shared_gradient_is_copied_with_create_graph_too():
    x = leaf(1.0, 2.0)
    held = []
    x.register_hook(lambda g: held.append(g))
    (x * x).sum().backward(create_graph=True)
    same = x.grad.data_ptr() == held[0].data_ptr()
    x.grad = None
    assert not same


def test_gradients_of_leaves_never_share_memory():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).sum().backward()
    assert a.grad.data_ptr() != b.grad.data_ptr() and a.grad.is_contiguous()
    a.grad.zero_()
    assert b.grad.tolist() == [1.0, 1.0]


def test_retained_gradients_are_replaced_by_sums():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward()
    assert y.grad is not first and first.tolist() == [4.0, 8.0] and y.grad.tolist() == [8.0, 16.0]
    # Without it, a result keeps none.
    w = x * 2
    w.sum().backward()
    with pytest.warns(UserWarning, match="a Tensor that is not a leaf"):
        assert w.grad is None


def test_a_retained_gradient_is_its_own():
    seed, held = ones(2), []
    y = leaf(1.0, 2.0) * 2
    y.register_hook(lambda g: held.append(g))
    y.retain_grad()
    y.backward(seed)
    y.grad.add_(5)
    assert seed.tolist() == [1.0, 1.0] and held[0].tolist() == [1.0, 1.0]


def test_a_gradient_that_was_assigned_is_added_to():
    x = leaf(1.0)
    mine = x.grad = leaf(5.0) * 2
    (x * 2).backward()
    assert x.grad is mine and mine.tolist() == [12.0]
    x.grad = ones(1).expand(1)
    (x * 2).backward()
    assert x.grad.tolist() == [3.0]
    w = leaf(1.0, 2.0)
    w.grad = ones(1).expand(2)
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single"
    ):
        w.sum().backward()
    for wrong in (ones(2), ad.ones(1), 3, x):
        with pytest.raises((RuntimeError, TypeError)):
            x.grad = wrong
    assert x.grad.tolist() == [3.0]


def test_a_leaf_that_was_frozen_after_its_use_gets_no_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None


def test_a_gradient_needs_no_gradient_whatever_a_hook_did():
    x = leaf(1.0)
    x.register_hook(lambda g: g.requires_grad_())
    (x * 2).backward()
    assert not x.grad.requires_grad


def test_layout_of_a_first_gradient():
    seed = ones(3, 2).T
    # Contiguous.
    y = ones(2, 3).requires_grad_()
    (y * 1).backward(seed)
    assert y.grad.stride() == (3, 1)
    # With gaps, and with a repeated element: rows first.
    for z in (ones(2, 6)[:, ::2], ones(1).expand(2, 3)):
        z.requires_grad_()
        (z * 1).backward(seed)
        assert z.grad.stride() == (3, 1)


def test_layout_of_a_first_gradient_is_that_of_a_dense_leaf():
    for seed in (ones(2, 3), ones(3, 2).T):
        x = ones(3, 2).T.requires_grad_()
        (x * seed).backward(seed)
        assert x.grad.stride() == x.stride() == (1, 2)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_layout_of_a_later_gradient():
    x = ones(2, 3).requires_grad_()
    x.grad = ad.zeros(3, 2, dtype=ad.float64).T
    mine = x.grad
    (x * 1).backward(ones(2, 3))
    assert x.grad is mine and mine.stride() == (1, 2) and mine.tolist() == [[1.0] * 3] * 2
    # An expanded gradient is written out.
    x = leaf(1.0, 2.0, 3.0)
    x.sum().backward()
    assert x.grad.stride() == (1,)
    x.grad.add_(ad.arange(3, dtype=ad.float64))
    assert x.grad.tolist() == [1.0, 2.0, 3.0]


# --- retain_graph, create_graph -----------------------------------------------------------------------------------------


def test_freed_unless_retained():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0, 16.0]
    for again in (y.backward, lambda: y.backward(retain_graph=True), lambda: grad(y, x)):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            again()


def test_saved_values_are_freed_as_they_are_used():
    """When the node of the first operation runs, what later operations saved is gone already."""
    x = ad.rand(100_000, requires_grad=True)
    first = x * 1.0
    y = first
    for _ in range(8):
        y = y.sin()
    seen = []
    first.register_hook(lambda g: seen.append(ad.memory_statistics()["allocated_bytes"]))
    before = ad.memory_statistics()["allocated_bytes"]
    y.sum().backward()
    # The seven results between are held by nothing but the graph.
    assert seen[0] <= before - 6 * x.nbytes


def test_retained_values_stay():
    x = ad.rand(100_000, requires_grad=True)
    y = x.sin().sin().sum()
    before = ad.memory_statistics()["allocated_bytes"]
    grad(y, x, retain_graph=True)
    assert ad.memory_statistics()["allocated_bytes"] == before
    grad(y, x)
    assert ad.memory_statistics()["allocated_bytes"] <= before - x.nbytes


@pytest.mark.parametrize(
    "make", [lambda x: x + 1, lambda x: -x, lambda x: x.view(2, 1).T, lambda x: x[0], lambda x: x.clone()]
)
def test_a_second_pass_where_nothing_was_saved(make):
    x = leaf(1.0, 2.0)
    y = make(x).sum()
    y.backward()
    y.backward()
    (g,) = grad(y, x)
    assert (x.grad == 2 * g).all()


def test_a_shared_part_is_freed_for_both():
    x = leaf(1.0, 2.0)
    y = x.exp()
    a, b = y.sum(), (y * 2).sum()
    a.backward()
    with pytest.raises(RuntimeError, match="second time"):
        b.backward()


def test_retain_graph_defaults_to_create_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    grad(y, x, create_graph=True)
    grad(y, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)


def test_backward_with_create_graph_warns_once(monkeypatch):
    monkeypatch.setattr("adjoint.autograd._warned", False)
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle") as caught:
        (x * x).sum().backward(create_graph=True)
        (x * x).sum().backward(create_graph=True)
        backward((x * x).sum(), create_graph=True)
    x.grad = None
    assert len(caught) == 1 and caught[0].filename == __file__


def test_under_no_grad():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    with ad.no_grad():
        y.backward(retain_graph=True)
        (g,) = grad(y, x, create_graph=True)
        assert not ad.is_grad_enabled()
    assert g.requires_grad and x.grad.tolist() == [2.0, 4.0] and ad.is_grad_enabled()
