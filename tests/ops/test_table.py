"""One test for all: walks the operator table that the core publishes and holds each operator to what it
declares.

For every element-wise operator: values against `tests/reference.py` in every dtype it accepts, first and
second derivatives against finite differences, in-place and out= forms, strided, transposed, offset, empty,
zero-dimensional and broadcast inputs. What an operator does not declare must raise. Start reading at
`test_value_in_every_dtype`; inputs are drawn from the declared domain by `operands` (tests/samples.py). Structured operators
are in test_structured.py.
"""

import warnings

import numpy as np
import pytest
import reference
from helpers import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    NUMPY_DTYPES,
    TOLERANCE,
    array,
    assert_close,
    assert_same,
    check_gradient,
    check_second_derivative,
    dtype_of,
    layouts,
    name_of,
    tensor,
)
from samples import operands
from structured_reference import MISSING

import adjoint as ad

if not hasattr(ad, "_C") or not hasattr(ad._C, "operators"):
    pytest.skip("the module under test publishes no operator table", allow_module_level=True)

OPERATORS = [o for o in ad._C.operators() if "::" not in o["name"]]
ELEMENTWISE = [o for o in OPERATORS if o["kind"] == "elementwise"]
DIFFERENTIABLE = [
    o
    for o in ELEMENTWISE
    if o["differentiable"] and not all((o["name"], a) in MISSING for a in o["arguments"])
]


def named(rows):
    return pytest.mark.parametrize("op", rows, ids=[o["name"] for o in rows])


def function(op):
    """The public function of an operator, wherever the package keeps it."""
    name = op["name"]
    for place in (ad, ad.nn.functional, getattr(ad, "special", None), getattr(ad, "linalg", None), ad._C):
        if place is not None and hasattr(place, name):
            found = getattr(place, name)
            break
    else:
        pytest.fail(f"operator {name} is in the table, but has no public function")
    options = reference.OPTIONS.get(name, {})
    return lambda *xs, **more: found(*xs, **options, **more)


def expected(op, *arrays):
    name = op["name"]
    if name not in reference.REFERENCES:
        pytest.fail(f"operator {name} has no reference in tests/reference.py")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(reference.REFERENCES[name](*arrays, **reference.OPTIONS.get(name, {})))


def tensors(dtype, arrays):
    return [tensor(a, ad.bool if a.dtype == bool else dtype_of(dtype)) for a in arrays]


def without_constants(op, f, arrays):
    """`f` as a function of the operands that can have a derivative, and those operands."""
    name = op["name"]
    fixed = [
        k
        for k, argument in enumerate(op["arguments"][: len(arrays)])
        if k == reference.MASKS.get(name) or (name, argument) in MISSING
    ]
    constants = {k: tensor(arrays[k]) for k in fixed}

    def varied(*xs):
        rest = iter(xs)
        return f(*(constants[k] if k in constants else next(rest) for k in range(len(arrays))))

    return varied, [a for k, a in enumerate(arrays) if k not in constants]


def wide(a):
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def assert_matches(op, result, arrays, dtype):
    """Compare with the reference, taken on the very numbers that the operator saw, in the widest type."""
    kind = name_of(result.dtype)
    exact = kind == "bool" or kind in INTEGER_DTYPES
    if exact and (dtype == "bool" or dtype in INTEGER_DTYPES):
        assert_same(result, expected(op, *arrays).astype(kind))
        return
    wanted = expected(op, *map(wide, arrays))
    if exact:
        assert_same(result, wanted.astype(kind))
        return
    found = array(result)
    assert found.shape == wanted.shape
    tolerance = TOLERANCE[kind]
    scale = 1 + max([np.abs(wide(a)).max() for a in arrays if a.size], default=0)
    if kind in NUMPY_DTYPES:
        with np.errstate(over="ignore"):
            wanted = wanted.astype(NUMPY_DTYPES[kind])
    np.testing.assert_allclose(
        wide(found), wide(wanted), rtol=2 * tolerance, atol=tolerance * scale, equal_nan=True
    )


