"""Who looks on sees all that happens to elements: what a recorder of programs stands on.

Held over the table, first and second derivatives and under vmap, passes in several threads, and the programs of `fuzz.py`; at
both places from which one can look on. Start reading at `closure.Closure`.
"""

import ctypes
import os

import fuzz
import pytest
from closure import PLACES, Closure
from fuzz_generate import generate
from samples import OPERATORS, cases

import adjoint as ad

_C = ad._C
PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "500")) // 5


def derivatives(case):
    """A call, its first derivatives and the second, and what `backward()` leaves in `.grad`."""
    f, values = case.differentiable()
    leaves = [ad.tensor(v.tolist(), dtype=case.inputs[k].tensor.dtype) for k, v in zip(case.varied(), values)]
    leaves = [x.reshape(v.shape).requires_grad_() for x, v in zip(leaves, values)]
    leaves = [x.detach().requires_grad_() for x in leaves]

    def results():
        made = f(*leaves)
        made = [made] if isinstance(made, ad.Tensor) else made
        return [y for y in made if y is not None and y.requires_grad]

    ys = results()
    if not ys:
        return
    seeds = [ad.full_like(y, 0.5) for y in ys]
    try:
        ad.autograd.backward(ys, seeds, retain_graph=True)
        ad.autograd.backward(ys, seeds)
        ys = results()
        first = ad.autograd.grad(ys, leaves, seeds, create_graph=True, allow_unused=True)
        first = [g for g in first if g is not None and g.requires_grad]
        if first:
            ad.autograd.grad(first, leaves, [ad.full_like(g, 0.25) for g in first], allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        if not isinstance(error, NotImplementedError) and "the derivative needs" not in str(error):
            raise


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_each_row(op, place):
    dtype = next(d for d in ("float64", "complex128", *op["types"]) if d in op["types"])
    for case in cases(op, dtype):
        given = [i.tensor for i in case.inputs]
        with Closure(place, given) as seen:
            derivatives(case) if op["differentiable"] and case.varied() else case.call()
        assert seen.calls and not seen.unknown, f"{case}:\n" + "\n".join(seen.unknown)


@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_each_row_under_vmap(op):
    """From below, where there are no batches."""
    dtype = next(d for d in ("float64", "complex128", *op["types"]) if d in op["types"])
    for case in cases(op, dtype):
        batches = [ad.stack([t, t]) for t in case.tensors() if t.layout is ad.strided]
        if not batches or len(batches) < len(case.inputs):
            continue
        with Closure("below", batches) as seen:
            try:
                ad.vmap(lambda *samples, case=case: case.call(list(samples)))(*batches)
            except (RuntimeError, TypeError, ValueError, IndexError):  # some cannot be batched, and say so
                continue
        assert seen.calls and not seen.unknown, f"{case}:\n" + "\n".join(seen.unknown)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("piece", range(5))
def test_random_programs(piece, place):
    for seed in range(piece, PROGRAMS, 5):
        program = generate(seed)
        with Closure(place) as seen:
            fuzz.check(program)
        assert seen.calls and not seen.unknown, "\n".join([*seen.unknown, program.source()])


@pytest.mark.parametrize("place", PLACES)
def test_passes_in_several_threads(place):
    threads = ad.get_num_threads()
    ad.set_num_threads(4)
    x, w = (ad.randn(8, 8, requires_grad=True) for _ in range(2))
    try:
        with Closure(place, [x, w]) as seen, ad.autograd.set_parallel_backward(True):
            for _ in range(5):
                sum((((x * k) @ w).tanh() @ w + x.sin()).sum() for k in range(8)).backward()
            calls = seen.calls
    finally:
        ad.set_num_threads(threads)
    assert calls > 5 * 8 * 15 and not seen.unknown, "\n".join(seen.unknown)


def test_an_unseen_write_is_found():
    x = ad.ones(3)
    with Closure("below", [x]) as seen:
        x.sin()
        assert not seen.unknown
        ctypes.memset(x.data_ptr(), 1, 4)
        x.sin()
        y = ad.zeros(2)
        del seen.left[_C._storage_id(y)]
        y.exp()
    assert len(seen.unknown) == 2 and "unseen" in seen.unknown[0] and "nobody made" in seen.unknown[1]
