"""Views and writes in place: what becomes of history, what is refused, and that nothing is left behind.

Reference: the same program without views and writes (``where``, ``cat``), whose derivatives other tests check.
"""

import gc

import pytest
from helpers import allocated

import adjoint as ad


def gradient(program, *inputs):
    """The gradients of a program's result with respect to fresh leaves of the inputs' values."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    return [g.tolist() for g in ad.autograd.grad(program(*leaves), leaves)]


X = ad.tensor([[0.5, -1.2, 0.3], [1.7, 0.9, -0.4]], dtype=ad.float64)
W = ad.tensor([2.0, -3.0, 0.7], dtype=ad.float64)


def test_a_write_through_a_view_gives_the_base_a_new_history():
    x = X.clone().requires_grad_()
    y = x * 1
    v = y[0]
    v.mul_(3)
    assert y.grad_fn.name() == "CopySlices"
    assert v.grad_fn.name() == "AsStridedBackward0"
    assert [n.name() for n, _ in y.grad_fn.next_functions] == ["MulBackward0", "MulBackward0"]
    y.sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0, 3.0], [1.0, 1.0, 1.0]]


def test_every_sibling_follows():
    def program(x, w):
        y = x * 1
        row, column, twice = y[0], y[:, 1], y.view(6)[2:5]
        row.mul_(w)
        return (column * column).sum() + (twice**3).sum() + y.sum()

    def functional(x, w):
        y = ad.stack([x[0] * w, x[1]])
        return (y[:, 1] ** 2).sum() + (ad.cat([y[0, 2:], y[1, :2]]) ** 3).sum() + y.sum()

    assert gradient(program, X, W) == gradient(functional, X, W)


def test_chains_of_views():
    def program(x, w):
        y = x.exp() * 1
        deep = y.T[1:].reshape(2, 2).unsqueeze(0)[..., 1]
        deep.mul_(w[:2])
        y.T[0].add_(w[0])
        return (y * y).sum() * deep.sum()

    def functional(x, w):
        y = x.exp()
        last = ad.stack([y[1, 1] * w[0], y[1, 2] * w[1]])
        first = y[:, 0] + w[0]
        whole = ad.cat([first, y[0, 1:], last])
        return (whole * whole).sum() * last.sum()

    for mine, other in zip(gradient(program, X, W), gradient(functional, X, W), strict=True):
        assert ad.allclose(ad.tensor(mine), ad.tensor(other), rtol=1e-6)


def test_a_constant_buffer_becomes_differentiable():
    buffer = ad.zeros(3)
    first, second = buffer[0], buffer[1]
    assert not second.requires_grad and second.is_leaf
    w = ad.tensor(2.0, requires_grad=True)
    first.copy_(w * w)
    assert buffer.requires_grad and not buffer.is_leaf
    assert second.requires_grad and not second.is_leaf
    (buffer.sum() + first).backward()
    assert w.grad.item() == 8.0


def test_writes_of_constants_take_gradients_away():
    x = X.clone().requires_grad_()
    y = x * 2
    y[0].zero_()
    y[1, 1:].fill_(7.0)
    y.T[0, 1].uniform_()
    y.sum().backward()
    assert x.grad.abs().sum().item() == 0


def test_second_derivatives_through_views():
    def program(x, w):
        y = x * w
        y[0].mul_(y[1].clone())
        y.view(-1)[4:].mul_(w[:2])
        (g,) = ad.autograd.grad((y**2).sum(), w, create_graph=True)
        return (g * g).sum()

    def functional(x, w):
        y = x * w
        first = y[0] * y[1]
        whole = ad.cat([first, y[1, :1], y[1, 1:] * w[:2]])
        (g,) = ad.autograd.grad((whole**2).sum(), w, create_graph=True)
        return (g * g).sum()

    for mine, other in zip(gradient(program, X, W), gradient(functional, X, W), strict=True):
        assert ad.allclose(ad.tensor(mine), ad.tensor(other), rtol=1e-6)


def test_parts_of_complex_numbers():
    z = ad.tensor([1 + 2j, 3 - 1j], dtype=ad.complex128, requires_grad=True)
    y = z * (1 + 1j)
    pairs = ad.view_as_real(y)
    y.imag.mul_(5)
    pairs[0, 0] = 9.0
    assert y.grad_fn.name() == "CopySlices"
    ad.view_as_real(y).sum().backward()
    # y = (9 + 5 i Im((1+i) z0), Re + 5 i Im): the conjugate derivative of Re is 1 - i, that of Im is 1 + i, both of (1+i) z.
    assert z.grad.tolist() == [5 * (1 + 1j), (1 - 1j) + 5 * (1 + 1j)]
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    y = x * 1
    ad.view_as_complex(y).mul_(2 + 1j)
    y[0].backward()
    assert x.grad.tolist() == [2.0, -1.0]


def test_base_and_version():
    x = ad.zeros(4)
    v = x[1:]
    w = v[1:]
    assert v._base is x and w._base is x and x._base is None
    assert v._is_view() and not x._is_view()
    w.add_(1)
    assert x._version == v._version == 1
    d = v.detach()
    assert d._base is None and not d._is_view()
    d.add_(1)
    assert x._version == 2
    x.data.add_(1)
    assert x._version == 2


def test_a_hook_stays_with_the_old_history():
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    v = y[:1]
    v.mul_(10)
    y.sum().backward()
    assert seen == [[10.0, 1.0]]


def test_retained_gradients_move_with_the_tensor():
    base = ad.tensor([3.0], requires_grad=True).clone()
    view, sibling = base[:], base[:]
    view.retain_grad()
    sibling.retain_grad()
    view *= 2
    (view * sibling).backward()
    assert view.grad.tolist() == sibling.tolist() and sibling.grad.tolist() == view.tolist()


@pytest.mark.parametrize(
    "phrase, program",
    [
        ("a leaf Variable that requires grad", lambda x: x.add_(1)),
        ("a view of a leaf Variable that requires grad", lambda x: x[0].add_(1)),
        ("a view of a leaf Variable that requires grad", lambda x: x.T[1:].zero_()),
        ("function that returns multiple views", lambda x: (x * 1).unbind(0)[0].add_(1)),
        ("function that returns multiple views", lambda x: (x * 1).split(1)[0].add_(1)),
        ("function that returns multiple views", lambda x: (x * 1).chunk(1)[0].add_(1)),
        ("function that returns multiple views", lambda x: (x * 1).unbind(0)[0][1:].add_(1)),
        ("Can't detach views in-place", lambda x: (x * 1)[0].detach_()),
        ("more than one element of the written-to tensor", lambda x: (x[:1] * 1).expand(3, 3).add_(1)),
    ],
)
def test_refused(phrase, program):
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=phrase):
        program(x)
    assert ad.equal(x, X)


def test_views_of_other_modes():
    x = X.clone().requires_grad_()
    y = x * 1
    with ad.no_grad():
        v = y[0]
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode"
    ):
        v.add_(1)
    with ad.no_grad():
        v.add_(1)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        v * 2
    with ad.inference_mode():
        v = y[0]
    with pytest.raises(
        RuntimeError,
        match="A view was created in inference mode and is being modified inplace in normal mode",
    ):
        v.add_(1)
    parts = y.unbind(0)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and its base or another view"):
        parts[0].sum()


def test_multiple_views_of_constants_may_be_written():
    x = ad.zeros(2, 3)
    a, b = x.unbind(0)
    a.add_(1)
    assert x.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_write_without_recording_keeps_history():
    x = X.clone().requires_grad_()
    y = x * 2
    v = y[0]
    with ad.no_grad():
        v.add_(100)
    assert y.grad_fn.name() == "MulBackward0"
    (y.sum() + v.sum()).backward()
    assert x.grad.tolist() == [[4.0] * 3, [2.0] * 3]


def programs_that_could_make_cycles():
    w = ad.rand(64, requires_grad=True)

    def view_saved(b=None):
        b = ad.zeros(2, 64)
        v = b[0]
        b[1].copy_(w * v)
        b[0].mul_(w)
        return b

    def base_saved():
        b = ad.zeros(64)
        y = w * b
        b.add_(y)
        b.mul_(w)
        return b

    def setitem():
        b = ad.zeros(2, 64)
        y = w * b
        b[1] = y[0]
        return b

    def inner_views():
        b = ad.zeros(8, 8)
        y = ad.einsum("ij,jk->ik", w.view(8, 8), b)
        b.add_(y)
        return b

    def view_kept_by_its_attribute():
        b = ad.zeros(2, 64)
        v = b[0]
        v.note = "seen"
        b[1].copy_(w * v)
        return b

    return [view_saved, base_saved, setitem, inner_views, view_kept_by_its_attribute]


@pytest.mark.parametrize("program", programs_that_could_make_cycles(), ids=lambda f: f.__name__)
def test_writes_leave_no_cycle(program):
    gc.collect()
    gc.disable()
    try:
        program()
        before = allocated()
        for _ in range(3):
            program()
        assert allocated() == before
    finally:
        gc.enable()


def test_identity_survives_a_write_of_a_saved_tensor():
    w = ad.rand(3, requires_grad=True)
    b = ad.ones(3)
    b.note = "mine"
    number = id(b)
    y = w * b
    b.add_(w)
    assert id(b) == number and b.note == "mine" and b.requires_grad and b.grad_fn.name() == "AddBackward0"
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_writes_to_a_numpy_array_cannot_spoil_a_gradient():
    np = pytest.importorskip("numpy")
    for make in (ad.from_numpy, ad.as_tensor, lambda a: ad.from_numpy(a)[1:]):
        a = np.ones(3)
        w = ad.ones(make(a).shape, dtype=ad.float64, requires_grad=True)
        y = (w * make(a)).sum()
        z = (w * make(a)).sum()
        y.backward()
        a *= 2  # torch would give gradients of 2 for z
        with pytest.raises(RuntimeError, match="memory that belongs to somebody else"):
            z.backward()
        assert w.grad.tolist() == [1.0] * len(w)
    before = ad.autograd.graph.set_check_external(False)
    try:
        z = (w * ad.from_numpy(a)[1:]).sum()
        a *= 2
        z.backward()
    finally:
        ad.autograd.graph.set_check_external(before)


def test_resize_and_set():
    x = ad.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.resize_((5,)).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]  # the memory has been there all the time
    other = ad.ones(3)
    x.set_(other)
    other.add_(1)
    assert x.tolist() == [2.0, 2.0, 2.0]
    y = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        y.resize_(3)
    with pytest.raises(RuntimeError, match="its gradient would be lost"):
        (y * 2).set_(other)


def test_inference_tensors():
    with ad.inference_mode():
        z = ad.ones(2)
        with ad.enable_grad():
            assert not (ad.ones(2, requires_grad=True) * 2).requires_grad
    assert z.is_inference() and not (z * 2).is_inference()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside"):
        z.requires_grad_()
    with pytest.raises(
        RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"
    ):
        z.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        z._version
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        z * ad.ones(2, requires_grad=True)
    with ad.inference_mode():
        z.add_(1)
    assert z.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda t, v: t.fill_(v),
        lambda t, v: t.__setitem__(0, v),
        lambda t, v: t.__setitem__((slice(1, None, 2), ad.tensor([1, 0])), v),
        lambda t, v: t.copy_(v),
        lambda t, v: t.zero_(),
    ],
    ids=["fill_", "item", "items", "copy_", "zero_"],
)
def test_recorded_writes_to_repeated_memory_are_refused(write):
    """An element that is written stands at several places, each of which would send its gradient."""
    x = ad.tensor([1.2, 0.8], dtype=ad.float64, requires_grad=True)
    t = (-x).expand(2, 2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        write(t, ad.tensor(2.0, dtype=ad.float64))
    assert ad.equal(t, (-x).expand(2, 2)) and t._version == 0
    with ad.no_grad():
        t[1] = 3.0
    assert t.tolist() == [[3.0, 3.0]] * 2
