"""One test for all structured operators: each is held to what its struct states, on the calls that it states.

Values against `tests/structured_reference.py` in every type, results in any layout of the inputs, what shares
memory and what is written, forms that write in place and into `out=`, types that are not declared. Derivatives
are in test_structured_derivatives.py. Start reading at `test_values`.
"""

import warnings

import numpy as np
import pytest
from helpers import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    NUMPY_DTYPES,
    TOLERANCE,
    allocated,
    array,
    dtype_of,
    layouts,
    name_of,
    shares_memory,
    tensor,
)
from samples import OPERATORS, cases, function_of
from structured_reference import CHECKS, WIDE_RESULTS, WITHOUT_VALUES, reference_of

import adjoint as ad

STRUCTURED = [o for o in OPERATORS if o["kind"] == "structured"]


def named(rows):
    return pytest.mark.parametrize("op", rows, ids=[o["name"] for o in rows])


def some_dtype(op):
    """A type to test mechanics in: float64 where the operator takes it."""
    return next(d for d in ("float64", "complex128", "float32", *op["types"]) if d in op["types"])


def some_cases(op):
    return cases(op, some_dtype(op))


def listed(result):
    """The results of a call in order; those that were not asked for are None."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def wide(a):
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64) if a.dtype.kind in "fc" else a


def numpy_types(value):
    return np.dtype(NUMPY_DTYPES[name_of(value)]) if isinstance(value, ad.dtype) else value


def assert_matches(found, wanted, scale, inexact=()):
    """A result against its reference; exactly unless it has fractions."""
    if wanted is None:
        return
    kind, found, wanted = name_of(found.dtype), array(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    if kind == "bool" or kind in INTEGER_DTYPES:
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))
        return
    with np.errstate(all="ignore"):
        wanted = wanted.astype(NUMPY_DTYPES.get(kind, np.float32))
    rtol = max(TOLERANCE[kind], *[TOLERANCE.get(d, 0) for d in inexact], 0)
    scale += np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(
        wide(found), wide(wanted), rtol=2 * rtol, atol=2 * rtol * scale, equal_nan=True
    )


@named(STRUCTURED)
def test_samples_give_every_argument(op):
    given = set()
    assert op["samples"], f"{op['name']} states no samples"
    for case in cases(op, op["types"][-1]):
        args, kwargs = case.arguments()
        given |= {*op["arguments"][: len(args)], *kwargs}
    assert given == set(op["arguments"])


@named(STRUCTURED)
def test_a_sample_is_empty_or_empty_tensors_are_refused(op):
    drawn = [i for case in some_cases(op) for i in case.inputs]
    if not any(i.free for i in drawn) or not all(i.values.size for i in drawn):
        return
    refused = 0
    for dtype in op["types"]:
        case = cases(op, dtype)[0]
        try:
            case.call([case.tensors()[0][:0], *case.tensors()[1:]])
        except (RuntimeError, IndexError):
            refused += 1
    assert refused, f"{op['name']} takes an empty tensor, and no sample has one"


@named(STRUCTURED)
def test_values(op):
    name = op["name"]
    compute = reference_of(name)
    assert compute or name in CHECKS, f"{name} has no reference in tests/structured_reference.py"
    for dtype in op["types"]:
        for case in cases(op, dtype):
            results = listed(case.call())
            bound = [*case.bound([wide(i.values) for i in case.inputs]).values()]
            bound = [numpy_types(b) for b in bound]
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if name in CHECKS:
                    CHECKS[name]([r if r is None else array(r) for r in results], *bound)
                    continue
                wanted = listed(compute(*bound))
            assert len(results) == len(wanted), case
            scale = 1 + max(
                [np.abs(i.values[np.isfinite(i.values)]).max(initial=0) for i in case.inputs], default=0
            )
            for found, reference in zip(results, wanted, strict=True):
                assert found is not None or reference is None, case
                assert_matches(found, reference, scale)


@named(STRUCTURED)
def test_types_that_are_not_declared_are_refused(op):
    for dtype in set(ALL_DTYPES) - set(op["types"]):
        refused = 0
        for case in cases(op, dtype):
            if not any(i.free for i in case.inputs):
                return
            try:
                case.call()
            except (RuntimeError, TypeError, NotImplementedError):
                refused += 1
        assert refused, dtype


@named([o for o in STRUCTURED if "float64" in o["types"]])
def test_types_of_results(op):
    """What is float64 for float64 is of the input's type for others; what is not stays what it is."""
    of = lambda result: [None if r is None else name_of(r.dtype) for r in listed(result)]  # noqa: E731
    for case in cases(op, "float64"):
        if any(isinstance(a, ad.dtype) for a in case.bound().values()):
            continue
        for dtype in set(FLOAT_DTYPES) & set(op["types"]):
            same = next(c for c in cases(op, dtype) if c.text == case.text)
            kinds = {"float64": dtype, "complex128": "complex128" if dtype == "float64" else "complex64"}
            wanted = [kinds.get(r, r) for r in of(case.call())]
            for k in range(len(wanted)):
                if (op["name"], k) in WIDE_RESULTS and dtype in ("float16", "bfloat16"):
                    wanted[k] = "float32"
            assert of(same.call()) == wanted, same
        if "complex128" in op["types"]:
            single, double = (next(c for c in cases(op, d) if c.text == case.text) for d in COMPLEX_DTYPES)
            kinds = {"float64": "float32", "complex128": "complex64"}
            assert of(single.call()) == [kinds.get(r, r) for r in of(double.call())], single


