"""Sums of float16 and bfloat16: whatever meets in one place is added up in float32 and rounded once.

A running sum of ones in their own precision stops at 2048 or 256. Every row that can add many elements into one is here with
6,000 ones, forwards or as a gradient; what a row needs beside them is drawn by `ROWS`. Start reading at
`test_six_thousand_ones_are_six_thousand`.
"""

import pytest

import adjoint as ad
from adjoint.nn import functional as F

N = 6000


def at():
    return ad.zeros(N, dtype=ad.int64)


def gradient(f, shape, dtype, place=0):
    """One element of the gradient of the sum of f(v)."""
    v = ad.ones(shape, dtype=dtype, requires_grad=True)
    f(v).sum().backward()
    g = v.grad.to_dense() if v.grad.is_sparse else v.grad
    return g.flatten()[place]


def made(f):
    """Of ones and zeros of a type."""
    return lambda dtype: f(lambda *s: ad.ones(s, dtype=dtype), lambda *s: ad.zeros(s, dtype=dtype))


def graded(f, *shape, place=0):
    return lambda dtype: gradient(f, shape, dtype, place)


ROWS = {
    "sum": made(lambda one, zero: one(N).sum()),
    "mean": made(lambda one, zero: one(N).mean() * N),
    "cumsum": made(lambda one, zero: one(N).cumsum(0)[-1]),
    "norm": made(lambda one, zero: one(N).norm(1)),
    "dot": made(lambda one, zero: ad.dot(one(N), one(N))),
    "mm": made(lambda one, zero: (one(2, N) @ one(N, 2))[0, 0]),
    "trapezoid": made(lambda one, zero: ad.trapezoid(one(N + 1))),
    "scatter_add": made(lambda one, zero: zero(1).scatter_add(0, at(), one(N))[0]),
    "scatter_add, rows": made(
        lambda one, zero: zero(1, 3).scatter_add(0, at()[:, None].expand(N, 3), one(N, 3))[0, 0]
    ),
    "scatter, add": made(lambda one, zero: zero(1).scatter(0, at(), one(N), reduce="add")[0]),
    "scatter_reduce, sum": made(lambda one, zero: zero(1).scatter_reduce(0, at(), one(N), "sum")[0]),
    "scatter_reduce, mean": made(
        lambda one, zero: zero(1).scatter_reduce(0, at(), one(N), "mean", include_self=False)[0] * N
    ),
    "index_reduce, mean": made(
        lambda one, zero: zero(1).index_reduce(0, at(), one(N), "mean", include_self=False)[0] * N
    ),
    "segment_reduce": made(lambda one, zero: ad.segment_reduce(one(N), "sum", lengths=ad.tensor([N]))[0]),
    "index_add": made(lambda one, zero: zero(1).index_add(0, at(), one(N))[0]),
    "index_add, rows": made(lambda one, zero: zero(1, 64).index_add(0, at(), one(N, 64))[0, 63]),
    "index_add, few of many": made(lambda one, zero: zero(100_000).index_add(0, at() + 7, one(N))[7]),
    "index_add, columns": made(lambda one, zero: zero(3, 1).index_add(1, at(), one(3, N))[2, 0]),
    "index_add, strided": made(lambda one, zero: zero(64, 1).t().index_add(0, at(), one(N, 64))[0, 9]),
    "index_put": made(lambda one, zero: zero(1).index_put((at(),), one(N), accumulate=True)[0]),
    "index_put, one value": made(lambda one, zero: zero(1).index_put((at(),), one(), accumulate=True)[0]),
    "index_put, two indices": made(
        lambda one, zero: zero(2, 2).index_put((at(), at()), one(N), accumulate=True)[0, 0]
    ),
    "put": made(lambda one, zero: zero(1).put(at(), one(N), accumulate=True)[0]),
    "bincount": made(lambda one, zero: ad.bincount(at(), one(N))[0]),
    "histc": made(lambda one, zero: ad.histc(one(N), 1, 0, 2)[0]),
    "embedding_bag": made(lambda one, zero: F.embedding_bag(at()[None], one(1, 1), mode="sum")[0, 0]),
    "embedding_bag, weights": made(
        lambda one, zero: F.embedding_bag(at()[None], one(1, 1), mode="sum", per_sample_weights=one(1, N))[
            0, 0
        ]
    ),
    "conv1d": made(lambda one, zero: F.conv1d(one(1, 1, N), one(1, 1, N))[0, 0, 0]),
    "avg_pool1d": made(lambda one, zero: F.avg_pool1d(one(1, 1, N), N)[0, 0, 0] * N),
    "nll_loss": made(lambda one, zero: F.nll_loss(-one(N, 2), at(), reduction="sum")),
    "cdist": made(lambda one, zero: ad.cdist(one(1, N), zero(1, N), 1.0)[0, 0]),
    "coalesce": made(lambda one, zero: ad.sparse_coo_tensor(at()[None], one(N), (1,)).coalesce().values()[0]),
    "to_dense": made(lambda one, zero: ad.sparse_coo_tensor(at()[None], one(N), (1,)).to_dense()[0]),
    "gradient of expand": graded(lambda v: v.expand(N), 1),
    "gradient of gather": graded(lambda v: v.gather(0, at()), 1),
    "gradient of take_along_dim": graded(lambda v: ad.take_along_dim(v, at(), 0), 1),
    "gradient of take": graded(lambda v: v.take(at()), 1),
    "gradient of x[i]": graded(lambda v: v[at()], 1),
    "gradient of x[i], rows": graded(lambda v: v[at()], 1, 64),
    "gradient of x[i, j]": graded(lambda v: v[at(), at()], 2, 2),
    "gradient of index_select": graded(lambda v: v.index_select(0, at()), 1),
    "gradient of as_strided": graded(lambda v: v.as_strided((N,), (0,)), 1),
    "gradient of unfold": graded(lambda v: v.unfold(0, N, 1), 2 * N - 1, place=N - 1),
    "gradient of embedding": graded(lambda v: F.embedding(at(), v), 1, 2),
    "gradient of embedding, sparse": graded(lambda v: F.embedding(at(), v, sparse=True), 1, 2),
    "gradient of pad": graded(lambda v: F.pad(v, (N - 1, 0), mode="replicate"), 1, 1),
    "gradient of grid_sample": graded(
        lambda v: F.grid_sample(v, ad.zeros(1, 60, 100, 2, dtype=v.dtype), align_corners=True), 1, 1, 1, 1
    ),
    "gradient of linear": graded(lambda v: F.linear(ad.ones(N, 1, dtype=v.dtype), v), 1, 1),
    "gradient of broadcasting": graded(lambda v: v * ad.ones(N, dtype=v.dtype), 1),
}


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("row", ROWS)
def test_six_thousand_ones_are_six_thousand(row, dtype):
    assert abs(float(ROWS[row](dtype)) - N) <= N / 128  # as near as bfloat16 comes


