"""`_is_view`, `_base` and `_version` through every way to a view; siblings after a write; each refusal for each way to be written.

test_views.py shows gradients through views and writes; here is who is whose view, and what that forbids. Start reading at
`VIEWS`.
"""

import itertools

import pytest
from helpers import leaf, shares_memory

import adjoint as ad
from adjoint.autograd import Function


def matrix():
    """A computed matrix and the leaf below it."""
    x = ad.arange(6.0, dtype=ad.float64).reshape(2, 3).clone().requires_grad_()
    return x, x * 1


VIEWS = {
    "view": lambda t: t.view(3, 2),
    "view_as": lambda t: t.view_as(ad.ones(6)),
    "reshape": lambda t: t.reshape(6),
    "T": lambda t: t.T,
    "t": lambda t: t.t(),
    "transpose": lambda t: t.transpose(0, 1),
    "permute": lambda t: t.permute(1, 0),
    "select": lambda t: t[1],
    "slice": lambda t: t[:, 1:],
    "ellipsis": lambda t: t[...],
    "None": lambda t: t[None],
    "narrow": lambda t: t.narrow(1, 0, 2),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "squeeze": lambda t: t[:1].squeeze(0),
    "expand": lambda t: t.expand(4, 2, 3),
    "expand_as": lambda t: t.expand_as(ad.ones(4, 2, 3)),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(1, 2, 1),
    "flatten": lambda t: t.flatten(),
    "movedim": lambda t: t.movedim(0, 1),
    "as_strided": lambda t: t.as_strided((2, 2), (1, 1)),
    "unbind": lambda t: t.unbind()[1],
    "split": lambda t: t.split(1)[0],
    "chunk": lambda t: t.chunk(2)[1],
    "iteration": lambda t: next(iter(t)),
}
SEVERAL = {"unbind", "split", "chunk", "iteration"}
COPIES = {
    "clone": lambda t: t.clone(),
    "contiguous of a transpose": lambda t: t.T.contiguous(),
    "reshape of a transpose": lambda t: t.T.reshape(6),
    "index": lambda t: t[ad.tensor([0])],
    "mask": lambda t: t[t > 0],
    "to": lambda t: t.to(ad.float32),
    "plus nothing": lambda t: t + 0,
    "repeat": lambda t: t.repeat(2, 1),
    "flip": lambda t: t.flip(0),
}
SAME = {
    "contiguous": lambda t: t.contiguous(),
    "to": lambda t: t.to(ad.float64),
    "real": lambda t: t.real,
}
each_view = pytest.mark.parametrize("name", VIEWS)


@each_view
def test_views_of_all_kinds(name):
    for base in (ad.ones(2, 3, dtype=ad.float64), matrix()[1], matrix()[0]):
        v = VIEWS[name](base)
        assert v._is_view() and v._base is base and shares_memory(v, base)
        assert not base._is_view() and base._base is None
        assert v.requires_grad == base.requires_grad and v.is_leaf != v.requires_grad
        # A view of a view has the same base, and all have one version.
        w = v.view_as(v)
        assert w._base is base
        with ad.no_grad():
            base.add_(1)
        assert base._version == v._version == w._version


@pytest.mark.parametrize("f", COPIES.values(), ids=COPIES)
def test_copies_are_no_views(f):
    _, base = matrix()
    y = f(base)
    assert not y._is_view() and y._base is None and not shares_memory(y, base)
    y.add_(1)
    assert y._version == 1 and base._version == 0


@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_what_changes_nothing_returns_the_tensor_itself(f):
    _, base = matrix()
    assert f(base) is base


@each_view
def test_detach_ends_the_relation(name):
    """A detached alias is nobody's view, shares the version, and views of it have it as their base."""
    _, base = matrix()
    d = VIEWS[name](base).detach()
    assert not d._is_view() and d._base is None and d.is_leaf and not d.requires_grad
    assert d[...]._base is d
    if name not in ("expand", "expand_as", "unfold", "as_strided"):
        d.add_(1)
        assert base._version == d._version == 1
    assert base.grad_fn.name() == "MulBackward0", "a write to the alias is not part of the history"
    e = VIEWS[name](base).data
    assert not e._is_view() and e._base is None


