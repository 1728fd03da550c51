"""What compositions of operators take besides tensors: ``out=``, writing in place, numbers, ends and odd shapes.

Values against NumPy and SciPy, derivatives against finite differences. Start reading at `test_out`.
"""

import numpy as np
import pytest
import scipy.special
from helpers import array, assert_close, assert_same, check_derivatives, normal, tensor, uniform

import adjoint as ad

F = ad.nn.functional

A, B, M = normal(3), normal(3, seed=1), normal(3, 3, seed=2)

# name: call, arguments, expected
CALLS = {
    "addmv": (ad.addmv, (A, M, B), A + M @ B),
    "addr": (ad.addr, (M, A, B), M + np.outer(A, B)),
    "clamp_max": (ad.clamp_max, (A, B), np.minimum(A, B)),
    "clamp_min": (ad.clamp_min, (A, B), np.maximum(A, B)),
    "cross": (ad.cross, (A, B), np.cross(A, B)),
    "deg2rad": (ad.deg2rad, (A,), np.deg2rad(A)),
    "diag": (ad.diag, (A,), np.diag(A)),
    "diff": (ad.diff, (A,), np.diff(A)),
    "entr": (ad.special.entr, (A**2,), scipy.special.entr(A**2)),
    "float_power": (ad.float_power, (A**2, B), (A**2) ** B),
    "gcd": (ad.gcd, (np.array([12, 7]), np.array([18, 21])), np.array([6, 7])),
    "ger": (ad.ger, (A, B), np.outer(A, B)),
    "inner": (ad.inner, (M, A), np.inner(M, A)),
    "isin": (ad.isin, (A, A[:1]), np.isin(A, A[:1])),
    "kron": (ad.kron, (A, B), np.kron(A, B)),
    "lcm": (ad.lcm, (np.array([4, 7]), np.array([6, 21])), np.array([12, 21])),
    "ldexp": (ad.ldexp, (A, B), A * 2**B),
    "log_ndtr": (ad.special.log_ndtr, (A,), scipy.special.log_ndtr(A)),
    "msort": (ad.msort, (M,), np.sort(M, 0)),
    "mvlgamma": (ad.mvlgamma, (A**2 + 3, 2), [scipy.special.multigammaln(a**2 + 3, 2) for a in A]),
    "nanmean": (ad.nanmean, (A,), np.nanmean(A)),
    "ndtr": (ad.special.ndtr, (A,), scipy.special.ndtr(A)),
    "ndtri": (ad.special.ndtri, (scipy.special.ndtr(A),), A),
    "nextafter": (ad.nextafter, (A, B), np.nextafter(A, B)),
    "polygamma": (lambda x, **k: ad.polygamma(1, x, **k), (A**2,), scipy.special.polygamma(1, A**2)),
    "rad2deg": (ad.rad2deg, (A,), np.rad2deg(A)),
    "take_along_dim": (ad.take_along_dim, (A, np.array([2, 0])), A[[2, 0]]),
    "tensordot": (lambda a, b, **k: ad.tensordot(a, b, 1, **k), (M, A), M @ A),
    "vdot": (ad.vdot, (A, B), np.vdot(A, B)),
    "xlog1py": (ad.special.xlog1py, (A, B**2), scipy.special.xlog1py(A, B**2)),
}


def _given(arguments):
    return [tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]


@pytest.mark.parametrize("name", CALLS)
def test_out(name):
    call, arguments, expected = CALLS[name]
    arguments = _given(arguments)
    expected = np.asarray(expected)
    result = call(*arguments)
    assert_close(result, expected)
    full, empty = ad.empty(result.shape, dtype=result.dtype), ad.empty(0, dtype=result.dtype)
    for out in (full, empty) if result.ndim else (full,):
        assert call(*arguments, out=out) is out
        assert_close(out, expected)
    if result.dtype.is_floating_point:
        with pytest.raises(
            RuntimeError, match="can't be cast to the desired output type|Expected out tensor to have"
        ):
            call(*arguments, out=ad.zeros(result.shape, dtype=ad.int64))
        recorded = [x.requires_grad_() if x is arguments[0] else x for x in arguments]
        if name != "nextafter":  # which has no derivative anyway
            with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
                call(*recorded, out=full)


# Each reads its tensor again in its derivative, which must then see what it held before the write.
WRITES = {
    "clamp_": (
        lambda x, a, b: x.clamp_(a, b),
        uniform(-1, 1, 4),
        uniform(-1, 0, 4, seed=5),
        uniform(0, 1, 4, seed=6),
    ),
    "clamp_min_": (lambda x, b: x.clamp_min_(b), uniform(-1, 1, 4), uniform(-1, 1, 4, seed=5)),
    "clamp_max_": (lambda x, b: x.clamp_max_(b), uniform(-1, 1, 4), uniform(-1, 1, 4, seed=5)),
    "ldexp_": (lambda x, b: x.ldexp_(b), normal(4), normal(4, seed=5)),
    "mvlgamma_": (lambda x: x.mvlgamma_(2), uniform(2, 4, 4)),
    "deg2rad_": (lambda x: x.deg2rad_(), normal(4)),
    "addr_": (lambda x, a, b: x.addr_(a, b, beta=0.5), normal(2, 3), normal(2, seed=1), normal(3, seed=2)),
    "polygamma_": (lambda x: x.polygamma_(1), uniform(1, 2, 4)),
}


