"""A number beside a tensor: one rule for every operator.

The number is weak: it lifts the category (bool < integer < float < complex) and nothing else, and then takes the type
that the operator computes in, which is float32 for the half types. So a half tensor meets a number beyond its range as
it is, and an integer beyond the range of an integer tensor wraps around only where the operator computes in integers.
`expected` states the rule in NumPy; `numbers_against_torch` holds the same cases against torch. Writes and choices
refuse what the elements cannot hold.
"""

import math
import warnings

import numpy as np
import pytest
import reference
from helpers import ALL_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, array, dtype_of, name_of
from numbers_at_limits import COMPLEX_NUMBERS, REAL_NUMBERS, elements, fits

import adjoint as ad

ANSWERS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
REAL_DTYPES = [d for d in ALL_DTYPES if not d.startswith("complex")]
BINARY = {
    row["name"]: row
    for row in ad._C.operators()
    if row["kind"] == "elementwise"
    and row["arity"] == 2
    and not row["parameters"]
    # Gradients of others are private; counts of bits and powers of integers have limits of their own.
    and not row["name"].startswith("_")
    and "shift" not in row["name"]
    and row["name"] in reference.REFERENCES
    # Their results are of another category.
    and row["name"] not in ("complex", "polar")
}


def numpy_dtype(name):
    return np.dtype("float32" if name == "bfloat16" else name)


def result_name(name, number, promotes_integers):
    """The type of the result but for comparisons: the tensor's, lifted to the number's category."""
    own = "b" if name == "bool" else "i" if name in INTEGER_DTYPES else "f" if name in FLOAT_DTYPES else "c"
    other = "b" if isinstance(number, bool) else {int: "i", float: "f", complex: "c"}[type(number)]
    if "bifc".index(other) > "bifc".index(own):
        name = {"i": "int64", "f": "float32", "c": "complex128" if name == "float64" else "complex64"}[other]
    return "float32" if promotes_integers and (name == "bool" or name in INTEGER_DTYPES) else name


def as_computed(number, dtype):
    """The number in the type computed in; integers wrap around."""
    if dtype.kind in "ui":
        bits = 8 * dtype.itemsize
        return np.array(int(number) & (2**bits - 1), np.uint64).astype(f"u{dtype.itemsize}").view(dtype)[()]
    return dtype.type(number)


def expected(name, x, number, result, swap):
    """The value by the rule: both in the type computed in, then rounded to the result's."""
    computed = np.dtype("float32") if result in ("float16", "bfloat16") else np.dtype(result)
    a, b = array(x).astype(computed), as_computed(number, computed)
    if name in ANSWERS and result in ("float16", "bfloat16"):
        b = array(ad.tensor(float(number)).to(dtype_of(result))).astype(
            computed
        )  # a question is asked of elements
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        value = np.asarray(reference.REFERENCES[name](*((b, a) if swap else (a, b))))
    if value.dtype == bool:
        return value
    return (
        array(
            ad.tensor(
                value.tolist(), dtype=dtype_of(name_of(ad.float32) if computed.kind == "f" else result)
            ).to(dtype_of(result))
        )
        if result in ("float16", "bfloat16")
        else value.astype(result)
    )


def refused_rightly(error, name, x, number, result):
    text = str(error)
    if "without overflow" in text:
        return "clamp" in name and not fits(number, numpy_dtype(result))
    if "not implemented for" in text or "not supported" in text or "not permitted" in text:
        row = BINARY[name]
        return result not in row["types"] or "bool" in name_of(x.dtype) + result
    return "ZeroDivisionError" in text or "negative integer powers" in text


def assert_follows_rule(name, dtype, number, swap=False):
    x = ad.tensor(elements(numpy_dtype(dtype).kind), dtype=dtype_of(dtype))
    result = result_name(dtype, number, BINARY[name]["promotes_integers"])
    f = getattr(ad, name, None) or getattr(ad.special, name)
    case = f"{name}({dtype}, {number!r})" if not swap else f"{name}({number!r}, {dtype})"
    try:
        found = f(number, x) if swap else f(x, number)
    except (RuntimeError, NotImplementedError) as error:
        assert refused_rightly(error, name, x, number, result), f"{case}: {error}"
        return False
    try:
        wanted = expected(name, x, number, result, swap)
    except ValueError:  # NumPy has no negative powers of integers; Adjoint has those of 1 and -1
        return False
    assert name_of(found.dtype) == ("bool" if wanted.dtype == bool else result), case
    if wanted.dtype.kind in "bui":
        np.testing.assert_array_equal(array(found), wanted, case)
    else:
        tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "complex64": 2e-6}.get(result, 1e-13)
        np.testing.assert_allclose(
            array(found),
            wanted,
            tolerance,
            1e-7 if name.startswith("logaddexp") or result == "float16" else 1e-38,
            err_msg=case,
        )
    return True


