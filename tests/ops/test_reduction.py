"""Reductions: dimensions, keepdim, empty inputs, dtype=, NaN, var and std, ties, sorting and scans.

`REDUCTIONS` maps a name to NumPy's function of (array, axis, keepdims). Everything that is common to all is
tested over that table; what is special about one has its own test below.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.special
from helpers import array, assert_close, assert_same, check_derivatives, layouts, normal, tensor
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import adjoint as ad

nan, inf = math.nan, math.inf


def norm_of(order):
    return lambda a, axis, keepdims: np.sum(np.abs(a) ** order, axis=axis, keepdims=keepdims) ** (1 / order)


REDUCTIONS = {
    "sum": (lambda x, **k: x.sum(**k), np.sum),
    "mean": (lambda x, **k: x.mean(**k), np.mean),
    "var": (
        lambda x, **k: x.var(**k),
        lambda a, axis, keepdims: np.var(a, axis=axis, keepdims=keepdims, ddof=1),
    ),
    "std": (
        lambda x, **k: x.std(**k),
        lambda a, axis, keepdims: np.std(a, axis=axis, keepdims=keepdims, ddof=1),
    ),
    "amax": (lambda x, **k: x.amax(**k), np.max),
    "amin": (lambda x, **k: x.amin(**k), np.min),
    "logsumexp": (lambda x, **k: x.logsumexp(**k), scipy.special.logsumexp),
    "vector_norm": (lambda x, **k: ad.linalg.vector_norm(x, **k), norm_of(2)),
    "vector_norm 1": (lambda x, **k: ad.linalg.vector_norm(x, 1, **k), norm_of(1)),
    "vector_norm 3": (lambda x, **k: ad.linalg.vector_norm(x, 3, **k), norm_of(3)),
    "norm": (lambda x, **k: x.norm(p=2, **k), norm_of(2)),
    "all": (
        lambda x, **k: (x > 0).all(**k),
        lambda a, axis, keepdims: np.all(a > 0, axis=axis, keepdims=keepdims),
    ),
    "any": (
        lambda x, **k: (x > 1).any(**k),
        lambda a, axis, keepdims: np.any(a > 1, axis=axis, keepdims=keepdims),
    ),
}
DIMS = [0, 1, 2, -1, -3, (0, 1), (0, 2), (-1, 0), (0, 1, 2)]
SMOOTH = [
    "sum",
    "mean",
    "var",
    "std",
    "amax",
    "amin",
    "logsumexp",
    "vector_norm",
    "vector_norm 1",
    "vector_norm 3",
]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name, dim", itertools.product(REDUCTIONS, DIMS))
def test_over_dimensions(name, dim, keepdim):
    call, reference = REDUCTIONS[name]
    a = normal(3, 4, 2)
    y = call(tensor(a), dim=dim, keepdim=keepdim)
    assert_close(y, reference(a, axis=dim, keepdims=keepdim))


@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n != "logsumexp"])
def test_over_everything(name):
    call, reference = REDUCTIONS[name]
    a = normal(3, 4, 2)
    assert_close(call(tensor(a)), reference(a, axis=None, keepdims=False))
    assert call(tensor(a)).shape == ()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_layouts(name):
    call, reference = REDUCTIONS[name]
    a = normal(4, 5, 3)
    for label, x in layouts(a):
        for dim in (0, 1, 2, (0, 2)):
            assert_close(call(x, dim=dim), reference(a, axis=dim, keepdims=False)), label
    wide = np.broadcast_to(normal(4, 1, 3), (4, 5, 3))
    x = tensor(normal(4, 1, 3)).expand(4, 5, 3)
    assert_close(call(x, dim=1), reference(wide, axis=1, keepdims=False), atol=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dim", [1, (0, 2)])
def test_gradient(name, dim):
    call, _ = REDUCTIONS[name]
    check_derivatives(lambda x: call(x, dim=dim), [normal(2, 3, 2)])
    check_derivatives(lambda x: call(x, dim=dim, keepdim=True) * x, [normal(2, 3, 2)])


@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n not in ("norm",)])
def test_dimension_errors(name):
    call, _ = REDUCTIONS[name]
    x = ad.ones(2, 3)
    with pytest.raises(
        IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"
    ):
        call(x, dim=2)
    with pytest.raises(IndexError, match="but got -3"):
        call(x, dim=-3)
    with pytest.raises(RuntimeError, match="appears multiple times in the list of dims"):
        call(x, dim=(0, 0))
    with pytest.raises(RuntimeError, match="appears multiple times in the list of dims"):
        call(x, dim=(1, -1))


def test_zero_dimensional_input():
    x = ad.tensor(3.0, dtype=ad.float64, requires_grad=True)
    assert x.sum().item() == 3 and x.sum(0).item() == 3 and x.sum(-1).shape == ()
    assert x.amax(0).item() == 3 and x.prod(0).item() == 3
    assert ad.softmax(x, 0).item() == 1
    assert x.cumsum(0).item() == 3 and x.sort().values.item() == 3
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert math.isnan(x.var().item())
    (g,) = ad.autograd.grad(x.sum(0), x)
    assert g.item() == 1 and g.shape == ()


def test_empty_identities():
    e = ad.zeros(0, 3, dtype=ad.float64)
    assert e.sum().item() == 0 and e.prod().item() == 1 and math.isnan(e.mean().item())
    assert e.sum(0).tolist() == [0, 0, 0] and e.prod(0).tolist() == [1, 1, 1]
    assert e.sum(1).shape == (0,)
    assert e.all().item() is True and e.any().item() is False
    assert e.logsumexp(0).tolist() == [-inf] * 3
    assert ad.linalg.vector_norm(e).item() == 0
    assert e.cumsum(0).shape == (0, 3) and e.sort(0).values.shape == (0, 3)
    assert e.amax(1).shape == (0,) and e.max(1).values.shape == (0,) and e.argmax(1).shape == (0,)
    assert ad.softmax(e, 0).shape == (0, 3)
    assert e.count_nonzero().item() == 0
    x = ad.zeros(0, 3, dtype=ad.float64, requires_grad=True)
    (g,) = ad.autograd.grad(x.sum() + x.prod(), x)
    assert g.shape == (0, 3)


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda e: e.max(), RuntimeError),
        (lambda e: e.argmax(), IndexError),
        (lambda e: e.amax(), (IndexError, RuntimeError)),
        (lambda e: e.amax(0), IndexError),
        (lambda e: e.max(0), IndexError),
        (lambda e: e.argmin(0), IndexError),
        (lambda e: e.min(), RuntimeError),
    ],
)
def test_empty_without_identity_is_an_error(call, kind):
    with pytest.raises(kind, match="(?i)numel\\(\\) == 0|no identity|non-zero size|to have non-zero"):
        call(ad.zeros(0, 3))


def test_dtype_argument():
    x = ad.tensor([1.5, 2.5, 250.0])
    assert x.sum(dtype=ad.float64).dtype == ad.float64
    assert x.sum(dtype=ad.int64).item() == 1 + 2 + 250
    i = ad.tensor([100, 100, 100], dtype=ad.int8)
    assert i.sum().item() == 300 and i.sum(dtype=ad.int8).item() == 44
    assert i.to(ad.int32).cumsum(0).dtype == ad.int64
    assert i.prod(dtype=ad.float32).item() == 1e6
    assert x.mean(dtype=ad.float64).dtype == ad.float64
    assert ad.softmax(i, 0, dtype=ad.float32).dtype == ad.float32
    with pytest.raises(RuntimeError, match="(?i)mean\\(\\)?: could not infer output dtype|floating"):
        i.mean()
    h = ad.full((4096,), 1.0, dtype=ad.float16)
    assert h.sum().item() == 4096
    assert ad.full((1000,), 1.0, dtype=ad.bfloat16).sum().item() == 1000


def test_float32_sums_keep_their_accuracy():
    x = ad.full((1_000_000,), 0.1)
    assert x.sum().item() == pytest.approx(1e5, rel=1e-6)
    assert x.reshape(1000, 1000).sum(0).sum().item() == pytest.approx(1e5, rel=1e-6)
    assert x.mean().item() == pytest.approx(0.1, rel=1e-6)
    shifted = ad.arange(1000, dtype=ad.float32) + 1e6
    assert shifted.var().item() == pytest.approx(np.var(np.arange(1000), ddof=1), rel=1e-4)


def test_nan_propagates():
    a = np.array([[1.0, nan, 3.0], [4.0, 5.0, 6.0]])
    x = tensor(a)
    for name in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "var"):
        out = array(getattr(x, name)(1)).tolist()
        assert math.isnan(out[0]) and not math.isnan(out[1]), name
    assert math.isnan(x.max().item()) and math.isnan(x.min().item())
    values, indices = x.max(1)
    assert math.isnan(values[0].item()) and indices.tolist() == [1, 2]
    assert x.argmin(1).tolist() == [1, 0] and x.argmax().item() == 1
    assert math.isnan(x.median().item())
    assert_same(ad.nanmedian(x), np.float64(4.0))
    assert_same(ad.nansum(x, 1), np.nansum(a, 1))
    assert math.isnan(x.cummax(1).values[0, 2].item())


def test_mean_and_sum_take_lists_none_and_keepdim():
    a = normal(2, 3)
    assert_close(tensor(a).sum([0, 1]), a.sum())
    assert_close(ad.sum(tensor(a), dim=None), a.sum())
    assert_close(ad.mean(tensor(a), (0,), keepdim=True), a.mean(0, keepdims=True))
    assert_close(ad.sum(tensor(a), -1, True), a.sum(-1, keepdims=True))
    out = ad.empty(3, dtype=ad.float64)
    assert ad.sum(tensor(a), 0, out=out) is out
    assert_close(out, a.sum(0))


def test_prod():
    a = normal(3, 4)
    assert_close(tensor(a).prod(), a.prod())
    assert_close(tensor(a).prod(1, keepdim=True), a.prod(1, keepdims=True))
    check_derivatives(lambda x: x.prod(1), [a])
    check_derivatives(lambda x: x.prod(), [normal(4)])
    # The gradient stands with one zero, and with two.
    check_derivatives(lambda x: x.prod(1), [np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.0, 2.0, 3.0]])])
    check_derivatives(lambda x: x.prod(), [np.array([2.0, 0.0, 3.0])])


def test_var_and_std():
    a = normal(3, 5)
    for correction in (0, 1, 2):
        assert_close(tensor(a).var(1, correction=correction), a.var(1, ddof=correction))
        assert_close(ad.std(tensor(a), dim=0, correction=correction), a.std(0, ddof=correction))
    assert_close(tensor(a).var(unbiased=False), a.var())
    assert_close(tensor(a).var(0, False), a.var(0))
    for found, wanted in zip(ad.var_mean(tensor(a), 1), (a.var(1, ddof=1), a.mean(1)), strict=True):
        assert_close(found, wanted)
    for found, wanted in zip(ad.std_mean(tensor(a), 1), (a.std(1, ddof=1), a.mean(1)), strict=True):
        assert_close(found, wanted)
    check_derivatives(lambda x: x.var((0, 1), correction=0), [a])
    z = normal(4, kind="complex")
    assert_close(tensor(z).var(), np.var(z, ddof=1), dtype=ad.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert math.isnan(ad.ones(1).var().item())


def test_max_and_min_over_a_dimension():
    a = normal(3, 4)
    for name, arg in (("max", np.argmax), ("min", np.argmin)):
        found = getattr(tensor(a), name)(dim=1)
        assert_same(found.values, getattr(np, name)(a, 1))
        assert_same(found.indices, arg(a, 1), ad.int64)
        values, indices = getattr(ad, name)(tensor(a), 0, keepdim=True)
        assert_same(values, getattr(np, name)(a, 0, keepdims=True))
        assert_same(indices, np.expand_dims(arg(a, 0), 0))
        check_derivatives(lambda x, name=name: getattr(x, name)(1).values ** 2, [a])
        check_derivatives(lambda x, name=name: getattr(x, name)() ** 2, [a])
    assert_same(ad.max(tensor(a), tensor(a.T[:, :1].T[:, :1])), np.maximum(a, a[0, 0]))
    assert_same(tensor(a).argmax(), np.argmax(a))
    assert_same(tensor(a).argmin(1, keepdim=True), np.argmin(a, 1)[:, None])
    lo, hi = ad.aminmax(tensor(a))
    assert lo.item() == a.min() and hi.item() == a.max()


def test_ties():
    """max() and amax share evenly; max(dim) gives all to the element whose index it reports."""
    x = ad.tensor([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]], dtype=ad.float64, requires_grad=True)
    assert_close(ad.autograd.grad(x.max(), x)[0], np.array([[0.5, 0, 0.5], [0, 0, 0]]))
    assert_close(ad.autograd.grad(x.min(), x)[0], np.array([[0, 1.0, 0], [0, 0, 0]]))
    third = 1 / 3
    assert_close(ad.autograd.grad(x.amax(1).sum(), x)[0], np.array([[0.5, 0, 0.5], [third] * 3]))
    found = x.max(1)
    expected = np.zeros((2, 3))
    expected[[0, 1], array(found.indices)] = 1
    assert_close(ad.autograd.grad(found.values.sum(), x)[0], expected)
    assert ad.tensor([1, 3, 3]).argmax().item() == 1
    assert ad.tensor([[1, 1], [0, 0]]).argmin(0).tolist() == [1, 1]


def test_norm_at_zero_and_orders():
    x = ad.zeros(3, dtype=ad.float64, requires_grad=True)
    (g,) = ad.autograd.grad(ad.linalg.vector_norm(x), x)
    assert g.tolist() == [0, 0, 0]
    a = normal(3, 4)
    for order in (0, 1, 2, 3.5, inf, -inf, -1):
        expected = np.linalg.norm(a, order, axis=1)
        assert_close(ad.linalg.vector_norm(tensor(a), order, 1), expected)
        if order != 0:
            check_derivatives(lambda t, p=order: ad.linalg.vector_norm(t, p, 1), [a])
    assert_close(tensor(a).norm(), np.linalg.norm(a))
    assert_close(ad.norm(tensor(a), 1, 0), np.abs(a).sum(0))
    big = ad.tensor([3e30, 4e30])
    assert big.double().norm().item() == pytest.approx(5e30)


def test_softmax_and_log_softmax():
    a = normal(3, 4) * 5
    for dim in (0, 1, -1):
        assert_close(ad.softmax(tensor(a), dim), scipy.special.softmax(a, dim))
        assert_close(tensor(a).log_softmax(dim), scipy.special.log_softmax(a, dim))
        check_derivatives(lambda x, d=dim: ad.softmax(x, d), [a[:2, :3]])
        check_derivatives(lambda x, d=dim: ad.log_softmax(x, d), [a[:2, :3]])
    large = ad.tensor([1000.0, 999.0, -1000.0])
    assert_close(ad.softmax(large, 0), scipy.special.softmax(np.array([1000.0, 999, -1000])), rtol=1e-6)
    assert_close(ad.logsumexp(large, 0), np.float32(1000 + math.log1p(math.exp(-1))), rtol=1e-6)
    assert ad.tensor([-inf, -inf]).logsumexp(0).item() == -inf
    assert ad.tensor([inf, 1.0]).logsumexp(0).item() == inf


def test_scans():
    a = normal(3, 4)
    for dim in (0, 1):
        assert_close(tensor(a).cumsum(dim), np.cumsum(a, dim))
        assert_close(ad.cumprod(tensor(a), dim), np.cumprod(a, dim))
        assert_close(tensor(a).cummax(dim).values, np.maximum.accumulate(a, dim))
        assert_close(ad.cummin(tensor(a), dim).values, np.minimum.accumulate(a, dim))
        assert_close(tensor(a).logcumsumexp(dim), np.logaddexp.accumulate(a, dim))
        for f in (ad.cumsum, ad.cumprod, ad.logcumsumexp, lambda x, d: ad.cummax(x, d).values ** 2):
            check_derivatives(lambda x, f=f, d=dim: f(x, d), [a[:, :3]])
    check_derivatives(lambda x: x.cumprod(0), [np.array([2.0, 0.0, 3.0, 0.0, 1.5])])
    values, indices = ad.tensor([1, 3, 3, 2]).cummax(0)
    assert values.tolist() == [1, 3, 3, 3] and indices.tolist() == [0, 1, 2, 2]
    assert ad.cumsum(ad.tensor([True, True]), 0).tolist() == [1, 2]


def test_sort():
    a = normal(4, 5)
    for dim in (0, 1, -1):
        for descending in (False, True):
            values, indices = tensor(a).sort(dim, descending=descending)
            order = np.argsort(-a if descending else a, dim, kind="stable")
            assert_same(values, np.take_along_axis(a, order, dim))
            assert_same(indices, order)
            assert_same(tensor(a).argsort(dim, descending), order)
    check_derivatives(lambda x: x.sort(0).values ** 2, [a])
    ties = ad.tensor([1, 0, 1, 0, 1])
    assert ad.sort(ties, stable=True).indices.tolist() == [1, 3, 0, 2, 4]
    assert ad.sort(ties, stable=True, descending=True).indices.tolist() == [0, 2, 4, 1, 3]
    assert ad.argsort(ties, stable=True).tolist() == [1, 3, 0, 2, 4]
    with_nan = ad.tensor([nan, 1.0, -inf, inf])
    assert_same(with_nan.sort().values, np.array([-inf, 1, inf, nan], np.float32))
    assert ad.tensor([True, False]).sort().values.tolist() == [False, True]


def test_topk_kthvalue_and_median():
    a = normal(3, 6)
    values, indices = tensor(a).topk(2)
    order = np.argsort(-a, 1)[:, :2]
    assert_same(values, np.take_along_axis(a, order, 1))
    assert_same(indices, order)
    assert_same(ad.topk(tensor(a), 3, dim=0, largest=False).values, np.sort(a, 0)[:3])
    check_derivatives(lambda x: x.topk(2).values ** 2, [a])
    with pytest.raises(RuntimeError, match="k not in range|out of range"):
        tensor(a).topk(7)
    # The lower of the two middle values, as torch has it.
    assert ad.tensor([4.0, 1.0, 3.0, 2.0]).median().item() == 2
    values, indices = tensor(a).median(1)
    assert_same(values, np.sort(a, 1)[:, 2])
    assert_same(values, np.take_along_axis(a, array(indices)[:, None], 1)[:, 0])
    check_derivatives(lambda x: x.median(1).values ** 2, [a])
    check_derivatives(lambda x: x.median() ** 2, [a])


def test_count_nonzero_all_any():
    a = np.array([[0, 1, 2], [0, 0, 3]])
    assert ad.count_nonzero(tensor(a)).item() == 3
    assert ad.count_nonzero(tensor(a), dim=0).tolist() == [0, 1, 2]
    assert tensor(a).count_nonzero((0, 1)).item() == 3
    assert tensor(a).all(0).tolist() == [False, False, True]
    assert tensor(a).any(1, keepdim=True).tolist() == [[True], [True]]
    assert ad.tensor([nan]).all().item() is True
    assert ad.all(ad.tensor([1, 2], dtype=ad.uint8)).item() in (True, 1)


@given(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5), st.data())
def test_any_set_of_dimensions(shape, data):
    dims = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    keepdim = data.draw(st.booleans())
    signed = tuple(d - len(shape) if data.draw(st.booleans()) else d for d in dims)
    a = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float64)
    assert_same(tensor(a).sum(signed, keepdim=keepdim), a.sum(tuple(dims), keepdims=keepdim))
    x = tensor(a, requires_grad=True)
    y = x.sum(signed, keepdim=keepdim)
    (g,) = ad.autograd.grad(y, x, ad.ones_like(y))
    assert_same(g, np.ones(shape))


@given(
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=9), elements=st.integers(-4, 4)), st.data()
)
def test_stable_sort_matches_numpy(a, data):
    dim = data.draw(st.integers(0, a.ndim - 1))
    values, indices = ad.sort(tensor(a), dim=dim, stable=True)
    assert_same(values, np.sort(a, dim))
    assert_same(indices, np.argsort(a, dim, kind="stable"))
