"""Single facts of torch's behaviour that programs rely on: forms of calls, phrases, gradients of draws."""

import warnings

import numpy as np
import pytest

import adjoint as ad

# --- gradients of what is drawn -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda m, s: ad.normal(m, 1.0),
        lambda m, s: ad.normal(0.0, s),
        lambda m, s: ad.normal(m, s),
        lambda m, s: ad.bernoulli(m),
        lambda m, s: m.bernoulli(),
        lambda m, s: ad.zeros(3).bernoulli_(m * 1),
        lambda m, s: (m * 1).bernoulli_(s * 0.5),
    ],
)
def test_draws_are_recorded_and_their_gradients_are_zero(draw):
    m = ad.full((3,), 0.5, requires_grad=True)
    s = ad.ones(3, requires_grad=True)
    y = draw(m, s)
    assert y.requires_grad and y.shape == (3,)
    for gradient in ad.autograd.grad(y.sum(), (m, s), allow_unused=True):
        assert gradient is None or gradient.tolist() == [0.0, 0.0, 0.0]


def test_draws_without_gradients_are_not_recorded():
    m = ad.full((3,), 0.5, requires_grad=True)
    assert not ad.normal(m.detach(), 1.0).requires_grad and not ad.bernoulli(m.detach()).requires_grad
    with ad.no_grad():
        assert not ad.normal(m, 1.0).requires_grad
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ad.normal(m, 1.0, out=ad.empty(3))


def test_recorded_draws_are_the_same_numbers():
    m = ad.tensor([0.0, 5.0, -5.0])
    ad.manual_seed(0)
    plain = ad.normal(m, 2.0)
    ad.manual_seed(0)
    assert ad.equal(plain, ad.normal(m.requires_grad_(), 2.0))


# --- bytes as conditions --------------------------------------------------------------------------------------------


def test_where_takes_bytes_and_warns():
    bytes_ = ad.tensor([1, 0, 2], dtype=ad.uint8)
    a, b = ad.tensor([1.0, 2.0, 3.0], requires_grad=True), ad.zeros(3)
    with pytest.warns(
        UserWarning, match="where received a uint8 condition tensor. This behavior is deprecated"
    ):
        y = ad.where(bytes_, a, b)
    assert y.tolist() == [1.0, 0.0, 3.0]
    y.sum().backward()
    assert a.grad.tolist() == [1.0, 0.0, 1.0]
    with pytest.warns(UserWarning):
        assert b.where(bytes_, 7.0).tolist() == [0.0, 7.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="uint8"):
            ad.where(bytes_, a, b)


def test_other_conditions_are_refused():
    for dtype in (ad.int8, ad.int64, ad.float32):
        with pytest.raises(RuntimeError, match="expected condition to be a boolean tensor"):
            ad.where(ad.ones(2, dtype=dtype), ad.ones(2), ad.ones(2))
    with pytest.raises(RuntimeError, match="boolean"):
        ad.ones(2).masked_fill(ad.ones(2, dtype=ad.uint8), 0.0)


# --- forms of calls -------------------------------------------------------------------------------------------------


def test_cross_without_dim_takes_the_first_dimension_of_size_three():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4))
    result = ad.cross(ad.tensor(a), ad.tensor(b))
    np.testing.assert_allclose(result.numpy(), np.cross(a, b, axis=0), rtol=1e-12)
    assert ad.cross(ad.ones(3, 4), ad.ones(3, 1)).shape == (3, 4)
    with pytest.raises(RuntimeError, match="no dimension of size 3 in input"):
        ad.cross(ad.ones(4, 2), ad.ones(4, 2))
    with pytest.raises(RuntimeError, match="must have length 3"):
        ad.linalg.cross(ad.ones(3, 4), ad.ones(3, 4))
    c = rng.standard_normal((3, 3))
    np.testing.assert_allclose(
        ad.linalg.cross(ad.tensor(c), ad.tensor(c[:1])).numpy(), np.cross(c, c[:1]), atol=1e-12
    )


def test_chain_matmul_of_one_matrix_and_of_none():
    a = ad.ones(2, 3)
    assert ad.equal(ad.chain_matmul(a), a)
    with pytest.raises(RuntimeError, match="Expected one or more matrices"):
        ad.chain_matmul()
    with pytest.raises(RuntimeError, match="Tensor dimension is 1, expected 2 instead"):
        ad.chain_matmul(a, ad.ones(3))