@each_view
def test_views_made_under_no_grad_keep_the_relation(name):
    x, base = matrix()
    with ad.no_grad():
        v = VIEWS[name](base)
        w = VIEWS[name](x)
        inner = v[..., :1]
    assert v._is_view() and v._base is base and w._base is x and inner._base is base
    assert v.grad_fn is None and v._version == base._version
    with ad.no_grad():
        d = base.detach()
    assert not d._is_view()
    with ad.inference_mode():
        u = VIEWS[name](base)
    assert u._is_view() and u._base is base and not u.is_inference() and u._version == 0


class Itself(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Row(Itself):
    @staticmethod
    def forward(ctx, x):
        return x[0]


class Detached(Itself):
    @staticmethod
    def forward(ctx, x):
        return x.detach()


class Doubled(Itself):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


def test_custom_functions():
    x, base = matrix()
    constant = ad.ones(2, 3)
    for t in (x, base, constant):
        for f in (Itself, Row):
            y = f.apply(t)
            assert y is not t and y._is_view() and y._base is t
            assert y.requires_grad == t.requires_grad
            assert (y.grad_fn is not None) == t.requires_grad
        y = Detached.apply(t)
        assert not y._is_view() and y._base is None and shares_memory(y, t)
    v = base[1]
    assert Itself.apply(v)._base is base, "a view of a view"
    assert Doubled.apply(base) is base and not base._is_view() and base._version >= 1
    _, base = matrix()
    v = base[1]
    assert Doubled.apply(v) is v and v._is_view() and v._base is base and base.grad_fn.name() == "CopySlices"
    with ad.no_grad():
        assert Row.apply(base)._base is base


# --- siblings -----------------------------------------------------------------------------------------------------------

CHAINS = {
    "row": lambda t: t[0],
    "column": lambda t: t[:, 2],
    "flat": lambda t: t.view(6)[1:4],
    "transposed": lambda t: t.T[1:],
    "chain": lambda t: t.T.unsqueeze(0)[0].T.view(3, 2)[..., 0],
    "diagonal": lambda t: t.diagonal(),
    "strided": lambda t: t.as_strided((2,), (4,), 1),
    "whole": lambda t: t[...],
}


@pytest.mark.parametrize("written, read", list(itertools.permutations(CHAINS, 2)))
def test_any_sibling_follows_a_write_to_any_other(written, read):
    """The gradient is that of the program that makes the sibling after the write."""

    def program(x, early):
        y = x.exp() * 1
        sibling = CHAINS[read](y) if early else None
        v = CHAINS[written](y)
        v.mul_(x.sum())
        v.add_(v.clone().sin())
        sibling = sibling if early else CHAINS[read](y)
        assert sibling._base is y and v._base is y and sibling._version == y._version == 2
        return (sibling * sibling).sum() + (y * v.sum()).sum()

    results = []
    for early in (True, False):
        x = (ad.arange(6.0, dtype=ad.float64) / 6).reshape(2, 3).clone().requires_grad_()
        value = program(x, early)
        (g,) = ad.autograd.grad(value, x)
        results.append((value.item(), g.tolist()))
    assert results[0] == results[1]


def test_histories_are_rebuilt_when_asked_and_once():
    _, base = matrix()
    v, sibling = base[0], base[1]
    before = sibling.grad_fn
    assert before.name() == "SelectBackward0"
    v.mul_(2)
    after = sibling.grad_fn
    assert after is not before and after is sibling.grad_fn
    assert after.next_functions[0][0] is base.grad_fn and base.grad_fn.name() == "CopySlices"
    v.mul_(2)
    assert sibling.grad_fn is not after


@pytest.mark.parametrize("name", CHAINS)
def test_constant_buffers_become_differentiable(name):
    w = leaf(2.0)
    buffer = ad.zeros(2, 3, dtype=ad.float64)
    views = {n: f(buffer) for n, f in CHAINS.items()}
    assert not any(v.requires_grad for v in views.values())
    views[name].copy_((w * w).expand(views[name].shape).clone())
    assert buffer.requires_grad and not buffer.is_leaf and buffer._base is None
    assert all(v.requires_grad and not v.is_leaf and v._base is buffer for v in views.values())
    (g,) = ad.autograd.grad(buffer.sum(), w)
    assert g.tolist() == [4.0 * views[name].numel()]
    # So does one that is written by item, in place, or under an index.
    for write in (
        lambda b: b.__setitem__((0, 0), w[0]),
        lambda b: b.add_(w),
        lambda b: b.index_put_((ad.tensor([0]),), w),
        lambda b: b.masked_fill_(b == 0, w[0]),
    ):
        b = ad.zeros(1, 1, dtype=ad.float64)
        write(b)
        assert ad.autograd.grad(b.sum(), w)[0].tolist() == [1.0]


@pytest.mark.parametrize("through_a_view", [False, True])
def test_hooks_stay_with_the_old_history(through_a_view):
    x, y = matrix()
    calls = []
    node = y.grad_fn
    y.register_hook(lambda g: calls.append(("old tensor", g[0, 0].item())))
    node.register_hook(lambda gi, go: calls.append(("old node", go[0][0, 0].item())))
    (y[0] if through_a_view else y).mul_(10)
    assert y.grad_fn is not node
    y.register_hook(lambda g: calls.append(("new tensor", g[0, 0].item())))
    y.sum().backward()
    assert calls == [("new tensor", 1.0), ("old tensor", 10.0), ("old node", 10.0)]
    assert x.grad[0, 0].item() == 10


def test_hooks_of_views_stay_behind_when_the_base_is_written():
    """Their history is made anew, when a hook is registered at the latest; what was registered before is on the old one."""
    x, base = matrix()
    view, sibling, calls = base[0], base[0], []
    view.register_hook(lambda g: calls.append("old"))
    sibling.register_hook(lambda g: calls.append("old"))
    base.mul_(2)
    sibling.register_hook(lambda g: calls.append(g.tolist()))
    (view + sibling).sum().backward()
    assert calls == [[1, 1, 1]] and x.grad[0].tolist() == [4, 4, 4]


def test_retained_gradients_follow_the_tensor_through_writes():
    x, y = matrix()
    y.retain_grad()
    y.mul_(2).mul_(3)
    v = y[0]
    v.retain_grad()
    y.mul_(5)
    (y.sum() + v.sum() * 2).backward()
    assert y.grad[0].tolist() == [3, 3, 3] and y.grad[1].tolist() == [1, 1, 1]
    assert v.grad.tolist() == [2, 2, 2] and x.grad[0].tolist() == [90, 90, 90]


# --- refusals -----------------------------------------------------------------------------------------------------------

WRITES = {
    "operator": lambda t: t.add_(1),
    "fill": lambda t: t.zero_(),
    "copy": lambda t: t.copy_(ad.ones_like(t)),
    "item": lambda t: t.__setitem__(..., 1.0),
    "random": lambda t: t.normal_(),
    "index": lambda t: t.index_fill_(0, ad.tensor([0]), 1.0),
    "Function": lambda t: Doubled.apply(t),
}
each_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


def refused(phrase, write, t):
    with pytest.raises(RuntimeError, match=phrase):
        write(t)


@each_write
def test_leaves_and_their_views(write):
    x, _ = matrix()
    before = x.tolist(), x._version
    refused("a leaf Variable that requires grad", write, x)
    for name in set(VIEWS) - SEVERAL - {"expand", "expand_as", "unfold", "as_strided"}:
        refused("a view of a leaf Variable that requires grad", write, VIEWS[name](x))
        refused("a view of a leaf Variable that requires grad", write, VIEWS[name](x)[:1])
    if write is not WRITES["Function"]:
        assert (x.tolist(), x._version) == before
        with ad.no_grad():
            write(x)
            write(x[0])
        assert x._version > before[1] and x.requires_grad and x.is_leaf


@each_write
@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_one_of_several_views(write, name):
    phrase = "is the output of a function that returns multiple views"
    x, base = matrix()
    refused(phrase, write, VIEWS[name](base))
    refused(phrase, write, VIEWS[name](base)[:1])
    refused(phrase, write, VIEWS[name](x))  # of a leaf as well
    # Their base may be written; they are out of date then.
    part = VIEWS[name](base)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        part * 1
    # Where nothing needs a gradient they may be written.
    constant = ad.ones(2, 3)
    write(VIEWS[name](constant))
    assert constant._version > 0


@each_write
@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"expand", "expand_as", "unfold", "as_strided"}))
def test_views_made_under_no_grad(write, name):
    _, base = matrix()
    with ad.no_grad():
        v = VIEWS[name](base)
    refused(
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled", write, v
    )
    with ad.no_grad():
        v = VIEWS[name](base)
    refused("a view of a view which was created in no_grad mode and is being modified inplace", write, v[:1])
    base.mul_(2)
    with pytest.raises(
        RuntimeError, match="created in no_grad mode and its base or another view of its base"
    ):
        v * 1
    with ad.inference_mode():
        v = VIEWS[name](base)
    refused("A view was created in inference mode and is being modified inplace in normal mode", write, v)
    # Of a constant it is no matter.
    constant = ad.ones(2, 3)
    with ad.no_grad():
        v = VIEWS[name](constant)
    write(v)
    assert constant._version > 0