def some_dtype(op):
    """A dtype to test mechanics in: float64 where the operator takes it."""
    for dtype in ("float64", "float32", "int64", "bool", "complex128"):
        if dtype in op["types"]:
            return dtype
    return op["types"][0]


@named(OPERATORS)
def test_declaration(op):
    assert op["name"].isidentifier() and op["family"] and op["doc"].strip()
    assert op["kind"] in ("elementwise", "structured")
    assert op["arity"] >= 0 and set(op["types"]) <= set(ALL_DTYPES)
    assert op["types"] and (op["samples"] or op["sparse"]), f"{op['name']} states no samples"
    assert op["signature"] or op["arity"] == 0


def test_names_are_unique():
    names = [o["name"] for o in OPERATORS]
    assert len(names) == len(set(names)) and len(ELEMENTWISE) > 60


@named(ELEMENTWISE)
def test_value_in_every_dtype(op):
    f = function(op)
    for dtype in op["types"]:
        arrays = operands(op, dtype, (5, 7))
        result = f(*tensors(dtype, arrays))
        assert_matches(op, result, arrays, dtype)
        # Long enough for vectorised loops and their tails.
        arrays = operands(op, dtype, (1031,))
        assert_matches(op, f(*tensors(dtype, arrays)), arrays, dtype)


@named(ELEMENTWISE)
def test_undeclared_dtypes_raise(op):
    f = function(op)
    for dtype in ALL_DTYPES:
        if op["promotes_integers"] and (dtype == "bool" or "int" in dtype):
            continue  # computed in the default floating-point type
        if dtype not in op["types"]:
            with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as caught:
                f(*tensors(dtype, operands({**op, "samples": (1.0, 2.0)}, dtype, (2,))))
            assert op["name"] in str(caught.value).lower()


def assert_rounded(found, expected):
    """Equal but for the last bits: a vectorised loop may fuse a product with a sum where a plain one rounds twice."""
    few = 4 * np.finfo(array(expected).dtype).eps if array(expected).dtype.kind in "fc" else 0
    assert found.dtype == expected.dtype
    assert_close(found, array(expected), rtol=few, atol=few / 4)


@named(ELEMENTWISE)
def test_layouts(op):
    f, dtype = function(op), some_dtype(op)
    arrays = operands(op, dtype, (4, 6))
    whole = f(*tensors(dtype, arrays))
    variants = [dict(layouts(a, ad.bool if a.dtype == bool else dtype_of(dtype))) for a in arrays]
    for label in variants[0]:
        # All inputs in this layout, then only the first, beside contiguous ones.
        # (An operand without dimensions has one layout.)
        assert_rounded(f(*[v.get(label, v["contiguous"]) for v in variants]), whole)
        assert_rounded(f(variants[0][label], *tensors(dtype, arrays[1:])), whole)
    flat = operands(op, dtype, (1, 6))
    spread = [t.expand(4, 6) if t.ndim else t for t in tensors(dtype, flat)]
    assert_same(f(*spread), np.broadcast_to(array(f(*tensors(dtype, flat))), (4, 6)))


@named(ELEMENTWISE)
def test_operands_across_the_rows_of_the_result(op):
    """Of a size from which squares of them are turned: all, the first alone, and beside what broadcasts either way."""
    f, dtype = function(op), some_dtype(op)
    given = tensors(dtype, operands(op, dtype, (2, 40, 133)))
    across = [t.mT.contiguous().mT if t.ndim else t for t in given]
    whole = f(*given)
    assert_rounded(f(*across), whole)
    assert_rounded(f(across[0], *given[1:]), whole)
    if len(given) > 1 and given[1].ndim:
        for other in (given[1][:, :1], given[1][:, :, :1]):
            assert_rounded(f(across[0], other, *given[2:]), f(given[0], other, *given[2:]))