# --- memory ------------------------------------------------------------------------------------------------------


def outcome(call):
    """The values of the results, or the type of the error."""
    try:
        return [None if r is None else array(r) for r in listed(call())]
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error)


def assert_equal(found, wanted, note):
    if isinstance(wanted, type) or isinstance(found, type):
        assert found is wanted, note
        return
    for a, b in zip(found, wanted, strict=True):
        if a is not None:
            assert a.dtype == b.dtype, note
            few = 16 * np.finfo(b.dtype).eps if b.dtype.kind in "fc" else 0
            np.testing.assert_allclose(a, b, rtol=few, atol=few, err_msg=str(note))


def of_elements(op):
    """Whether the result depends on the elements alone: not on how they lie in memory, in whose order random numbers come, nor
    on what lay there before.
    """
    of_storage = op["view"] and "MemoryInts" in op["meanings"]
    return not of_storage and "Generator" not in op["meanings"] and op["name"] not in WITHOUT_VALUES


def expanded(values, dtype):
    """A tensor whose rows are one row in memory, and its values."""
    t = tensor(values[:1], dtype).expand(values.shape)
    return t, array(t)


def overlapping(values, dtype):
    """A tensor of the same shape whose elements lie one on another, and its values."""
    line = tensor(values.reshape(-1)[: sum(n - 1 for n in values.shape) + 1], dtype)
    t = line.as_strided(values.shape, (1,) * values.ndim)
    return t, array(t)


@named([o for o in STRUCTURED if of_elements(o)])
def test_layouts(op):
    for case in some_cases(op):
        wanted = outcome(case.call)
        every = range(len(case.inputs))
        for label in ("contiguous", "transposed", "strided", "offset"):
            for some in (every, *([k] for k in every if len(every) > 1)):
                given = [laid_out(i, label if k in some else "contiguous") for k, i in enumerate(case.inputs)]
                found = outcome(lambda given=given: case.call_as_given(given))
                if op["view"] and found is RuntimeError:
                    continue  # a view that this layout does not allow
                assert_equal(found, wanted, f"{case}, {label} {[*some]}")


def laid_out(drawn, label):
    """The tensor of an input in one of the layouts; contiguous where it has too few dimensions for that."""
    forms = dict(layouts(drawn.values, dtype_of(drawn.dtype)))
    return forms.get(label, forms["contiguous"])


@named([o for o in STRUCTURED if of_elements(o)])
@pytest.mark.parametrize("form", [expanded, overlapping])
def test_elements_that_share_memory(op, form):
    for case in some_cases(op):
        for k, i in enumerate(case.inputs):
            if not i.values.ndim or not i.values.size or case.writes(k):
                continue
            given, same = case.tensors(), case.tensors()
            given[k], values = form(i.values, dtype_of(i.dtype))
            same[k] = tensor(values, dtype_of(i.dtype))
            found, wanted = (
                outcome(lambda: case.call_as_given(given)),
                outcome(lambda: case.call_as_given(same)),
            )
            if op["view"] and found is RuntimeError:
                continue  # a view that this layout does not allow
            assert_equal(found, wanted, f"{case}, argument {k}")


@named(STRUCTURED)
def test_inputs_stay_as_they_are(op):
    for case in some_cases(op):
        tensors = case.tensors()
        before = [(array(t), t._version) for t in tensors]
        results = listed(case.call_as_given(tensors))
        for k, (t, (values, version)) in enumerate(zip(tensors, before, strict=True)):
            if case.writes(k):
                assert t._version > version and (k or results[0] is t), case
            else:
                np.testing.assert_array_equal(array(t), values, err_msg=str(case))
                assert t._version == version, case


@named(STRUCTURED)
def test_views_share_memory_and_others_do_not(op):
    for case in some_cases(op):
        tensors = case.tensors()
        if op["written"]:
            continue
        for r in listed(case.call_as_given(tensors)):
            if r is None or not r.numel():
                continue
            if op["view"]:
                assert shares_memory(r, tensors[0]), case
            else:
                assert any(r is t for t in tensors) or not any(shares_memory(r, t) for t in tensors), case


@named(STRUCTURED)
def test_no_call_leaves_memory_behind(op):
    for case in some_cases(op):
        held = []
        for _ in range(3):
            for needs in (False, True):
                tensors = [
                    t.requires_grad_(needs and i.differentiable)
                    for t, i in zip(case.tensors(), case.inputs, strict=True)
                ]
                try:
                    results = [r for r in listed(case.call(tensors)) if r is not None and r.requires_grad]
                    if results:
                        ad.autograd.backward(results, [ad.ones_like(r) for r in results])
                except (NotImplementedError, RuntimeError):
                    pass
                tensors = results = None
            held.append(allocated())
        assert held[-1] == held[-2], case


