"""Derivatives of all structured operators, on the calls that their structs state: see test_structured.py.

First and second derivatives against finite differences, for each input alone and for all, real and complex; the
fused rule against the recorded one; cotangents in any layout; half types; forms in place. What has no derivative
says so by name. Start reading at `test_first_derivative_of_each_input`.
"""

import itertools

import numpy as np
import pytest
from helpers import (
    array,
    assert_close,
    check_along,
    check_gradient,
    check_second_derivative,
    dtype_of,
    layouts,
    tensor,
)
from samples import OPERATORS, ROWS, cases
from structured_reference import MISSING, WITHOUT_DIFFERENCES

import adjoint as ad

STRUCTURED = [o for o in OPERATORS if o["kind"] == "structured"]
DIFFERENTIABLE = [
    o for o in STRUCTURED if o["differentiable"] and {"float64", "complex128"} & set(o["types"])
]
SMOOTH = [o for o in DIFFERENTIABLE if o["name"] not in WITHOUT_DIFFERENCES]


def named(rows):
    return pytest.mark.parametrize("op", rows, ids=[o["name"] for o in rows])


def fractions(results):
    """The results that can have a derivative."""
    results = results if isinstance(results, (tuple, list)) else [results]
    return [r for r in results if r is not None and (r.is_floating_point() or r.is_complex())]


def differentiable_cases(op, dtype):
    """Yield (case, function, arrays) for the calls that have something to differentiate."""
    for case in cases(op, dtype) if dtype in op["types"] else ():
        # Without vectors, nothing is kept that the derivative would need; adjoint.linalg asks for them.
        if case.bound().get("vectors") is False:
            continue
        f, arrays = case.differentiable()
        if arrays and fractions(f(*map(tensor, arrays))):
            yield case, f, arrays


@named(SMOOTH)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_first_derivative_of_each_input(op, dtype):
    for case, f, arrays in differentiable_cases(op, dtype):
        for k, a in enumerate(arrays):

            def alone(x, k=k):
                return f(*map(tensor, arrays[:k]), x, *map(tensor, arrays[k + 1 :]))

            check_gradient(alone, [a], atol=1e-6)


@pytest.mark.parametrize(("name", "argument"), sorted(MISSING))
def test_missing_derivatives_raise(name, argument):
    tried = 0
    for case in cases(ROWS[name], "float64"):
        tensors = case.tensors()
        for k, owner in enumerate(case.names()):
            if owner == argument:
                tensors[k].requires_grad_()
                with pytest.raises(NotImplementedError, match=name):
                    ad.autograd.grad([r.sum() for r in fractions(case.call(tensors))], tensors[k])
                tried += 1
    assert tried


@named(SMOOTH)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_second_derivative(op, dtype):
    for case, f, arrays in differentiable_cases(op, dtype):
        if all(np.isfinite(a).all() for a in arrays):
            check_second_derivative(f, arrays, check=check_along, atol=1e-5)


def gradients(f, xs, cotangents, **options):
    results = fractions(f(*xs))
    return ad.autograd.grad(results, xs, cotangents(results), allow_unused=True, **options)


def random_cotangents(results):
    ad.manual_seed(3)
    return [ad.randn(r.shape, dtype=r.dtype) for r in results]


@named(SMOOTH)
def test_fused_and_recorded_rules_agree(op):
    for dtype in ("float64", "complex128"):
        for case, f, arrays in differentiable_cases(op, dtype):
            xs = [tensor(a, requires_grad=True) for a in arrays]
            plain = gradients(f, xs, random_cotangents)
            recorded = gradients(f, xs, random_cotangents, create_graph=True)
            for a, b in zip(plain, recorded, strict=True):
                assert (a is None) == (b is None), case
                if a is not None:
                    assert a.dtype == b.dtype
                    assert_close(a, array(b), rtol=1e-10, atol=1e-12)


@named(DIFFERENTIABLE)
def test_cotangents_in_any_layout(op):
    dtype = next(d for d in ("float64", "complex128") if d in op["types"])
    for case, f, arrays in differentiable_cases(op, dtype):
        xs = [tensor(a, requires_grad=True) for a in arrays]
        plain = gradients(f, xs, random_cotangents)
        for label in ("transposed", "strided", "offset"):

            def laid_out(results, label=label):
                forms = [dict(layouts(array(v), v.dtype)) for v in random_cotangents(results)]
                return [form.get(label, form["contiguous"]) for form in forms]

            for a, b in zip(gradients(f, xs, laid_out), plain, strict=True):
                if b is not None:
                    assert_close(a, array(b), rtol=1e-12, atol=1e-13)


