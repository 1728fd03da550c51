"""Tangents and batches of each operator of the table under `jit`: what transforms make of a function is replayed.

Five calls equal five eager ones in bits (`five` in test_jit_table.py), and some are replayed, but for rows with one of the
reasons there. Start reading at `TRANSFORMS`.
"""

import warnings

import pytest
from samples import OPERATORS, Slot, cases, function_of
from test_jit_table import ALL, PIECES, five, judge, outcome

import adjoint as ad
from adjoint.func import jacfwd, jacrev, jvp, linearize, vjp, vmap


def results(found):
    found = found if isinstance(found, (tuple, list)) else (found,)
    return tuple(y for y in found if isinstance(y, ad.Tensor) and (y.is_floating_point() or y.is_complex()))


def halves(both):
    return both[: len(both) // 2], both[len(both) // 2 :]


def pushed(f):
    return lambda *both: jvp(f, *halves(both))


def linearized(f):
    def g(*both):
        xs, ts = halves(both)
        value, push = linearize(f, *xs)
        return value, push(*ts), push(*ts)

    return g


def pulled(f):
    def g(*xs):
        ys, pull = vjp(f, *xs)
        return pull(tuple(ad.full_like(y, 0.5) for y in ys))

    return g


def real(f):
    """One number of each result."""
    return lambda *xs: sum(y.sum() for y in parts(f)(*xs))


def parts(f):
    """Complex results as real ones."""
    return lambda *xs: tuple(ad.view_as_real(y) if y.is_complex() else y for y in f(*xs))


def hessian(f):
    return lambda *xs: jacfwd(jacrev(real(f), argnums=(*range(len(xs)),)), argnums=(*range(len(xs)),))(*xs)


#: Of each transform, whether it takes tangents, batches, and complex numbers.
TRANSFORMS = {
    "jvp": (pushed, True, False, True),
    "jvp(vjp)": (lambda f: pushed(pulled(f)), True, False, True),
    "jacfwd": (lambda f: lambda *xs: jacfwd(parts(f), argnums=(*range(len(xs)),))(*xs), False, False, False),
    "hessian": (hessian, False, False, False),
    "linearize": (linearized, True, False, True),
    "vmap(jvp)": (lambda f: vmap(pushed(f)), True, True, True),
    "vmap(vjp)": (lambda f: vmap(pulled(f)), False, True, True),
}


def filled(template, tensors):
    """An argument as a case states it, with these tensors."""
    if isinstance(template, list):
        return [filled(t, tensors) for t in template]
    return tensors[template.number] if isinstance(template, Slot) else template


def functions(row, dtype, transform, tangents, batches):
    """Of each case the function that `transform` makes of it, of all its tensors, and then tangents of those varied."""
    f = function_of(row)
    for case in cases(row, dtype)[: None if ALL else 2]:
        varied, count, stated, named = case.varied(), len(case.inputs), case.args, case.kwargs
        if case.bound().get("vectors") is False or not varied or not results(case.call()):
            continue

        def call(*given, varied=varied, count=count, stated=stated, named=named):
            def of(*xs):
                tensors = [*given[:count]]
                for k, x in zip(varied, xs, strict=True):
                    tensors[k] = x
                return results(
                    f(*filled(stated, tensors), **{k: filled(v, tensors) for k, v in named.items()})
                )

            return transform(of)(*[given[k] for k in varied], *given[count:])

        def make(case=case, varied=varied, count=count):
            xs = case.tensors()
            xs += [ad.cos(xs[k]) for k in varied] if tangents else []
            return [
                ad.stack([x, x]) if batches and (k in varied or k >= count) else x for k, x in enumerate(xs)
            ], {}

        yield case, call, make


def left(name, row):
    transform, tangents, batches, of_complex = TRANSFORMS[name]
    if not row["differentiable"] or row["written"] or "Generator" in row["meanings"]:
        return
    for dtype in ("float64", "complex128")[: 1 + of_complex]:
        if dtype in row["types"]:
            for case, call, make in functions(row, dtype, transform, tangents, batches):
                if found := judge(five(call, make)):
                    yield repr(case), found
            return


@pytest.mark.parametrize("piece", range(len(PIECES)))
@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_row(name, piece):
    assert [found for row in PIECES[piece] for found in left(name, row)] == []


LARGE = (
    20_000  # elements from which on the value and the tangent are computed in one walk, where nobody looks on
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_calls(dtype):
    for row in (
        o for o in OPERATORS if o["kind"] == "elementwise" and o["differentiable"] and o["arity"] > 1
    ):
        case, f = cases(row, dtype)[0], function_of(row)
        varied, rest, named = case.varied(), case.args[row["arity"] :], case.kwargs
        low, high = row["samples"]
        xs = [ad.rand(LARGE, dtype=ad.float64) * (high - low) + low for _ in range(row["arity"])]
        xs = [x < x.mean() if i == row["condition"] else x.to(getattr(ad, dtype)) for i, x in enumerate(xs)]
        ts = [ad.cos(xs[k]) for k in varied]

        def call(*given, varied=varied, f=f, rest=rest, named=named, count=len(xs)):
            def of(*vs):
                tensors = [*given[:count]]
                for k, v in zip(varied, vs, strict=True):
                    tensors[k] = v
                return f(*tensors, *rest, **named)

            return jvp(of, tuple(given[k] for k in varied), given[count:])

        stats = five(call, lambda: ([*xs, *ts], {}))  # noqa: B023
        assert judge(stats) is None, (row["name"], stats)


BY_INDEX = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None].expand(2, 2)),
    "index_add": lambda x, i: ad.zeros(4, 2).index_add(0, i, x[:2]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
}


@pytest.mark.parametrize("name", BY_INDEX)
def test_an_index_that_is_out_of_range_is_eager_s(name):
    """Of a batch, whose samples lie end to end: what one sample must not read is another's."""
    f = vmap(BY_INDEX[name])
    x = ad.arange(24.0).reshape(3, 4, 2)
    indices = [[[0, 1], [2, 3], [1, 0]]] * 4 + [[[0, 4], [2, 3], [1, 0]], [[0, -1], [2, 3], [1, 0]]]
    jitted = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in indices:
            i = ad.tensor(index)
            assert outcome(lambda: jitted(x, i)) == outcome(lambda: f(x, i))  # noqa: B023
    assert jitted.stats()["replayed"]


class Doubled(ad.autograd.Function):
    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 2 * g

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)


def test_a_function_that_writes_its_argument():
    def tangent(x, t):
        return jvp(lambda x: Doubled.apply(x.sin()), (x,), (t,))

    def gradient(x, t):
        return ad.func.grad(lambda x: Doubled.apply(x * t).sum())(x)

    def written(x, t):
        return Doubled.apply(x) + t

    for f in (tangent, gradient, written):
        stats = five(
            f,
            lambda: ((ad.tensor([0.5, -1.0]), ad.tensor([1.0, 2.0])), {}),
            lambda args, _: [args, [a._version for a in args]],
        )
        assert stats["replayed"], (f, stats)
