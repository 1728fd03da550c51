"""Forward mode over the whole table: every operator, on the calls that it states, without a line for any of them.

An inner product is the real part of the sum of conj(a) b, for which reverse mode gives the adjoint of the Jacobian. Start
reading at `jvp`.
"""

import numpy as np
import pytest
from helpers import array, tensor
from samples import OPERATORS, cases, function_of
from structured_reference import MISSING, WITHOUT_DIFFERENCES

import adjoint as ad
import adjoint.autograd.forward_ad as forward_ad

DIFFERENTIABLE = [o for o in OPERATORS if o["differentiable"]]
DTYPES = ("float64", "complex128")


def named(rows):
    return pytest.mark.parametrize("op", rows, ids=[o["name"] for o in rows])


def calls(op):
    """Yield (case, function, arrays) for the calls that have something to differentiate."""
    for dtype in DTYPES:
        for case in cases(op, dtype) if dtype in op["types"] else ():
            # Without vectors, nothing is kept that the derivative would need; adjoint.linalg asks for them.
            if case.bound().get("vectors") is False:
                continue
            f, arrays = case.differentiable()
            if arrays:
                yield case, f, arrays


def close(found, wanted, case, tolerance=1e-9):
    single = "float32" in case.text or "complex64" in case.text
    tolerance = max(tolerance, 1e-5 * single)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=str(case))


def drawn(values, seed):
    rng = np.random.default_rng(seed)
    for v in values:
        t = rng.uniform(-1, 1, v.shape)
        yield (
            (t + 1j * rng.uniform(-1, 1, v.shape)).astype(v.dtype)
            if np.iscomplexobj(v)
            else t.astype(v.dtype)
        )


def results(found):
    found = found if isinstance(found, (tuple, list)) else [found]
    return [y for y in found if y is not None and (y.is_floating_point() or y.is_complex())]


def jvp(f, xs, ts):
    """The values of f's results, and their tangents, zeros where there are none."""
    with forward_ad.dual_level():
        ys = results(f(*(forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True))))
        pairs = [forward_ad.unpack_dual(y) for y in ys]
        return [p for p, _ in pairs], [ad.zeros_like(p) if t is None else t for p, t in pairs]


def inner(a, b):
    return np.real(np.sum(np.conj(array(a.detach())) * array(b.detach())))


def vjp(f, xs, gs, create_graph=False):
    ys = results(f(*xs))
    recorded = [(y, g) for y, g in zip(ys, gs, strict=True) if y.requires_grad]
    if not recorded:
        return [ad.zeros_like(x) for x in xs]
    found = ad.autograd.grad(
        [y for y, _ in recorded], xs, [g for _, g in recorded], allow_unused=True, create_graph=create_graph
    )
    return [ad.zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]


@named(DIFFERENTIABLE)
def test_forward_is_the_adjoint_of_reverse(op):
    for case, f, values in calls(op):
        xs = [tensor(v).requires_grad_() for v in values]
        ts = [tensor(t) for t in drawn(values, 1)]
        ys, tangents = jvp(f, [x.detach() for x in xs], ts)
        for y, t, plain in zip(ys, tangents, results(f(*xs)), strict=True):
            assert t.shape == y.shape and t.dtype is y.dtype, case
            np.testing.assert_array_equal(array(y.detach()), array(plain.detach()), err_msg=str(case))
        gs = [tensor(g) for g in drawn([array(y.detach()) for y in ys], 2)]
        forward = sum(inner(g, t) for g, t in zip(gs, tangents, strict=True))
        reverse = sum(inner(g, t) for g, t in zip(vjp(f, xs, gs), ts, strict=True))
        close(forward, reverse, case)


@named([o for o in DIFFERENTIABLE if o["name"] not in WITHOUT_DIFFERENCES])
def test_forward_against_differences(op):
    step = 1e-6
    for case, f, values in calls(op):
        if "float32" in case.text or "complex64" in case.text:
            continue  # rounding drowns the step
        ts = [*drawn(values, 3)]
        _, tangents = jvp(f, [tensor(v) for v in values], [tensor(t) for t in ts])
        ahead, behind = (
            [
                array(y)
                for y in results(f(*(tensor(v + sign * step * t) for v, t in zip(values, ts, strict=True))))
            ]
            for sign in (1, -1)
        )
        for t, a, b in zip(tangents, ahead, behind, strict=True):
            with np.errstate(invalid="ignore"):
                wanted = (a - b) / (2 * step)
            fine = np.isfinite(wanted)
            np.testing.assert_allclose(array(t)[fine], wanted[fine], rtol=1e-4, atol=1e-5, err_msg=str(case))


