"""No operator reads memory that is not there: every row of the table takes a sparse tensor, or refuses it by name.

The calls are those that the rows state (tests/samples.py), each tensor of theirs in turn made sparse, in the call and as the
gradient that arrives. In a child, which may not die. Start reading at `PROGRAM`.
"""

import pathlib

import numpy as np
import pytest
from helpers import run_python

import adjoint as ad

PROGRAM = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import adjoint as ad
from samples import OPERATORS, cases, function_of

REFUSALS = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)
done = refused = 0

def sparse(t, layout):
    return t.detach().to_sparse(layout=layout)

def use(result):
    for r in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(r, ad.Tensor):
            repr(r), r.shape, r.dtype

for row in OPERATORS:
    kind = next((d for d in ("float64", "complex128", "float32", *row["types"]) if d in row["types"]), None)
    if row["kind"] == "elementwise":
        shapes = [[ad.rand(3, 4).to(getattr(ad, kind))] * row["arity"]]
        calls = [(lambda *a, f=function_of(row): f(*a), tensors) for tensors in shapes]
    else:
        calls = [(lambda *a, c=case: c.call_as_given(list(a)), case.tensors()) for case in cases(row, kind)]
    for call, tensors in calls:
        for i in range(len(tensors)):
            for layout in (ad.sparse_coo, ad.sparse_csr):
                try:
                    given = [t.clone() for t in tensors]
                    given[i] = sparse(given[i], layout)
                except REFUSALS:
                    continue
                print(row["name"], i, layout, flush=True)
                try:
                    use(call(*given))
                    done += 1
                except REFUSALS as error:
                    refused += 1
        # The gradient that arrives is sparse.
        try:
            given = [t.clone().requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in tensors]
            results = call(*given)
        except REFUSALS:
            continue
        for r in results if isinstance(results, (tuple, list)) else (results,):
            if not (isinstance(r, ad.Tensor) and r.requires_grad and r.layout is ad.strided):
                continue
            for create in (False, True):
                print(row["name"], "gradient", flush=True)
                try:
                    use(ad.autograd.grad(r, [t for t in given if t.requires_grad], ad.ones_like(r.detach()).to_sparse(), allow_unused=True,
                                         retain_graph=True, create_graph=create))
                    done += 1
                except REFUSALS:
                    refused += 1
for name in dir(ad.Tensor):
    if name.startswith("__") and name not in ("__len__", "__iter__", "__bool__", "__float__", "__array__", "__reversed__", "__getitem__", "__dlpack__", "__invert__"):
        continue
    for x in (ad.eye(3).to_sparse(), ad.eye(3).to_sparse_csr(), ad.ones(1).to_sparse(), ad.ones(1, 1).to_sparse_csr()):
        for args in ((), (0,), (x,), (ad.ones(3, 3),), (0, 1), (1.5,)):
            print("Tensor", name, x.layout, len(args), flush=True)
            try:
                attribute = getattr(x, name)
                use(attribute(*args)) if callable(attribute) else None
            except (*REFUSALS, AttributeError, AssertionError, BufferError, OverflowError):
                pass
print("finished", done, refused)
"""


def test_every_row():
    child = run_python("-c", PROGRAM, pathlib.Path(__file__).resolve().parent.parent)
    assert child.returncode == 0, (child.stdout[-300:], child.stderr[-2000:])
    assert child.stdout.splitlines()[-1].startswith("finished")
    _, done, refused = child.stdout.splitlines()[-1].split()
    assert int(done) > 200 and int(refused) > 200


def test_the_words():
    x = ad.eye(3).to_sparse()
    with pytest.raises(
        NotImplementedError,
        match=r"Could not run 'aten::exp' with arguments from the 'SparseCPU' backend.*to_dense",
    ):
        x.exp()
    with pytest.raises(
        NotImplementedError,
        match=r"'aten::cumsum' with arguments from the 'SparseCsrCPU' backend.*sparse_csr",
    ):
        x.to_sparse_csr().cumsum(0)
    with pytest.raises(NotImplementedError, match=r"'aten::sort'"):
        x.sort()
    with pytest.raises(NotImplementedError, match=r"'aten::fill_'"):
        x.fill_(2)
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy. Use Tensor.to_dense"):
        x.numpy()
    for call in (x.data_ptr, x.tolist):
        with pytest.raises(RuntimeError, match="Cannot access data pointer of Tensor that doesn't have storage"):
            call()
    with pytest.raises((RuntimeError, NotImplementedError)):
        ad.ones(1).to_sparse().item()
    with pytest.raises((BufferError, RuntimeError, NotImplementedError)):
        np.from_dlpack(x)
    with pytest.raises((RuntimeError, NotImplementedError)):
        x.untyped_storage()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        ad.ones(3, 3).data = x


def test_vmap():
    """A sparse result of each sample makes a sparse tensor of all; within a vmap nothing else is known of one."""
    with pytest.raises(RuntimeError, match="vmap"):
        ad.vmap(lambda v: ad.sparse_coo_tensor([[0, 1]], v, (3,)).to_dense())(ad.ones(4, 2))
    made = ad.vmap(lambda v: ad.sparse_coo_tensor([[0, 2]], v, (3,)))(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert made.is_sparse and made.to_dense().tolist() == [[1, 0, 2], [3, 0, 4]]
    weight = ad.ones(4, 2)

    def f(i):
        return ad.func.grad(lambda w: ad.nn.functional.embedding(i, w, sparse=True).sum())(weight)

    g = ad.vmap(f)(ad.tensor([[0], [1]]))
    assert g.is_sparse
    np.testing.assert_array_equal(g.to_dense().sum(2).numpy(), [[2, 0, 0, 0], [0, 2, 0, 0]])
