"""Bags of embeddings, antialiased resampling, fractional pooling: against loops in NumPy and differences."""

import itertools
import math

import numpy as np
import pytest
from helpers import announced, array, check_gradient, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

RNG = np.random.default_rng(14)


def normal(*shape):
    return RNG.standard_normal(shape)


# --- bags ------------------------------------------------------------------------------------------------------------------


def numpy_bags(bags, table, mode, padding=None, factors=None):
    rows = []
    for i, bag in enumerate(bags):
        part = [
            table[j] * (1 if factors is None else factors[i][k]) for k, j in enumerate(bag) if j != padding
        ]
        zero = np.zeros(table.shape[1])
        rows.append(getattr(np, mode)(part, axis=0) if part else zero)
    return np.stack(rows)


BAGS = [[4, 1, 2], [], [5, 5], [2]]
FLAT, STARTS = [4, 1, 2, 5, 5, 2], [0, 3, 3, 5]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embedding_bag(mode, padding):
    table = normal(6, 3)
    expected = numpy_bags(BAGS, table, mode, None if padding is None else padding % 6)
    options = {"mode": mode, "padding_idx": padding}
    flat, starts = ad.tensor(FLAT), ad.tensor(STARTS)

    def run(w):
        return F.embedding_bag(flat, w, starts, **options)

    np.testing.assert_allclose(array(run(tensor(table))), expected, rtol=1e-12)
    check_gradient(run, [table])
    last = F.embedding_bag(flat, tensor(table), ad.tensor([*STARTS, 6]), include_last_offset=True, **options)
    np.testing.assert_allclose(array(last), expected, rtol=1e-12)
    index = RNG.integers(0, 6, (4, 3))
    got = F.embedding_bag(tensor(index), tensor(table), **options)
    want = numpy_bags(index, table, mode, None if padding is None else padding % 6)
    np.testing.assert_allclose(array(got), want, rtol=1e-12)
    module = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding, _weight=tensor(table))
    assert bool((module(tensor(index)) == got).all())
    assert bool((nn.EmbeddingBag.from_pretrained(tensor(table), **options)(tensor(index)) == got).all())
    empty = F.embedding_bag(
        ad.zeros(0, dtype=ad.int64), tensor(table, requires_grad=True), ad.tensor([0, 0]), **options
    )
    assert empty.tolist() == [[0.0] * 3] * 2 and empty.requires_grad


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (3, 1), (1, 4)])
def test_bags_of_one_length(shape):
    """Rows of a matrix are bags, some of which may be empty; the same by offsets."""
    index = tensor(RNG.integers(0, 6, shape))
    for mode in ("sum", "mean", "max"):
        table = normal(6, 3)
        found = F.embedding_bag(index, tensor(table), mode=mode)
        rows = table[array(index)]
        if not rows.size:
            expected = np.zeros((shape[0], 3))
        else:
            expected = getattr(rows, mode)(1)
        np.testing.assert_allclose(array(found), expected, rtol=1e-12)
        offsets = ad.arange(shape[0]) * shape[1]
        by_offsets = F.embedding_bag(index.reshape(-1), tensor(table), offsets, mode=mode)
        np.testing.assert_allclose(array(by_offsets), expected, rtol=1e-12)


def test_weights_of_samples():
    table, factors, index = normal(6, 3), normal(4, 3), RNG.integers(0, 6, (4, 3))

    def run(w, f):
        return F.embedding_bag(tensor(index), w, per_sample_weights=f, mode="sum", padding_idx=1)

    np.testing.assert_allclose(
        array(run(tensor(table), tensor(factors))), numpy_bags(index, table, "sum", 1, factors), rtol=1e-12
    )
    check_gradient(run, [table, factors])


