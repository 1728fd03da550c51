"""Every operator of the table on other devices than the CPU, from its samples.

On the meta device a result has the sizes, dtype, strides and device that it would have, and nothing is read or written: there
is no memory, and an access would end the process. So it would on the guarded device, whose memory only kernels can reach;
there the values are those of the CPU. Start reading at `test_meta_results`.
"""

import pytest
from helpers import array
from samples import OPERATORS, cases

import adjoint as ad

#: What looks at values to know its result, or at one to give it away.
BY_VALUES = {
    "nonzero",
    "masked_select",
    "_unique",
    "_repeated_numbers",
}


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


@named(OPERATORS)
def test_meta_results(row):
    for case in every_case(row):
        here = called(case, case.tensors(), "cpu")
        if row["name"] in BY_VALUES:
            with pytest.raises(NotImplementedError, match=row["name"].strip("_").split("_")[0]):
                called(case, moved(case, "meta"), "meta")
            continue
        there = called(case, moved(case, "meta"), "meta")
        assert all(t.is_meta for t in there), case
        assert [geometry(t) for t in there] == [geometry(t) for t in here], case


def gradients(case, device):
    """The geometry and the values of the gradients of the sum of all results."""
    tensors = moved(case, device)
    varied = [tensors[k].requires_grad_() for k in case.varied()]
    if case.row["writes"]:
        tensors[0] = tensors[0].clone()
    with ad.device(device):
        results = [r for r in listed(case.call_as_given(tensors)) if r.requires_grad]
        if not results:
            return []
        found = ad.autograd.grad(
            results, varied, [ad.ones_like(r) for r in results], allow_unused=True, create_graph=True
        )
        again = [g for g in found if g is not None and g.requires_grad]
        second = (
            ad.autograd.grad(again, varied, [ad.ones_like(g) for g in again], allow_unused=True)
            if again and case.row["name"] not in NO_SECOND
            else ()
        )
    return [*found, *second]


#: Their second derivatives look at values.
NO_SECOND = set()


@named([row for row in OPERATORS if row["differentiable"] and row["name"] not in BY_VALUES])
def test_meta_gradients(row):
    for case in cases(row, "float64" if "float64" in row["types"] else "complex128"):
        here, there = gradients(case, "cpu"), gradients(case, "meta")
        shape = [None if g is None else (tuple(g.shape), g.dtype) for g in here]
        assert [None if g is None else (tuple(g.shape), g.dtype) for g in there] == shape, case
        assert all(g is None or g.is_meta for g in there)


def compare(here, there, case):
    assert len(here) == len(there), case
    for a, b in zip(here, there, strict=True):
        if a is None:
            assert b is None, case
            continue
        assert b.device.type == "guarded", case
        b = b.detach().cpu()
        assert (tuple(a.shape), a.dtype, a.stride()) == (tuple(b.shape), b.dtype, b.stride()), case
        assert array(a.detach()).tobytes() == array(b).tobytes() or ad.allclose(
            a.detach(), b, equal_nan=True
        ), case


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
        compare(gradients(case, "cpu"), gradients(case, "guarded"), case)
