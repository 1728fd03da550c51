"""The gather and scatter family: indexing by functions, against NumPy."""

import numpy as np
import pytest
from helpers import assert_close, assert_same, check_derivatives, normal, tensor

import adjoint as ad


def numbered(*shape):
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float64).reshape(shape)


A = normal(3, 4)
ROWS = np.array([[0, 2, 1, 1], [2, 2, 0, 1]])
COLUMNS = np.array([[0, 3], [1, 1], [2, 0]])


def test_gather_and_take_along_dim():
    assert_same(ad.gather(tensor(A), 0, tensor(ROWS)), np.take_along_axis(A, ROWS, 0))
    assert_same(tensor(A).gather(1, tensor(COLUMNS)), np.take_along_axis(A, COLUMNS, 1))
    assert_same(ad.take_along_dim(tensor(A), tensor(COLUMNS), dim=1), np.take_along_axis(A, COLUMNS, 1))
    flat = np.array([5, 0, 5])
    assert_same(ad.take_along_dim(tensor(A), tensor(flat)), A.reshape(-1)[flat])
    # An index smaller than the input in the other dimensions reads their leading part.
    assert_same(tensor(A).gather(0, tensor(ROWS[:, :2])), np.take_along_axis(A[:, :2], ROWS[:, :2], 0))


def test_scatter():
    expected = A.copy()
    np.put_along_axis(expected, COLUMNS[:, :1], -1.0, 1)
    assert_same(tensor(A).scatter(1, tensor(COLUMNS[:, :1]), -1.0), expected)
    source = normal(3, 2, seed=4)
    unique = np.array([[0, 3], [1, 2], [2, 0]])
    np.put_along_axis(expected := A.copy(), unique, source, 1)
    assert_same(ad.scatter(tensor(A), 1, tensor(unique), tensor(source)), expected)


def test_scatter_add():
    source = normal(3, 2, seed=4)
    expected = A.copy()
    for (i, j), v in np.ndenumerate(source):
        expected[i, COLUMNS[i, j]] += v
    assert_close(tensor(A).scatter_add(1, tensor(COLUMNS), tensor(source)), expected)
    x = tensor(A)
    assert x.scatter_add_(1, tensor(COLUMNS), tensor(source)) is x
    assert_close(x, expected)


def test_index_select_and_index_add():
    i = np.array([2, 0, 2])
    assert_same(ad.index_select(tensor(A), 0, tensor(i)), A[i])
    assert_same(tensor(A).index_select(-1, tensor(i)), A[:, i])
    source = normal(3, 4, seed=6)
    expected = A.copy()
    np.add.at(expected, i, source)
    assert_close(tensor(A).index_add(0, tensor(i), tensor(source)), expected)
    np.add.at(expected := A.copy(), i, -2 * source)
    assert_close(ad.index_add(tensor(A), 0, tensor(i), tensor(source), alpha=-2), expected)


def test_index_put_and_masked():
    i, j = np.array([0, 2, 0]), np.array([1, 1, 1])
    v = np.array([1.0, 2.0, 3.0])
    expected = A.copy()
    np.add.at(expected, (i, j), v)
    assert_close(tensor(A).index_put((tensor(i), tensor(j)), tensor(v), accumulate=True), expected)
    x = tensor(A)
    x.index_put_((tensor(i[:2]), tensor(j[:2])), tensor(-1.0))
    expected = A.copy()
    expected[i[:2], j[:2]] = -1
    assert_same(x, expected)
    mask = A > 0
    assert_same(ad.masked_select(tensor(A), tensor(mask)), A[mask])
    assert_same(tensor(A).masked_fill(tensor(mask), 9.0), np.where(mask, 9.0, A))


