"""Version counters: every write is counted, and a saved tensor that was written to is refused at backward."""

import pytest

import adjoint as ad

PHRASE = "one of the variables needed for gradient computation has been modified by an inplace operation"

WRITES = [
    ("add_", lambda t: t.add_(1)),
    ("augmented", lambda t: t.__iadd__(1)),
    ("mul_", lambda t: t.mul_(2)),
    ("fill_", lambda t: t.fill_(0)),
    ("zero_", lambda t: t.zero_()),
    ("copy_", lambda t: t.copy_(ad.ones(3))),
    ("exp_", lambda t: t.exp_()),
    ("clamp_", lambda t: t.clamp_(0, 1)),
    ("item", lambda t: t.__setitem__(0, 5.0)),
    ("slice", lambda t: t.__setitem__(slice(1, 3), 5.0)),
    ("mask", lambda t: t.__setitem__(ad.tensor([True, False, True]), 5.0)),
    ("index", lambda t: t.__setitem__(ad.tensor([0]), 5.0)),
    ("view", lambda t: t.view(3, 1).mul_(2)),
    ("select", lambda t: t[0].add_(1)),
    ("transpose", lambda t: t.view(1, 3).T.neg_()),
    ("detached", lambda t: t.detach().add_(1)),
    ("out", lambda t: ad.add(ad.ones(3), 1, out=t)),
    ("masked_fill_", lambda t: t.masked_fill_(ad.tensor([True, True, True]), 0.0)),
    ("scatter_", lambda t: t.scatter_(0, ad.tensor([0]), 9.0)),
    ("index_add_", lambda t: t.index_add_(0, ad.tensor([0]), ad.ones(1))),
    ("index_put_", lambda t: t.index_put_((ad.tensor([0]),), ad.tensor(1.0))),
    ("uniform_", lambda t: t.uniform_()),
    ("normal_", lambda t: t.normal_()),
    ("bernoulli_", lambda t: t.bernoulli_(0.5)),
]


@pytest.mark.parametrize("label, write", WRITES, ids=[w[0] for w in WRITES])
def test_write_is_counted_and_caught(label, write):
    x, c = ad.ones(3, requires_grad=True), ad.full((3,), 2.0)
    y = (x * c).sum()
    version = c._version
    write(c)
    assert c._version > version
    with pytest.raises(RuntimeError, match=PHRASE):
        y.backward()
    assert x.grad is None


@pytest.mark.parametrize("label, write", WRITES, ids=[w[0] for w in WRITES])
def test_write_under_no_grad_is_counted_too(label, write):
    x, c = ad.ones(3, requires_grad=True), ad.full((3,), 2.0)
    y = (x * c).sum()
    with ad.no_grad():
        write(c)
    with pytest.raises(RuntimeError, match=PHRASE):
        y.backward()


def test_message_tells_versions_and_shape():
    x, c = ad.ones(3, requires_grad=True), ad.ones(3)
    y = (x * c).sum()
    c.add_(1).add_(1)
    with pytest.raises(RuntimeError, match=r"is at version 2; expected version 0 instead"):
        y.backward()
    y = (x * c).sum()
    c.add_(1)
    with pytest.raises(RuntimeError, match=r"\[3\]"):
        y.backward()


def test_a_result_that_was_saved():
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=PHRASE):
        y.sum().backward()
    z = x.sin()
    z.add_(1)
    z.sum().backward()
    assert x.grad is not None


def test_writes_before_saving_do_not_matter():
    x, c = ad.ones(3, requires_grad=True), ad.ones(3)
    c.mul_(3)
    y = (x * c).sum()
    y.backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_what_was_not_saved_may_change():
    x, c = ad.ones(3, requires_grad=True), ad.ones(3)
    y = (x + c).sum()
    c.zero_()
    y.backward()
    assert x.grad.tolist() == [1, 1, 1]
    # Of a product with a constant only the constant is saved.
    a = x * 1
    y = (a * 2).sum()
    a.zero_()
    y.backward()


def test_versions_are_shared_by_views_and_not_by_copies():
    x = ad.zeros(4)
    view, copy = x[1:], x.clone()
    view.add_(1)
    assert x._version == view._version == 1 and copy._version == 0
    x.detach().add_(1)
    assert x._version == 2
    x.data.add_(1)
    assert x._version == 2