@pytest.mark.parametrize("name", BINARY)
def test_every_operator_by_one_rule(name):
    compared = 0
    for dtype in REAL_DTYPES:
        for number in REAL_NUMBERS:
            compared += assert_follows_rule(name, dtype, number)
            if name not in ("clamp_min", "clamp_max"):
                compared += assert_follows_rule(name, dtype, number, swap=True)
    assert compared > 50


@pytest.mark.parametrize("name", ["add", "sub", "mul", "eq", "ne"])
def test_complex_numbers(name):
    for dtype in ALL_DTYPES:
        for number in COMPLEX_NUMBERS:
            assert_follows_rule(name, dtype, number)


def test_numbers_that_were_lost():
    def f(value, dtype):
        return ad.tensor([value], dtype=dtype)

    assert (f(3, ad.uint8) / -1).item() == -3
    assert (256 / f(3, ad.uint8)).item() == pytest.approx(256 / 3)
    assert (f(3, ad.int8) / 300).item() == pytest.approx(0.01)
    assert (f(3, ad.int32) / 2**40).item() == pytest.approx(3 / 2**40)
    assert ad.xlogy(f(3, ad.uint8), 300).item() == pytest.approx(3 * math.log(300))
    assert ad.copysign(f(3, ad.uint8), -3).item() == -3
    assert (f(1e-3, ad.float16) * 1e5).item() == pytest.approx(100.06, rel=1e-3)
    assert (f(6e4, ad.float16) / 1e6).item() == pytest.approx(0.06, rel=1e-3)
    assert (f(0.0, ad.float16) * 2**31).item() == 0
    assert (f(1e-4, ad.float16) * 65536.0).item() == pytest.approx(6.55, rel=1e-2)
    assert (f(3, ad.uint8) + 300).item() == 47  # as integers wrap


def test_gradient_of_a_half_times_a_large_number():
    x = ad.tensor([1e-3], dtype=ad.float16, requires_grad=True)
    (g,) = ad.autograd.grad((x * 5e4 * 1e-3).sum(), x)
    assert g.dtype == ad.float16 and g.item() == pytest.approx(50, rel=2e-3)
    (g,) = ad.autograd.grad((1e5 * x).sum() * 1e-5, x, create_graph=True)
    assert g.item() == pytest.approx(1, rel=2e-3)


def test_a_number_beside_tensors_of_two_types():
    narrow, wide = ad.tensor(1.0), ad.tensor([2.0], dtype=ad.float64)
    assert (narrow + 0.1 * wide).item() == 1.2
    assert ad.clamp(narrow, wide, 2.1).dtype == ad.float64
    assert ad.clamp(ad.tensor(3.0), wide, 2.1).item() == 2.1


# --- what does not fit ---------------------------------------------------------------------------------------------

MASK, AT = ad.tensor([True]), ad.tensor([0])


def assign(x, value):
    x[0] = value
    return x


def assign_by_mask(x, value):
    x[MASK] = value
    return x


#: Ways to write or choose a number; those of the second group give half types an infinity for what is too large.
EXACT = {
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "masked_fill_": lambda x, v: x.masked_fill_(MASK, v),
    "masked_fill by tensor": lambda x, v: x.masked_fill(MASK, ad.tensor(v)),
    "index_fill": lambda x, v: x.index_fill(0, AT, v),
    "index_fill_": lambda x, v: x.index_fill_(0, AT, v),
    "scatter": lambda x, v: x.scatter(0, AT, v),
    "scatter_": lambda x, v: x.scatter_(0, AT, v),
    "constant_pad_nd": lambda x, v: ad.constant_pad_nd(x, (1, 0), v),
}
ROUNDED = {
    "pad": lambda x, v: ad.nn.functional.pad(x, (1, 0), value=v),
    "fill_": lambda x, v: x.fill_(v),
    "full": lambda x, v: ad.full((1,), v, dtype=x.dtype),
    "full_like": ad.full_like,
    "new_full": lambda x, v: x.new_full((1,), v),
    "assignment": assign,
    "assignment by mask": assign_by_mask,
    "scalar_tensor": lambda x, v: ad.scalar_tensor(v, dtype=x.dtype),
}
WRITES = {**EXACT, **ROUNDED}


