"""Finding, counting and summing up, against NumPy; derivatives against finite differences."""

import numpy as np
import pytest
from helpers import array, assert_close, assert_same, check_derivatives, normal, tensor

import adjoint as ad


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    sequence = np.sort(normal(7))
    sequence[3] = sequence[2]
    found = np.concatenate([normal(5, seed=1), sequence, [np.inf, -np.inf]])
    side = "right" if right else "left"
    expected = np.searchsorted(sequence, found, side)
    assert_same(ad.searchsorted(tensor(sequence), tensor(found), right=right), expected, ad.int64)
    assert_same(ad.searchsorted(tensor(sequence), tensor(found), side=side), expected)
    assert_same(
        ad.bucketize(tensor(found), tensor(sequence), right=right, out_int32=True), expected, ad.int32
    )
    order = np.random.default_rng(0).permutation(7)
    shuffled = np.empty(7)
    shuffled[order] = sequence
    assert_same(ad.searchsorted(tensor(shuffled), tensor(found), right=right, sorter=tensor(order)), expected)
    rows, each = np.sort(normal(3, 5), -1), normal(3, 4, seed=2)
    expected = [np.searchsorted(a, v, side) for a, v in zip(rows, each)]
    assert_same(ad.searchsorted(tensor(rows), tensor(each), right=right), np.array(expected))


def test_searchsorted_edges():
    assert ad.searchsorted(ad.zeros(0), ad.ones(3)).tolist() == [0, 0, 0]
    assert ad.searchsorted(ad.tensor([1, 3, 5]), 4).item() == 2
    assert ad.searchsorted(ad.tensor([1.0, 2.0]), ad.tensor(float("nan"))).item() == 2
    with pytest.raises(RuntimeError, match="first N-1 dimensions"):
        ad.searchsorted(ad.zeros(2, 3), ad.zeros(3, 3))
    with pytest.raises(RuntimeError, match="opposites"):
        ad.searchsorted(ad.zeros(2), ad.zeros(2), right=True, side="left")


def test_isin_and_unique_consecutive():
    a, b = np.array([[1, 2], [3, 4]]), np.array([2, 4, 9])
    assert_same(ad.isin(tensor(a), tensor(b)), np.isin(a, b))
    assert_same(ad.isin(tensor(a), tensor(b), invert=True), np.isin(a, b, invert=True))
    assert ad.isin(tensor(a), 3).tolist() == [[False, False], [True, False]]
    assert not ad.isin(tensor(a), ad.zeros(0)).any()
    values, inverse, counts = ad.unique_consecutive(ad.tensor([1, 1, 2, 2, 2, 1]), True, True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 1, 1, 2], [2, 3, 1])
    assert ad.unique_consecutive(ad.zeros(0)).tolist() == []
    rows, columns = ad.unravel_index(ad.arange(12), (3, 4))
    assert_same(rows, np.unravel_index(np.arange(12), (3, 4))[0])
    assert_same(columns, np.unravel_index(np.arange(12), (3, 4))[1])


@pytest.mark.parametrize(
    ("shape", "dim"), [((9, 2), 0), ((3, 9), 1), ((2, 9, 2), -2), ((9,), 0), ((0, 3), 0)]
)
def test_unique_slices(shape, dim):
    a = np.random.default_rng(3).integers(0, 2, shape)
    values, inverse, counts = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    found = ad.unique(tensor(a), return_inverse=True, return_counts=True, dim=dim)
    for got, want in zip(found, (values, inverse.reshape(-1), counts), strict=True):
        assert_same(got, want)
    # Those that equal the one before go, one after another.
    slices = np.moveaxis(a, dim, 0)
    kept = [i for i in range(len(slices)) if i == 0 or (slices[i] != slices[i - 1]).any()]
    values, inverse, counts = ad.unique_consecutive(
        tensor(a), return_inverse=True, return_counts=True, dim=dim
    )
    assert_same(values, np.take(a, kept, axis=dim))
    assert_same(values.index_select(dim, inverse), a)
    assert counts.tolist() == np.bincount(inverse.tolist(), minlength=len(kept)).tolist()


def test_unique_slices_without_elements():
    for unique in (ad.unique, ad.unique_consecutive):
        with pytest.raises(RuntimeError, match="0 sized dimensions, and they aren't selected"):
            unique(ad.zeros(3, 0), dim=0)


def test_counts():
    a, w = np.array([1, 1, 5]), np.array([0.5, 1.0, 2.0])
    assert_same(ad.bincount(tensor(a), minlength=9), np.bincount(a, minlength=9), ad.int64)
    assert_close(ad.bincount(tensor(a), tensor(w)), np.bincount(a, w))
    assert ad.bincount(ad.zeros(0, dtype=ad.int64)).tolist() == []
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        ad.bincount(ad.tensor([-1]))
    x = normal(100)
    assert_same(ad.histc(tensor(x), 5), np.histogram(x, 5)[0].astype(float))
    assert_same(ad.histc(tensor(x), 4, -1, 1), np.histogram(x, 4, (-1, 1))[0].astype(float))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(interpolation):
    x, q = normal(5, 6), np.array([0.0, 0.3, 1.0])
    options = {"interpolation": interpolation}
    numpy_options = {"method": interpolation}
    assert_close(ad.quantile(tensor(x), 0.37, **options), np.quantile(x, 0.37, **numpy_options))
    for dim, keepdim in ((0, False), (1, True), (None, True), (None, False)):
        found = ad.quantile(tensor(x), tensor(q), dim, keepdim, **options)
        assert_close(found, np.quantile(x, q, axis=dim, keepdims=keepdim, **numpy_options))