def test_reading_does_not_count():
    x = ad.ones(3)
    x.sum(), x + 1, x[0], x.tolist(), x.T, repr(x), x.numpy()
    assert x._version == 0


def test_optimizer_step_between_forward_and_backward():
    w = ad.ones(3, requires_grad=True)
    loss = (w * w).sum()
    with ad.no_grad():
        w -= 0.1
    with pytest.raises(RuntimeError, match=PHRASE):
        loss.backward()


def test_in_place_operations_are_recorded():
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    y = x * 2
    y.add_(1)
    y *= x
    assert y.grad_fn.name() == "MulBackward0"
    with pytest.raises(RuntimeError, match=PHRASE):
        # y was saved for the gradient of x, then overwritten by its own product's successor.
        z = y * y
        y.zero_()
        z.sum().backward()
    y = x * 2
    y.add_(1).sin_()
    (g,) = ad.autograd.grad(y.sum(), x)
    expected = 2 * ad.cos(2 * x.detach() + 1)
    assert ad.allclose(g, expected)


def test_create_graph_checks_versions_as_well():
    x, c = ad.ones(2, requires_grad=True), ad.ones(2)
    (g,) = ad.autograd.grad((x * c).sin().sum(), x, create_graph=True)
    c.add_(1)
    with pytest.raises(RuntimeError, match=PHRASE):
        g.sum().backward()


I, M = ad.tensor([0, 1]), ad.tensor([True, False, True])
SELECTED = [
    ("index", I, lambda x, i: x[i]),
    ("mask", M, lambda x, m: x[m]),
    ("gather", I, lambda x, i: x.gather(0, i)),
    ("index_select", I, lambda x, i: x.index_select(0, i)),
    ("take", I, lambda x, i: x.take(i)),
    ("where", M, lambda x, m: ad.where(m, x, 0 * x)),
    ("masked_fill", M, lambda x, m: x.masked_fill(m, 0.0)),
    ("embedding", I, lambda x, i: ad.nn.functional.embedding(i, x.view(3, 1))),
    ("cross_entropy", I, lambda x, i: ad.nn.functional.cross_entropy(x.expand(2, 3), i)),
    ("written at an index", I, lambda x, i: (x * 1).index_put_((i,), ad.zeros(()))),
    ("written at a mask", M, lambda x, m: (x * 1).masked_fill_(m, 0.0)),
    ("scattered", I, lambda x, i: (x * 1).scatter_(0, i, 5.0)),
    ("values into a mask", M, lambda x, m: ad.zeros(3).masked_scatter_(m, x)),
]


@pytest.mark.parametrize("label, chooser, use", SELECTED, ids=[s[0] for s in SELECTED])
def test_indices_and_masks_are_checked_too(label, chooser, use):
    """What chooses elements is saved as values are: were it changed, the gradient would go to other elements."""
    x, chooser = ad.tensor([3.0, 1.0, 2.0], requires_grad=True), chooser.clone()
    y = use(x, chooser).sum()
    chooser.fill_(1)
    with pytest.raises(RuntimeError, match=PHRASE):
        y.backward()
    for pick in (lambda t: t.sort(), lambda t: t.max(0), lambda t: t.topk(2), lambda t: t.kthvalue(1)):
        values, indices = pick(x)
        indices.zero_()
        with pytest.raises(RuntimeError, match=PHRASE):
            values.sum().backward()


@pytest.mark.parametrize("name", ["cumprod_"])
def test_operators_in_place_that_need_what_they_overwrite(name):
    x = ad.tensor([[0.5, -1.5], [2.0, 0.7]], dtype=ad.float64, requires_grad=True)
    weight = ad.arange(1.0, 5.0, dtype=ad.float64).view(2, 2)
    plain = getattr(x * 1, name[:-1])(0)
    (expected,) = ad.autograd.grad((plain * weight).sum(), x)
    y = x * 1
    assert getattr(y, name)(0) is y
    (found,) = ad.autograd.grad((y * weight).sum(), x)
    assert ad.allclose(found, expected) and ad.equal(y, plain)
