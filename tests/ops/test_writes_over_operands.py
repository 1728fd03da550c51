"""Calls that write where one of their operands lies give what they would with a copy of that operand.

Who writes may be a view, a tensor with a count of writes of its own (`.data`), or one over an array's memory.
"""

import numpy as np
import pytest

import adjoint as ad

ROWS = ad.tensor([1, 2])
EVERY = ad.tensor([[1, 2, 0]] * 3)
CALLS = {
    "copy_ of the transpose": lambda a, b: a.copy_(b.t()),
    "add_": lambda a, b: a.add_(b.t()),
    "mul_ by a row": lambda a, b: a.mul_(b[1]),
    "add_ a number": lambda a, b: a.add_(b[1, 1]),
    "lerp_": lambda a, b: a.lerp_(b.t(), 0.5),
    "addcmul_": lambda a, b: a.addcmul_(b.t(), b.t()),
    "clamp_": lambda a, b: a.clamp_(min=b.t()),
    "copysign_": lambda a, b: a.copysign_(-b.t()),
    "addmm_": lambda a, b: a.addmm_(b, b),
    "rows behind": lambda a, b: a.__setitem__(slice(1, None), b[:-1]),
    "rows before": lambda a, b: a.__setitem__(slice(None, -1), b[1:]),
    "rows by number": lambda a, b: a.__setitem__(ROWS, b[:2]),
    "rows by mask": lambda a, b: a.__setitem__(ad.tensor([False, True, True]), b[:2]),
    "all by mask": lambda a, b: a.__setitem__(a > 3, b.t()[b.t() > 3][:5]),
    "a mask over it": lambda a, b: a.__setitem__(b.bool(), b[2, 2]),
    "a row from a column": lambda a, b: a[0].copy_(b[:, 0]),
    "index_copy_": lambda a, b: a.index_copy_(0, ROWS, b[:2]),
    "index_add_": lambda a, b: a.index_add_(0, ROWS, b[:2]),
    "index_fill_": lambda a, b: a.index_fill_(0, ROWS, b[0, 2]),
    "put_": lambda a, b: a.put_(ad.tensor([0, 1, 2]), b[2]),
    "scatter_": lambda a, b: a.scatter_(0, EVERY, b),
    "scatter_add_": lambda a, b: a.scatter_add_(0, EVERY, b),
    "masked_scatter_": lambda a, b: a.masked_scatter_(ad.tensor([False, True, True]), b),
    "masked_fill_": lambda a, b: a.masked_fill_(a > 3, b[2, 2]),
    "out= of add": lambda a, b: ad.add(b.t(), b, out=a),
    "out= of sin": lambda a, b: ad.sin(b.t(), out=a),
    "out= of mm": lambda a, b: ad.mm(b, b, out=a),
    "out= of bmm": lambda a, b: ad.bmm(b[None], b[None].mT, out=a[None]),
    "out= of sum": lambda a, b: ad.sum(b, 0, out=a[1]),
    "out= of cumsum": lambda a, b: ad.cumsum(b.t(), 0, out=a),
    "out= of cat": lambda a, b: ad.cat([b[1:], b[:1]], out=a),
    "out= of sort": lambda a, b: ad.sort(b.t(), descending=True, out=(a, ad.zeros(3, 3, dtype=ad.int64))),
    "out= of take": lambda a, b: ad.take(b, ad.arange(8, -1, -1).reshape(3, 3), out=a),
    "out= of index_select": lambda a, b: ad.index_select(b, 0, ad.tensor([2, 0, 1]), out=a),
    "out= of gather": lambda a, b: ad.gather(b, 0, EVERY, out=a),
}


def of_an_array():
    array = np.arange(9, dtype=np.float32).reshape(3, 3)
    return ad.from_numpy(array), ad.from_numpy(array)


def numbers():
    return ad.arange(9.0).reshape(3, 3)


PAIRS = {
    "itself": lambda x: (x, x),
    "its data": lambda x: (x.data, x),
    "data twice": lambda x: (x.data, x.data),
    "detached": lambda x: (x.detach(), x),
    "an array": lambda x: of_an_array(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_call_reads_before_it_writes(pair, call):
    expected = numbers()
    CALLS[call](expected, numbers())
    written, read = PAIRS[pair](numbers())
    CALLS[call](written, read)
    assert written.tolist() == expected.tolist()


def test_a_gradient_is_of_what_was_multiplied():
    """Where the factor lies in the memory that is written, through `.data`."""
    x = numbers().requires_grad_()
    y = x * 1
    y.mul_(y.data)
    y.sum().backward()
    assert x.grad.tolist() == numbers().tolist()
