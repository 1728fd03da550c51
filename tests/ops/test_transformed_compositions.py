"""Compositions against NumPy, under every transform: reverse and forward derivatives of both orders, and vmap against the loop.

Each call of `CALLS` is a function of its arrays, away from kinks and ties. Start reading there.
"""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.special
from helpers import announced, assert_close, normal, tensor, uniform

import adjoint as ad
from adjoint.as_torch.standins._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten
from adjoint.autograd import gradcheck, gradgradcheck

I = ad.tensor([[0, 2, 0, 1], [2, 2, 0, 1]])
V = ad.tensor([2, 0, 2])
MASK = ad.tensor([[True, False, True, True], [False, False, True, False], [True, True, True, True]])
M = MASK.numpy()
A, B, T = normal(3, 4), normal(2, 4, seed=1), normal(2, 3, 4, seed=2)
P = uniform(0.5, 2, 3, 4)
PLACES = np.array([0.0, 0.5, 2.0, 2.5])


def scattered(how, include_self=True, start=None):
    """`how` over what meets in each element of A."""
    result = A.copy()
    for place in np.ndindex(*A.shape):
        coming = [B[i, j] for i, j in np.ndindex(*B.shape) if (I[i, j].item(), j) == place]
        if coming:
            result[place] = how([A[place], *coming] if include_self else coming)
    return result


def sliced(values, write):
    result = values.copy()
    write(result)
    return result


def where_mask(how, identity=None):
    return lambda x, **k: np.array(
        [how(row[m]) if m.any() or identity is None else identity for row, m in zip(x, M)]
    )


def windows(x):
    return np.lib.stride_tricks.sliding_window_view(x, 2, 1)[:, ::2]


def scatter(reduce, **more):
    return lambda x, s: ad.scatter_reduce(x, 0, I, s, reduce, **more)


def masked(name, *arguments, **more):
    return lambda x: getattr(ad.masked, name)(x, *arguments, mask=MASK, **more)


def quantile_of_numbers(x):
    return np.nanquantile(np.where(M, x, np.nan), 0.3, 1)


