"""Fused rows against what they state that they are composed of (`composed`, Note: adding an operator).

Derivatives of derivatives, tangents and some batches of a fused row go by its composition, so the two are held to each
other: values, first gradients, batches of each argument, on all samples in all types. Start reading at `FUSED`.
"""

import itertools

import pytest
from helpers import array, assert_close, dtype_of
from samples import OPERATORS, ROWS, cases, function_of
from structured_reference import MISSING

import adjoint as ad

ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
FUSED = [o for o in OPERATORS if o["kind"] == "structured" and ad._C._composition(function_of(o))]
#: Rows with a fused gradient that state none: what is recorded of the gradient is no second formula, or cannot follow.
WITHOUT = {
    "embedding": "linear: its gradient is an operator with a derivative of its own",
    "softmax": "its gradient is an operator with rules of its own",
    "log_softmax": "likewise",
}


def named(rows):
    return pytest.mark.parametrize("op", rows, ids=[o["name"] for o in rows])


def listed(results):
    return [r for r in (results if isinstance(results, (tuple, list)) else [results]) if r is not None]


def test_each_row_with_a_fused_gradient_states_a_composition():
    calls = [o["name"] for o in OPERATORS if o["gradients"] is not None]  # but compositions
    fused = {name for name in calls if f"_{name.strip('_')}_backward" in ROWS}
    assert fused - {o["name"] for o in FUSED} == set(WITHOUT)


@named(FUSED)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_values(op, dtype):
    row = function_of(op)
    for case in cases(op, dtype):
        args, kwargs = case.arguments()
        results, composed = listed(row(*args, **kwargs)), listed(ad._C._composition(row)(*args, **kwargs))
        for a, b in zip(results, composed, strict=True):
            assert a.shape == b.shape and (a.dtype == b.dtype or a.dtype == ad.float32), case
            assert_close(a.double(), array(b.double()), rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@named(FUSED)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_first_gradients(op, dtype):
    row = function_of(op)
    for case in cases(op, dtype):
        found = []
        for f in (row, ad._C._composition(row)):
            tensors = case.tensors()
            varied = [tensors[k].requires_grad_() for k in case.varied()]
            args, kwargs = case.arguments(tensors)
            results = [r for r in listed(f(*args, **kwargs)) if r.requires_grad]
            ad.manual_seed(3)
            seeds = [ad.randn(r.shape, dtype=ad.float64).to(r.dtype) for r in results]
            found.append(ad.autograd.grad(results, varied, seeds, allow_unused=True))
        for a, b in zip(*found, strict=True):
            assert a.dtype == b.dtype == dtype_of(dtype), case
            assert_close(a.double(), array(b.double()), rtol=4 * ROUNDING[dtype], atol=4 * ROUNDING[dtype])


@named(FUSED)
def test_second_gradients_and_tangents(op):
    row = function_of(op)
    for case in cases(op):
        found = []
        for f in (row, ad._C._composition(row)):
            tensors, kept = case.tensors(), case.varied()

            def results(*varied, f=f, case=case, tensors=tensors, kept=kept):
                given = dict(zip(kept, varied, strict=True))
                args, kwargs = case.arguments([given.get(k, t) for k, t in enumerate(tensors)])
                return tuple(r for r in listed(f(*args, **kwargs)) if r.is_floating_point())

            def loss(*varied, results=results):
                return sum((r * r.cos()).sum() for r in results(*varied))

            varied = [tensors[k] for k in kept]
            ad.manual_seed(4)
            ways = tuple(ad.randn_like(t) for t in varied)
            gradient = ad.func.grad(loss, tuple(range(len(varied))))
            leaves = [t.requires_grad_() for t in varied]
            first = ad.autograd.grad(loss(*leaves), leaves, create_graph=True)
            second = ad.autograd.grad(
                [g for g in first if g.requires_grad],
                leaves,
                [w for g, w in zip(first, ways) if g.requires_grad],
                allow_unused=True,
                materialize_grads=True,
            )
            varied = tuple(t.detach() for t in varied)
            _, slopes = ad.func.jvp(results, varied, ways)
            _, curves = ad.func.jvp(gradient, varied, ways)
            found.append([*second, *slopes, *curves])
        for a, b in zip(*found, strict=True):
            assert_close(a, array(b), rtol=1e-9, atol=1e-9)


@named(FUSED)
def test_batches_of_each_argument(op):
    """No loop over the samples, whichever tensors are batched, of the call and of its gradients."""
    for case in cases(op):
        n = len(case.inputs)
        if not n or "dropout" in case.text:  # draws that are the same for each sample go sample by sample
            continue
        batches = [ad.stack([t, t.flip(0) if t.ndim else t]) for t in case.tensors()]
        for mapped in itertools.chain(((k,) for k in range(n)), [tuple(range(n))]):
            dims = tuple(0 if k in mapped else None for k in range(n))
            given = [batches[k] if k in mapped else t for k, t in enumerate(case.tensors())]
            varied = tuple(k for k in case.varied() if k in mapped)

            def f(*tensors, case=case):
                return tuple(r for r in listed(case.call(list(tensors))))

            def gradient(*tensors, f=f, varied=varied):
                return ad.func.grad(lambda *t: sum((r * r.cos()).sum() for r in f(*t)), varied)(*tensors)

            for g in (f, gradient) if varied else (f,):
                ad.func.vmap_fallbacks(reset=True)
                found = ad.func.vmap(g, dims)(*given)
                loops = ad.func.vmap_fallbacks(reset=True)
                assert not loops or (op["name"], case.names()[mapped[-1]]) in MISSING, (case, mapped, loops)
                samples = [g(*(t[i] if k in mapped else t for k, t in enumerate(given))) for i in range(2)]
                for a, *each in zip(found, *samples, strict=True):
                    assert_close(a, array(ad.stack(each)), rtol=1e-10, atol=1e-10)


@named(FUSED)
def test_second_gradients_through_a_batch(op):
    """Of tensors that are recorded outside, so that the row is called, and composed, with the batch among its dimensions."""
    for case in cases(op):
        n, kept = len(case.inputs), case.varied()
        if not kept or "dropout" in case.text:
            continue
        tensors = case.tensors()
        batches = [
            ad.stack([tensors[k], 0.5 * tensors[k]]).requires_grad_() if k in kept else tensors[k]
            for k in range(n)
        ]

        def f(*tensors, case=case):
            return tuple(r for r in listed(case.call(list(tensors))) if r.is_floating_point())

        dims = tuple(0 if k in kept else None for k in range(n))
        one = [[b[i] if k in kept else b for k, b in enumerate(batches)] for i in range(2)]
        found = []
        for results in (
            ad.func.vmap(f, dims)(*batches),
            [ad.stack(r) for r in zip(*(f(*given) for given in one), strict=True)],
        ):
            leaves = [batches[k] for k in kept]
            first = ad.autograd.grad(sum((r * r.cos()).sum() for r in results), leaves, create_graph=True)
            loss = sum((g * g.cos()).sum() for g in first)
            found.append(ad.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))
        for a, b in zip(*found, strict=True):
            assert_close(a, array(b), rtol=1e-9, atol=1e-9)
