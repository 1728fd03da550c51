"""What torch's own database of operators asks of forms, dtypes and texts, written down as facts."""

import warnings

import numpy as np
import pytest
from helpers import assert_close

import adjoint as ad

# --- out= --------------------------------------------------------------------------------------------------------

AT = ad.tensor([0, 1])
F = ad.tensor([1.0, 2.0])

#: Calls whose out= must have the dtype of the result, which is float32.
EXACT = {
    "scatter": lambda out: ad.scatter(F, 0, AT, F, out=out),
    "scatter of a number": lambda out: ad.scatter(F, 0, AT, 3.0, out=out),
    "scatter that multiplies": lambda out: ad.scatter(F, 0, AT, F, reduce="multiply", out=out),
    "scatter_reduce": lambda out: ad.scatter_reduce(F, 0, AT, F, "prod", out=out),
    "scatter_add": lambda out: ad.scatter_add(F, 0, AT, F, out=out),
    "index_reduce": lambda out: ad.index_reduce(F, 0, AT, F, "amax", out=out),
    "slice_scatter": lambda out: ad.slice_scatter(F, F[:1], 0, 1, out=out),
    "gather": lambda out: ad.gather(F, 0, AT, out=out),
    "mv": lambda out: ad.mv(ad.eye(2), F, out=out),
    "softmax": lambda out: ad.softmax(F, 0, out=out),
    "tril": lambda out: ad.tril(ad.eye(2), out=out),
    "sort": lambda out: ad.sort(F, out=(out, ad.empty(0, dtype=ad.int64)))[0],
    "floor": lambda out: ad.floor(F, out=out),
    "neg": lambda out: ad.neg(F, out=out),
    "nan_to_num": lambda out: ad.nan_to_num(F, out=out),
    "where": lambda out: ad.where(F > 1, F, F, out=out),
    "amax": lambda out: ad.amax(F, out=out),
    "norm": lambda out: ad.norm(F, out=out),
    "quantile": lambda out: ad.quantile(F, 0.5, out=out),
    "diff": lambda out: ad.diff(F, out=out),
    "diag": lambda out: ad.diag(F, out=out),
    "view_copy": lambda out: ad.view_copy(F, (2, 1), out=out),
    "cross": lambda out: ad.cross(ad.ones(3), ad.eye(3)[0], out=out),
    "frexp": lambda out: ad.frexp(F, out=(out, ad.empty(0, dtype=ad.int32)))[0],
    "qr": lambda out: ad.qr(ad.eye(2), out=(out, ad.empty(0)))[0],
    "mode": lambda out: ad.mode(F, out=(out, ad.empty(0, dtype=ad.int64)))[0],
}


@pytest.mark.parametrize("name", EXACT)
def test_out_of_another_dtype_is_refused(name):
    wanted = EXACT[name](ad.empty(0))
    assert EXACT[name](ad.empty(wanted.shape)).tolist() == wanted.tolist()
    for dtype, found in (
        (ad.float64, "double"),
        (ad.int64, "long int"),
        (ad.complex64, r"c10::complex<float>"),
    ):
        with pytest.raises(
            RuntimeError, match=f"Expected out tensor to have dtype float, but got {found} instead"
        ):
            EXACT[name](ad.empty(wanted.shape, dtype=dtype))


def test_answers_are_bools_in_bools():
    for f in (ad.isposinf, ad.isneginf, ad.signbit):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype bool, but got long int"):
            f(F, out=ad.empty(2, dtype=ad.int64))
    assert ad.eq(F, F, out=ad.empty(2)).tolist() == [1, 1]  # a comparison is converted


@pytest.mark.parametrize(
    "call",
    [
        lambda out: ad.cat([F, F], out=out),
        lambda out: ad.add(F, F, out=out),
        lambda out: ad.mean(F, 0, out=out),
        lambda out: ad.var(F, out=out),
        lambda out: ad.outer(F, F, out=out),
        lambda out: ad.kron(F, F, out=out),
        lambda out: ad.logsumexp(F, 0, out=out),
    ],
)
def test_out_of_a_wider_dtype_is_converted_to(call):
    wanted = call(ad.empty(0))
    assert_close(call(ad.empty(0, dtype=ad.float64)), np.asarray(wanted.tolist()), rtol=1e-6)


