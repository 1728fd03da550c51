"""What a backward pass takes beyond the gradients that it leaves: the last step of a rule, often a view, is not copied."""

import pytest

import adjoint as ad
from adjoint.nn import functional as F


def taken(f):
    """The peak of allocated bytes while `f` ran, above what there was before."""
    ad.reset_peak_memory_statistics()
    before = ad.memory_statistics()["allocated_bytes"]
    f()
    return ad.memory_statistics()["peak_allocated_bytes"] - before


N = 1 << 16
CASES = {
    "reshape": lambda x: (x * 2).reshape(-1),
    "transpose": lambda x: (x * 2).t(),
    "of a leaf": lambda x: x.reshape(-1),
    "max_pool": lambda x: F.max_pool2d(x.view(1, 4, 128, 128), 2),
    "unfold of time": lambda x: F.max_pool1d(x.view(1, 4, N // 4), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_that_only_its_view_has_is_kept_as_it_is(name):
    x = ad.rand(4, N // 4, requires_grad=True)
    y = CASES[name](x)
    g = ad.rand_like(y)
    assert taken(lambda: y.backward(g)) < 1.5 * x.numel() * 4
    assert x.grad.is_contiguous() and x.grad._base is None and not x.grad.requires_grad


def test_what_others_hold_is_copied():
    x = ad.rand(8, requires_grad=True)
    held = []
    y = x.reshape(2, 4)
    g = ad.rand(2, 4)
    y.register_hook(held.append)
    y.backward(g)
    x.grad.zero_()
    assert g.any() and held[0].any()  # neither is the leaf's gradient

    class Half(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:4].clone()

        @staticmethod
        def backward(ctx, g):
            whole = ad.ones(8)
            held.append(whole)
            return whole.view(8)

    x.grad = None
    Half.apply(x).sum().backward()
    x.grad.zero_()
    assert held[-1].tolist() == [1.0] * 8


def test_a_part_of_more_memory_is_copied():
    """Else a small gradient would keep all of it."""

    class Part(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return ad.ones(1000, 8)[3]

    x = ad.rand(8, requires_grad=True)
    Part.apply(x).sum().backward()
    assert x.grad.untyped_storage().nbytes() == 32