def test_frequencies_and_norms():
    table = ad.ones(3, 2, requires_grad=True)
    F.embedding_bag(ad.tensor([[0, 0], [0, 1]]), table, mode="sum", scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(array(table.grad), [[1, 1], [1, 1], [0, 0]], rtol=1e-6)
    module = nn.EmbeddingBag(3, 2, max_norm=1.0, _weight=ad.ones(3, 2) * 5)
    np.testing.assert_allclose(array(module(ad.tensor([[0, 1]]))), [[0.5**0.5] * 2], rtol=1e-5)
    assert repr(module) == "EmbeddingBag(3, 2, max_norm=1.0, mode='mean')"


@pytest.mark.parametrize(
    "error, text, args, options",
    [
        (ValueError, "offsets has to be a 1D Tensor but got None", ([0, 1], None), {}),
        (ValueError, "if input is 2D, then offsets has to be None", ([[0]], [0]), {}),
        (ValueError, "input has to be 1D or 2D Tensor", ([[[0]]], None), {}),
        (RuntimeError, r"offsets\[0\] has to be 0", ([0, 1], [1]), {}),
        (RuntimeError, r"offsets\[-1\] can not be greater than input's length\(2\)", ([0, 1], [0, 3]), {}),
        (RuntimeError, "non-decreasing offsets", ([0, 1], [0, 2, 1]), {}),
        (RuntimeError, "belong to no bag", ([0, 1], []), {}),
        (RuntimeError, "number of offsets should be at least 1", ([0], []), {"include_last_offset": True}),
        (ValueError, "mode has to be one of sum, mean or max", ([[0]], None), {"mode": "min"}),
        (
            ValueError,
            "max mode does not support scaling",
            ([[0]], None),
            {"mode": "max", "scale_grad_by_freq": True},
        ),
        (
            NotImplementedError,
            "only supported for mode='sum'",
            ([[0]], None),
            {"per_sample_weights": ad.ones(1, 1)},
        ),
        (
            ValueError,
            "it must have the same shape as the input",
            ([[0]], None),
            {"per_sample_weights": ad.ones(1)},
        ),
        (
            RuntimeError,
            "padding_idx must be within the number of embeddings, -2 through 1, but got 7",
            ([[0]], None),
            {"padding_idx": 7},
        ),
        (RuntimeError, "takes value 9 which is not in the valid range", ([[9]], None), {}),
        (
            RuntimeError,
            "scale_grad_by_freq not supported with sparse gradients",
            ([[0]], None),
            {"sparse": True, "scale_grad_by_freq": True},
        ),
    ],
)
def test_what_bags_refuse(error, text, args, options):
    index, offsets = (None if a is None else ad.tensor(a, dtype=ad.int64) for a in args)
    with pytest.raises(error, match=text):
        F.embedding_bag(index, ad.ones(2, 3), offsets, **options)


# --- resampling ---------------------------------------------------------------------------------------------------------


def kernel(mode, t):
    t = abs(t)
    if mode == "bilinear":
        return max(0.0, 1 - t)
    if mode == "lanczos":
        return float(np.sinc(t) * np.sinc(t / 3)) if t < 3 else 0.0
    a = -0.5
    if t < 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def numpy_antialiased(x, count, mode):
    size = x.shape[-1]
    step = size / count
    wide, reach = max(step, 1), {"bilinear": 1, "bicubic": 2, "lanczos": 3}[mode] * max(step, 1)
    columns = []
    for i in range(count):
        middle = (i + 0.5) * step
        first, end = max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), size)
        w = np.array([kernel(mode, (j + 0.5 - middle) / wide) for j in range(first, end)])
        columns.append(x[..., first:end] @ (w / w.sum()))
    return np.stack(columns, -1)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 4), (7, 2), (12, 15), (1, 1)])
def test_antialias(mode, size):
    x = normal(2, 1, 7, 9)
    expected = np.swapaxes(
        numpy_antialiased(np.swapaxes(numpy_antialiased(x, size[1], mode), 2, 3), size[0], mode), 2, 3
    )

    def run(x):
        return F.interpolate(x, size, mode=mode, antialias=True)

    np.testing.assert_allclose(array(run(tensor(x))), expected, rtol=1e-9, atol=1e-12)
    check_gradient(run, [x[:1]])


