"""Views that were made without being recorded, of bases that require a gradient: they are no leaves of their own, and follow
their base once one of them is written.
"""

import pytest

import adjoint as ad


def unrecorded(x):
    with ad.no_grad():
        return x[0]


def test_nothing_flows_to_a_view_made_without_grad():
    x = ad.ones(2, 2, requires_grad=True)
    v = unrecorded(x)
    assert v.requires_grad and v.is_leaf
    y = (v * v).sum()
    assert y.requires_grad and y.grad_fn.next_functions[0][0].next_functions == ((None, 0), (None, 0))
    y.backward()
    assert v.grad is None and x.grad is None
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        ad.autograd.grad(v.sum(), v)
    assert ad.autograd.grad(v.sum(), v, allow_unused=True) == (None,)


def test_asked_to_require_a_gradient_it_is_a_leaf():
    v = unrecorded(ad.ones(2, 2, requires_grad=True)).requires_grad_()
    v.sum().backward()
    assert v.grad.tolist() == [1, 1]


def test_a_view_follows_a_base_that_requires_a_gradient_since_once_it_is_written():
    x = ad.ones(2, 2)
    v = x.view(4)
    x.requires_grad_()
    assert v.is_leaf and v.grad_fn is None
    with ad.no_grad():
        v[0] = 5
    assert not v.is_leaf and v.grad_fn.name() == "AsStridedBackward0"
    (v * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_a_view_follows_a_base_that_requires_a_gradient_after_it_was_written():
    x = ad.ones(2, 2)
    v = x.view(4)
    x.mul_(3)
    assert v.is_leaf and not v.requires_grad
    x.requires_grad_()
    assert not v.is_leaf and v.requires_grad
    (v * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_the_gradient_of_a_view_that_cannot_follow_its_base_can_be_asked():
    x = ad.ones(2, 2, requires_grad=True) * 1
    part, _ = x.chunk(2)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Split is a view and its base"):
        part.grad_fn  # noqa: B018
    with pytest.warns(UserWarning, match="not a leaf"):
        assert part.grad is None


class Doubled(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Kept(ad.autograd.Function):
    kept = None

    @staticmethod
    def forward(ctx, x):
        return Kept.kept

    @staticmethod
    def backward(ctx, g):
        return None


@pytest.mark.parametrize("mode", [ad.no_grad, ad.inference_mode])
@pytest.mark.parametrize("leaf", [True, False])
def test_what_a_function_gives_without_being_recorded_requires_nothing(mode, leaf):
    x = ad.ones(2, requires_grad=True)
    x = x if leaf else x * 1
    with mode():
        y = Doubled.apply(x)
    assert y is not x and not y.requires_grad and y.grad_fn is None and y.tolist() == x.tolist() == [2, 2]
    assert x.requires_grad and x.is_leaf == leaf and x._version == y._version == 2
    Kept.kept = x
    with mode():
        y = Kept.apply(ad.ones(2))
    assert y is not x and not y.requires_grad and x.requires_grad
    Kept.kept = None


@pytest.mark.parametrize(
    "write, name",
    [
        (lambda y, x: y.__setitem__(0, 1.5), "CopySlices"),
        (lambda y, x: y.__setitem__(0, x[0]), "CopySlices"),
        (lambda y, x: y.copy_(x), "CopyBackwards"),
        (lambda y, x: y[0].mul_(2), "CopySlices"),
    ],
)
def test_nodes_of_writes_are_named_as_torch_s(write, name):
    x = ad.ones(2, 2, requires_grad=True)
    y = x * 1
    write(y, x)
    assert type(y.grad_fn).__name__ == name
