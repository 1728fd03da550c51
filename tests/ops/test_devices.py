"""Every operator of the table on other devices than the CPU, from its samples.

On the meta device a result has the sizes, dtype, strides and device that it would have, and nothing is read or written: there
is no memory, and an access would end the process. So it would on the guarded device, whose memory only kernels can reach;
there the values are those of the CPU. Start reading at `test_meta_results`.
"""

import functools

import numpy as np
import pytest
from helpers import array
from samples import OPERATORS, cases
from structured_reference import INVARIANTS

import adjoint as ad

#: Rows whose results have a shape that depends on values, and the name by which they refuse to tell it on the meta device.
BY_VALUES = {
    "_nonzero": "_nonzero|nonzero",
    "_where_true": "nonzero",
    "masked_select": "masked_select",
    "_unique": "unique",
    "_sort_positions": "_sort_positions",
    "_repeat_interleave_each": "repeat_interleave",
}


def says_device(case):
    """Whether the call says itself that its result is on the CPU."""
    return case.row["name"] == "_to_device" or "device=0" in case.text


def looks_at_values(case, gradient=False):
    """Where a mask is an index, the positions in it are counted, here or for the gradient."""
    return any(i.dtype == "bool" for i in case.inputs) and (
        (case.row["name"] in ("_index", "_put_index", "_index_put"))
        or (gradient and case.row["name"] == "masked_scatter")
    )


def dtypes_of(row):
    return [d for d in ("float32", "complex64", "int64", "bool", "float16") if d in row["types"]]


def every_case(row):
    return [case for dtype in dtypes_of(row) for case in cases(row, dtype)]


def named(rows):
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


def moved(case, device):
    return [t.to(device) for t in case.tensors()]


def listed(result):
    if isinstance(result, ad.Tensor):
        return [result]
    return [r for r in result if r is not None]


def called(case, tensors, device):
    """The results of a call, made on a device where no tensor says so."""
    with ad.device(device):
        return listed(case.call(tensors))


def geometry(t):
    return tuple(t.shape), t.dtype, t.stride(), t.requires_grad


@named([row for row in OPERATORS if row["name"] != "_to_device"])
def test_meta_results(row):
    for case in every_case(row):
        here = called(case, case.tensors(), "cpu")
        if row["name"] in BY_VALUES:
            with pytest.raises(NotImplementedError, match=BY_VALUES[row["name"]]):
                called(case, moved(case, "meta"), "meta")
            continue
        try:
            there = called(case, moved(case, "meta"), "meta")
        except NotImplementedError as error:
            assert looks_at_values(case) and "depends on the values" in str(error), case
            continue
        assert all(t.is_meta for t in there) or says_device(case), case
        assert [geometry(t) for t in there] == [geometry(t) for t in here], case


def gradients(case, device):
    """The first and second derivatives of all results, or that there is none."""
    name = case.row["name"]
    tensors = moved(case, device)
    varied = [tensors[k].requires_grad_() for k in case.varied()]
    tensors = [t.clone() if case.writes(k) else t for k, t in enumerate(tensors)]

    def derivatives(results, **more):
        results = [r for r in results if r is not None and r.requires_grad]
        ones = [ad.ones_like(r) for r in results]
        return ad.autograd.grad(results, varied, ones, allow_unused=True, **more) if results else ()

    with ad.device(device):
        results = case.call_as_given(tensors)
        results = listed(INVARIANTS[name](*results) if name in INVARIANTS else results)
        try:
            first = derivatives(results, create_graph=True)
            return [*first, *derivatives(first)]
        except RuntimeError as error:
            if "is not implemented" not in str(error) and "the derivative needs" not in str(error):
                raise
            return []


@named([row for row in OPERATORS if row["differentiable"] and row["name"] not in {*BY_VALUES, "_to_device"}])
def test_meta_gradients(row):
    for case in cases(row, "float64" if "float64" in row["types"] else "complex128"):
        here = gradients(case, "cpu")
        try:
            there = gradients(case, "meta")
        except NotImplementedError as error:
            assert looks_at_values(case, gradient=True) and "depends on the values" in str(error), case
            continue
        shape = [None if g is None else (tuple(g.shape), g.dtype) for g in here]
        assert [None if g is None else (tuple(g.shape), g.dtype) for g in there] == shape, case
        assert all(g is None or g.is_meta for g in there)


def compare(here, there, case, close=np.testing.assert_array_equal):
    assert len(here) == len(there), case
    for a, b in zip(here, there, strict=True):
        if a is None:
            assert b is None, case
            continue
        assert b.device.type == "guarded" or says_device(case), case
        assert (tuple(a.shape), a.dtype, a.stride()) == (tuple(b.shape), b.dtype, b.stride()), case
        close(array(b.detach().cpu()), array(a.detach()), err_msg=str(case))


@named(OPERATORS)
def test_guarded_results(row):
    if "empty" in row["name"]:
        pytest.skip("its elements are whatever the memory held")
    for case in every_case(row):
        ad.manual_seed(0)
        here = called(case, case.tensors(), "cpu")
        ad.manual_seed(0)
        compare(here, called(case, moved(case, "guarded"), "guarded"), case)


@named([row for row in OPERATORS if row["differentiable"]])
def test_guarded_gradients(row):
    for case in cases(row, "float64" if "float64" in row["types"] else "complex128"):
        # Of an element-wise operator one loop computes them on the CPU, and operators do elsewhere.
        close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)
        compare(gradients(case, "cpu"), gradients(case, "guarded"), case, close)