# name: function, arrays, reference
CALLS = {
    **{
        f"scatter_reduce {reduce}": (scatter(reduce), (A, B), lambda x, s, how=how: scattered(how))
        for reduce, how in (
            ("sum", np.sum),
            ("prod", np.prod),
            ("mean", np.mean),
            ("amax", np.max),
            ("amin", np.min),
        )
    },
    **{
        f"scatter_reduce {reduce} of src alone": (
            scatter(reduce, include_self=False),
            (A, B),
            lambda x, s, how=how: scattered(how, False),
        )
        for reduce, how in (
            ("sum", np.sum),
            ("prod", np.prod),
            ("mean", np.mean),
            ("amax", np.max),
            ("amin", np.min),
        )
    },
    "index_reduce": (
        lambda x, s: ad.index_reduce(x, 0, V, s, "mean", include_self=False),
        (A, A[::-1]),
        lambda x, s: np.stack([s[1], x[1], (s[0] + s[2]) / 2]),
    ),
    "index_reduce amax": (
        lambda x, s: ad.index_reduce(x, 1, V, s, "amax"),
        (A, A[::-1, 1:]),
        lambda x, s: np.stack(
            [np.maximum(x[:, 0], s[:, 1]), x[:, 1], np.max([x[:, 2], s[:, 0], s[:, 2]], 0), x[:, 3]], 1
        ),
    ),
    **{
        f"segment_reduce {reduce}": (
            lambda x, reduce=reduce: ad.segment_reduce(x, reduce, lengths=ad.tensor([1, 2])),
            (A,),
            lambda x, how=how: np.stack([x[0], how(x[1:], 0)]),
        )
        for reduce, how in (
            ("sum", np.sum),
            ("mean", np.mean),
            ("max", np.max),
            ("min", np.min),
            ("prod", np.prod),
        )
    },
    "segment_reduce by rows": (
        lambda x: ad.segment_reduce(x, "sum", offsets=ad.tensor([[0, 1, 4], [0, 4, 4], [0, 2, 4]]), axis=1),
        (A,),
        lambda x: np.array([[x[0, 0], x[0, 1:].sum()], [x[1].sum(), 0], [x[2, :2].sum(), x[2, 2:].sum()]]),
    ),
    "select_scatter": (
        lambda x, s: ad.select_scatter(x, s, 1, 2),
        (A, A[:, 0] * 2),
        lambda x, s: sliced(x, lambda r: r[:, 2].__setitem__(..., s)),
    ),
    "slice_scatter": (
        lambda x, s: ad.slice_scatter(x, s, 1, 1, None, 2),
        (A, A[:, :2] * 2),
        lambda x, s: sliced(x, lambda r: r[:, 1::2].__setitem__(..., s)),
    ),
    "diagonal_scatter": (
        lambda x, s: ad.diagonal_scatter(x, s, 1),
        (A, A[:, 0] * 2),
        lambda x, s: sliced(x, lambda r: r.__setitem__((np.arange(3), np.arange(1, 4)), s)),
    ),
    "diagonal_copy": (lambda x: ad.diagonal_copy(x, 1), (A,), lambda x: np.diagonal(x, 1)),
    "expand_copy": (lambda x: ad.expand_copy(x, (2, 3, 4)), (A,), lambda x: np.stack([x, x])),
    "narrow_copy": (lambda x: x.narrow_copy(1, 1, 2), (A,), lambda x: x[:, 1:3]),
    "permute_copy": (lambda x: ad.permute_copy(x, (1, 0)), (A,), np.transpose),
    "slice_copy": (lambda x: ad.slice_copy(x, 1, 0, 3, 2), (A,), lambda x: x[:, 0:3:2]),
    "split_copy": (lambda x: ad.split_copy(x, 2, 1)[1], (A,), lambda x: x[:, 2:]),
    "unbind_copy": (lambda x: ad.unbind_copy(x)[1], (A,), lambda x: x[1]),
    "unfold_copy": (lambda x: ad.unfold_copy(x, 1, 2, 2), (A,), windows),
    "view_copy": (lambda x: ad.view_copy(x, (2, 6)), (A,), lambda x: x.reshape(2, 6)),
    "gradient": (
        lambda x: ad.gradient(x, spacing=[2.0, 0.5]),
        (A,),
        lambda x: np.gradient(x, 2.0, 0.5),
    ),
    "gradient at places": (
        lambda x, at: ad.gradient(x, spacing=(at,), dim=1, edge_order=2)[0],
        (A, PLACES),
        lambda x, at: np.gradient(x, at, axis=1, edge_order=2),
    ),
    "cumulative_trapezoid": (
        lambda x, at: ad.cumulative_trapezoid(x, at),
        (A, PLACES),
        lambda x, at: np.cumsum((x[:, 1:] + x[:, :-1]) * np.diff(at) / 2, 1),
    ),
    "renorm": (
        lambda x: ad.renorm(x, 3, 0, 0.5),
        (A,),
        lambda x: x * np.minimum(1, 0.5 / ((np.abs(x) ** 3).sum(1, keepdims=True) ** (1 / 3) + 1e-7)),
    ),
    "frexp": (lambda x: ad.frexp(x).mantissa, (A,), lambda x: np.frexp(x)[0]),
    "nanquantile": (
        lambda x: ad.nanquantile(ad.where(MASK, x, ad.nan), 0.3, 1),
        (A,),
        quantile_of_numbers,
    ),
    "mode": (lambda x: ad.mode(ad.cat([x, x[:, 1:2]], 1), 1).values, (A,), lambda x: x[:, 1]),
    "addbmm": (
        lambda x, a, b: ad.addbmm(x, a, b, beta=2, alpha=3),
        (A[:, :3], T, T.swapaxes(1, 2)),
        lambda x, a, b: 2 * x + 3 * (a @ b).sum(0),
    ),
    "float_power_": (lambda x: (x * 1).float_power_(3), (P,), lambda x: x**3),
    # --- masks
    "masked sum": (masked("sum", 1), (A,), where_mask(np.sum)),
    "masked prod": (masked("prod", 1), (A,), where_mask(np.prod)),
    "masked prod of all": (masked("prod"), (A,), lambda x: x[M].prod()),
    "masked amax": (masked("amax", 1), (A,), where_mask(np.max)),
    "masked amin": (masked("amin", (0, 1)), (A,), lambda x: x[M].min()),
    "masked mean": (masked("mean", 1), (A,), where_mask(np.mean)),
    "masked median": (masked("median", 1), (A,), where_mask(lambda v: np.sort(v)[(len(v) - 1) // 2])),
    "masked var": (masked("var", 1, False), (A,), where_mask(np.var)),
    "masked std": (masked("std", (0, 1), keepdim=True), (A,), lambda x: x[M].std(ddof=1).reshape(1, 1)),
    "masked norm": (masked("norm", 3, 1), (A,), where_mask(lambda v: np.linalg.norm(v, 3))),
    "masked logsumexp": (masked("logsumexp", 1), (A,), where_mask(scipy.special.logsumexp)),
    "masked logaddexp": (
        lambda x, y: ad.masked.logaddexp(x, y, input_mask=MASK),
        (A, A[::-1]),
        lambda x, y: np.where(M, np.logaddexp(x, y), y),
    ),
    "masked softmax": (
        masked("softmax", 1),
        (A,),
        lambda x: scipy.special.softmax(np.where(M, x, -np.inf), 1),
    ),
    "masked softmin": (
        masked("softmin", 1),
        (A,),
        lambda x: scipy.special.softmax(np.where(M, -x, -np.inf), 1),
    ),
    "masked log_softmax": (
        lambda x: ad.masked.log_softmax(x, 1, mask=MASK)[MASK],
        (A,),
        lambda x: scipy.special.log_softmax(np.where(M, x, -np.inf), 1)[M],
    ),
    "masked cumsum": (masked("cumsum", 1), (A,), lambda x: np.cumsum(np.where(M, x, 0), 1)),
    "masked cumprod": (masked("cumprod", 1), (A,), lambda x: np.cumprod(np.where(M, x, 1), 1)),
    "masked normalize": (
        masked("normalize", 2.0, 1),
        (A,),
        lambda x: np.where(M, x, 0) / np.sqrt((np.where(M, x, 0) ** 2).sum(1, keepdims=True)),
    ),
}
# A mask that picks makes sizes that depend on values only in the test itself; these draw or decide by values under vmap.
named = pytest.mark.parametrize("name", CALLS)


def flat(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


@named
def test_values(name):
    call, arrays, reference = CALLS[name]
    for actual, expected in zip(flat(call(*map(tensor, arrays))), flat(reference(*arrays)), strict=True):
        assert_close(actual, expected)


@named
def test_derivatives(name):
    call, arrays, _ = CALLS[name]
    leaves = [tensor(x, requires_grad=True) for x in arrays]
    assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, leaves, fast_mode=True)


@named
def test_vmap(name):
    call, arrays, _ = CALLS[name]
    pairs = [np.stack([x, np.roll(x, 1, -1) + np.arange(x.shape[-1]) * (x.ndim == 1)]) for x in arrays]
    each = [flat(call(*(tensor(p[k]) for p in pairs))) for k in range(2)]
    together = flat(ad.vmap(call)(*map(tensor, pairs)))
    for k in range(2):
        for actual, expected in zip(together, each[k], strict=True):
            assert_close(actual[k], expected.numpy())
    # One of several arguments alone is batched.
    if len(arrays) > 1:
        first = flat(
            ad.vmap(call, in_dims=(0, *[None] * (len(arrays) - 1)))(
                tensor(pairs[0]), *map(tensor, arrays[1:])
            )
        )
        for actual, expected in zip(first, flat(call(*map(tensor, arrays))), strict=True):
            assert_close(actual[0], expected.numpy())


# --- ends, types and errors ------------------------------------------------------------------------------------------


def test_equal_extremes_share_a_gradient():
    x, s = (ad.tensor(v, requires_grad=True) for v in ([1.0, 5.0], [1.0, 1.0, 2.0]))
    ad.scatter_reduce(x, 0, ad.tensor([0, 0, 1]), s, "amax").sum().backward()
    assert x.grad.tolist() == pytest.approx([1 / 3, 1.0]) and s.grad.tolist() == pytest.approx(
        [1 / 3, 1 / 3, 0.0]
    )


def test_combined_elements_of_other_types():
    index = ad.tensor([0, 0])
    for dtype in (ad.uint8, ad.int8, ad.int64):
        x, s = ad.tensor([7, 1], dtype=dtype), ad.tensor([2, 4], dtype=dtype)
        assert ad.scatter_reduce(x, 0, index, s, "amin").tolist() == [2, 1]
        assert ad.scatter_reduce(x, 0, index, s, "amax", include_self=False).tolist() == [4, 1]
        assert ad.scatter_reduce(x, 0, index, s, "mean").tolist() == [4, 1]
    x, s = ad.tensor([False, True]), ad.tensor([True, False])
    assert ad.scatter_reduce(x, 0, index, s, "amax").tolist() == [True, True]
    assert ad.scatter_reduce(x, 0, index, s, "amin", include_self=False).tolist() == [False, True]
    x, s = ad.tensor([1.0, 2.0]), ad.tensor([math.nan, 3.0])
    for reduce in ("amax", "amin"):
        assert math.isnan(ad.scatter_reduce(x, 0, index, s, reduce)[0])
        assert math.isnan(ad.scatter_reduce(x, 0, index, s.flip(0), reduce)[0])
    assert x.scatter_reduce_(0, index, s[1:].expand(2), "sum") is x and x.tolist() == [7.0, 2.0]
    assert ad.index_reduce(ad.tensor(2.0), 0, ad.tensor([0]), ad.tensor(3.0), "prod").item() == 6.0


@pytest.mark.parametrize(
    "initial, expected",
    [
        (None, {"sum": 0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1}),
        (2.0, dict.fromkeys(("sum", "mean", "max", "min", "prod"), 2)),
    ],
)
def test_segments_of_nothing(initial, expected):
    for reduce, value in expected.items():
        result = ad.segment_reduce(ad.ones(1), reduce, lengths=ad.tensor([0, 1]), initial=initial)
        np.testing.assert_array_equal(result[0].item(), value)


def test_mantissas_and_exponents():
    for dtype in (ad.float16, ad.bfloat16, ad.float32, ad.float64):
        info = ad.finfo(dtype)
        x = ad.tensor(
            [0.0, -0.0, 1.0, -3.0, info.max, info.tiny, info.tiny * info.eps, math.inf, math.nan, 0.1],
            dtype=dtype,
        )
        mantissa, exponent = ad.frexp(x)
        wide = x.double().numpy()
        m, e = np.frexp(wide)
        np.testing.assert_array_equal(mantissa.double().numpy(), m)
        finite = np.isfinite(wide)
        np.testing.assert_array_equal(exponent.numpy()[finite], e[finite])
        assert mantissa.dtype is dtype and exponent.dtype is ad.int32
    # Every power of two, and its neighbours.
    x = np.ldexp(1.0, np.arange(-1074, 1024))
    x = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, np.inf)[:-1]])
    for actual, expected in zip(ad.frexp(tensor(x)), np.frexp(x)):
        np.testing.assert_array_equal(actual.numpy(), expected)