def test_out_is_never_a_view_of_the_input():
    x = ad.arange(6.0).reshape(2, 3)
    for f in (lambda out: ad.unbind_copy(x, 1, out=out), lambda out: ad.split_copy(x, 1, 1, out=out)):
        out = [ad.empty(0) for _ in range(3)]
        f(out)
        assert all(o.is_contiguous() for o in out)
        assert [o.reshape(-1).tolist() for o in out] == [[0, 3], [1, 4], [2, 5]]
        out[0].zero_()
        assert x[0, 0] == 0 and x[1, 0] == 3


def test_out_of_another_shape_is_resized():
    out = ad.zeros(4, 4)
    with pytest.warns(UserWarning, match="was resized"):
        ad.diff(F, out=out)
    assert out.tolist() == [1.0]


def test_what_makes_a_tensor_resizes_out_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.ones(3, out=ad.zeros(2)).tolist() == [1, 1, 1]
        assert ad.full((1,), 2.0, out=ad.zeros(2)).tolist() == [2]
        assert ad.eye(2, out=ad.zeros(5)).shape == (2, 2)
        assert ad.linspace(0, 1, 2, out=ad.zeros(5)).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=r"dtype Float does not match dtype of out parameter \(Long\)"):
        ad.ones(2, dtype=ad.float32, out=ad.zeros(2, dtype=ad.int64))


def test_the_nuclear_norm_writes_out():
    out = ad.zeros(())
    assert ad.norm(ad.eye(3), "nuc", out=out) is out and out.item() == pytest.approx(3)


def test_multinomial_wants_int64():
    with pytest.raises(RuntimeError, match="multinomial expects Long tensor out, got: Float"):
        ad.multinomial(F, 1, out=ad.empty(1))


# --- calls that torch takes ------------------------------------------------------------------------------------------


def trapezoids(y, x, axis):
    """The sum of the areas between neighbours."""
    y, x = np.moveaxis(y, axis, -1), x if x.ndim == 1 else np.moveaxis(x, axis, -1)
    return (np.diff(x) * (y[..., 1:] + y[..., :-1]) / 2).sum(-1)


def test_places_along_another_dimension_than_the_last():
    y, x = np.arange(12.0).reshape(3, 4) ** 2, np.arange(12.0).reshape(3, 4) ** 1.5
    assert_close(ad.trapezoid(ad.tensor(y), ad.tensor(x), dim=0), trapezoids(y, x, axis=0))
    assert_close(ad.trapezoid(ad.tensor(y), ad.tensor(x), dim=-2), trapezoids(y, x, axis=0))
    assert_close(ad.trapz(ad.tensor(y), ad.tensor(x[:, 0]), dim=0), trapezoids(y, x[:, 0], axis=0))
    steps = np.diff(x, axis=0) * (y[1:] + y[:-1]) / 2
    assert_close(ad.cumulative_trapezoid(ad.tensor(y), ad.tensor(x), dim=0), steps.cumsum(0))
    # Places of fewer dimensions than the values belong to their last ones.
    deep = np.stack([y, 2 * y])
    assert_close(ad.trapezoid(ad.tensor(deep), ad.tensor(x), dim=1), trapezoids(deep, x[None], axis=1))


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradient_is_contiguous_along_each_dimension(dim, edge_order):
    x = np.random.default_rng(0).standard_normal((4, 5))
    places = np.cumsum(np.arange(1.0, x.shape[dim] + 1))
    for spacing, where in ((2.0, 2.0), ([ad.tensor(places)], places)):
        (g,) = ad.gradient(ad.tensor(x), spacing=spacing, dim=dim, edge_order=edge_order)
        assert_close(g, np.gradient(x, where, axis=dim, edge_order=edge_order))
        assert g.is_contiguous()
    assert len(ad.gradient(ad.tensor(x), spacing=None, dim=None)) == 2