def test_quantile_edges():
    assert ad.quantile(ad.tensor([[1.0, float("nan")], [1.0, 2.0]]), 0.5, 1).isnan().tolist() == [True, False]
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        ad.quantile(ad.ones(2), 1.5)
    with pytest.raises(RuntimeError, match="non-empty"):
        ad.quantile(ad.ones(0), 0.5)
    check_derivatives(lambda x: ad.quantile(x, ad.tensor([0.2, 0.7], dtype=ad.float64), 1), [normal(3, 5)])


def test_statistics():
    x = normal(3, 8)
    f, a = np.array([1, 2, 1, 1, 3, 1, 1, 2]), np.abs(normal(8, seed=3))
    assert_close(ad.cov(tensor(x)), np.cov(x))
    assert_close(ad.cov(tensor(x[0]), correction=0), np.cov(x[0], ddof=0))
    assert_close(ad.cov(tensor(x), fweights=tensor(f)), np.cov(x, fweights=f))
    assert_close(ad.cov(tensor(x), fweights=tensor(f), aweights=tensor(a)), np.cov(x, fweights=f, aweights=a))
    assert_close(ad.corrcoef(tensor(x)), np.corrcoef(x))
    z = normal(2, 6, kind="complex")
    assert_close(ad.cov(tensor(z)), np.cov(z))
    check_derivatives(ad.cov, [x])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
def test_cdist(p):
    a, b = normal(2, 4, 3), normal(2, 5, 3, seed=1)
    expected = np.linalg.norm(a[:, :, None] - b[:, None], p, axis=-1)
    assert_close(ad.cdist(tensor(a), tensor(b), p), expected)
    if p != np.inf:
        check_derivatives(lambda x, y: ad.cdist(x, y, p), [a[0], b[0]])


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("sizes", [(37, 41, 19), (30, 70, 3)])
def test_distances_keep_their_digits_where_points_lie_close_together(p, sizes):
    """As products of the points they would not: squares of 1e3 differ by 1e-3 squared."""
    n, m, d = sizes
    near = (1000 + 1e-3 * normal(n + m, d)).astype(np.float32)
    near[n] = near[0]
    x, y = (ad.tensor(part, requires_grad=True) for part in (near[:n], near[n:]))
    a, b = near[:n].astype(np.float64), near[n:].astype(np.float64)
    result, expected = ad.cdist(x, y, p), np.linalg.norm(a[:, None] - b, p, axis=-1)
    assert_close(result, expected, rtol=1e-5)
    assert result[0, 0].item() == 0
    g = normal(n, m, seed=3)
    result.backward(ad.tensor(g, dtype=ad.float32))
    difference = a[:, None] - b
    scale = np.where(expected == 0, 1, expected)[..., None]
    pulled = g[..., None] * (np.sign(difference) if p == 1 else difference / scale)
    assert_close(x.grad, pulled.sum(1), rtol=1e-4, atol=1e-4)
    assert_close(y.grad, -pulled.sum(0), rtol=1e-4, atol=1e-4)


def test_integrals_and_powers():
    y, x = normal(3, 5), np.sort(normal(5, seed=1))
    pieces = (y[:, 1:] + y[:, :-1]) / 2
    assert_close(ad.cumulative_trapezoid(tensor(y), dx=0.5), np.cumsum(pieces * 0.5, 1))
    assert_close(ad.cumulative_trapezoid(tensor(y), tensor(x)), np.cumsum(pieces * np.diff(x), 1))
    assert_close(ad.trapz(tensor(y), tensor(x)), (pieces * np.diff(x)).sum(1))
    assert_close(ad.vander(tensor(x), 3), np.vander(x, 3))
    assert_close(ad.vander(tensor(x), increasing=True), np.vander(x, increasing=True))
    assert_same(ad.msort(tensor(y)), np.sort(y, 0))
    assert_close(ad.ldexp(tensor(x), ad.arange(5)), np.ldexp(x, np.arange(5)))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_nextafter(name):
    a = np.array([1, -1, 0, 0, np.inf, 1, np.nan, 0.0, -0.0, 1e-45], name)
    b = np.array([2, 2, 1, -1, 0, 1, 1, -0.0, 0.0, 0], name)
    found = array(ad.nextafter(ad.tensor(a), ad.tensor(b)))
    expected = np.nextafter(a, b)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_nextafter_moves_with_its_input():
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ad.tensor([[2.0, 2.0, 1.0], [0.0, 1.0, ad.inf]], requires_grad=True)
    step = ad.nextafter(x, y)
    assert ad.equal(step, ad.nextafter(x.detach(), y.detach()))
    gx, gy = ad.autograd.grad((step * ad.tensor([[1.0], [10.0]])).sum(), (x, y))
    assert gx.tolist() == [11.0, 10.0, 11.0] and gy.tolist() == [[0.0] * 3] * 2
    z = x * 1
    z.nextafter_(y[0]).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


def test_divisors():
    a, b = np.array([12, -12, 0, 7, 0]), np.array([18, 18, 5, -21, 0])
    assert_same(ad.gcd(tensor(a), tensor(b)), np.gcd(a, b))
    assert_same(ad.lcm(tensor(a), tensor(b)), np.lcm(a, b))
    assert_same(ad.gcd(tensor(a[:, None]), tensor(b)), np.gcd(a[:, None], b))


def test_in_place_forms_are_functions_too():
    x = ad.tensor([-1.0, 2.0])
    assert ad.relu_(x) is x and x.tolist() == [0.0, 2.0]
    with pytest.raises(AttributeError, match="no attribute 'no_such_'"):
        ad.no_such_