@each_write
@pytest.mark.parametrize("function", [Itself, Row])
def test_views_made_by_functions(write, function):
    x, base = matrix()
    for t in (x, base, base[...]):
        refused("created inside a custom Function", write, function.apply(t))
        refused("created inside a custom Function", write, function.apply(t)[:1])
    v = function.apply(base)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        v * 1
    write(function.apply(base).clone())


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("name", ["operator", "copy", "item", "random"])
def test_several_elements_at_one_address(name, track):
    for make in (
        lambda t: t[:1].expand(4, 3),
        lambda t: t[0].as_strided((2, 2), (0, 1)),
        lambda t: t[:1].expand(4, 3).T[1:],
        lambda t: t[:, :1].expand_as(t).unsqueeze(0),
    ):
        base = matrix()[1] if track else ad.ones(2, 3)
        refused("more than one element of the written-to tensor refers to", WRITES[name], make(base))
        assert base._version == 0
        with ad.no_grad():
            refused("more than one element of the written-to tensor refers to", WRITES[name], make(base))
    WRITES[name](ad.ones(2, 1).expand(2, 1))  # a dimension of size 1 repeats nothing


def test_operands_may_overlap_the_tensor_that_is_written():
    x = ad.arange(5.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7]
    x[:-1].copy_(x[1:])
    assert x.tolist() == [1, 3, 5, 7, 7]