@pytest.mark.parametrize("name", WRITES)
def test_writes_refuse_what_does_not_fit(name):
    write = WRITES[name]
    for dtype in [*INTEGER_DTYPES, *FLOAT_DTYPES, "bool"]:
        held = numpy_dtype("float64" if dtype in ("float16", "bfloat16") and name in ROUNDED else dtype)
        for number in REAL_NUMBERS:
            if name == "masked_fill by tensor" and number == 1e300:
                continue  # the tensor holds an infinity
            x = ad.zeros(1, dtype=dtype_of(dtype))
            case = f"{name} of {number!r} into {dtype}"
            if not fits(number, held) and not (dtype == "bfloat16" and abs(number) < 3.3e38):
                with pytest.raises(
                    RuntimeError, match="value cannot be converted to type .* without overflow"
                ):
                    write(x, number)
                    pytest.fail(case)
                continue
            found = array(write(x, number).flatten()[0])
            wanted = (
                as_computed(math.trunc(number), held)
                if dtype in INTEGER_DTYPES
                else array(ad.tensor(number, dtype=dtype_of(dtype)))
            )
            np.testing.assert_allclose(found.astype(np.float64), float(wanted), 1e-2, err_msg=case)


def test_a_complex_number_does_not_fit_a_real_type():
    for write in WRITES.values():
        with pytest.raises(RuntimeError, match="value cannot be converted|without overflow"):
            write(ad.zeros(1), 1j)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.addr(ad.ones(2, 2), ad.ones(2), ad.ones(2), beta=1j)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.addmm(ad.ones(2, 2), ad.ones(2, 2), ad.ones(2, 2), alpha=1j)


def test_where_and_clamp_refuse_what_does_not_fit():
    x = ad.tensor([3], dtype=ad.uint8)
    for refused in (
        lambda: ad.where(MASK, x, 300),
        lambda: ad.where(MASK, 300, x),
        lambda: x.clamp(max=300),
        lambda: x.clamp(300),
    ):
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            refused()
    with pytest.raises(RuntimeError, match="type c10::Half without overflow"):
        ad.ones(1, dtype=ad.float16).clamp(max=1e5)
    assert ad.where(MASK, x, -1).item() == 3 and ad.where(~MASK, x, -1).item() == 255
    assert ad.where(~MASK, ad.ones(1, dtype=ad.float16), 1e5).item() == math.inf
    assert x.clamp(min=-1).item() == 255  # -1 is 255 there
    assert (x == 300).item() is False and (ad.tensor([44], dtype=ad.uint8) == 300).item() is True


def test_data_that_does_not_fit():
    assert ad.tensor([-1], dtype=ad.uint8).item() == 255
    assert ad.tensor(1e300).item() == math.inf
    for value, dtype in (
        (300, ad.uint8),
        (-256, ad.uint8),
        (-129, ad.int8),
        (math.nan, ad.int64),
    ):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"):
            ad.tensor([value], dtype=dtype)
    for dtype, words in (
        (ad.float32, "must be real number, not complex"),
        (ad.int64, "'complex' object cannot be interpreted as an integer"),
    ):
        with pytest.raises(TypeError, match=words):
            ad.tensor([1j, 2], dtype=dtype)
    assert ad.tensor([1j, 0], dtype=ad.bool).tolist() == [True, False]
    with pytest.raises(OverflowError, match="(?i)overflow"):
        ad.ones(1) + 2**64


# --- NaN is a number -------------------------------------------------------------------------------------------------


def test_nan_is_a_bound():
    x, nan = ad.tensor([1.0, 2.0]), math.nan
    for found in (
        *(
            x.clamp(nan, 1.5),
            x.clamp(0.5, nan),
            x.clamp(min=nan),
            x.clamp(max=nan),
            x.clamp(min=ad.tensor(nan)),
        ),
        *(
            x.clamp(ad.tensor(nan), ad.tensor(1.5)),
            ad.clamp_min(x, nan),
            ad.clamp_max(x, nan),
            ad.clip(x, nan, 3.0),
        ),
        *(x.clone().clamp_(min=nan), x.clone().clamp_max_(nan), ad.tensor([1, 2]).clamp(nan, 1.5)),
        ad.nn.functional.hardtanh(x, nan, 1.5),
    ):
        assert found.isnan().all(), found
    assert ad.nn.functional.threshold(ad.tensor([nan]), 0.5, 1.0).isnan().all()
    assert ad.nn.functional.threshold(x, nan, 9.0).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        x.clamp()


