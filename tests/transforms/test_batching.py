"""vmap over every operator of the table equals a loop over the samples: values, and gradients taken outside and inside.

The samples are those that the operators state (tests/samples.py), each in three variants, which are mapped over together and
one by one. Nothing here names an operator. Start reading at `mapped_calls`.
"""

import itertools
import warnings

import numpy as np
import pytest
from helpers import array
from samples import OPERATORS, cases
from structured_reference import INVARIANTS, SIGNS, WITHOUT_VALUES

import adjoint as ad

BATCH = 3


def variants(t):
    """Three tensors with values like those of one: in another order, or smaller."""
    if t.dtype == ad.int32:  # pivots, which only fit their matrix
        return [t.clone() for _ in range(BATCH)]
    if t.is_floating_point() or t.is_complex():
        return [t * (1 - 0.125 * i) for i in range(BATCH)]
    if t.dim() == 0:
        return [t.clone() for _ in range(BATCH)]
    return [t.clone(), t.flip(0), t.flip(-1)]


def choices(count):
    """Which of the inputs are mapped over: all, and each alone."""
    found = [tuple(range(count))]
    if count > 1:
        found += [(k,) for k in range(count)]
    return found


def mapped_calls(row, dtype):
    """Yield (case, columns, chosen): for each input its variants, and which inputs are mapped over."""
    for case in cases(row, dtype):
        if not case.inputs:
            continue
        columns = [variants(t) for t in case.tensors()]
        for chosen in choices(len(columns)):
            yield case, columns, chosen


def tensors_of(result):
    if isinstance(result, ad.Tensor):
        return [result]
    return [t for t in result if t is not None]


def results_of(case, tensors):
    """The results of a call; of those that are fixed but for signs, which a batch may choose otherwise, what is fixed."""
    result = case.call(tensors)
    name = case.row["name"]
    return tensors_of(INVARIANTS[name](*result) if name in SIGNS else result)


def one(columns, chosen, i):
    return [column[i if k in chosen else 0] for k, column in enumerate(columns)]


def by_loop(case, columns, chosen):
    return [results_of(case, one(columns, chosen, i)) for i in range(BATCH)]


def stacked(columns, chosen, dim):
    """The arguments of the mapped function, and its in_dims."""
    arguments, dims = [], []
    for k, column in enumerate(columns):
        if k in chosen:
            at = dim if dim <= column[0].dim() else 0
            arguments.append(ad.stack(column, at))
            dims.append(at)
        else:
            arguments.append(column[0])
            dims.append(None)
    return arguments, tuple(dims)


def named(rows):
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


def same(found, expected, where, dtype="float64"):
    assert found.shape == expected.shape and found.dtype == expected.dtype, (
        f"{where}: {found.shape} {found.dtype}, {expected.shape} {expected.dtype}"
    )
    tolerance = 1e-9 if dtype in ("float64", "complex128") else 1e-4
    np.testing.assert_allclose(array(found), array(expected), rtol=tolerance, atol=tolerance, err_msg=where)


def unstable(row):
    """Whether it gives other values at each call."""
    return row["family"] == "Sampling" or "Generator" in row["meanings"] or row["name"] in WITHOUT_VALUES


def refuses_batches(row):
    """Whether it writes lists of tensors, in which those of a batch have no place: asked of each such row."""
    if row["writes"] or not row["written"]:
        return False
    for case in cases(row, "float64"):
        tensors = [t[None] for t in case.tensors()]
        with pytest.raises(NotImplementedError, match="stand for a batch"):
            ad.func.vmap(lambda *xs, case=case: case.call([*xs]))(*tensors)
    return True


@named(OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "bool"])
def test_values_are_those_of_the_loop(row, dtype):
    if unstable(row) or refuses_batches(row):
        return
    for (case, columns, chosen), dim in itertools.product(mapped_calls(row, dtype), (0, 1)):
        where = f"{case}, mapped over {chosen}, dimension {dim}"
        if row["view"] and dim:  # how samples lie in memory may count
            continue
        try:
            expected = by_loop(case, columns, chosen)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        arguments, in_dims = stacked(columns, chosen, dim)
        mapped = ad.func.vmap(lambda *xs, case=case: tuple(results_of(case, list(xs))), in_dims=in_dims)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if any(len({t.shape for t in column}) > 1 for column in zip(*expected)):
                with pytest.raises(RuntimeError, match="shape"):
                    mapped(*arguments)
                continue
            found = mapped(*arguments)
        assert len(found) == len(expected[0]), where
        for k, result in enumerate(found):
            same(result, ad.stack([sample[k] for sample in expected]), where, dtype)


def leaf(x):
    return x.detach().requires_grad_() if x.is_floating_point() or x.is_complex() else x