def test_what_antialias_refuses():
    x = ad.ones(1, 1, 4, 4)
    with pytest.raises(ValueError, match="restricted to bilinear, bicubic, and lanczos modes"):
        F.interpolate(x, 2, antialias=True)
    with pytest.raises(ValueError, match="Lanczos mode requires antialias=True"):
        F.interpolate(x, 2, mode="lanczos")
    with pytest.raises(ValueError, match="Lanczos mode does not support align_corners=True"):
        F.interpolate(x, 2, mode="lanczos", antialias=True, align_corners=True)
    for name in ("upsample_nearest", "upsample_bilinear"):
        with announced(UserWarning, match=f"`nn.functional.{name}` is deprecated"):
            assert tuple(getattr(F, name)(x, scale_factor=2).shape) == (1, 1, 8, 8)


# --- fractional pooling ---------------------------------------------------------------------------------------------------


def begins(size, kernel, count, sample):
    if count == 1:
        return [size - kernel]
    step = (size - kernel) / (count - 1)
    return [int((i + sample) * step) - int(sample * step) for i in range(count - 1)] + [size - kernel]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kernel, counts", [(2, (4, 3, 3)), (3, (2, 5, 1))])
def test_fractional_max_pool(n, kernel, counts):
    sizes, counts = (9, 8, 6)[:n], counts[:n]
    x, samples = normal(2, 2, *sizes), RNG.random((2, 2, n))
    expected, indices = np.zeros((2, 2, *counts)), np.zeros((2, 2, *counts), int)
    for plane in itertools.product(range(2), range(2)):
        drawn = samples[plane][::-1] if n == 2 else samples[plane]
        starts = [begins(s, kernel, c, u) for s, c, u in zip(sizes, counts, drawn)]
        for where in itertools.product(*map(range, counts)):
            window = tuple(slice(b[i], b[i] + kernel) for b, i in zip(starts, where))
            part = x[plane][window]
            at = np.unravel_index(part.argmax(), part.shape)
            expected[(*plane, *where)] = part[at]
            indices[(*plane, *where)] = np.ravel_multi_index([w.start + a for w, a in zip(window, at)], sizes)
    function = getattr(F, f"fractional_max_pool{n}d")

    def run(x):
        return function(x, kernel, output_size=counts, _random_samples=tensor(samples))

    values, where = function(tensor(x), kernel, counts, return_indices=True, _random_samples=tensor(samples))
    np.testing.assert_array_equal(array(values), expected)
    np.testing.assert_array_equal(array(where), indices)
    check_gradient(run, [x])
    alone = function(tensor(x[0]), kernel, counts, _random_samples=tensor(samples[:1]))
    np.testing.assert_array_equal(array(alone), expected[0])
    module = getattr(nn, f"FractionalMaxPool{n}d")(kernel, counts, _random_samples=tensor(samples))
    np.testing.assert_array_equal(array(module(tensor(x))), expected)
    ratio = getattr(nn, f"FractionalMaxPool{n}d")(kernel, output_ratio=0.5)
    assert tuple(ratio(tensor(x)).shape[2:]) == tuple(s // 2 for s in sizes)


def test_what_fractional_pooling_refuses():
    x = ad.ones(1, 1, 6, 6)
    for error, text, call in [
        (
            ValueError,
            "requires specifying either an output_size or an output_ratio",
            lambda: F.fractional_max_pool2d(x, 2),
        ),
        (
            RuntimeError,
            "pool height 5 too large relative to input height 6",
            lambda: F.fractional_max_pool2d(x, 5, 3),
        ),
        (RuntimeError, "Expected 3D or 4D tensor", lambda: F.fractional_max_pool2d(x[0, 0], 2, 3)),
        (
            RuntimeError,
            "Expect _random_samples of shape",
            lambda: F.fractional_max_pool2d(x, 2, 3, _random_samples=ad.ones(1)),
        ),
        (ValueError, "either an output size, or a pooling ratio", lambda: nn.FractionalMaxPool2d(2)),
        (ValueError, "only one of output_size and output_ratio", lambda: nn.FractionalMaxPool2d(2, 2, 0.5)),
        (
            ValueError,
            "output_ratio must be between 0 and 1",
            lambda: nn.FractionalMaxPool3d(2, output_ratio=2.0),
        ),
    ]:
        with pytest.raises(error, match=text):
            call()


# --- others -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 1, 2.0, 3, math.inf])
def test_pdist(p):
    from scipy.spatial.distance import pdist

    x = normal(5, 3)
    expected = pdist(x, "chebyshev") if p == math.inf else pdist(x, "minkowski", p=p)
    np.testing.assert_allclose(array(F.pdist(tensor(x), p)), expected, rtol=1e-10)
    check_gradient(lambda x: F.pdist(x, p), [x])
    assert tuple(F.pdist(tensor(x[:1]), p).shape) == tuple(F.pdist(tensor(x[:0]), p).shape) == (0,)
    with pytest.raises(RuntimeError, match="pdist only supports 2D tensors, got: 1D"):
        F.pdist(ad.ones(3))
    with pytest.raises(RuntimeError, match="pdist only supports non-negative p values"):
        F.pdist(ad.ones(3, 3), -1)


def test_rrelu():
    x = ad.randn(1000)
    y = F.rrelu(x, 0.2, 0.6, training=True)
    slope = array(y / x)
    assert (slope[array(x) >= 0] == 1).all()
    drawn = slope[array(x) < 0]
    assert drawn.min() >= 0.2 - 1e-5 and drawn.max() <= 0.6 + 1e-5 and drawn.std() > 0.05
    module = nn.RReLU(0.2, 0.6).eval()
    np.testing.assert_allclose(array(module(x)), array(F.leaky_relu(x, 0.4)), rtol=1e-6)
    assert repr(nn.RReLU(0.25, 0.5, True)) == "RReLU(lower=0.25, upper=0.5, inplace=True)"
    check_gradient(lambda x: F.rrelu(x, 0.3, 0.3, True), [normal(7)])
    with pytest.raises(RuntimeError, match="less than or equal to the upper bound"):
        F.rrelu(x, 0.6, 0.2)
    z = x.clone()
    assert F.rrelu_(z) is z


def test_softmax2d():
    for shape in ((2, 3, 4, 5), (3, 4, 5)):
        x = ad.randn(shape)
        assert bool((nn.Softmax2d()(x) == F.softmax(x, -3)).all())
    with pytest.raises(ValueError, match="Softmax2d: expected input to be 3D or 4D, got 2D instead"):
        nn.Softmax2d()(ad.ones(2, 3))


def test_bags_in_the_order_of_old():
    """The table came first once, and is known by its type."""
    table = tensor(normal(6, 3))
    bags, starts = ad.tensor(FLAT), ad.tensor(STARTS)
    with pytest.warns(UserWarning, match="Argument order of nn.functional.embedding_bag was changed"):
        found = F.embedding_bag(table, bags, starts, mode="sum")
    assert array(found).tolist() == array(F.embedding_bag(bags, table, starts, mode="sum")).tolist()


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_weighted_sums_of_halves_are_rounded_once_under_vmap_too(dtype):
    """Terms that cancel, so that what is left shows how the products were rounded."""
    table = tensor(normal(6, 3)).to(dtype)
    bag, start = ad.tensor([0, 1, 0, 1]), ad.tensor([0])
    given = ad.tensor([0.7, -0.3, -0.701, 0.301]).to(dtype)

    def sums(weights):
        return F.embedding_bag(bag, table, start, mode="sum", per_sample_weights=weights)

    one = sums(given)
    assert ad.vmap(sums)(ad.stack([given, given]))[1].tolist() == one.tolist()
    exact = table[bag].double() * given.double().unsqueeze(1)
    assert one.tolist() == exact.sum(0, keepdim=True).to(dtype).tolist()


@pytest.mark.parametrize("dtype", [ad.float32, ad.bool, ad.complex64])
def test_indices_and_offsets_are_integers(dtype):
    table, whole = ad.ones(3, 2), ad.tensor([0, 1])
    for indices, offsets in ((whole.to(dtype), ad.tensor([0])), (whole, ad.tensor([0]).to(dtype))):
        with pytest.raises(RuntimeError, match="following scalar types: Long, Int; but got"):
            F.embedding_bag(indices, table, offsets)
    assert F.embedding_bag(whole.int(), table, ad.tensor([0])).tolist() == [[1, 1]]