#: Their derivatives have none.
TWICE = [o for o in DIFFERENTIABLE if o["name"] not in ("_sample_gamma", "_dirichlet_draw")]


@named(TWICE)
def test_forward_over_reverse(op):
    """The gradient's tangent, against reverse over reverse: <u, H t> both ways."""
    for case, f, values in calls(op):
        xs = [tensor(v).requires_grad_() for v in values]
        ys = results(f(*xs))
        if not any(y.requires_grad for y in ys):
            continue
        gs = [tensor(g) for g in drawn([array(y.detach()) for y in ys], 4)]
        ts, us = ([tensor(t) for t in drawn(values, seed)] for seed in (5, 6))
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True)]
            found = [forward_ad.unpack_dual(g).tangent for g in vjp(f, duals, gs)]
        forward = sum(inner(u, t) for u, t in zip(us, found, strict=True) if t is not None)
        gradients = vjp(f, xs, gs, create_graph=True)
        reverse = 0.0
        if any(g.requires_grad for g in gradients):
            pairs = [(g, u) for g, u in zip(gradients, us, strict=True) if g.requires_grad]
            twice = ad.autograd.grad([g for g, _ in pairs], xs, [u for _, u in pairs], allow_unused=True)
            reverse = sum(inner(h, t) for h, t in zip(twice, ts, strict=True) if h is not None)
        close(forward, reverse, case, 1e-7)


@named(TWICE)
def test_reverse_over_forward(op):
    """The tangent's gradient, against reverse over reverse."""
    for case, f, values in calls(op):
        xs = [tensor(v).requires_grad_() for v in values]
        ts = [tensor(t) for t in drawn(values, 7)]
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True)]
            ys = results(f(*duals))
            if not any(y.requires_grad for y in ys):
                continue
            tangents = [forward_ad.unpack_dual(y).tangent for y in ys]
            gs = [tensor(g) for g in drawn([array(y.detach()) for y in ys], 8)]
            pairs = [(t, g) for t, g in zip(tangents, gs, strict=True) if t is not None and t.requires_grad]
            us = [tensor(u) for u in drawn(values, 9)]
            forward = 0.0
            if pairs:
                found = ad.autograd.grad([t for t, _ in pairs], xs, [g for _, g in pairs], allow_unused=True)
                forward = sum(inner(h, u) for h, u in zip(found, us, strict=True) if h is not None)
        gradients = vjp(f, xs, gs, create_graph=True)
        pairs = [(g, t) for g, t in zip(gradients, ts, strict=True) if g.requires_grad]
        reverse = 0.0
        if pairs:
            twice = ad.autograd.grad([g for g, _ in pairs], xs, [t for _, t in pairs], allow_unused=True)
            reverse = sum(inner(h, u) for h, u in zip(twice, us, strict=True) if h is not None)
        close(forward, reverse, case, 1e-7)


@named([o for o in DIFFERENTIABLE if o["inplace"] and not o["writes"] and not o["name"].startswith("_")])
def test_written_in_place(op):
    """The form that writes its first argument gives it the result's tangent, with its history."""
    for dtype in DTYPES:
        for case in cases(op, dtype) if dtype in op["types"] else ():
            first = case.inputs[0]
            values = [i.values for i in case.inputs]
            if any(v.dtype.kind not in "fc" for v in values) or not first.free:
                continue
            ts = [tensor(t).requires_grad_() for t in drawn(values, 10)]

            def written(*xs, case=case):
                args, kwargs = case.arguments(list(xs))
                kept = args[0] * 1
                getattr(kept, op["name"] + "_")(*args[1:], **kwargs)
                return kept

            xs = [tensor(v) for v in values]
            try:
                _, wanted = jvp(lambda *xs, case=case: case.call(list(xs)), xs, ts)
                if wanted[0].shape != xs[0].shape or wanted[0].dtype is not xs[0].dtype:
                    continue
            except NotImplementedError:
                continue
            _, found = jvp(written, xs, ts)
            np.testing.assert_allclose(
                array(found[0].detach()), array(wanted[0].detach()), rtol=1e-12, atol=1e-12, err_msg=str(case)
            )
            # And that tangent's history, whose rules may need what is overwritten.
            if wanted[0].requires_grad:
                g = tensor(next(drawn([array(wanted[0].detach())], 11)))
                for a, b in zip(
                    *(vjp(lambda *_, t=t: t, ts, [g]) for t in (found[0], wanted[0])), strict=True
                ):
                    np.testing.assert_allclose(array(a), array(b), rtol=1e-12, atol=1e-12, err_msg=str(case))