def test_nan_is_what_nan_to_num_was_told():
    x = ad.tensor([math.nan, math.inf, -math.inf, 1.0])
    most = np.finfo(np.float32).max
    assert ad.nan_to_num(x).tolist() == [0, most, -most, 1]
    assert np.isnan(array(ad.nan_to_num(x, nan=math.nan))).tolist() == [True, False, False, False]
    assert np.isnan(array(ad.nan_to_num(x, posinf=math.nan))).tolist() == [False, True, False, False]
    assert ad.nan_to_num(x, posinf=math.inf, neginf=-math.inf).tolist() == [0, math.inf, -math.inf, 1]
    assert ad.nan_to_num(x.half()).tolist() == [0, 65504, -65504, 1]
    assert ad.nan_to_num(ad.tensor([1]), nan=1.5).dtype == ad.int64


def test_logit_with_every_eps():
    x = ad.tensor([0.3, 1.5])
    for eps in (None, math.nan):
        assert np.isnan(array(ad.logit(x, eps=eps))).tolist() == [False, True]
    np.testing.assert_allclose(array(ad.logit(x, eps=0.1)), [math.log(3 / 7), math.log(9)], 1e-6)


def test_clamp_by_tensors_and_numbers():
    x = ad.tensor([1, 5])
    assert x.clamp(min=2.0).dtype == ad.float32 and x.clamp(min=2).dtype == ad.int64
    assert ad.clamp(ad.tensor(1.0), ad.tensor(2.0, dtype=ad.float64)).dtype == ad.float64
    assert ad.clamp_max(ad.tensor(1), ad.tensor(2.5)).dtype == ad.float32
    assert ad.clamp(x, ad.tensor(2.5, dtype=ad.bfloat16)).dtype == ad.bfloat16
    assert ad.tensor([2**62 + 3]).clamp(max=2**62 + 1).item() == 2**62 + 1
    assert ad.tensor([True]).clamp(min=2).tolist() == [2]
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        x.clamp_(min=1.0)
    with pytest.raises(RuntimeError, match="not implemented|not supported"):
        ad.tensor([True]).clamp(False, True)


def test_gradient_of_clamp_goes_where_the_value_came_from():
    x = ad.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan], requires_grad=True)
    low, high = ad.zeros(6, requires_grad=True), ad.ones(6, requires_grad=True)
    gx, gl, gh = ad.autograd.grad(ad.clamp(x, low, high).sum(), (x, low, high))
    assert (
        gx.tolist() == [0, 1, 1, 1, 0, 0]
        and gl.tolist() == [1, 0, 0, 0, 0, 0]
        and gh.tolist() == [0, 0, 0, 0, 1, 0]
    )
    (g,) = ad.autograd.grad(x.clamp(min=0.0).sum(), x)
    assert g.tolist() == [0, 1, 1, 1, 1, 0]


def test_parameters_of_integers():
    one, two, three = ad.tensor([1]), ad.tensor([2]), ad.tensor([3])
    assert ad.addcmul(one, two, three, value=0.5).tolist() == [1] and ad.addcmul(
        one, two, three, value=1.5
    ).tolist() == [7]
    assert ad.nn.functional.hardtanh(ad.tensor([1, -5, 5]), -1.5, 1.5).tolist() == [1, -1, 1]
    assert (
        ad.square(ad.tensor([True, False])).tolist() == [1, 0]
        and ad.square(ad.tensor([True])).dtype == ad.int64
    )
    nothing = ad.empty(0, dtype=ad.int64)
    for f in (
        lambda: nothing // 0,
        lambda: nothing % 0,
        lambda: ad.fmod(nothing, 0),
        lambda: nothing // ad.tensor([0]),
    ):
        assert f().tolist() == []
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        one // 0


def test_a_bool_is_no_count_and_a_large_integer_is_refused_by_name():
    for refused in (lambda: ad.ones(3).topk(True), lambda: ad.ones(3).chunk(True)):
        with pytest.raises(TypeError, match="must be int, not bool"):
            refused()
    for refused in (
        lambda: ad.ones(3).sum(2**63),
        lambda: ad.ones(2).view(2**63),
        lambda: ad.ones(1) * 2**64,
    ):
        with pytest.raises(OverflowError, match="64"):
            refused()


def test_powers_of_bool():
    x = ad.tensor([True, False])
    assert (
        (x**True).tolist() == [True, False] and (x**x).tolist() == [True, True] and (x**2).tolist() == [1, 0]
    )