def test_modes():
    x = np.random.default_rng(0).integers(0, 4, (5, 9))
    values, indices = ad.mode(tensor(x), 1)
    for row, value, index in zip(x, values.tolist(), indices.tolist()):
        counts = np.bincount(row)
        assert value == counts.argmax() and index == np.flatnonzero(row == value)[-1]
    assert ad.mode(tensor(x), 0, True).indices.shape == (1, 9)
    out = ad.empty(0, dtype=ad.int64), ad.empty(0, dtype=ad.int64)
    ad.mode(tensor(x), 1, out=out)
    assert out[0].tolist() == values.tolist()
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        ad.mode(ad.ones(0, 2), 0)
    assert ad.mode(ad.ones(0, 2), 1).values.shape == (0,)


def test_histograms():
    x, w = normal(50), uniform(0, 1, 50)
    for arguments in ({}, {"range": (-1.0, 1.5)}, {"weight": w}, {"weight": w, "density": True}):
        theirs = {{"weight": "weights"}.get(k, k): v for k, v in arguments.items()}
        mine = {k: tensor(v) if k == "weight" else v for k, v in arguments.items()}
        for actual, expected in zip(ad.histogram(tensor(x), 7, **mine), np.histogram(x, 7, **theirs)):
            assert_close(actual, expected)
    edges = np.array([-1.0, 0.0, 0.25, 2.0])
    assert_close(ad.histogram(tensor(x), tensor(edges)).hist, np.histogram(x, edges)[0].astype(float))
    points = normal(30, 2)
    for density in (False, True):
        hist, found = ad.histogramdd(tensor(points), [3, 4], density=density)
        expected, theirs = np.histogramdd(points, [3, 4], density=density)
        assert_close(hist, expected)
        for a, b in zip(found, theirs):
            assert_close(a, b)
    with pytest.raises(RuntimeError, match="should have the same shape as the input"):
        ad.histogram(tensor(x), 3, weight=ad.ones(2))
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        ad.histogram(tensor(x), 0)