def test_unravel_index_takes_integers():
    with pytest.raises(TypeError, match="expected 'indices' to be integer dtype"):
        ad.unravel_index(ad.tensor([1.0]), (2, 2))
    with pytest.raises(TypeError, match="to only contain ints"):
        ad.unravel_index(ad.tensor([1]), (2.0, 2))
    with pytest.raises(ValueError, match="cannot have negative values"):
        ad.unravel_index(ad.tensor([1]), (-2, 2))
    assert [x.tolist() for x in ad.unravel_index(ad.tensor([3, 5]), (2, 3))] == [[1, 1], [0, 2]]


def test_index_put_without_indices():
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        ad.ones(()).index_put([], ad.tensor([1.0]), True)


# --- phrases that programs match --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, phrase",
    [
        (
            lambda: ad.ones(3, dtype=ad.int8).view(ad.int32),
            RuntimeError,
            r"self.size(-1) must be divisible by 4 to view Char as Int (different element sizes), but got 3",
        ),
        (
            lambda: ad.ones(4, dtype=ad.int8)[1:3].view(ad.int16),
            RuntimeError,
            "self.storage_offset() must be divisible by 2",
        ),
        (
            lambda: ad.ones(3, 4, dtype=ad.int8)[:, ::2].view(ad.int16),
            RuntimeError,
            "self.stride(-1) must be 1 to view Char as Short",
        ),
        (
            lambda: ad.addr(
                ad.ones(2, 2, dtype=ad.int64),
                ad.ones(2, dtype=ad.int64),
                ad.ones(2, dtype=ad.int64),
                beta=0.5,
            ),
            RuntimeError,
            "argument beta must not be a floating point number.",
        ),
        (lambda: ad.addr(ad.ones(2, 2), ad.ones(2), ad.ones(2), beta=1j), RuntimeError, "without overflow"),
        (
            lambda: ad.dot(ad.ones(2), ad.ones(2, dtype=ad.float64)),
            RuntimeError,
            "dot : expected both vectors to have same dtype, but found Float and Double",
        ),
        (
            lambda: ad.ones(0, 3)[ad.tensor([0])],
            IndexError,
            "index is out of bounds for dimension with size 0",
        ),
        (
            lambda: ad.tensor_split(ad.ones(()), 2),
            RuntimeError,
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ),
        (
            lambda: ad.tensor_split(ad.ones(3), ad.tensor([1.0])),
            RuntimeError,
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got Float",
        ),
        (
            lambda: ad.tensor_split(ad.ones(3), ad.ones(2, 2)),
            RuntimeError,
            "zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims",
        ),
    ],
)
def test_phrases(call, error, phrase):
    with pytest.raises(error) as caught:
        call()
    assert phrase in str(caught.value)


# --- what is a method -------------------------------------------------------------------------------------------------


def test_in_place_forms_are_of_what_writes_a_tensor_of_its_shape():
    senseless = "sum argmax argmin any all amax mean prod var std cross_entropy layer_norm embedding mse_loss mm bmm dot flip repeat gather clone contiguous softmax".split()
    assert [n for n in senseless if hasattr(ad.Tensor, n + "_")] == []
    sensible = "add exp relu cumsum cumprod tril triu addmm baddbmm scatter_add index_add index_fill index_copy masked_scatter masked_fill clamp".split()
    assert [n for n in sensible if not hasattr(ad.Tensor, n + "_")] == []
    for row in ad._C.operators():
        assert (
            row["inplace"] == hasattr(ad.Tensor, row["name"] + "_") or row["name"][0] == "_" or row["view"]
        ), row["name"]


def test_private_operators_are_no_methods():
    private = [
        n
        for n, v in vars(ad.Tensor).items()
        if n[0] == "_" and isinstance(v, ad._C.Operator) and n[:2] != "__"
    ]
    assert private == []


# --- functions of elements in Python -----------------------------------------------------------------------------------


