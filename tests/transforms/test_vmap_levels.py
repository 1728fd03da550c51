"""Writes of what is batched at several levels, and tangents that are batched further than their primal."""

import warnings

import pytest
from helpers import allocated, assert_near

import adjoint as ad
from adjoint import func


def _copied(x):
    z = ad.zeros(2, 2, dtype=ad.float64)
    z.copy_(x)
    return z


def _part(x):
    z = ad.zeros(2, 2, dtype=ad.float64)
    z[:, 1] = x
    return z


def _twice(x):
    z = ad.ones(2, 2, dtype=ad.float64)
    z += x
    z *= x
    return z


def _list(x):
    z = ad.zeros(4, dtype=ad.float64)
    return z.index_put_((ad.tensor([1, 3]),), x)


WRITES = [_copied, _part, _twice, _list]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("depth", [2, 3])
def test_a_new_tensor_takes_values_that_are_batched_at_several_levels(write, depth):
    x = ad.arange(24.0, dtype=ad.float64).reshape(2, 3, 4)
    f = write
    for _ in range(depth):
        f = func.vmap(f)
    x = x[0] if depth == 2 else x
    flat = x.reshape(-1)
    expected = ad.stack([write(v) for v in flat]).reshape(*x.shape, *write(flat[0]).shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it does not run sample by sample
        assert ad.equal(f(x), expected)


@pytest.mark.parametrize("write", WRITES)
def test_gradients_of_such_writes(write):
    x = ad.arange(6.0, dtype=ad.float64).reshape(2, 3).requires_grad_()
    (through,) = ad.autograd.grad(func.vmap(func.vmap(write))(x).sum(), x)
    alone = ad.stack([write(v).sum() for v in x.reshape(-1)]).sum()
    assert ad.equal(through, ad.autograd.grad(alone, x)[0])


def test_tangents_that_are_batched_further_than_their_primal():
    """The primal has the outer batch, the tangent both: it is laid out in new memory."""
    w, v, x = (ad.arange(float(n), dtype=ad.float64) + 1 for n in (3, 2, 4))

    def along(x, v):
        return func.jvp(lambda w: (w * x).sin(), (w,), (v * x * ad.ones_like(w),))[1]

    got = func.vmap(lambda x: func.vmap(lambda v: along(x, v))(v))(x)
    one_by_one = ad.stack([ad.stack([along(a, b) for b in v]) for a in x])
    assert_near(got, one_by_one)


def test_tangents_inside_of_a_batch_are_made_once():
    """Of the batched tensors; the samples have none of their own, which would hold the batch twice over."""
    w, v, x = (ad.ones(n, dtype=ad.float64) for n in (200, 30, 30))

    def along(x, v):
        return func.jvp(lambda w: (w * x).relu() + x, (w,), (v * x * w,))[1]

    ad.reset_peak_memory_statistics()
    before = allocated()
    got = func.vmap(lambda x: func.vmap(lambda v: along(x, v))(v))(x)
    used = ad.memory_statistics()["peak_allocated_bytes"] - before
    assert got.shape == (30, 30, 200) and used < 8 * got.numel() * 8
