"""Each operator of the table under `jit`: five calls equal five eager calls in bits, and some of them are replayed.

By default each case runs in some of its types; ADJOINT_JIT_TABLE=all runs every one. Rows that cannot be replayed are
listed with the reason that `stats()` gives. Start reading at `five`.
"""

import os
import warnings
import zlib

import pytest
import twice
from helpers import COMPLEX_DTYPES, FLOAT_DTYPES
from samples import OPERATORS, cases, function_of

import adjoint as ad

ALL = os.environ.get("ADJOINT_JIT_TABLE") == "all"
CALLS = 5

#: Words in the reasons why a row is not replayed, whatever is done with it.
REASONS = (
    "sparse",
    "it draws from another generator at each call",
    "the elements of a tensor are read",
    "backward pass reads the values of tensors",
    "gets other memory or another shape",
    "it calls numpy",
    "its backward pass fails",
    "a tensor inside of it requires grad that is no input",
    "as_strided() with an offset",
)
#: What is there by chance.
UNDEFINED = {"_empty", "_empty_like"}


def chosen(row):
    """The types to draw a row's cases in: of each kind one, another for each row."""
    types = list(row["types"])
    if ALL:
        return types
    number = zlib.crc32(row["name"].encode())
    kinds = [[t for t in types if t in some] for some in (FLOAT_DTYPES, COMPLEX_DTYPES)]
    kinds.append([t for t in types if t not in FLOAT_DTYPES and t not in COMPLEX_DTYPES])
    some = [kind[number % len(kind)] for kind in kinds if kind]
    return some[number % len(some) : number % len(some) + 1] + (["float64"] if "float64" in types else [])


def outcome(call):
    """What a call gives, or how it fails."""
    try:
        return twice.picture(call())
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


def five(function, make, see=lambda args, kwargs: None):
    """Call a function and its jitted form on equal arguments, and compare what both give, and what `see` gives of the
    arguments after. The statistics of the jitted one.
    """
    jitted = ad.jit(function)
    for k in range(CALLS):
        seen = []
        for f in (function, jitted):
            ad.manual_seed(k)
            args, kwargs = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append(
                    (outcome(lambda: f(*args, **kwargs)), twice.picture(see(args, kwargs)), ad.rand(1).item())
                )  # noqa: B023
        assert seen[0] == seen[1], f"call {k}: {seen[1]}\nexpected {seen[0]}\n{jitted.stats()}"
    return jitted.stats()


def judge(stats, failed=False):
    """Whether a case was replayed, or has one of the reasons."""
    if stats["replayed"] or failed:
        return None
    reasons = stats["reasons"]
    if not reasons and not stats["recorded"]:
        return None  # it fails eagerly, with the same words
    if reasons and all(any(word in r for word in REASONS) for r in reasons):
        return None
    return reasons or stats


def table(row):
    for dtype in dict.fromkeys(chosen(row)):
        yield from cases(row, dtype)


def fails(case):
    try:
        args, kwargs = case.arguments()
        function_of(case.row)(*args, **kwargs)
    except Exception:
        return True
    return False


ROWS = [row for row in OPERATORS if row["name"] not in UNDEFINED]
#: Rows in pieces, so that one test has several.
PIECES = [ROWS[k::16] for k in range(16)]


def strided(t):
    """The same values in every second place."""
    return ad.stack([t, t], -1)[..., 0] if t.ndim else t


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_forward(piece):
    left = {}
    for row in PIECES[piece]:
        f = function_of(row)
        for case in table(row):
            # A row that writes shows what it wrote.
            stats = five(f, case.arguments, lambda args, kwargs: [args, kwargs])
            if found := judge(stats, fails(case)):
                left[repr(case)] = found
    assert not left, left


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_strided(piece):
    left = {}
    for row in PIECES[piece]:
        if row["written"]:
            continue
        for case in list(table(row))[:2]:

            def make():
                return case.arguments([strided(t) for t in case.tensors()])  # noqa: B023

            stats = five(function_of(row), make)
            if found := judge(stats, fails(case)):
                left[repr(case)] = found
    assert not left, left