@named(SMOOTH)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_gradients_in_narrow_types(op, dtype):
    """Of the input's type, and near those of the same numbers in the wider one."""
    tolerance = {"float16": 1e-2, "bfloat16": 6e-2}.get(dtype, 1e-4)
    for case, f, arrays in differentiable_cases(op, dtype):
        kinds = [dtype_of(case.inputs[k].dtype) for k in case.varied()]
        xs = [tensor(a, kind, requires_grad=True) for a, kind in zip(arrays, kinds, strict=True)]
        ys = [x.detach().to(ad.complex128 if x.is_complex() else ad.float64).requires_grad_() for x in xs]
        cotangents = lambda results: [ad.ones_like(r) for r in results]  # noqa: E731
        wide = gradients(f, ys, cotangents)
        for x, a, b in zip(xs, gradients(f, xs, cotangents), wide, strict=True):
            if a is not None:
                assert a.dtype == x.dtype, case
                scale = 1 + np.abs(array(b)[np.isfinite(array(b))]).max(initial=0)
                assert_close(a, array(b).astype(array(a).dtype), rtol=tolerance, atol=tolerance * scale)


@named([o for o in DIFFERENTIABLE if o["inplace"]])
def test_in_place_is_recorded(op):
    for case, f, arrays in differentiable_cases(op, "float64"):
        plain = case.call()
        if plain.shape != case.inputs[0].values.shape or plain.dtype != ad.float64:
            continue
        varied = case.varied()

        def in_place(*xs, case=case, varied=varied):
            tensors = case.tensors()
            for k, x in zip(varied, xs, strict=True):
                tensors[k] = x
            args, kwargs = case.arguments(tensors)
            return getattr(args[0] * 1, case.row["name"] + "_")(*args[1:], **kwargs)

        xs = [tensor(a, requires_grad=True) for a in arrays]
        for a, b in zip(
            gradients(in_place, xs, random_cotangents), gradients(f, xs, random_cotangents), strict=True
        ):
            assert (a is None) == (b is None), case
            if a is not None:
                assert_close(a, array(b))


@named(DIFFERENTIABLE)
def test_results_require_a_gradient_where_an_input_does(op):
    dtype = next(d for d in ("float64", "complex128") if d in op["types"])
    for case, f, arrays in differentiable_cases(op, dtype):
        for k in range(len(arrays)):
            xs = [tensor(a, requires_grad=n == k) for n, a in enumerate(arrays)]
            assert all(r.requires_grad for r in fractions(f(*xs))), f"{case}, input {k}"
            with ad.no_grad():
                # A view tells whether its base requires one.
                assert op["view"] or not any(r.requires_grad for r in fractions(f(*xs)) if r is not xs[k]), (
                    case
                )


@named([o for o in STRUCTURED if not o["differentiable"]])
def test_without_a_derivative(op):
    """No graph, or an error that names the operator: never a silent zero."""
    for dtype in {"float64", "complex128"} & set(op["types"]):
        for case in cases(op, dtype):
            f, arrays = case.differentiable()
            xs = [tensor(a, requires_grad=True) for a in arrays]
            try:
                results = fractions(f(*xs))
            except NotImplementedError as error:
                assert op["name"] in str(error)
                continue
            refusing = [r for r in results if r.requires_grad and r.grad_fn is not None]
            for r in refusing:
                with pytest.raises(NotImplementedError, match=op["name"]):
                    r.sum().abs().backward(retain_graph=True)
            if refusing:
                continue
            leaf = case.bound().get("requires_grad", False)
            assert all(r.grad_fn is None and r.requires_grad == leaf for r in results), case


#: Whose mask adds, or chooses, by its type.
BY_TYPES = {"_attention"}


@pytest.mark.parametrize("row", [o for o in STRUCTURED if o["name"] not in BY_TYPES], ids=lambda r: r["name"])
def test_inputs_of_several_types_get_gradients_of_theirs(row):
    """Where a call takes inputs of several types, its rule does."""
    for case in cases(row, "float64" if "float64" in row["types"] else row["types"][0])[:2]:
        tensors = case.tensors()
        places = [k for k, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]

        def gradients(dtypes, case=case, tensors=tensors, places=places):
            given = list(tensors)
            for k, dtype in zip(places, dtypes, strict=True):
                given[k] = tensors[k].detach().to(dtype).requires_grad_()
            result = case.call(given)
            roots = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if r is not None]
            roots = [r for r in roots if isinstance(r, ad.Tensor) and r.requires_grad]
            ends, seeds = [given[k] for k in places], [ad.ones_like(r) for r in roots]
            return ad.autograd.grad(roots, ends, seeds, allow_unused=True) if roots else ()

        for first in itertools.product((ad.float16, ad.float64, ad.complex64), repeat=min(len(places), 3)):
            if not places or len(set(first)) == 1:
                continue
            dtypes = [*first, *[first[0]] * (len(places) - len(first))]
            try:
                with ad.no_grad():
                    gradients(dtypes)
            except (RuntimeError, TypeError, NotImplementedError):
                continue  # is refused
            try:
                found = gradients(dtypes)
            except NotImplementedError:
                continue
            except RuntimeError as error:
                with pytest.raises(type(error)):  # of one type, too
                    gradients([ad.float64] * len(places))
                continue
            for k, dtype, g in zip(places, dtypes, found, strict=False):
                assert g is None or (g.dtype, g.shape) == (dtype, tensors[k].shape), (case, dtypes)