def test_weights_of_covariances_promote():
    x = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])
    weights = np.array([0.2, 0.5, 0.3])
    for a, b, dtype in (("bfloat16", "float32", "float32"), ("float32", "float64", "float64")):
        given = ad.tensor(x, dtype=getattr(ad, a))
        result = ad.cov(given, aweights=ad.tensor(weights, dtype=getattr(ad, b)))
        assert result.dtype is getattr(ad, dtype)
        assert_close(result, np.cov(x, aweights=weights), rtol=1e-5)
    counts = ad.tensor([1, 2, 3])
    assert_close(ad.cov(ad.tensor(x), fweights=counts), np.cov(x, fweights=[1, 2, 3]))
    assert ad.cov(ad.tensor([[1, 2], [3, 5]])).dtype is ad.float32


def test_correlations_are_at_most_one():
    rows = ad.tensor(np.random.default_rng(0).standard_normal((20, 3)), dtype=ad.float32)
    rows = ad.cat([rows, rows * 3])
    assert ad.corrcoef(rows).abs().max() <= 1


def test_sum_to_size():
    x = ad.ones(2, 3, requires_grad=True)
    assert not x.sum_to_size(1, 3)._is_view() and x.sum_to_size(3)._is_view()
    number = ad.tensor(3, dtype=ad.int32)
    assert number.sum_to_size(()).dtype is ad.int64 and number.sum_to_size(()) is not number


def test_tensordot_keeps_the_dtype_of_a_size_of_one():
    for dtype in (ad.int32, ad.uint8):
        a, b = ad.ones(1, 2, dtype=dtype), ad.ones(3, 2, dtype=dtype)
        result = ad.tensordot(a, b, ([0, 1], [0, 1]))
        assert result.dtype is dtype and result.item() == 6


def test_older_linear_algebra():
    A = ad.tensor([[4.0, 3.0], [6.0, 3.0]])
    assert len(A.lu(True, True)) == 3 and len(ad.lu(A, True)) == 2
    half = ad.linalg.matrix_exp(ad.zeros(2, 2, dtype=ad.bfloat16))
    assert half.dtype is ad.bfloat16 and half.tolist() == [[1, 0], [0, 1]]
    a, tau = ad.geqrf(ad.tensor([[3.0], [4.0]]))
    wide = ad.cat([a, ad.ones(2, 3)], 1)
    with pytest.raises(
        RuntimeError, match=r"tau.shape\[-1\] must be equal to min\(other.shape\[-2\], input.shape\[-1\]\)"
    ):
        ad.ormqr(wide, tau, ad.eye(2))
    assert ad.ormqr(ad.ones(0, 5), ad.ones(0), ad.ones(0, 5)).shape == (0, 5)
    with pytest.raises(RuntimeError, match="input must have at least 2 dimensions"):
        ad.ormqr(ad.tensor(1.0), ad.tensor(1.0), ad.tensor(1.0))


def test_factors_of_integers_lose_their_fractions():
    two = [[2, 2], [2, 2]]
    for f, first, second in (
        (ad.addmm, [[1, 1], [1, 1]], two),
        (ad.addmv, [1, 1], [1, 1]),
        (ad.baddbmm, [two], [two]),
        (ad.addbmm, two, [two]),
    ):
        x, y = ad.tensor(first), ad.tensor(second)
        left = ad.tensor([two] if y.ndim == 3 else two)
        assert f(x, left, y, beta=2.9, alpha=1.7).tolist() == f(x, left, y, beta=2, alpha=1).tolist()
        assert f(x, left, y, beta=0.5).tolist() == f(x, left, y, beta=0).tolist()
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        ad.addr(ad.ones(2, 2).long(), ad.ones(2).long(), ad.ones(2).long(), beta=0.5)


def test_an_index_without_elements_may_have_any_type():
    for dtype in (ad.uint8, ad.bool, ad.float32):
        assert ad.gather(F, 0, ad.empty(0, dtype=dtype)).shape == (0,)
    with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
        ad.gather(F, 0, ad.ones(1, dtype=ad.uint8))