@pytest.mark.parametrize("name", WRITES)
def test_written_in_place(name):
    write, *arrays = WRITES[name]
    check_derivatives(lambda x, *rest: write(x * 1, *rest), arrays)
    x = tensor(arrays[0])
    before = x._version
    assert write(x, *map(tensor, arrays[1:])) is x
    assert x._version > before


def test_clamped_to_tensors():
    x = ad.tensor([-1.0, 0.0, 1.0, 2.0, float("nan")], requires_grad=True)
    low, high = (
        ad.tensor([0.0, 0, 0, 0, 0], requires_grad=True),
        ad.tensor([1.0, 1, 1, 1, 1], requires_grad=True),
    )
    y = ad.clamp(x, low, high)
    assert y.tolist()[:4] == [0.0, 0.0, 1.0, 1.0] and y[4].isnan()
    y[:4].sum().backward()
    # At a bound the whole gradient is the input's, as with numbers for bounds.
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert low.grad.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0] and high.grad.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]
    # Where the bounds cross the upper one holds; what is not a number goes through.
    assert ad.clamp(ad.tensor([5.0]), ad.tensor([3.0]), ad.tensor([2.0])).tolist() == [2.0]
    assert ad.clamp(ad.tensor([5.0]), ad.tensor([float("nan")])).isnan().all()
    assert ad.clamp(ad.tensor([1, 5]), ad.tensor([1.5, 1.5])).tolist() == [1.5, 5.0]


def test_diff():
    x, before, after = normal(2, 4), normal(2, 2, seed=1), normal(2, 1, seed=2)
    for axis, ends in ((1, {"prepend": before, "append": after}), (0, {}), (1, {"append": after})):
        for n in range(6):
            expected = np.diff(x, n, axis, **ends) if n else x
            assert_close(ad.diff(tensor(x), n, axis, **{k: tensor(v) for k, v in ends.items()}), expected)
    assert ad.diff(tensor([True, False, False])).tolist() == [True, False]
    check_derivatives(lambda a, b: ad.diff(a, 2, 1, prepend=b), [x, before])
    with pytest.raises(RuntimeError, match="order must be non-negative but got -1"):
        ad.diff(tensor(x), -1)
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        ad.diff(tensor(1.0))


def test_sequences_of_integers():
    # The bounds lose their fractions before anything is counted.
    assert ad.arange(0.1, -7.9, -4.0, dtype=ad.int64).tolist() == [0, -4]
    assert ad.arange(0.0, -8.000001, -4.0, dtype=ad.int64).tolist() == [0, -4]
    assert ad.linspace(4.9, 0, 5, dtype=ad.int64).tolist() == [4, 3, 2, 1, 0]
    assert ad.logspace(0, 1.2, 2, dtype=ad.int64).tolist() == [1, 10]
    assert ad.arange(1.0, 5.000001, 2.0, dtype=ad.int32).tolist() == [1, 3, 5]
    assert ad.arange(2.1, -2.9, -1.0, dtype=ad.int8).tolist() == [2, 1, 0, -1, -2]
    with pytest.raises(ValueError, match="step must be nonzero"):
        ad.arange(0, 4, 0.5, dtype=ad.int64)
    out = ad.empty(0, dtype=ad.float64)
    assert ad.arange(3, out=out) is out and out.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        ad.arange(3, dtype=ad.int64, out=out)
    with pytest.raises(RuntimeError, match="only supports 0-dimensional start and end tensors"):
        ad.linspace(ad.ones(2), ad.ones(2), 1)


def test_quantile_of_a_number():
    assert ad.quantile(ad.tensor(3.0), 0.5, 0).shape == ()
    assert ad.quantile(ad.tensor(3.0), ad.tensor([0.5, 0.1]), -1, True).tolist() == [3.0, 3.0]
    with pytest.raises(IndexError, match="Dimension out of range"):
        ad.quantile(ad.tensor(3.0), 0.5, 1)