def test_functions_of_each_element():
    x = ad.arange(6).reshape(2, 3)
    part = x.t()[1:]
    assert part.apply_(lambda i: i * i) is part and x.tolist() == [[0, 1, 4], [3, 16, 25]]
    y = ad.tensor([1.5, 2.5])
    assert y.map_(ad.tensor(2.0), lambda a, b: a * b) is y and y.tolist() == [3.0, 5.0]
    assert y.map2_(ad.tensor([1.0, 2.0]), ad.tensor(10.0), lambda a, b, c: a + b * c).tolist() == [13.0, 25.0]
    version = y._version
    assert y.apply_(lambda v: -v).tolist() == [-13.0, -25.0] and y._version == version + 1
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        ad.ones(2, requires_grad=True).apply_(abs)
    with pytest.raises(TypeError, match="adjoint.int64 beside adjoint.float32"):
        y.map_(x, max)
    with pytest.raises(ZeroDivisionError):
        y.apply_(lambda v: 1 / (v + 13))
    assert y.tolist() == [-13.0, -25.0]


def test_prelu_is_a_method():
    x = ad.tensor([-2.0, 3.0])
    assert x.prelu(ad.tensor(0.5)).tolist() == [-1.0, 3.0]


def test_uniform_complex_numbers():
    x = ad.empty(4000, dtype=ad.complex64).uniform_(-1, 3, generator=ad.Generator().manual_seed(1))
    for part in (x.real, x.imag):
        assert -1 <= part.min().item() < -0.9 and 2.9 < part.max().item() < 3
        assert abs(part.mean().item() - 1) < 0.1


# --- what random calls beside torch showed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"), [("float32", "float64"), ("int64", "float32"), ("float64", "complex64")]
)
def test_outer_products_of_two_types_have_gradients(first, second):
    a, b = ad.tensor([1, 2, 3]).to(getattr(ad, first)), ad.tensor([4, 5]).to(getattr(ad, second))
    leaves = [x.requires_grad_() for x in (a, b) if x.dtype is not ad.int64]
    gradients = ad.autograd.grad(ad.outer(a, b).real.sum(), leaves)
    for x, g in zip(leaves, gradients, strict=True):
        assert g.dtype is x.dtype and g.real.tolist() == [(b if x is a else a).real.sum().item()] * len(x)


def test_sums_of_truths_are_of_the_elements_as_truths():
    assert ad.tensor([0.5, 0.3]).sum(dtype=ad.bool).item() is True
    assert ad.tensor([1, -1]).sum(0, dtype=ad.bool).item() is True
    assert ad.tensor([0.5, 0.3]).prod(dtype=ad.bool).item() is True
    assert ad.tensor([0.0, 0.0]).sum(dtype=ad.bool).item() is False


def test_the_factor_of_rsub_is_third():
    x = ad.tensor([1.0, 2.0])
    assert ad.rsub(x, 10, 3).tolist() == ad.rsub(x, 10, alpha=3).tolist() == [7.0, 4.0]


def test_nan_to_num_takes_none():
    x = ad.tensor([float("nan"), float("inf"), 1.0])
    assert x.nan_to_num(nan=None, posinf=5).tolist() == x.nan_to_num(posinf=5).tolist() == [0.0, 5.0, 1.0]
    assert ad.tensor([1, 2]).nan_to_num(None).tolist() == [1, 2]


def test_forms_of_old_functions():
    x = ad.tensor([[1.0, 3.0, 2.0]])
    values, places = ad.adaptive_max_pool1d(x, 1)
    assert values.item() == 3 and places.item() == 1
    assert ad.special.softmax(x, 1, ad.float64).dtype is ad.float64
    assert ad.histogram(x).hist.shape == (100,)
    lu, _ = ad.linalg.lu_factor(ad.eye(2))
    assert ad.lu_unpack(lu, ad.tensor([9.0]), unpack_pivots=False)[0].shape == (0,)
    scalar = ad.tensor(2.0)
    assert scalar.mT.item() == scalar.mH.item() == 2
    with pytest.raises(RuntimeError, match="Got 1-D"):
        x[0].mT
    for tolerance in ({"rtol": float("nan")}, {"atol": float("nan")}):
        with pytest.raises(RuntimeError, match="must be greater than or equal to zero, but got nan"):
            ad.isclose(x, x, **tolerance)
    with pytest.raises(ValueError, match="reduction must be 0 for 'none'"):
        ad.poisson_nll_loss(x, x, True, False, 1e-8, 3)


def test_a_kaiser_window_is_even_in_beta():
    assert ad.kaiser_window(5, beta=-3.0).tolist() == ad.kaiser_window(5, beta=3.0).tolist()
