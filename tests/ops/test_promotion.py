"""Type promotion: categories (bool < integer < float < complex), weak scalars, in-place result types.

The rules in one line each. Within a category the wider dtype wins. A Python number or a zero-dimensional
tensor only lifts the category: then the result takes the default dtype of that category. An in-place
operation must fit its result into the tensor it writes.
"""

import itertools

import numpy as np
import pytest
from helpers import ALL_DTYPES, COMPLEX_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, dtype_of

import adjoint as ad

REAL_INTEGER = ["bool", *INTEGER_DTYPES]


def category(name):
    return 0 if name == "bool" else 1 if name in INTEGER_DTYPES else 2 if name in FLOAT_DTYPES else 3


def lattice(a, b):
    """The promoted name of two dtypes of equal weight."""
    if a == b:
        return a
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if {category(a), category(b)} <= {0, 1}:
        return np.promote_types(a, b).name
    if category(a) != category(b):
        low, high = sorted((a, b), key=category)
        if high in FLOAT_DTYPES or low in REAL_INTEGER:
            return high
        # A float of double width lifts a complex to double width; half floats do not.
        return "complex128" if "complex128" in (low, high) or low == "float64" else "complex64"
    widths = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    return max(a, b, key=widths.index)


@pytest.mark.parametrize("a, b", list(itertools.combinations_with_replacement(ALL_DTYPES, 2)))
def test_tensor_with_tensor(a, b):
    x, y = ad.ones(2, dtype=dtype_of(a)), ad.ones(2, dtype=dtype_of(b))
    expected = dtype_of(lattice(a, b))
    assert (x + y).dtype == expected
    assert (y + x).dtype == expected
    assert (x * y).dtype == expected
    assert ad.promote_types(dtype_of(a), dtype_of(b)) == expected
    assert ad.result_type(x, y) == expected


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("scalar", [True, 2, 2.5, 1 + 2j], ids=["bool", "int", "float", "complex"])
def test_python_scalar_is_weak(name, scalar):
    x = ad.ones(2, dtype=dtype_of(name))
    own, other = category(name), {bool: 0, int: 1, float: 2, complex: 3}[type(scalar)]
    if other <= own:
        expected = name
    elif other == 1:
        expected = "int64"
    elif other == 2:
        expected = "float32"
    else:
        # A complex scalar keeps the width of a floating tensor; float16 has complex32 in torch only.
        if name in ("float16",):
            pytest.skip("complex32 is not a dtype here")
        expected = {"float64": "complex128"}.get(name, "complex64")
    assert (x * scalar).dtype == dtype_of(expected)
    assert (scalar * x).dtype == dtype_of(expected)