def test_approximate_factors():
    a = normal(12, 5) @ np.diag([10, 5, 1e-9, 1e-9, 1e-9]) @ normal(5, 8, seed=1)
    for x in (a, a.T):
        U, S, V = ad.svd_lowrank(tensor(x), q=3)
        assert_close(S[:2], np.linalg.svd(x, compute_uv=False)[:2], rtol=1e-6)
        assert_close((U * S) @ V.mT, x, atol=1e-6)
    U, S, V = ad.pca_lowrank(tensor(a), q=3)
    assert_close((U * S) @ V.mT, a - a.mean(0), atol=1e-6)
    LU, pivots, info = ad.lu(tensor(A[:, :3]), get_infos=True)
    P, L, R = ad.lu_unpack(LU, pivots)
    assert_close(P @ L @ R, A[:, :3])
    assert info.item() == 0 and len(ad.lu(tensor(A[:, :3]))) == 2


def test_small_forms():
    x = ad.arange(6.0).reshape(2, 3)
    assert ad.nonzero_static(ad.tensor([0, 1, 2]), size=3, fill_value=-7).tolist() == [[1], [2], [-7]]
    with announced(UserWarning, match="range is deprecated"):
        assert ad.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]
    assert ad.empty_permuted((2, 3, 4), (1, 0, 2)).stride() == (4, 8, 1)
    one, formats = ad.ones(1, 2, 3, 4), [ad.contiguous_format, ad.channels_last]
    assert one.dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    assert x.t().dim_order() == (1, 0) and x.is_set_to(x.view(2, 3)) and not x.is_set_to(x[:1])
    assert ad.deg2rad_ is ad.Tensor.deg2rad_ and ad.index_put_ is ad.Tensor.index_put_
    y = ad.ones(3)
    assert ad.dropout_(y, 0.5, False) is y
    out = [ad.empty(0), ad.empty(0)]
    ad.unbind_copy(x, out=out)
    assert out[1].tolist() == [3.0, 4.0, 5.0]
    assert ad.t_copy(x).is_contiguous() and not ad.alias_copy(x).is_set_to(x)
    assert type(x.sort()) is ad.return_types.sort and type(ad.linalg.svd(x)) is ad.return_types.linalg_svd
    assert type(ad.linalg.svd(x)).__module__ == "adjoint.return_types"


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda x: x.select_scatter(x, 0, 0),
            RuntimeError,
            "expected src to have a size equal to the slice of self",
        ),
        (lambda x: ad.slice_copy(x, 0, 0, 2, 0), RuntimeError, "slice step must be positive"),
        (
            lambda x: ad.scatter_reduce(x, 0, I, x, "median"),
            RuntimeError,
            "reduce argument must be either sum, prod",
        ),
        (
            lambda x: ad.scatter_reduce(x, 0, I, x.double(), "sum"),
            RuntimeError,
            "Expected self.dtype to be equal to src.dtype",
        ),
        (
            lambda x: ad.index_reduce(x, 0, V, x, "sum"),
            RuntimeError,
            "Expected reduce to be one of prod, mean, amax or amin",
        ),
        (lambda x: ad.index_reduce(x, 0, V[:2], x, "mean"), RuntimeError, "should be equal to source.size"),
        (
            lambda x: ad.index_reduce(x, 0, V, x[:, :1], "mean"),
            RuntimeError,
            "source tensor shape must match",
        ),
        (lambda x: ad.segment_reduce(x, "sum", lengths=ad.tensor([1, 1])), RuntimeError, "when !unsafe"),
        (lambda x: ad.segment_reduce(x, "sum", lengths=ad.tensor([-1, 4])), RuntimeError, "negative value"),
        (lambda x: ad.segment_reduce(x, "sum"), RuntimeError, "Either lengths or offsets must be defined"),
        (lambda x: ad.gradient(x, edge_order=3), RuntimeError, "only supports edge_order=1"),
        (lambda x: ad.gradient(x[:1]), RuntimeError, "at least edge_order"),
        (lambda x: ad.gradient(x, spacing=(1.0,)), RuntimeError, "a spacing argument of length 1"),
        (lambda x: ad.renorm(x, 0, 0, 1.0), RuntimeError, "non-positive-norm not supported"),
        (lambda x: ad.frexp(x.long()), RuntimeError, "only supports floating-point dtypes"),
        (lambda x: x.float_power_(2), RuntimeError, "requires dtype Double"),
        (lambda x: ad.addbmm(x, x, x), RuntimeError, "batch1 must be a 3D tensor"),
        (lambda x: ad.masked.mean(x.long(), mask=MASK), ValueError, "Could not infer output dtype"),
        (lambda x: ad.masked.sum(x, mask=MASK.long()), TypeError, "expected a mask of bool"),
        (lambda x: x[:, :1].dim_order(ambiguity_check=True), RuntimeError, "does not have unique dim order"),
        (lambda x: x[:, :1].dim_order(ambiguity_check=[]), RuntimeError, "does not have unique dim order"),
        (
            lambda x: x.dim_order(ambiguity_check="contiguous"),
            TypeError,
            "must be a bool or a list of memory formats",
        ),
        (lambda x: x.dim_order(ambiguity_check=[1]), TypeError, "must be a bool or a list of memory formats"),
        (lambda x: ad.pca_lowrank(x, q=9), ValueError, "must be non-negative integer and not greater"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ad.ones(3, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sort(),
        lambda x: x.max(0),
        lambda x: x.topk(2),
        lambda x: x.kthvalue(1),
        lambda x: ad.aminmax(x, dim=0),
        lambda x: x.cummax(0),
        lambda x: ad.var_mean(x),
        lambda x: ad.mode(x),
        lambda x: ad.frexp(x),
        lambda x: ad.linalg.svd(x.reshape(2, 2)),
    ],
)
def test_named_results(call):
    """They keep their type through pickles, copies, trees and vmap."""
    x = tensor(A)
    found = call(x[0])
    assert type(found).__module__ == "adjoint.return_types"
    assert type(found) is getattr(ad.return_types, type(found).__name__)
    assert repr(found).startswith(f"adjoint.return_types.{type(found).__name__}(")
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(copied) is type(found) and all(a.equal(b) for a, b in zip(copied, found))
    leaves, spec = tree_flatten(found)
    assert len(leaves) == len(found) and type(tree_unflatten(leaves, spec)) is type(found)
    together = ad.vmap(call)(x)
    assert type(together) is type(found)
    for several, one in zip(together, found):
        assert_close(several[0].abs(), one.abs().numpy())  # vectors are fixed up to their sign
    paths = [path for path, _ in tree_flatten_with_path([found])[0]]
    assert len(paths) == len(found) and str(paths[1][0]) == "[0]"
