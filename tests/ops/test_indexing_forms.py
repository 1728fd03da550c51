"""Forms of indices and dtypes of index tensors beyond the ordinary, and what every number of threads agrees on.

Expectations are those of torch 2.13, written down, or come from NumPy by way of `place`.
"""

import warnings

import numpy as np
import pytest
from helpers import announced, assert_close, assert_same, normal, tensor
from hypothesis import given
from hypothesis import strategies as st
from test_indexing import accumulate, numbered, place

import adjoint as ad

X = numbered(2, 3)

# (the index given, the index that it means)
FORMS = [
    (range(2), [0, 1]),
    (range(0), np.zeros(0, int)),
    ((range(2), range(1, 3)), (np.arange(2), np.arange(1, 3))),
    ((slice(None), range(0, 3, 2)), (slice(None), [0, 2])),
    (((0, 1), (1, 1)), ([0, 1], [1, 1])),
    ((((0, 1),),), ([[0, 1]],)),
    ([True, False], [True, False]),
    ([0, 1] * 20, [0, 1] * 20),
]
# A list that holds more than numbers stands for a tuple, and says so.
LISTS = [
    ([0, ...], (0, ...)),
    ([slice(None), 0], (slice(None), 0)),
    ([0, None], (0, None)),
    ([None], (None,)),
    ([...], (...,)),
    ([slice(0, 1), slice(0, 1)], (slice(0, 1), slice(0, 1))),
    ([0, [0, 1]], (0, [0, 1])),
    ([[0, 1], [0, 1]], ([0, 1], [0, 1])),
    ([range(2), range(2)], ([0, 1], [0, 1])),
    ([..., [0, 1]], (..., [0, 1])),
]