@named([o for o in OPERATORS if not o["differentiable"]])
def test_without_derivative(op):
    """Integers and answers have no tangent. A result that could have one is constant, or refused by name."""
    for dtype in DTYPES:
        for case in cases(op, dtype) if dtype in op["types"] else ():
            f, values = case.differentiable()
            if not values or op["writes"] or case.bound().get("vectors") is False:
                continue
            xs = [tensor(v).requires_grad_() for v in values]
            try:
                recorded = any(y.requires_grad for y in results(f(*xs)))
            except NotImplementedError:
                carried = op["name"] + r"\(\): tensors that carry tangents"  # what writes lists of tensors
                with pytest.raises(NotImplementedError, match=f"forward AD with {op['name']}|{carried}"):
                    jvp(f, [x.detach() for x in xs], [tensor(v) for v in values])
                continue
            if op["family"] == "Creation":
                continue  # may be made as a leaf
            if recorded:  # refuses when a derivative is asked for
                with pytest.raises(NotImplementedError, match=f"forward AD with {op['name']}"):
                    jvp(f, [x.detach() for x in xs], [tensor(v) for v in values])
                continue
            _, tangents = jvp(f, xs, [tensor(v) for v in values])
            assert not any(t.any() for t in tangents)


LARGE = 20_000  # elements from which on the value and the tangent may be computed in one walk; a half of it is not


@named([o for o in DIFFERENTIABLE if o["kind"] == "elementwise" and o["arity"] >= 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "numbers", [(), (0,), (1,)], ids=["tensors", "first is a number", "second is a number"]
)
def test_large_calls_as_their_halves(op, dtype, numbers):
    rng = np.random.default_rng(11)
    case = cases(op, dtype)[0]

    def drawn_input(i):
        shape = () if i in numbers else (LARGE,)
        if i == op["condition"]:
            return rng.uniform(0, 1, shape) < 0.5
        return rng.uniform(*op["samples"], shape).astype(dtype)

    values = [drawn_input(i) for i in range(op["arity"])]
    ts = [rng.uniform(-1, 1, v.shape).astype(dtype) for v in values]
    constant = {k for k, argument in enumerate(op["arguments"]) if (op["name"], argument) in MISSING}
    given = [i for i in range(op["arity"]) if i != op["condition"] and i not in constant]

    def f(xs, ts, kept=given):
        def g(*duals):
            args = [tensor(x) for x in xs]
            for i, x in zip(kept, duals, strict=True):
                args[i] = x
            rest, kwargs = case.arguments()
            return function_of(op)(*args, *rest[op["arity"] :], **kwargs)

        return jvp(g, [tensor(xs[i]) for i in kept], [tensor(ts[i]) for i in kept])

    def half(v, k):
        return v[k * LARGE // 2 : (k + 1) * LARGE // 2] if v.ndim else v

    try:
        (whole,), (tangent,) = f(values, ts)
    except RuntimeError as e:
        assert "0-dimensional" in str(e) or "dimension" in str(e), e  # a value that has to be a single number
        return
    halves = [f([half(v, k) for v in values], [half(t, k) for t in ts]) for k in (0, 1)]
    np.testing.assert_array_equal(array(whole), np.concatenate([array(y[0]) for y, _ in halves]))
    tolerance = (
        1e-5 if dtype == "float32" else 1e-13
    )  # a sum of several terms may be rounded in another order
    wanted = np.concatenate([array(t[0]) for _, t in halves])
    np.testing.assert_allclose(array(tangent), wanted, rtol=tolerance, atol=tolerance)
    # Of one input alone.
    for i in given:
        (_,), (one,) = f(values, ts, [i])
        pieces = [f([half(v, k) for v in values], [half(t, k) for t in ts], [i]) for k in (0, 1)]
        np.testing.assert_allclose(
            array(one), np.concatenate([array(t[0]) for _, t in pieces]), rtol=tolerance, atol=tolerance
        )