def test_means_of_more_than_halves_reach():
    src = ad.full((N,), 100.0, dtype=ad.float16)
    for made_of in (ad.scatter_reduce, ad.index_reduce):
        mean = made_of(ad.zeros(1, dtype=ad.float16), 0, at(), src, "mean", include_self=False)
        assert mean.item() == 100.0


def test_products_are_rounded_once():
    src = ad.full((64,), 1.0078125, dtype=ad.bfloat16)
    product = ad.ones(1, dtype=ad.bfloat16).scatter_reduce(0, ad.zeros(64, dtype=ad.int64), src, "prod")
    assert abs(product.item() - 1.0078125**64) < 0.005


def test_additions_reach_the_places_that_they_name():
    """As float32 has it, for views, repeated and negative places, several indices and masks."""
    ad.manual_seed(1)
    for dtype in (ad.float16, ad.bfloat16):
        base = ad.randint(0, 5, (5, 4, 6))
        for index in (
            (ad.tensor([0, 3, 3, -1]),),
            (None, ad.tensor([[0, 3], [3, 1]])),
            (ad.tensor([1, 1]), None, ad.tensor([2, 2])),
            (ad.tensor([4]), ad.tensor([[0], [3]]), ad.tensor([5, 5, 0])),
        ):
            places = [slice(None) if i is None else i for i in index]
            values = ad.randint(0, 5, base[tuple(places)].shape)
            for turn in (lambda t: t, lambda t: t.transpose(0, 2).contiguous().transpose(0, 2)):
                half, full = turn(base.to(dtype)), turn(base.float())
                half = half.index_put_(index, values.to(dtype), accumulate=True)
                full = full.index_put_(index, values.float(), accumulate=True)
                assert ad.equal(half.float(), full)