@named(ELEMENTWISE)
def test_empty_and_zero_dimensional(op):
    f, dtype = function(op), some_dtype(op)
    arrays = operands(op, dtype, ())
    result = f(*tensors(dtype, arrays))
    assert result.shape == ()
    assert_matches(op, result, arrays, dtype)
    for shape in ((0,), (2, 0, 3)):
        assert f(*tensors(dtype, operands(op, dtype, shape))).shape == shape


@named([o for o in ELEMENTWISE if o["arity"] >= 2])
def test_broadcasting(op):
    f, dtype = function(op), some_dtype(op)
    for shapes in (((3, 1), (4,)), ((), (2, 3)), ((2, 3), ()), ((2, 1, 4), (3, 1)), ((0, 1), (1, 3))):
        arrays = operands(op, dtype, *shapes)
        result = f(*tensors(dtype, arrays))
        assert result.shape == np.broadcast_shapes(*[a.shape for a in arrays])
        assert_matches(op, result, [np.broadcast_to(a, result.shape) for a in arrays], dtype)
    with pytest.raises(RuntimeError, match=r"size of tensor .* must match|broadcast"):
        f(*tensors(dtype, operands(op, dtype, (3,), (4,), (5,))))


@named(ELEMENTWISE)
def test_in_place(op):
    method = op["name"] + "_"
    if not op["inplace"]:
        assert not hasattr(ad.Tensor, method)
        return
    dtype = some_dtype(op)
    arrays = operands(op, dtype, (3, 4))
    options = reference.OPTIONS.get(op["name"], {})
    plain = function(op)(*tensors(dtype, arrays))
    for label, x in layouts(arrays[0], dtype_of(dtype)):
        version = x._version
        result = getattr(x, method)(*tensors(dtype, arrays[1:]), **options)
        assert result is x and x._version > version, label
        assert_same(x, array(plain.to(x.dtype)))


@named(ELEMENTWISE)
def test_out(op):
    f, dtype = function(op), some_dtype(op)
    arrays = operands(op, dtype, (3, 4))
    plain = f(*tensors(dtype, arrays))
    if not op["out"]:
        with pytest.raises(TypeError):
            f(*tensors(dtype, arrays), out=ad.empty_like(plain))
        return
    out = ad.empty_like(plain)
    assert f(*tensors(dtype, arrays), out=out) is out
    assert_same(out, array(plain))
    strided = ad.empty(4, 3, dtype=plain.dtype).T
    f(*tensors(dtype, arrays), out=strided)
    assert_rounded(strided, plain)
    if name_of(plain.dtype) == dtype and op["name"] not in reference.MASKS:
        # Writing over an input is allowed where they are the very same elements.
        xs = tensors(dtype, arrays)
        f(*xs, out=xs[0])
        assert_same(xs[0], array(plain))


@named(ELEMENTWISE)
def test_method_is_the_function(op):
    if hasattr(ad.Tensor, op["name"]) and op["name"] not in ("where", "real", "imag"):
        dtype = some_dtype(op)
        xs = tensors(dtype, operands(op, dtype, (3,)))
        options = reference.OPTIONS.get(op["name"], {})
        assert_same(getattr(xs[0], op["name"])(*xs[1:], **options), array(function(op)(*xs)))


@named(DIFFERENTIABLE)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives(op, dtype):
    if dtype not in op["types"]:
        # What is not accepted must raise: `test_undeclared_dtypes_raise` covers it.
        return
    f, arrays = without_constants(op, function(op), operands(op, dtype, (4,)))
    check_gradient(f, arrays, rtol=1e-5, atol=1e-6)
    check_second_derivative(f, arrays, rtol=1e-4, atol=1e-5)