def test_indices_of_triangles_are_contiguous():
    assert ad.triu_indices(3, 4).is_contiguous() and ad.tril_indices(3, 4).view(-1).shape == (12,)


def test_logarithms_of_sums_of_complex_exponentials():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(5) + 1j * rng.standard_normal(5) for _ in range(2))
    assert_close(ad.logaddexp(ad.tensor(a), ad.tensor(b)), np.log(np.exp(a) + np.exp(b)))
    assert ad.logaddexp(ad.tensor(800 + 1j), ad.tensor(2 + 0j)).item() == 800 + 1j
    assert ad.logaddexp(ad.tensor(complex(-np.inf, 0)), ad.tensor(2 + 1j)).item() == 2 + 1j
    x, y = ad.tensor(a, requires_grad=True), ad.tensor(b, requires_grad=True)
    assert ad.autograd.gradcheck(ad.logaddexp, (x, y)) and ad.autograd.gradgradcheck(ad.logaddexp, (x, y))


# --- names of nodes ----------------------------------------------------------------------------------------------


def recorded(f, x):
    """The gradient of f, to be differentiated again."""
    return ad.autograd.grad(f(x).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x.sum(), "SumBackward0"),
        (lambda x: x.sum(0), "SumBackward1"),
        (lambda x: x.mean(), "MeanBackward0"),
        (lambda x: x.mean(1), "MeanBackward1"),
        (lambda x: x.prod(), "ProdBackward0"),
        (lambda x: x.prod(0), "ProdBackward1"),
        (lambda x: x.max(), "MaxBackward1"),
        (lambda x: x.max(0)[0], "MaxBackward0"),
        (lambda x: x.min(), "MinBackward1"),
        (lambda x: x.min(0)[0], "MinBackward0"),
        (lambda x: x.median(), "MedianBackward0"),
        (lambda x: x.median(0)[0], "MedianBackward1"),
        (lambda x: x.nanmedian(0)[0], "NanmedianBackward1"),
        (lambda x: x.log1p(), "Log1PBackward0"),
        (lambda x: x.log2(), "Log2Backward0"),
        (lambda x: x.expm1(), "Expm1Backward0"),
        (lambda x: x.norm(), "LinalgVectorNormBackward0"),
        (lambda x: x.narrow(0, 0, 1), "SliceBackward0"),
        (lambda x: x.reshape(-1), "ViewBackward0"),
        (lambda x: x.flatten(), "ViewBackward0"),
        (lambda x: x.unflatten(1, (1, 2)), "ViewBackward0"),
        (lambda x: x.movedim(0, 1), "PermuteBackward0"),
        (lambda x: x.tile(2), "RepeatBackward0"),
        (lambda x: x.double(), "ToCopyBackward0"),
        (lambda x: x.t(), "TBackward0"),
        (lambda x: recorded(lambda x: x.softmax(1) ** 2, x), "SoftmaxBackwardDataBackward0"),
        (lambda x: recorded(lambda x: x.log_softmax(1) ** 2, x), "LogSoftmaxBackwardDataBackward0"),
        (
            lambda x: recorded(lambda w: ad.nn.functional.embedding(ad.tensor([1]), w) ** 2, x),
            "EmbeddingDenseBackwardBackward0",
        ),
    ],
)
def test_a_node_is_called_as_in_torch(call, name):
    assert call(ad.ones(2, 2, requires_grad=True)).grad_fn.name() == name


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "phrase"),
    [
        (lambda: ad.gradient(F, dim=1), IndexError, "Dimension out of range"),
        (lambda: ad.gradient(ad.eye(2), dim=(1, 1)), RuntimeError, "dim 1 appears multiple times in the list of dims"),
        (lambda: ad.hstack([]), RuntimeError, "hstack expects a non-empty TensorList"),
        (lambda: ad.vstack(()), RuntimeError, "vstack expects a non-empty TensorList"),
        (lambda: ad.dstack([]), RuntimeError, "dstack expects a non-empty TensorList"),
        (lambda: ad.ones(4).hsplit(3), RuntimeError, r"adjoint.hsplit attempted to split along dimension 0, but the size of the dimension 4 is not divisible by the split_size 3!"),
        (lambda: ad.ones(4, 2).vsplit(0), RuntimeError, r"adjoint.vsplit attempted to split along dimension 0, but the size of the dimension 4 is not divisible by the split_size 0!"),
        (lambda: ad.tensor(1.0).hsplit(1), RuntimeError, "adjoint.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"),
        (lambda: ad.ones(2, 2).dsplit(1), RuntimeError, "adjoint.dsplit requires a tensor with at least 3 dimension, but got a tensor with 2 dimensions!"),
        (lambda: ad.ones(2).hsplit("abc"), TypeError, "received an invalid combination of arguments"),
        (lambda: ad.ones(4).rot90(), RuntimeError, "expected total dims >= 2, but got total dims = 1"),
        (lambda: ad.ones(4, 4).rot90(1, (1, -1)), RuntimeError, "expected rotation dims to be different, but got dim0 = 1 and dim1 = -1"),
        (lambda: ad.isclose(F, F, rtol=-1), RuntimeError, "rtol must be greater than or equal to zero, but got -1"),
        (lambda: ad.isclose(F, F, atol=-0.5), RuntimeError, "atol must be greater than or equal to zero, but got -0.5"),
        (lambda: ad.eye(-1), RuntimeError, "n must be greater or equal to 0, got -1"),
        (lambda: ad.eye(1, -2), RuntimeError, "m must be greater or equal to 0, got -2"),
        (lambda: ad.empty_permuted((2,), (3,)), RuntimeError, "Dimension out of range"),
        (lambda: ad.empty_permuted((2, 3), (0, 0)), RuntimeError, "Duplicate dim not allowed"),
        (lambda: ad.multinomial(AT, 1), RuntimeError, "multinomial only supports floating-point dtypes for input"),
        (lambda: ad.multinomial(-F, 1), RuntimeError, "invalid multinomial distribution"),
        (lambda: ad.multinomial(ad.ones(1).expand(2**24 + 1), 1), RuntimeError, "number of categories cannot exceed"),
        (lambda: ad.complex(F, AT.int()), RuntimeError, "Expected both inputs to be Half, Float or Double tensors but got Float and Int"),
        (lambda: ad.complex(F, F.double()), RuntimeError, "Expected object of scalar type Float but got scalar type Double for second argument"),
        (lambda: ad.masked_scatter(F, F, F), RuntimeError, "masked_scatter_ only supports boolean masks, but got mask with dtype Float"),
        (lambda: ad.scatter(ad.ones(3, 5, 3), 0, ad.zeros(2, 2).long(), ad.ones(2, 5)), RuntimeError, "Index tensor must have the same number of dimensions as self tensor"),
        (lambda: ad.scatter_add(ad.ones(3, 5), 0, ad.zeros(2, 2).long(), ad.ones(2, 5, 2)), RuntimeError, "Index tensor must have the same number of dimensions as src tensor"),
        (lambda: ad.index_add(ad.ones(3, 2), 0, AT, F), RuntimeError, r"source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = \[3, 2\] source.shape = \[2\]"),
        (lambda: ad.movedim(ad.ones(2, 3), (0, 1), (0,)), RuntimeError, r"movedim: Invalid source or destination dims: source \(\[0, 1\] dims\) should contain the same number of dims as destination \(\[0\] dims\)"),
        (lambda: ad.movedim(ad.ones(2, 3), (0, -2), (0, 1)), RuntimeError, r"movedim: repeated dim in `source` \(\[0, -2\]\)"),
        (lambda: AT.mean(), RuntimeError, r"mean\(\): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long"),
        (lambda: ad.index_select(ad.ones(3, 6), 1, AT, out=ad.ones(6).expand(2, 6)), RuntimeError, "more than one element of the written-to tensor refers to a single memory location"),
    ],
)  # fmt: skip
def test_phrases_of_errors(call, kind, phrase):
    with pytest.raises(kind, match=phrase):
        call()