def in_place(row):
    name = row["name"] + "_"
    return getattr(ad.Tensor, name, None) if not row["name"].startswith("_") else None


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_in_place(piece):
    left = {}
    for row in PIECES[piece]:
        f = in_place(row)
        if f is None or row["written"]:
            continue
        for case in list(table(row))[:3]:
            stats = five(f, case.arguments, lambda args, kwargs: [args, kwargs])
            if not stats["replayed"] and stats["reasons"]:
                if found := judge(stats):
                    left[repr(case)] = found
    assert not left, left


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_out(piece):
    left = {}
    for row in PIECES[piece]:
        if not row["function"] or row["written"]:
            continue
        f = function_of(row)
        for case in list(table(row))[:2]:
            try:
                args, kwargs = case.arguments()
                result = f(*args, **kwargs)
                if not isinstance(result, ad.Tensor) or result.requires_grad:
                    continue
                f(*args, **kwargs, out=ad.empty_like(result))
            except Exception:
                continue

            def make():
                args, kwargs = case.arguments()  # noqa: B023
                return args, kwargs | {"out": ad.zeros_like(result)}  # noqa: B023

            stats = five(f, make, lambda args, kwargs: kwargs)
            if found := judge(stats):
                left[repr(case)] = found
    assert not left, left


def differentiable(row):
    """The cases of a row in float64 and complex128 whose results have derivatives: case, function, leaves."""
    for dtype in ("float64", "complex128"):
        if dtype not in row["types"] or row["written"] or "Generator" in row["meanings"]:
            continue
        for case in cases(row, dtype)[: None if ALL else 2]:
            varied = case.varied()
            if not varied:
                continue
            f = function_of(row)

            def call(*xs, case=case, varied=varied, f=f):
                tensors = list(xs)
                args, kwargs = case.arguments(tensors)
                result = f(*args, **kwargs)
                results = result if isinstance(result, (tuple, list)) else [result]
                return [r for r in results if isinstance(r, ad.Tensor) and r.requires_grad]

            def leaves(case=case, varied=varied):
                return [t.requires_grad_() if k in varied else t for k, t in enumerate(case.tensors())]

            try:
                if not call(*leaves()):
                    continue
            except Exception:
                continue
            yield case, call, leaves, varied


def gradients(results, xs, varied, **more):
    seeds = [ad.ones_like(r) for r in results]
    return ad.autograd.grad(results, [xs[k] for k in varied], seeds, allow_unused=True, **more)


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_gradients_inside(piece):
    left = {}
    for row in PIECES[piece]:
        for case, call, leaves, varied in differentiable(row):

            def first(*xs, call=call, varied=varied):
                return gradients(call(*xs), xs, varied)

            def second(*xs, call=call, varied=varied):
                found = [
                    g
                    for g in gradients(call(*xs), xs, varied, create_graph=True)
                    if g is not None and g.requires_grad
                ]
                return gradients(found, xs, varied) if found else None

            for f in (first, second):
                if found := judge(five(f, lambda: (leaves(), {}))):  # noqa: B023
                    left[repr(case), f.__name__] = found
    assert not left, left


def plain(tensors):
    """What gradients are, but for which of them happen to be views."""
    return [None if t is None else (str(t.dtype), tuple(t.shape), t.stride(), twice.bits(t)) for t in tensors]


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_gradients_outside(piece):
    """A replayed call is one node: first gradients equal eager's in bits, second ones but for the order of sums."""
    left = {}
    for row in PIECES[piece]:
        for case, call, leaves, varied in differentiable(row):
            jitted = ad.jit(call)
            for k in range(CALLS):
                seen, twice_ = [], []
                for f in (call, jitted):
                    xs = leaves()
                    results = list(f(*xs))
                    seen.append(
                        [
                            twice.picture(results),
                            outcome(lambda: plain(gradients(results, xs, varied, retain_graph=True))),
                        ]
                    )  # noqa: B023
                    if k < CALLS - 1:
                        continue
                    try:
                        found = gradients(results, xs, varied, create_graph=True)
                        found = [g for g in found if g is not None and g.requires_grad]
                        twice_.append(gradients(found, xs, varied) if found else ())
                    except RuntimeError as error:
                        twice_.append(error)
                assert seen[0] == seen[1], f"{case}: {seen[1]}\nexpected {seen[0]}\n{jitted.stats()}"
                if any(isinstance(found, RuntimeError) for found in twice_):
                    # Where there is no second derivative, there is none under jit, for the same reason.
                    assert [type(error) for error in twice_] == [type(twice_[0])] * 2, f"{case}: {twice_}"
                    assert str(twice_[0]) == str(twice_[1]), case
                elif twice_:
                    for a, b in zip(*twice_, strict=True):
                        assert (a is None) == (b is None), case
                        if a is not None:
                            assert ad.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True), (
                                f"{case}: {b}, expected {a}"
                            )
            if found := judge(jitted.stats()):
                left[repr(case)] = found
    assert not left, left
