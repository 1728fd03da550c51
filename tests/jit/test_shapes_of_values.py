"""Shapes that depend on values, under `jit`: replayed while they stay, a way of their own where they change, with eager's bits.

Start reading at `PROGRAMS`.
"""

import pytest
import twice

import adjoint as ad


def ones(x):
    return (x > 0).long()


def gradient_of(f):
    def run(x):
        x = x.detach().requires_grad_()
        loss = f(x)
        return loss.detach(), *ad.autograd.grad(loss, x)

    return run


def written(x):
    y = x.clone()
    y[y > 0] = y[y > 0] * 2
    return y


#: And whether the shapes change with the count of positive elements.
PROGRAMS = {
    "x[mask]": (lambda x: x[x > 0], True),
    "x[mask].sum() with its gradient": (gradient_of(lambda x: (x[x > 0] ** 2).sum()), True),
    "masked_select": (gradient_of(lambda x: ad.masked_select(x, x > 0).exp().sum()), True),
    "x[mask] = y": (written, True),
    "x[mask] = 0": (lambda x: x.clone().masked_fill_(x > 0, 0), False),
    "nonzero": (lambda x: ad.nonzero(x > 0), True),
    "where": (lambda x: x[ad.where(x > 0)], True),
    "argwhere": (lambda x: ad.argwhere(x > 0), True),
    "unique": (lambda x: ad.unique(x.clamp(min=0).ceil(), return_inverse=True, return_counts=True), True),
    "repeat_interleave": (gradient_of(lambda x: ad.repeat_interleave(x, ones(x) + 1).sin().sum()), True),
    "bincount": (lambda x: ad.bincount(ones(x) * ones(x).sum()), True),
    "one_hot": (lambda x: ad.nn.functional.one_hot(ones(x)), False),
    "the gradient of det": (gradient_of(lambda x: ad.linalg.det(x[:4].view(2, 2) + x[4:])), False),
    "of singular ones among others": (
        gradient_of(lambda x: ad.linalg.det(ad.stack([x[:4], x[:2].repeat(2)]).view(2, 2, 2)).sum()),
        False,
    ),
    "histc": (lambda x: ad.histc(x, 4), False),
    "split": (lambda x: x.split([int(ones(x).sum()), 6 - int(ones(x).sum())])[0], True),
    "range": (lambda x: sum(x[i] for i in range(int(ones(x).sum()))), True),
}


def counted(k):
    """Of six elements 3, 2 or 1 are positive, four calls each."""
    return ad.arange(6.0) - 2.5 - k // 4 % 3 + k % 4 * 0.01


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_way_for_each_count(name):
    f, changes = PROGRAMS[name]
    jitted = ad.jit(f)
    for k in range(24):
        assert twice.picture(jitted(counted(k))) == twice.picture(f(counted(k))), (
            f"call {k}: {jitted.stats()}"
        )
    stats = jitted.stats()
    assert stats["replayed"] >= 14, stats
    assert stats["traces"] >= 3 or not changes, stats


def test_in_the_graph():
    jitted = ad.jit(lambda w: (w[w > 0] ** 2).sum())
    for k in range(24):
        a, b = counted(k).requires_grad_(), counted(k).requires_grad_()
        jitted(a).backward()
        (b[b > 0] ** 2).sum().backward()
        assert a.grad.equal(b.grad)
    assert jitted.stats()["replayed"] >= 14, jitted.stats()
