"""Copies with some elements written, and reads by flat position: values and gradients against NumPy."""

import numpy as np
import pytest
from helpers import ALL_DTYPES, array, assert_close, check_derivatives, dtype_of, normal, tensor

import adjoint as ad


def test_take():
    x = normal(3, 4)
    index = np.array([[0, 11], [5, -1]])
    assert_close(ad.take(tensor(x), ad.tensor(index)), x.ravel()[index])
    check_derivatives(lambda t: ad.take(t, ad.tensor(index)), [x])


def test_constant_pad_nd():
    x = normal(2, 3)
    expected = np.pad(x, ((0, 1), (2, 0)), constant_values=1.5)
    assert_close(ad.constant_pad_nd(tensor(x), (2, 0, 0, 1), 1.5), expected)
    assert_close(ad.constant_pad_nd(tensor(x), (-1, 0)), x[:, 1:])
    check_derivatives(lambda t: ad.constant_pad_nd(t, (1, -1, 0, 2)), [x])


def test_kthvalue():
    x = normal(4, 5)
    values, indices = ad.kthvalue(tensor(x), 2, 1)
    assert_close(values, np.sort(x, 1)[:, 1])
    assert_close(np.take_along_axis(x, np.array(indices.tolist())[:, None], 1)[:, 0], np.sort(x, 1)[:, 1])


def test_index_fill():
    x = normal(3, 4)
    expected = x.copy()
    expected[:, [0, 2]] = -1
    assert_close(ad.index_fill(tensor(x), 1, ad.tensor([0, 2]), -1.0), expected)
    check_derivatives(lambda t: ad.index_fill(t, 1, ad.tensor([0, 2]), -1.0), [x])


def test_index_copy():
    x, source = normal(3, 4), normal(2, 4)
    expected = x.copy()
    expected[[2, 0]] = source
    index = ad.tensor([2, 0])
    assert_close(ad.index_copy(tensor(x), 0, index, tensor(source)), expected)
    check_derivatives(lambda t, s: ad.index_copy(t, 0, index, s), [x, source])


def test_masked_scatter():
    x, source = normal(2, 3), normal(6)
    mask = np.array([[True, False, True], [False, True, False]])
    expected = x.copy()
    expected[mask] = source[:3]
    assert_close(ad.masked_scatter(tensor(x), ad.tensor(mask), tensor(source)), expected)
    check_derivatives(lambda t, s: ad.masked_scatter(t, ad.tensor(mask), s), [x, source])


#: What is written, and what it is written to: a complex number has no place among real ones.
TYPES = [
    (dtype, source)
    for dtype in ALL_DTYPES
    for source in ALL_DTYPES
    if dtype.startswith("complex") or not source.startswith("complex")
]


@pytest.mark.parametrize("dtype, source", TYPES)
def test_one_number_everywhere(dtype, source):
    """Of any length, where it starts at any element, and into rows, next to what must stay."""
    value = ad.tensor(3, dtype=dtype_of(source))
    for n in (0, 1, 2, 3, 7, 64, 1023, 4097, 20011):
        x = ad.zeros(n + 3, dtype=dtype_of(dtype))
        x[1 : n + 1].fill_(value)
        number = 1 if dtype == "bool" or source == "bool" else 3
        expected = [0] + [number] * n + [0, 0]
        assert np.array_equal(array(x), np.array(expected, dtype=array(x).dtype)), n
    rows = ad.zeros(5, 7, dtype=dtype_of(dtype))
    rows[1:4, 2:6] = value
    assert int((rows != 0).sum()) == 12 and bool((rows[1:4, 2:6] == x[1]).all())
    assert ad.equal(x[1].expand(3, 2000).contiguous(), x[1:2001].expand(3, 2000).contiguous())


def test_slices_of_a_scalar():
    """A tensor without dimensions is a vector of one element, which indices may name often."""
    index, source = ad.tensor([0, 0, 0]), np.array([2.0, 3.0, 5.0])
    x = np.array(1.0)
    assert_close(ad.index_add(tensor(x), 0, index, tensor(source), alpha=2), 21.0)
    check_derivatives(lambda t, s: ad.index_add(t, 0, index, s, alpha=2), [x, source])
    check_derivatives(lambda t, s: t.clone().index_add_(0, index, s), [x, source])
    check_derivatives(lambda t, s: ad.index_add(t, 0, index[:1], s), [x, source[0]])
    assert_close(ad.index_copy(tensor(x), 0, index, tensor(source)), 5.0)
    # As in torch, each place that was written gives its gradient to all that was written there.
    s = tensor(source).requires_grad_()
    ad.index_copy(tensor(x), 0, index, s).backward()
    assert s.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("to", "value"), [((3,), (1, 3)), ((), (1,)), ((), (1, 1)), ((3,), (3, 1)), ((2, 3), (1, 2, 3)), ((1,), (2,)), ((0,), (1, 0))]
)
def test_copy_is_broadcast_to_its_tensor_and_never_beyond(to, value):
    x = ad.zeros(to)
    for write in (x.copy_, x.data.copy_, lambda v: ad._C._copy(x, v)):
        with pytest.raises(RuntimeError, match=r"output with shape \[.*\] doesn't match the broadcast shape"):
            write(ad.ones(value))
    assert not x.any()


def test_copy_of_another_shape():
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(2\) at non-singleton dimension 0"):
        ad.zeros(3).copy_(ad.ones(2))
    assert ad.zeros(2, 3).copy_(ad.ones(2, 1)).tolist() == [[1, 1, 1]] * 2
    assert ad.zeros(2, 3).copy_(ad.ones(())).tolist() == [[1, 1, 1]] * 2


def test_values_of_an_index_may_have_more_dimensions_than_those_of_index_put():
    """In brackets, leading dimensions of one are nothing; in the function they are refused, both as in torch."""
    index = ad.tensor([0, 1])
    for value in (ad.ones(1, 2), ad.ones(1, 1, 2)):
        x = ad.zeros(3)
        x[index] = value
        assert x.tolist() == [1, 1, 0]
        x[:2] = 2 * value
        x[...] = x.clone()[None]
        assert x.tolist() == [2, 2, 0]
        for accumulate in (False, True):
            with pytest.raises(RuntimeError, match=r"shape mismatch: value tensor of shape \[.*\] cannot be broadcast to indexing result"):
                x.index_put_((index,), value, accumulate)
    x = ad.zeros(2, 3)
    assert x.index_put_((ad.tensor([True, False]),), ad.ones(1, 3)).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert x.index_put_((None, index), ad.ones(2, 1)).tolist() == [[1, 1, 1], [1, 1, 0]]
    assert x.index_put_((index, index), ad.tensor(5.0)).tolist() == [[5, 1, 1], [1, 5, 0]]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put_((index, index), ad.ones(1, 2))