def base_detached_after_its_view(detach):
    p = ad.ones(2, 2, requires_grad=True)
    base = p * 2 if detach else p
    view = base.t()
    if detach:
        base.detach_()
    else:
        base.requires_grad_(False)
    base.mul_(3)
    return p, base, view


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("ask", ["grad_fn", "requires_grad", "is_leaf"])
def test_a_view_goes_on_requiring_a_gradient_that_its_detached_base_does_not_get(detach, ask):
    p, base, view = base_detached_after_its_view(detach)
    getattr(view, ask)
    assert (view.requires_grad, view.is_leaf, base.requires_grad) == (True, False, False)
    assert view.grad_fn.name() == "AsStridedBackward0" and view.grad_fn.next_functions == ((None, 0),)
    (view * 2).sum().backward()
    assert p.grad is None and base.grad is None
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.mul_(2)
    with ad.no_grad():
        view.mul_(2)
    assert base[0, 0].item() == (12 if detach else 6)


@pytest.mark.parametrize(
    "part", [lambda x: x.narrow(1, 0, 0), lambda x: x[2:], lambda x: x.as_strided((0, 3), (3, 1))]
)
@pytest.mark.parametrize("written", [False, True])
def test_a_view_of_no_elements_gives_a_gradient_of_zeros(part, written):
    x = ad.ones(2, 3, requires_grad=True)
    y = part(x)
    if written:
        with ad.no_grad():
            x.mul_(1)
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "split", [lambda x: x.tensor_split(2), lambda x: x.tensor_split(ad.tensor(2)), lambda x: x.hsplit(2)]
)
def test_parts_of_a_tensor_split_may_be_written(split):
    x = ad.arange(5.0, requires_grad=True)
    parts = split((x * 1)[:4])
    parts[0].mul_(3)
    sum(p.sum() for p in parts).backward()
    assert x.grad.tolist() == [3, 3, 1, 1, 0]
