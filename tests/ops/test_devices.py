"""Every operator of the table on other devices than the CPU, from its samples.

On the meta device a result has the sizes, dtype, strides and device that it would have, and nothing is read or written: there
is no memory, and an access would end the process. So it would on the far device, whose memory the host cannot read
(far_device.py); there the values are those of the CPU, bit for bit. Start reading at `test_meta_results`, then at `PROGRAMS`.
"""

import warnings

import far_device
import numpy as np
import pytest
from helpers import array
from samples import OPERATORS, cases
from structured_reference import INVARIANTS

import adjoint as ad
import adjoint.autograd.forward_ad as forward_ad
from adjoint import _C

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
    return case.row["name"] == "_to_device" or "device_number=0" in case.text


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


def values(case, device):
    return called(case, moved(case, device), device)


def batched(case, device):
    """Under vmap, over three samples of all inputs."""
    tensors = [ad.stack([t, t.flip(0) if t.dim() else t, t]) for t in moved(case, device)]
    if not tensors:
        return []
    with ad.device(device):
        return listed(ad.func.vmap(lambda *xs: tuple(listed(case.call(list(xs)))))(*tensors))


def tangents(case, device):
    """In forward mode, by all inputs at once."""
    tensors = moved(case, device)
    with ad.device(device), forward_ad.dual_level():
        for k in case.varied():
            tensors[k] = forward_ad.make_dual(tensors[k], ad.full_like(tensors[k], 0.5))
        pairs = [forward_ad.unpack_dual(y) for y in listed(case.call(tensors))]
    return [t for pair in pairs for t in pair]


#: What is done with a case on both devices, and with rows of which kind.
PROGRAMS = {
    "values": (values, lambda row: dtypes_of(row)),
    "gradients": (gradients, lambda row: ["float64", "complex128"] if row["differentiable"] else []),
    "batched": (batched, lambda row: ["float64", "int64"]),
    "tangents": (tangents, lambda row: ["float64"] if row["differentiable"] else []),
}


def outcome(program, case, device):
    ad.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [None if t is None else t.detach() for t in program(case, device)]
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return type(error)


@pytest.mark.parametrize("name", PROGRAMS)
@named(
    [row for row in OPERATORS if "empty" not in row["name"]]
)  # whose elements are whatever the memory held
def test_far_is_the_cpu_bit_for_bit(row, name):
    program, dtypes = PROGRAMS[name]
    for case in [c for dtype in dtypes(row) if dtype in row["types"] for c in cases(row, dtype)]:
        here = outcome(program, case, "cpu")
        there = outcome(program, case, "far:1")
        if isinstance(here, type) or isinstance(there, type):
            assert here is there, (case, here, there)
            continue
        assert len(here) == len(there), case
        for a, b in zip(here, there, strict=True):
            if a is None:
                assert b is None, case
                continue
            assert str(b.device) == "far:1" or says_device(case), case
            assert (tuple(a.shape), a.dtype, a.stride()) == (tuple(b.shape), b.dtype, b.stride()), case
            np.testing.assert_array_equal(array(b.cpu()), array(a), err_msg=str(case))


def test_what_runs_on_the_host_is_counted():
    x = ad.arange(6.0, device="far")
    before = _C._launches_on_host()
    (x.reshape(2, 3).T * 2).sum()
    assert _C._launches_on_host() == before + 2
    x.reshape(2, 3)[1:].T.detach()
    assert _C._launches_on_host() == before + 2


@pytest.mark.parametrize("call", far_device.own_calls())
def test_a_routine_of_the_device_s_own(call):
    """It runs there, nothing runs on the host, and the elements are those of the host's routine."""
    before = _C._launches_on_host()
    with ad.device("far:1"):
        there = eval(call)
    assert _C._launches_on_host() == before and str(there.device) == "far:1"
    here = eval(call)
    assert here.dtype is there.dtype
    np.testing.assert_array_equal(array(there.cpu()), array(here))


def test_where_the_device_s_own_routine_declines():
    before = _C._launches_on_host()
    x = ad.arange(2, 20, 3, dtype=ad.int32, device="far")
    assert _C._launches_on_host() == before + 1 and x.tolist() == list(range(2, 20, 3))


def test_parts_of_one_memory():
    """Copies on the host overlap where the originals do, and nothing else of the memory is written."""
    for device in ("cpu", "far:0"):
        x = ad.arange(12.0, device=device).reshape(3, 4)
        x[:, 1:3].mul_(x[:, 0:2])
        x[1:].copy_(x[:-1].clone())
        x[::2, ::2] += x.T[::2, :2][:2]
        if device == "cpu":
            wanted = x
    assert ad.equal(x.cpu(), wanted)
    y = x.cpu()
    y[0] = x[1]  # between devices
    x[2] = y[0]
    assert ad.equal(x[2].cpu(), x[1].cpu())