@pytest.mark.parametrize("dim", ["uint8", "int32", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("zero", ["bool", "int8", "int64", "float64", "complex128"])
def test_zero_dimensional_tensor_is_weak(dim, zero):
    x = ad.ones(2, dtype=dtype_of(dim))
    z = ad.ones((), dtype=dtype_of(zero))
    if category(zero) <= category(dim):
        expected = dim
    elif category(dim) == 2 and category(zero) == 3 and dim in ("float16", "bfloat16"):
        pytest.skip("complex32 is not a dtype here")
    elif category(dim) == 2:
        # A weak complex operand makes a floating tensor complex at the tensor's own width.
        expected = {"float32": "complex64", "float64": "complex128"}[dim]
    else:
        # Only the category is lifted by a weak operand, but it brings its own dtype.
        expected = lattice(dim, zero)
    assert (x + z).dtype == dtype_of(expected)
    assert (z + x).dtype == dtype_of(expected)


def test_zero_dimensional_weak_but_strong_among_themselves():
    a, b = ad.ones((), dtype=ad.float64), ad.ones((), dtype=ad.float32)
    assert (a + b).dtype == ad.float64
    assert (b + 1.5).dtype == ad.float32
    assert (ad.tensor(1) + 1.5).dtype == ad.float32
    assert (ad.tensor(True) + 1).dtype == ad.int64


def test_default_dtype_of_lifted_scalars():
    ad.set_default_dtype(ad.float64)
    assert (ad.ones(2, dtype=ad.int32) * 0.5).dtype == ad.float64
    assert (ad.ones(2, dtype=ad.int32) / 2).dtype == ad.float64
    assert ad.tensor(1.0).dtype == ad.float64
    assert ad.tensor(1j).dtype == ad.complex128
    assert ad.sin(ad.tensor([1, 2])).dtype == ad.float64
    assert ad.get_default_dtype() == ad.float64


@pytest.mark.parametrize("name", REAL_INTEGER)
def test_true_division_of_integers_is_floating(name):
    x = ad.ones(3, dtype=dtype_of(name))
    assert (x / x).dtype == ad.float32
    assert (x / 2).dtype == ad.float32
    assert ad.div(x, x).dtype == ad.float32
    assert x.reciprocal().dtype == ad.float32


@pytest.mark.parametrize("name", REAL_INTEGER)
@pytest.mark.parametrize(
    "op", ["exp", "sin", "tanh", "sqrt", "log", "sigmoid", "erf", "rsqrt", "lgamma", "atan", "expm1"]
)
def test_transcendental_functions_lift_integers(name, op):
    x = ad.ones(2, dtype=dtype_of(name))
    assert getattr(ad, op)(x).dtype == ad.float32


@pytest.mark.parametrize("name", INTEGER_DTYPES)
def test_integer_division_with_rounding_stays_integer(name):
    x = ad.full((2,), 7, dtype=dtype_of(name))
    for mode in ("trunc", "floor"):
        assert ad.div(x, 2, rounding_mode=mode).dtype == dtype_of(name)
    assert (x // 2).dtype == dtype_of(name)
    assert (x % 2).dtype == dtype_of(name)


@pytest.mark.parametrize("name", REAL_INTEGER)
def test_sum_and_prod_of_integers_widen(name):
    x = ad.ones((2, 3), dtype=dtype_of(name))
    for op in (ad.sum, ad.prod, lambda t: ad.cumsum(t, 0), lambda t: ad.cumprod(t, 0)):
        assert op(x).dtype == ad.int64
    assert ad.sum(x, dtype=ad.float32).dtype == ad.float32


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_comparison_gives_bool(name):
    x = ad.ones(2, dtype=dtype_of(name))
    assert (x == x).dtype == ad.bool
    assert (x != 1).dtype == ad.bool
    if name not in COMPLEX_DTYPES:
        assert (x < 2).dtype == ad.bool


IN_PLACE_REFUSED = [
    ("int64", "float32", "result type Float can't be cast to the desired output type Long"),
    ("int64", 1.5, "result type Float can't be cast to the desired output type Long"),
    ("bool", 1, "result type Long can't be cast to the desired output type Bool"),
    ("bool", "int64", "result type Long can't be cast to the desired output type Bool"),
    ("float32", "complex64", "result type ComplexFloat can't be cast to the desired output type Float"),
    ("float64", 1j, "result type ComplexDouble can't be cast to the desired output type Double"),
]


@pytest.mark.parametrize("name, other, phrase", IN_PLACE_REFUSED)
def test_in_place_result_must_fit(name, other, phrase):
    x = ad.ones(2, dtype=dtype_of(name))
    y = ad.ones(2, dtype=dtype_of(other)) if isinstance(other, str) else other
    with pytest.raises(RuntimeError, match=phrase):
        x.add_(y)
    assert x.tolist() == ad.ones(2, dtype=dtype_of(name)).tolist()


@pytest.mark.parametrize("name, other", [("int8", "int64"), ("float16", "float64"), ("float32", "int64")])
def test_in_place_keeps_its_dtype_within_the_category(name, other):
    x = ad.ones(2, dtype=dtype_of(name))
    x += ad.ones(2, dtype=dtype_of(other))
    assert x.dtype == dtype_of(name)
    assert x.tolist() == [2, 2]


def test_in_place_true_division_of_integers_is_refused():
    x = ad.tensor([4, 2])
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        x /= 2
    assert x.tolist() == [4, 2]
    x //= 2
    assert x.tolist() == [2, 1]


def test_out_argument_obeys_casting():
    x = ad.tensor([1.5, 2.5])
    wide = ad.empty(2, dtype=ad.float64)
    assert ad.add(x, x, out=wide) is wide
    assert wide.tolist() == [3.0, 5.0]
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        ad.add(x, x, out=ad.empty(2, dtype=ad.int64))


def test_bool_arithmetic():
    t, f = ad.tensor([True, True, False]), ad.tensor([True, False, False])
    assert (t + f).tolist() == [True, True, False]
    assert (t + f).dtype == ad.bool
    assert (t * f).tolist() == [True, False, False]
    assert (t + 1).tolist() == [2, 2, 1]
    assert (~t).tolist() == [False, False, True]
    for bad in (lambda: t - f, lambda: -t, lambda: 1 - t):
        with pytest.raises(RuntimeError, match="bool tensor"):
            bad()


def test_can_cast():
    assert ad.can_cast(ad.int64, ad.float32)
    assert ad.can_cast(ad.float64, ad.float32)
    assert not ad.can_cast(ad.float32, ad.int64)
    assert not ad.can_cast(ad.complex64, ad.float64)
    assert ad.can_cast(ad.bool, ad.int8)
    assert not ad.can_cast(ad.int8, ad.bool)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_gradient_has_the_dtype_of_its_leaf(name):
    x = ad.ones(3, dtype=dtype_of(name), requires_grad=True)
    wide = ad.ones(3, dtype=ad.complex128 if x.is_complex() else ad.float64)
    y = x * wide
    assert y.dtype == wide.dtype
    y.sum().abs().backward()
    assert x.grad.dtype == x.dtype
    assert x.grad.shape == x.shape


def test_gradient_of_real_leaf_through_complex_result_is_real():
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    y = (x * (1 + 2j)).abs().sum()
    y.backward()
    assert x.grad.dtype == ad.float64
    np.testing.assert_allclose(x.grad.tolist(), [5**0.5] * 2)
