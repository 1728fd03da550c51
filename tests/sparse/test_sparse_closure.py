"""Who looks on sees all that happens to the indices and values of sparse tensors, as of any other.

Held over the cases of `test_forms.py`, with first and second derivatives, over sparse gradients and writes, from both
places. Start reading at `closure.Closure`.
"""

import pytest
from closure import Closure
from sparse_reference import coo, normal
from test_forms import CASES, INDEX

import adjoint as ad
from adjoint.nn import functional as F

_C = ad._C


def all_derivatives(f, given):
    """A call, its first derivatives and the second, and what `backward()` leaves in `.grad`."""
    y = f(*given)
    seed = (
        _C._sparse_with(y.detach(), ad.full_like(y._values() if y.is_sparse else y.values(), 0.5))
        if y._layout_number
        else ad.full_like(y, 0.5)
    )
    ad.autograd.backward(y, seed, retain_graph=True)
    ad.autograd.backward(y, seed)
    y = f(*given).to_dense()
    y = y.abs().square().sum()
    first = [g for g in ad.autograd.grad(y, given, create_graph=True, allow_unused=True) if g is not None]
    first = [g.to_dense().abs().square().sum() for g in first if g.requires_grad]
    if first:
        ad.autograd.grad(first, given, allow_unused=True)


@pytest.mark.parametrize("name", CASES)
def test_each_form_from_below(name):
    f, *makers = CASES[name]
    given = [make().requires_grad_() for make in makers]
    with Closure("below", [given, INDEX]) as seen:
        all_derivatives(f, given)
    assert seen.calls and not seen.unknown, "\n".join(seen.unknown)


@pytest.mark.parametrize("name", CASES)
def test_each_form_from_above(name):
    """Where a form is one call: what its parts keep for their rules is met first in the backward pass."""
    f, *makers = CASES[name]
    given = [make().requires_grad_() for make in makers]
    with Closure("above", [given, INDEX]) as seen:
        f(*given).to_dense().sin()
    assert seen.calls and not seen.unknown, "\n".join(seen.unknown)


def embedding(weight):
    for index in ([0, 1, 1], [4]):
        F.embedding(ad.tensor(index), weight, sparse=True).square().sum().backward()
    weight.grad = None
    (F.embedding(ad.tensor([0, 1]), weight, sparse=True).sum() + weight.sum()).backward()


def gathered(x):
    ad.gather(x, 1, ad.tensor([[0, 3, 1], [1, 1, 2]]), sparse_grad=True).square().sum().backward()


def write(x):
    y = x.detach().clone()
    y.add_(x.detach()).mul_(2).zero_().copy_(x.detach())
    z = x * 1
    z.add_(x).mul_(3)
    z.to_dense().sum().backward()


def step(weight):
    F.embedding(ad.tensor([0, 1, 1]), weight, sparse=True).sum().backward()
    for make in (ad.optim.SGD, ad.optim.Adagrad, ad.optim.SparseAdam):
        make([weight], lr=0.1).step()


def made(values):
    indices = ad.tensor([[0, 2, 0], [1, 1, 1]])
    x = ad.sparse_coo_tensor(indices, values, (3, 4))
    x.coalesce().to_sparse_csr().to_sparse_csc().to_dense().square().sum().backward()


#: What is done to sparse tensors besides, and with which.
PROGRAMS = {
    "embedding": (embedding, lambda: normal(6, 3)),
    "gathered": (gathered, lambda: normal(4, 5)),
    "write": (write, lambda: coo((4, 5), 9).coalesce()),
    "write csr": (write, lambda: coo((4, 5), 9).to_sparse_csr()),
    "step": (step, lambda: normal(6, 3)),
    "made": (made, lambda: normal(3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program(name):
    program, make = PROGRAMS[name]
    x = make().requires_grad_()
    with Closure("below", [x]) as seen:
        program(x)
    assert seen.calls and not seen.unknown, "\n".join(seen.unknown)


def test_unseen_values_are_found():
    x = coo((4, 5), 9)
    with Closure("above", [x]) as seen:
        y = x * 2
        del seen.left[_C._storage_id(_C._sparse_parts(y)[-1])]
        y.neg()
    assert len(seen.unknown) == 1 and "nobody made" in seen.unknown[0]