@pytest.mark.parametrize("given_index, meant", FORMS)
def test_sequences_are_indices(given_index, meant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_form(given_index, meant)


@pytest.mark.parametrize("given_index, meant", LISTS)
def test_lists_that_stand_for_tuples(given_index, meant):
    with pytest.warns(
        UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"
    ):
        check_form(given_index, meant)


def check_form(given_index, meant):
    assert_same(tensor(X)[given_index], X[meant])
    x, expected = tensor(X), X.copy()
    x[given_index] = -1.0
    expected[meant] = -1
    assert_same(x, expected)


def test_lists_of_32_are_index_arrays():
    many = [[0, 1]] * 33
    assert tensor(X)[many].shape == (33, 2, 3)


def test_bytes_are_masks_with_a_warning():
    x = tensor(X)
    for mask in (np.array([0, 1], np.uint8), np.array([[0, 1, 2], [1, 1, 1]], np.uint8)):
        with announced(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
            assert_same(x[ad.tensor(mask)], X[mask.astype(bool)])
    one, none = ad.tensor(1, dtype=ad.uint8), ad.tensor(0, dtype=ad.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.tensor(2.0)[one].tolist() == [2.0]
        assert ad.tensor(2.0)[none].tolist() == []
        assert x[one].shape == (1, 2, 3)
        assert x[0, one].shape == (1, 3)
        x[one] = 7.0
    assert_same(x, np.full((2, 3), 7.0))


@pytest.mark.parametrize("dtype", [ad.int32, ad.int64])
def test_index_dtypes_that_are_taken(dtype):
    x, i, v = tensor(X), ad.tensor([[0, 1, 1]], dtype=dtype), ad.tensor([1, 0], dtype=dtype)
    assert_same(x.gather(0, i), [[1.0, 5.0, 6.0]])
    assert_same(x.scatter(0, i, -1.0), [[-1.0, 2.0, 3.0], [4.0, -1.0, -1.0]])
    assert_same(x.scatter(0, i, x), [[1.0, 2.0, 3.0], [4.0, 2.0, 3.0]])
    assert_same(x.scatter_add(0, i, x), [[2.0, 2.0, 3.0], [4.0, 7.0, 9.0]])
    assert_same(x.index_select(0, v), X[::-1])
    assert_same(x.index_add(0, v, x), X + X[::-1])
    assert_same(ad.nn.functional.embedding(v, x), X[::-1])
    assert_same(x[v], X[::-1])
    x.requires_grad_()
    x.gather(0, i).sum().backward()
    assert_same(x.grad, [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])


# (call of x, an index of shape (1, 3) and one of shape (2,); the phrase)
NAMED = [
    (lambda x, i, v: x.gather(0, i), "Expected dtype int32/int64 for index"),
    (lambda x, i, v: x.scatter(0, i, x), "Expected dtype int32/int64 for index"),
    (lambda x, i, v: x.scatter(0, i, 1.0), "Expected dtype int32/int64 for index"),
    (lambda x, i, v: x.scatter_add(0, i, x), "Expected dtype int32/int64 for index"),
    (lambda x, i, v: x.index_select(0, v), "Expected dtype int32 or int64 for index"),
    (lambda x, i, v: x.index_add(0, v, x), "for index"),
    (lambda x, i, v: x.take(i), "Expected a long tensor for index"),
    (lambda x, i, v: x.put(i, x[:1]), "Expected a long tensor for index"),
    (lambda x, i, v: x.take_along_dim(i, 0), "dtype of indices should be Long"),
    (
        lambda x, i, v: ad.nn.functional.embedding(v, x),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int",
    ),
]


@pytest.mark.parametrize("call, phrase", NAMED)
@pytest.mark.parametrize("dtype", [ad.uint8, ad.int8, ad.int16, ad.bool, ad.float32])
def test_index_dtypes_that_are_not(call, phrase, dtype):
    i, v = ad.tensor([[0, 1, 1]]).to(dtype), ad.tensor([1, 0]).to(dtype)
    with pytest.raises(RuntimeError, match=phrase) as error:
        call(tensor(X), i, v)
    assert str(dtype).rsplit(".")[-1] in str(error.value) or "Tensor" in str(error.value)


ERRORS = [
    (lambda x: ad.zeros(0)[ad.tensor([0])], IndexError, "index is out of bounds for dimension with size 0"),
    (lambda x: ad.zeros(2, 0)[:, ad.tensor([0])], IndexError, "index is out of bounds for dimension with size 0"),
    (lambda x: x.index_select(0, ad.tensor([5])), IndexError, "index out of range in self"),
    (lambda x: x.take(ad.tensor([6])), IndexError, "tried to access index 6 on a tensor of 6 elements"),
    (lambda x: x.gather(0, ad.tensor([[-1]])), RuntimeError, "index -1 is out of bounds for dimension 0 with size 2"),
    (lambda x: x.scatter(0, ad.tensor([[2]]), 1.0), RuntimeError, "index 2 is out of bounds for dimension 0 with size 2"),
    (lambda x: x.__setitem__(0, ad.zeros(2)), RuntimeError, r"The expanded size of the tensor \(3\) must match the existing size \(2\)"),
    (lambda x: x.index_put((), tensor([1.0])), RuntimeError, "cannot be broadcast to indexing result"),
    (lambda x: ad.ones(()).index_put([], ad.tensor([1.0]), True), RuntimeError, "shape mismatch"),
    (lambda x: x.index_put(ad.tensor([0]), ad.tensor(1.0)), TypeError, "must be tuple of Tensors, not Tensor"),
    (lambda x: x.index_put((ad.tensor([0]),), ad.tensor(1.0)), RuntimeError, "source and destination dtypes match"),
    (lambda x: ad.nn.functional.embedding(ad.tensor(0), ad.tensor(1.0)), RuntimeError, "'weight' must be 2-D"),
    (lambda x: x[::0], ValueError, "slice step cannot be zero"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, phrase", ERRORS)
def test_errors(call, kind, phrase):
    x = tensor(X)
    with pytest.raises(kind, match=phrase):
        call(x)
    assert_same(x, X)


def test_negative_indices():
    x = tensor(X)
    assert_same(x.take_along_dim(ad.tensor([[-1]]), 0), X[1:])
    assert_same(x.take_along_dim(ad.tensor([[-1], [0]]), 1), [[3.0], [4.0]])
    assert_same(x.take(ad.tensor([-1, -6])), [6.0, 1.0])
    assert_same(x.index_fill(0, ad.tensor([-1]), 0.0), [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])


def test_put():
    x, i, v = tensor(X), ad.tensor([[-1, 0], [0, 2]]), tensor([[1.0, 2.0], [3.0, 4.0]])
    assert_same(x.put(i, v), [[3.0, 2.0, 4.0], [4.0, 5.0, 1.0]])
    assert_same(ad.put(x, i, v, True), [[6.0, 2.0, 7.0], [4.0, 5.0, 7.0]])
    assert_same(x.put_(i, v), [[3.0, 2.0, 4.0], [4.0, 5.0, 1.0]])


# --- Random programs -------------------------------------------------------------------------------------------------


@st.composite
def long_cases(draw):
    """A shape with one long dimension, so that blocks, pieces of lines and threads come into play, and an index of it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    shape = draw(
        st.sampled_from(
            [(7, 700), (700, 7), (90, 90), (40000,), (3, 50, 40), (2, 3, 5000), (5000, 3, 2), (70, 1, 300)]
        )
    )
    count = draw(st.sampled_from([0, 1, 3, 600]))
    kind = draw(st.sampled_from(["one", "two", "apart", "mask", "grid", "rows mask"]))
    index = [slice(None)] * len(shape)
    at = draw(st.integers(0, len(shape) - 1))
    ints = lambda d, *s: rng.integers(-shape[d], shape[d], s)  # noqa: E731
    if kind == "mask":
        return shape, (rng.random(shape) < 0.4,)
    if kind == "rows mask":
        index[at] = rng.random(shape[at]) < 0.4
    elif kind == "one" or len(shape) == 1:
        index[at] = ints(at, count)
    elif kind == "grid":
        index[0], index[-1] = ints(0, 20, 1), ints(len(shape) - 1, min(count, 40))
    else:
        index[0], index[-1 if kind == "apart" else 1] = (
            ints(0, count),
            ints(-1 if kind == "apart" else 1, count),
        )
    return shape, tuple(index)


@given(long_cases(), st.sampled_from([1, 2, 3]), st.booleans())
def test_reads_writes_and_gradients_of_long_tensors(case, threads, transposed):
    shape, index = case
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        a = normal(*shape)
        at = tuple(tensor(i) if isinstance(i, np.ndarray) else i for i in index)
        x = tensor(a.T.copy()).mT if transposed and len(shape) == 2 else tensor(a)
        x.requires_grad_()
        where = place(shape, index)
        y = x[at]
        assert_same(y, a.reshape(-1)[where])
        g = normal(*where.shape, seed=3)
        (gx,) = ad.autograd.grad(y, x, tensor(g))
        expected = np.zeros(shape)
        accumulate(expected, index, g)
        assert_close(gx, expected)
        # Distinct values: the last write of a place stays.
        z, values = x.detach().clone(), np.arange(where.size, dtype=float).reshape(where.shape)
        z[at] = tensor(values)
        expected = a.copy()
        expected.reshape(-1)[where.reshape(-1)] = values.reshape(-1)
        assert_same(z, expected)
        z[at] = 5.0
        expected.reshape(-1)[where] = 5
        assert_same(z, expected)
    finally:
        ad.set_num_threads(before)


@given(
    st.integers(0, 2**31),
    st.sampled_from([1, 2, 3]),
    st.booleans(),
    st.sampled_from([(400, 60), (60, 400), (5, 40, 30), (20000,)]),
)
def test_gather_and_scatter_of_long_tensors(seed, threads, transposed, shape):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(len(shape)))
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(threads)
        a, s = normal(*shape), normal(*shape, seed=1)
        smaller = tuple(n if d == dim else int(rng.integers(1, n + 1)) for d, n in enumerate(shape))
        i = rng.integers(0, shape[dim], smaller)
        flip = transposed and len(shape) == 2
        x, v, index = ((tensor(t.T.copy()).mT if flip else tensor(t)) for t in (a, s, i))
        grid = list(np.indices(smaller))
        picked = tuple(grid[:dim] + [i] + grid[dim + 1 :])
        values = s[tuple(grid)]
        x.requires_grad_()
        y = x.gather(dim, index)
        assert_same(y, a[picked])
        (gx,) = ad.autograd.grad(y, x, tensor(values))
        added = np.zeros(shape)
        np.add.at(added, picked, values)
        assert_close(gx, added)
        assert_close(x.detach().scatter_add(dim, index, v), a + added)
        # Of several, the last along the dimension stays, as in NumPy.
        written = a.copy()
        written[picked] = values
        assert_same(x.detach().scatter(dim, index, v), written)
    finally:
        ad.set_num_threads(before)


def test_every_number_of_threads_adds_in_one_order():
    """float32 sums depend on their order to the last bit."""
    rng = np.random.default_rng(0)
    x, v = tensor(normal(300, 400)).float(), tensor(normal(300, 400, seed=1)).float()
    rows, columns = ad.tensor(rng.integers(0, 20, 300)), ad.tensor(rng.integers(0, 20, 400))
    along = ad.tensor(rng.integers(0, 20, (300, 400)))
    calls = [
        lambda: x.index_add(0, rows, v),
        lambda: x.index_add(1, columns, v),
        lambda: x.scatter_add(0, along, v),
        lambda: x.scatter_add(1, along, v),
        lambda: x.index_put((rows,), v, accumulate=True),
        lambda: x.index_put((rows.reshape(-1, 1), columns), v, accumulate=True),
        lambda: x.index_put((rows,), v),
        lambda: x.scatter(0, along, v),
    ]
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(1)
        single = [call().tolist() for call in calls]
        for threads in (2, 5):
            ad.set_num_threads(threads)
            assert [call().tolist() for call in calls] == single
    finally:
        ad.set_num_threads(before)


@pytest.mark.parametrize("index", ["rows", "columns", "points", "mask"])
def test_gradients_of_reads_take_the_memory_of_their_result(index):
    x = ad.zeros(400, 300, requires_grad=True)
    rng = np.random.default_rng(0)
    at = {
        "rows": (ad.tensor(rng.integers(0, 400, 800)),),
        "columns": (slice(None), ad.tensor(rng.integers(0, 300, 600))),
        "points": (ad.tensor(rng.integers(0, 400, 5000)), ad.tensor(rng.integers(0, 300, 5000))),
        "mask": (ad.tensor(rng.random((400, 300)) < 0.5),),
    }[index]
    y = x[at]
    g = ad.ones_like(y)
    ad.reset_peak_memory_statistics()
    before = ad.memory_statistics()["allocated_bytes"]
    ad.autograd.grad(y, x, g)
    # Neither values nor zeros are copied.
    assert ad.memory_statistics()["peak_allocated_bytes"] - before < 1.2 * 4 * x.numel()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 255, 256, 257, 700, 70_001])
@pytest.mark.parametrize("share", [0, 0.05, 0.5, 0.95, 1])
def test_masks_of_any_length(n, share):
    rng = np.random.default_rng(n)
    mask, x = rng.random(n) < share, rng.random(n)
    np.testing.assert_array_equal(ad.tensor(x)[ad.tensor(mask)].numpy(), x[mask])
    np.testing.assert_array_equal(ad.tensor(mask).nonzero()[:, 0].numpy(), np.flatnonzero(mask))
    values, written, wanted = rng.random(int(mask.sum())), ad.tensor(x), x.copy()
    written[ad.tensor(mask)] = ad.tensor(values)
    wanted[mask] = values
    np.testing.assert_array_equal(written.numpy(), wanted)


@pytest.mark.parametrize("shape", [(3, 5), (40, 33), (130, 700)])
def test_indices_that_are_broadcast_against_each_other(shape):
    rng = np.random.default_rng(0)
    x = rng.random((150, 800))
    rows, columns = rng.permutation(150)[: shape[0], None] - 75, rng.permutation(800)[None, : shape[1]] - 400
    i, j = ad.tensor(rows), ad.tensor(columns)
    np.testing.assert_array_equal(ad.tensor(x)[i, j].numpy(), x[rows, columns])
    v, written, wanted = rng.random(shape), ad.tensor(x), x.copy()
    written[i, j] = ad.tensor(v)
    wanted[rows, columns] = v
    np.testing.assert_array_equal(written.numpy(), wanted)
    written.index_put_((i, j), ad.tensor(v), accumulate=True)
    np.testing.assert_array_equal(written.numpy()[rows, columns], v + v)
    written[i[:, 0]] = 7.0
    wanted[rows, columns], wanted[rows[:, 0]] = v + v, 7
    np.testing.assert_array_equal(written.numpy(), wanted)
    with pytest.raises(IndexError, match="index 800 is out of bounds"):
        written[i, j + 800 - j.max()]