def test_weights_of_covariances():
    x = tensor(normal(2, 3))
    for weights, message in (
        ({"fweights": ad.ones(3, 3, dtype=ad.int64)}, "one or fewer dimensions"),
        ({"fweights": ad.ones(3)}, "integral dtype"),
        ({"aweights": ad.ones(3, dtype=ad.int64)}, "floating point dtype"),
        ({"fweights": ad.ones(2, dtype=ad.int64)}, "same numel"),
        ({"fweights": -ad.ones(3, dtype=ad.int64)}, "fweights cannot be negative"),
        ({"aweights": -ad.ones(3)}, "aweights cannot be negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            ad.cov(x, **weights)


def test_integers_are_not_scaled_by_fractions():
    x = ad.ones(2, dtype=ad.int64)
    with pytest.raises(RuntimeError, match="must not be a floating point number"):
        ad.addr(ad.ones(2, 2, dtype=ad.int64), x, x, beta=0.2)
    assert ad.addr(ad.ones(2, 2, dtype=ad.bool), x > 0, x > 0, alpha=2).dtype is ad.bool


def test_sizes_of_one_are_contracted_with_any():
    a, b = normal(1, 3), normal(4, 3, seed=1)
    expected = np.einsum("ij,kj->", a, b)
    assert_close(ad.tensordot(tensor(a), tensor(b), ([0, 1], [0, 1])), expected)
    check_derivatives(lambda x, y: ad.tensordot(x, y, ([0, 1], [0, 1])), [a, b])


def test_cosine_similarity_broadcasts_first():
    a, b = normal(1, 2, 3), normal(2, 1, 3, seed=1)
    x, y = np.broadcast_arrays(a, b)
    expected = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    assert_close(F.cosine_similarity(tensor(a), tensor(b), dim=-2), expected)


def test_half_precision_squares_do_not_overflow():
    x = uniform(100, 900, 2, 3).astype(np.float16)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True))
    assert_close(F.rms_norm(tensor(x), (3,), eps=0.5).double(), expected, rtol=2e-3)
    assert F.rms_norm(tensor(x), (3,)).dtype is ad.float16


def test_small_things():
    place = ad.unravel_index(ad.tensor([3, 8], dtype=ad.uint8), (4, 2**30))
    assert [p.tolist() for p in place] == [[0, 0], [3, 8]] and place[0].dtype is ad.int64
    every_second = ad.arange(6)[::2]
    assert ad.ravel(every_second).stride() == (1,) and ad.ravel(every_second).tolist() == [0, 2, 4]
    x = ad.arange(3)
    assert ad.ravel(x).data_ptr() == x.data_ptr() and x.sum_to_size(3) is x and ad.cartesian_prod(x) is x
    assert_same(F.hardtanh(tensor(np.array([-3, 0, 3])), -1.5, 1.5), np.array([-1, 0, 1]), ad.int64)
    assert int(ad.zeros(50, dtype=ad.int64).geometric_(0.5).min()) >= 1
    assert array(ad.polygamma(0, ad.ones(1, dtype=ad.float64)))[0] == pytest.approx(-np.euler_gamma)
    for call, error, message in (
        (lambda: ad.zeros(2).cauchy_(0, 0), RuntimeError, "expects sigma > 0.0"),
        (lambda: ad.zeros(2).log_normal_(0, 0), RuntimeError, "expects std > 0.0"),
        (lambda: ad.rot90(ad.ones(2, 2), dims=(0,)), RuntimeError, "expected total rotation dims == 2"),
        (lambda: ad.gcd(x, 2), TypeError, r"argument 'other' \(position 2\) must be Tensor, not int"),
        (lambda: ad.cross(ad.ones(2, 3), ad.ones(3)), RuntimeError, "same number of dimensions"),
        (lambda: ad.mvlgamma(ad.ones(2), 0), RuntimeError, "greater than or equal to 1"),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_slices(dim):
    x = np.random.default_rng(0).integers(0, 2, (6, 5, 2))
    expected = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    for actual, wanted in zip(ad.unique(tensor(x), True, True, True, dim), expected):
        assert_same(actual, wanted.reshape(actual.shape))
    assert_same(ad.unique(tensor(x), dim=dim), expected[0])
    values, inverse, counts = ad.unique_consecutive(tensor(x), True, True, dim)
    assert_same(values.index_select(dim, inverse), x)
    assert int(counts.sum()) == x.shape[dim]
    kept = np.moveaxis(array(values), dim, 0)
    assert (kept[1:] != kept[:-1]).reshape(len(kept) - 1, -1).any(1).all()


def test_unique_slices_of_nothing():
    assert ad.unique(ad.zeros(0, 3), dim=0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="aren't selected, so unique cannot be applied"):
        ad.unique(ad.zeros(0, 3), dim=1)


def test_derivative_of_a_quantile_by_its_place():
    x, q = normal(5), np.array([0.3, 0.8])
    check_derivatives(lambda a, b: ad.quantile(a, b), [x, q])
    spacing = np.diff(np.sort(x))
    place = tensor(q).requires_grad_()
    ad.quantile(tensor(x), place).sum().backward()
    assert_close(place.grad, 4 * spacing[[1, 3]])


@pytest.mark.parametrize("k", range(-5, 5))
def test_quarter_turns(k):
    x = normal(2, 3, 4)
    assert_close(ad.rot90(tensor(x), k, (0, 2)), np.rot90(x, k, (0, 2)))
    assert not ad.empty_strided((2, 3), (1, 2))._is_view()