@named([o for o in DIFFERENTIABLE if o["arity"] >= 2])
def test_derivative_of_each_input_alone(op):
    """Freezing the other inputs changes nothing, and a broadcast input gets a gradient of its own shape."""
    dtype = "float64" if "float64" in op["types"] else "complex128"
    f, arrays = without_constants(op, function(op), operands(op, dtype, (2, 3), (3,)))
    for k in range(len(arrays)):
        fixed = tensors(dtype, arrays)
        check_gradient(lambda x, k=k, fixed=fixed: f(*fixed[:k], x, *fixed[k + 1 :]), [arrays[k]], atol=1e-6)


@named([o for o in ELEMENTWISE if not o["differentiable"]])
def test_without_a_derivative(op):
    """The result carries no graph, or says by the operator's name that there is no derivative: never a
    silent zero.
    """
    dtype = next((d for d in ("float64", "complex128") if d in op["types"]), None)
    if dtype is None:
        assert not set(op["types"]) & {*FLOAT_DTYPES, *COMPLEX_DTYPES}
        return
    f, arrays = without_constants(op, function(op), operands(op, dtype, (3,)))
    y = f(*[t.requires_grad_() for t in tensors(dtype, arrays)])
    if y.requires_grad:
        with pytest.raises((RuntimeError, NotImplementedError), match=op["name"]):
            y.abs().sum().backward()
    else:
        assert y.grad_fn is None


@named(DIFFERENTIABLE)
def test_in_place_is_recorded(op):
    if not op["inplace"] or "float64" not in op["types"]:
        return
    options = reference.OPTIONS.get(op["name"], {})

    def in_place(x, *others):
        y = x * 1
        return getattr(y, op["name"] + "_")(*others, **options)

    f, arrays = without_constants(op, in_place, operands(op, "float64", (3,)))
    check_gradient(f, arrays, atol=1e-6)


@named([o for o in DIFFERENTIABLE if "float32" in o["types"]])
def test_fused_and_recorded_rules_agree(op):
    """The first-order rule, one loop, against the same rule recorded under create_graph, in single
    precision.
    """
    f, arrays = without_constants(op, function(op), operands(op, "float32", (300,)))
    xs = [t.requires_grad_() for t in tensors("float32", arrays)]
    y = f(*xs)
    seed = ad.ones_like(y)
    plain = ad.autograd.grad(y, xs, seed, retain_graph=True, allow_unused=True)
    recorded = ad.autograd.grad(y, xs, seed, create_graph=True, allow_unused=True)
    for a, b in zip(plain, recorded, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            scale = max(1.0, float(np.nanmax(np.abs(array(b)))))
            np.testing.assert_allclose(array(a), array(b), rtol=1e-4, atol=1e-6 * scale, equal_nan=True)


#: Affine but for jumps, with the derivative 1 and in torch a gradient that is constant too.
JUMPS = {("frac", 0), ("remainder", 0), ("fmod", 0)}


@named([o for o in DIFFERENTIABLE if "float64" in o["types"]])
def test_gradients_are_differentiated_again(op):
    """Under create_graph a gradient requires a gradient where the operator is not affine in its input, even if it is constant
    there (relu, floor, max): asking for it gives a number, often 0, not an error.
    """
    f, arrays = without_constants(op, function(op), operands(op, "float64", (64,)))
    for k in range(len(arrays)):
        fixed = tensors("float64", arrays)

        def along(x, k=k, fixed=fixed):
            return f(*fixed[:k], x, *fixed[k + 1 :])

        x, other = fixed[k], ad.roll(fixed[k], 1) if fixed[k].ndim else fixed[k] + 0.1
        bent = along((x + other) / 2) - (along(x) + along(other)) / 2
        if np.nanmax(np.abs(array(bent.abs()))) < 1e-9 or (op["name"], k) in JUMPS:
            continue
        x = x.detach().clone().requires_grad_()
        (gradient,) = ad.autograd.grad(along(x).abs().sum(), x, create_graph=True)
        assert gradient.requires_grad, k
        (second,) = ad.autograd.grad(gradient.sum(), x)
        assert second.shape == x.shape and np.isfinite(array(second)).all()