def test_nonzero():
    a = np.where(np.abs(A) > 0.5, A, 0)
    assert_same(ad.nonzero(tensor(a)), np.argwhere(a))
    for found, wanted in zip(ad.nonzero(tensor(a), as_tuple=True), np.nonzero(a), strict=True):
        assert_same(found, wanted)
    for found, wanted in zip(ad.where(tensor(a) > 0), np.nonzero(a > 0), strict=True):
        assert_same(found, wanted)
    assert ad.nonzero(ad.zeros(2, 3)).shape == (0, 2)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_gather_family_gradients(kind):
    a, s = normal(3, 4, kind=kind), normal(3, 2, seed=8, kind=kind)
    rows, columns = tensor(ROWS), tensor(COLUMNS)
    unique = ad.tensor([[0, 3], [1, 2], [2, 0]])
    i = ad.tensor([2, 0, 2])
    check_derivatives(lambda x: x.gather(0, rows) ** 2, [a])
    check_derivatives(lambda x: ad.take_along_dim(x, columns, dim=1), [a])
    check_derivatives(lambda x, y: x.scatter(1, unique, y) ** 2, [a, s])
    check_derivatives(lambda x, y: x.scatter_add(1, columns, y) ** 2, [a, s])
    check_derivatives(lambda x: x.index_select(0, i) ** 2, [a])
    check_derivatives(lambda x, y: x.index_add(0, i, y, alpha=0.5) ** 2, [a, normal(3, 4, seed=9, kind=kind)])
    check_derivatives(
        lambda x, y: x.index_put((i, i), y, accumulate=True) ** 2, [a, normal(3, seed=10, kind=kind)]
    )
    check_derivatives(lambda x: x.masked_fill(ad.tensor([True, False, True, False]), 2.0) ** 2, [a])


GATHER_ERRORS = [
    (lambda x: x.gather(0, ad.tensor([[3]])), (IndexError, RuntimeError), "out of bounds"),
    (lambda x: x.gather(2, ad.tensor([[0]])), IndexError, "Dimension out of range"),
    (lambda x: x.gather(0, ad.tensor([0])), RuntimeError, "same number of dimensions"),
    (lambda x: x.gather(0, ad.tensor([[0.0]])), RuntimeError, "(?i)int64"),
    (lambda x: x.index_select(0, ad.tensor([5])), (IndexError, RuntimeError), "(?i)out of (range|bounds)"),
    (lambda x: x.index_reduce(0, ad.tensor([5]), x[:1], "prod"), IndexError, "out of bounds"),
    (lambda x: x.index_select(0, ad.tensor([[0]])), IndexError, "(?i)1-D|vector|dimension"),
    (lambda x: x.scatter(1, ad.tensor([[9]]), 1.0), (IndexError, RuntimeError), "out of bounds"),
    (lambda x: x.scatter_(1, ad.tensor([[-1]]), 1.0), (IndexError, RuntimeError), "out of bounds"),
    (lambda x: x.scatter_add_(1, ad.tensor([[0]]), ad.zeros(1, 1)), RuntimeError, "(?i)dtype|type"),
    (lambda x: ad.masked_select(x, ad.tensor([1.0])), RuntimeError, "(?i)bool"),
    (lambda x: x.masked_fill_(ad.zeros(3, 4), 1.0), RuntimeError, "(?i)bool"),
]


@pytest.mark.parametrize("call, kind, phrase", GATHER_ERRORS)
def test_gather_errors(call, kind, phrase):
    x = tensor(numbered(3, 4))
    with pytest.raises(kind, match=phrase):
        call(x)
    assert_same(x, numbered(3, 4))


TWICE = ad.tensor([0, 0, 1])
#: Several elements go to one place, of which the last stays.
WRITTEN_TWICE = {
    "scatter": lambda x, y: x.scatter(0, TWICE, y),
    "scatter, added": lambda x, y: x.scatter(0, TWICE, y, reduce="add"),
    "scatter_add": lambda x, y: x.scatter_add(0, TWICE, y),
    "index_put": lambda x, y: x.index_put((TWICE,), y),
    "index_copy": lambda x, y: x.index_copy(0, TWICE, y),
    "put": lambda x, y: x.put(TWICE, y),
    "max_unpool1d": lambda x, y: x + ad.nn.functional.max_unpool1d(y[None], TWICE[None], 1)[0],
}


@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_tangents_of_what_is_written_twice(name):
    f = WRITTEN_TWICE[name]
    x, y, dx, dy = (ad.tensor(t) for t in ([1.0, 2, 3], [4.0, 5, 6], [10.0, 20, 30], [40.0, 50, 60]))
    result, tangent = ad.func.jvp(f, (x, y), (dx, dy))
    # All of these are linear.
    assert (result + tangent).tolist() == f(x + dx, y + dy).tolist()