def pulled(results, leaves):
    """The gradients of results by those of `leaves` that have one, for cotangents that are made here."""
    ys = [y for y in results if y.requires_grad]
    xs = [x for x in leaves if x.requires_grad]
    gs = [ad.cos(ad.arange(y.numel(), dtype=y.dtype).reshape(y.shape)) for y in ys]
    found = ad.autograd.grad(ys, xs, gs, allow_unused=True) if ys and xs else [None] * len(xs)
    return tuple(ad.zeros_like(x) if g is None else g for x, g in zip(xs, found))


@named([row for row in OPERATORS if row["differentiable"]])
def test_gradients_inside_are_those_of_the_loop(row):
    if unstable(row):
        return

    def gradients(case, xs):
        xs = [leaf(x) for x in xs]
        return pulled(results_of(case, xs), xs)

    for case, columns, chosen in mapped_calls(row, "float64"):
        where = f"{case}, mapped over {chosen}"
        try:
            expected = [gradients(case, one(columns, chosen, i)) for i in range(BATCH)]
        except (RuntimeError, NotImplementedError, IndexError, ValueError):
            continue
        arguments, in_dims = stacked(columns, chosen, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ad.func.vmap(lambda *xs, case=case: gradients(case, xs), in_dims=in_dims)(*arguments)
        for k, g in enumerate(found):
            same(g, ad.stack([sample[k] for sample in expected]), where)


@named([row for row in OPERATORS if row["differentiable"]])
def test_gradients_outside_are_those_of_the_loop(row):
    if unstable(row):
        return
    for case, columns, _ in mapped_calls(row, "float64"):
        where = repr(case)
        leaves = [[leaf(x) for x in column] for column in columns]
        every = list(itertools.chain(*leaves))
        try:
            samples = [results_of(case, [column[i] for column in leaves]) for i in range(BATCH)]
            expected = pulled([ad.stack(column) for column in zip(*samples)], every)
        except (RuntimeError, NotImplementedError, IndexError, ValueError):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mapped = ad.func.vmap(lambda *xs, case=case: tuple(results_of(case, list(xs))))
            found = pulled(mapped(*[ad.stack(column) for column in leaves]), every)
        for g, wanted in zip(found, expected):
            same(g, wanted, where)


@named(OPERATORS)
def test_vmap_of_vmap_is_a_loop_in_a_loop(row):
    if unstable(row) or refuses_batches(row):
        return
    for case in cases(row, "float64"):
        if not case.inputs:
            continue
        outer = [variants(t) for t in case.tensors()]
        columns = [[variants(t)[:2] for t in column] for column in outer]
        try:
            expected = [
                [results_of(case, [c[i][j] for c in columns]) for j in range(2)] for i in range(BATCH)
            ]
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        flat = [sample for line in expected for sample in line]
        if any(len({t.shape for t in column}) > 1 for column in zip(*flat)):
            continue
        arguments = [ad.stack([ad.stack(line) for line in column]) for column in columns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ad.func.vmap(ad.func.vmap(lambda *xs, case=case: tuple(results_of(case, list(xs)))))(
                *arguments
            )
        for k, result in enumerate(found):
            wanted = ad.stack([ad.stack([sample[k] for sample in line]) for line in expected])
            same(result, wanted, repr(case))


def without_samples(f, in_dims, arguments):
    """What `vmap` gives for an empty batch; None where it asks values of samples that are not there, and says so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ad.func.vmap(f, in_dims=in_dims)(*arguments)
    except RuntimeError as error:
        if "there is no sample from which" not in str(error):
            raise
        return None


@named(OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_an_empty_batch_has_the_shapes_of_a_sample(row, dtype):
    """Values, gradients inside, and gradients outside, which are zeros."""
    if unstable(row) or refuses_batches(row):
        return

    def same_of_none(found, sample, where):
        for result, wanted in zip(found or (), sample):
            if wanted.numel():  # else it was not asked for, and has no batch
                same(result, wanted.new_empty((0, *wanted.shape)), where, dtype)

    for case, columns, chosen in mapped_calls(row, dtype):
        where = f"{case}, mapped over {chosen}"
        first = one(columns, chosen, 0)

        def values(*xs, case=case):
            return tuple(results_of(case, list(xs)))

        def gradients(*xs, case=case):
            xs = [leaf(x) for x in xs]
            return pulled(results_of(case, xs), xs)

        try:
            sample, zero = values(*first), values(*map(ad.zeros_like, first))
            inside = gradients(*first) if row["differentiable"] else ()
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            continue
        if [t.shape for t in sample] != [t.shape for t in zero]:
            continue  # shapes follow from values
        arguments, in_dims = stacked(columns, chosen, 0)
        arguments = [x[:0] if k in chosen else x for k, x in enumerate(arguments)]
        same_of_none(without_samples(values, in_dims, arguments), sample, where)
        if not inside:
            continue
        same_of_none(without_samples(gradients, in_dims, arguments), inside, where)
        leaves = [leaf(x) for x in arguments]
        found = without_samples(values, in_dims, leaves)
        for g, x in zip(pulled(found or (), leaves), [x for x in leaves if x.requires_grad]):
            same(g, ad.zeros_like(x), where)