# --- forms that write --------------------------------------------------------------------------------------------


@named([o for o in STRUCTURED if o["inplace"]])
def test_in_place(op):
    for case in some_cases(op):
        plain = case.call()
        for label, x in layouts(case.inputs[0].values, dtype_of(case.inputs[0].dtype)):
            args, kwargs = case.arguments([x, *case.tensors()[1:]])
            write = getattr(args[0], op["name"] + "_")
            if plain.shape != x.shape or not ad.can_cast(plain.dtype, x.dtype):
                values = array(x)
                with pytest.raises(RuntimeError, match="doesn't match|can't be cast"):
                    write(*args[1:], **kwargs)
                np.testing.assert_array_equal(array(x), values)
                continue
            version = x._version
            assert write(*args[1:], **kwargs) is x and x._version > version, f"{case}, {label}"
            assert_equal([array(x)], [array(plain)], f"{case}, {label}")


@named([o for o in STRUCTURED if not o["view"] and not o["written"] and o["name"] not in WITHOUT_VALUES])
def test_out(op):
    for case in some_cases(op):
        plain = case.call()
        if (
            case.bound().get("requires_grad")
            or None in listed(plain)
            or not op["function"]
            or (isinstance(plain, tuple) and not op["returns"])
        ):
            continue
        pack = tuple if isinstance(plain, tuple) else lambda ts: ts[0]
        fresh = lambda make: [make(r) for r in listed(plain)]  # noqa: E731, B023
        values = [array(r) for r in listed(plain)]
        for make in (
            ad.empty_like,
            lambda r: ad.empty(0, dtype=r.dtype),
            lambda r: ad.empty(*r.shape[::-1], dtype=r.dtype).permute([*range(r.ndim)[::-1]]),
        ):
            out = fresh(make)
            result = listed(case.call(out=pack(out)))
            assert all(r is o for r, o in zip(result, out, strict=True)), case
            assert_equal([array(o) for o in out], values, case)
        if values[0].size:
            out = fresh(lambda r: ad.empty(*r.shape, 2, dtype=r.dtype))
            with pytest.warns(UserWarning, match="resized"):
                case.call(out=pack(out))
            assert_equal([array(o) for o in out], values, case)
        if values[0].dtype.kind in "fc" and "Type" not in op["meanings"]:
            phrase = "can't be cast" if op["out_converts"] else "Expected out tensor to have dtype"
            with pytest.raises(RuntimeError, match=phrase):
                case.call(out=pack([ad.empty_like(r, dtype=ad.int64) for r in listed(plain)]))
            tensors = case.tensors()
            varied = [k for k, i in enumerate(case.inputs) if i.differentiable]
            if op["differentiable"] and varied:
                tensors[varied[0]].requires_grad_()
                with pytest.raises(
                    (RuntimeError, NotImplementedError), match="automatic differentiation|not implemented"
                ):
                    case.call(tensors, out=pack(fresh(ad.empty_like)))


# --- wrong arguments ---------------------------------------------------------------------------------------------

EXPECTED = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, OverflowError, MemoryError)


def wrong_tensors(t):
    """Tensors of other ranks, sizes and types."""
    yield from (t.to(dtype) for dtype in (ad.int8, ad.int32, ad.bool, ad.float32, ad.complex128))
    yield t[None]
    yield t[None, None]
    yield t.reshape(-1)
    yield t.new_zeros(())
    yield t.new_zeros((0,))
    yield t.new_zeros((1,) * 8)
    if t.ndim:
        yield t[:0]
        yield ad.cat([t, t], -1)


def wrong_numbers(value, meaning):
    if meaning in ("Dim", "NewDim", "Int"):
        return [-7, 7, 2**62, -(2**63)]
    if meaning in (
        "Dims",
        "Ints",
        "Sizes",
        "Repeats",
        "Permutation",
        "MemoryInts",
        "IndexSpec",
    ) and isinstance(value, list):
        changed = [
            [*value[:k], wrong, *value[k + 1 :]] for k in range(len(value)) for wrong in (-7, 7, 2**62)
        ]
        return [[], value + value, *changed]
    return []


@named(STRUCTURED)
def test_wrong_arguments_are_refused_or_computed(op):
    """Nothing that a program can pass ends it."""
    for case in some_cases(op):
        for k in range(len(case.inputs)):
            for wrong in wrong_tensors(case.tensors()[k]):
                tensors = case.tensors()
                tensors[k] = wrong
                attempt(lambda tensors=tensors: case.call_as_given(tensors))
        for place, meaning in enumerate(op["meanings"]):
            args = [*case.bound().values()]
            for wrong in wrong_numbers(args[place], meaning):
                named_so = dict(zip(op["arguments"], [*args[:place], wrong, *args[place + 1 :]], strict=True))
                self = [named_so.pop(op["arguments"][0])]
                attempt(lambda self=self, rest=named_so: function_of(op)(*self, **rest))


def attempt(call):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except EXPECTED:
        pass
