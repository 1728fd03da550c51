"""Python indexing, basic and advanced, reading and writing, against NumPy.

The property tests draw an index (slices with steps, None, Ellipsis, integers, integer arrays that
broadcast, boolean masks, mixtures) and demand NumPy's values from a read, NumPy's array after a write, and
for gradients the transpose of the read: what `np.add.at` gives. Torch has no negative steps, so none are
drawn.

In one thing torch departs from NumPy and is followed: an integer beside index arrays selects first, it is
not one more index array. So `x[0, :, i]` keeps the sliced dimension in front where NumPy moves it behind.
`place` maps an index to NumPy's positions under that rule.
"""

import numpy as np
import pytest
from helpers import assert_close, assert_same, check_derivatives, normal, shares_memory, tensor
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import adjoint as ad


def numbered(*shape):
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float64).reshape(shape)


def place(shape, index):
    """The flat positions in an array of `shape` that `index` addresses, in the result's order."""
    items = index if isinstance(index, tuple) else (np.array(index) if isinstance(index, list) else index,)
    items = [np.array(i) if isinstance(i, list) else i for i in items]
    positions = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    if not any(isinstance(i, np.ndarray) for i in items):
        return positions[tuple(items)]
    # First what is basic, with every array's dimensions left whole; then the arrays, each at its place.
    basic, rest = [], []
    for item in items:
        if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype != bool:
            basic.append(int(item))
        elif isinstance(item, np.ndarray):
            width = item.ndim if item.dtype == bool else 1
            basic += [slice(None)] * width
            rest.append(item)
        else:
            basic.append(item)
            if not isinstance(item, int):
                rest.append(item if item is Ellipsis else slice(None))
    return positions[tuple(basic)][tuple(rest)]


def read(a, index):
    return a.reshape(-1)[place(a.shape, index)]


def write(a, index, values):
    a.reshape(-1)[place(a.shape, index)] = values


def accumulate(a, index, values):
    np.add.at(a.reshape(-1), place(a.shape, index), values)


def to_adjoint(index):
    """The same index with NumPy arrays replaced by tensors."""
    if isinstance(index, tuple):
        return tuple(to_adjoint(i) for i in index)
    return tensor(index) if isinstance(index, np.ndarray) else index


I3 = np.array([2, 0, 2])
I22 = np.array([[0, -1], [1, 1]])
M4 = np.array([True, False, True, True])
M34 = np.arange(12).reshape(3, 4) % 3 == 0

# (label, index): each read from and written to an array of shape (3, 4, 5).
INDEXES = [
    ("integer", 1),
    ("negative", -1),
    ("two integers", (1, -2)),
    ("all integers", (0, 1, 2)),
    ("slice", slice(1, 3)),
    ("open slice", slice(None)),
    ("step", slice(None, None, 2)),
    ("slice past the end", slice(2, 99)),
    ("empty slice", slice(2, 1)),
    ("negative bounds", slice(-2, -1)),
    ("ellipsis", Ellipsis),
    ("ellipsis last", (Ellipsis, 0)),
    ("ellipsis middle", (0, Ellipsis, slice(1, 4, 2))),
    ("none first", None),
    ("none inside", (slice(None), None, 1)),
    ("none and ellipsis", (None, Ellipsis, None, 2)),
    ("integers and slices", (slice(None), 2, slice(0, 5, 3))),
    ("empty tuple", ()),
    ("index array", I3),
    ("index array 2-D", I22),
    ("index list", [0, 2]),
    ("index array second", (slice(None), I3)),
    ("two arrays together", (I3, I3)),
    ("two arrays broadcast", (I22, np.array([0, 3]))),
    ("two arrays apart", (I3, slice(None), I3)),
    ("array and integer", (I3, 1)),
    ("integer and array apart", (0, slice(None), I3)),
    ("array after none", (None, I3)),
    ("array slice array list", (I3, slice(1, 3), [0, 1, 4])),
    ("ellipsis and array", (Ellipsis, I3)),
    ("ellipsis between arrays", (I22, Ellipsis, I22)),
    ("three arrays", (I3, np.array([[1], [3]]), I3)),
    ("mask of the first dimension", np.array([True, False, True])),
    ("mask of the second", (slice(None), M4)),
    ("mask of two", M34),
    ("mask and integer", (M34, 2)),
    ("mask and slice", (M34, slice(0, 4, 2))),
    ("mask and array", (np.array([True, False, True]), np.array([1, 2]))),
    ("list of bools", [True, False, True]),
    ("nothing selected", np.zeros((3, 4), bool)),
    ("empty index", np.zeros((0,), np.int64)),
    ("zero-dimensional index", (np.array(1), slice(None))),
    ("True", True),
    ("False", False),
]


@pytest.mark.parametrize("label, index", INDEXES, ids=[r[0] for r in INDEXES])
def test_read(label, index):
    a = numbered(3, 4, 5)
    expected = read(a, index)
    assert_same(tensor(a)[to_adjoint(index)], expected)
    if isinstance(index, np.ndarray) and index.ndim == 1:
        assert_same(tensor(a)[index.tolist()], expected)
    strided = tensor(np.repeat(a, 2, axis=1).transpose(2, 1, 0).copy()).permute(2, 1, 0)[:, ::2]
    assert_same(strided[to_adjoint(index)], expected)


@pytest.mark.parametrize("label, index", INDEXES, ids=[r[0] for r in INDEXES])
def test_write(label, index):
    a = numbered(3, 4, 5)
    shape = read(a, index).shape
    if label in REPEATS:
        # With repeated indices the last write wins in NumPy, and anyone in torch: write one value.
        values = np.full(shape, -7.0)
    else:
        values = -numbered(*shape)
    expected = a.copy()
    write(expected, index, values)
    x = tensor(a)
    x[to_adjoint(index)] = tensor(values)
    assert_same(x, expected)
    x, expected = tensor(a), a.copy()
    x[to_adjoint(index)] = -1.5
    write(expected, index, -1.5)
    assert_same(x, expected)


REPEATS = {
    "index array",
    "index array 2-D",
    "index array second",
    "two arrays together",
    "two arrays broadcast",
    "two arrays apart",
    "array and integer",
    "integer and array apart",
    "array after none",
    "array slice array list",
    "ellipsis and array",
    "ellipsis between arrays",
    "three arrays",
}


@pytest.mark.parametrize("label, index", INDEXES, ids=[r[0] for r in INDEXES])
def test_gradient_of_read(label, index):
    a = normal(3, 4, 5)
    x = tensor(a, requires_grad=True)
    y = x[to_adjoint(index)]
    cotangent = normal(*y.shape, seed=3)
    (g,) = ad.autograd.grad(y, x, tensor(cotangent))
    expected = np.zeros_like(a)
    accumulate(expected, index, cotangent)
    assert_close(g, expected)


@pytest.mark.parametrize("label, index", INDEXES, ids=[r[0] for r in INDEXES])
def test_gradient_of_write(label, index):
    a = normal(3, 4, 5)
    v = normal(*read(a, index).shape, seed=5)
    x, w = tensor(a, requires_grad=True), tensor(v, requires_grad=True)
    y = x * 1
    y[to_adjoint(index)] = w
    cotangent = normal(3, 4, 5, seed=7)
    gx, gw = ad.autograd.grad(y, (x, w), tensor(cotangent), allow_unused=v.size == 0)
    expected = cotangent.copy()
    write(expected, index, 0)
    assert_close(gx, expected)
    if label not in REPEATS and gw is not None:
        assert_close(gw, read(cotangent, index))


@st.composite
def indexed_arrays(draw, advanced=True):
    """A shape and an index valid for it."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    lead = draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))
    index, dim, ellipsis, any_array = [], 0, False, False
    while dim < len(shape):
        kinds = ["integer", "slice", "none", "stop"]
        if not ellipsis:
            kinds.append("ellipsis")
        if advanced:
            kinds += ["array", "array", "mask"]
        kind = draw(st.sampled_from(kinds))
        n = shape[dim]
        if kind == "stop":
            break
        if kind == "integer":
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-n - 1, n + 1)
            index.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
        elif kind == "none":
            index.append(None)
            if len(index) > 6:
                break
            continue
        elif kind == "ellipsis":
            ellipsis = True
            index.append(Ellipsis)
            dim += draw(st.integers(0, len(shape) - dim))
            # What follows must fit in the dimensions that are left.
            continue
        elif kind == "array":
            small = draw(st.sampled_from([lead, lead[-1:], (1,) * len(lead), ()]))
            index.append(draw(hnp.arrays(np.int64, small, elements=st.integers(-n, n - 1))))
            any_array = True
        elif kind == "mask":
            if any_array:
                continue
            index.append(draw(hnp.arrays(bool, (n,))))
            any_array = True
            # A mask with k True broadcasts only with nothing else: end the advanced part.
            advanced = False
        dim += 1
    return shape, tuple(index)


def right_aligned(shape, index):
    """Whether the index, with its ellipsis, addresses dimensions that exist and match."""
    try:
        return numbered(*shape)[index].size >= 0
    except IndexError:
        return False


@given(indexed_arrays(advanced=False))
def test_basic_reads_are_views(case):
    shape, index = case
    if not right_aligned(shape, index):
        return
    a = numbered(*shape)
    x = tensor(a)
    y = x[index]
    assert_same(y, a[index])
    assert shares_memory(x, y)


@given(indexed_arrays())
def test_reads(case):
    shape, index = case
    if not right_aligned(shape, index):
        return
    a = numbered(*shape)
    assert_same(tensor(a)[to_adjoint(index)], read(a, index))


@given(indexed_arrays())
def test_reads_of_a_transposed_tensor(case):
    shape, index = case
    if not right_aligned(shape, index):
        return
    a = numbered(*shape)
    x = tensor(a.T.copy()).permute(*range(len(shape))[::-1])
    assert_same(x[to_adjoint(index)], read(a, index))


@given(indexed_arrays(), st.booleans())
def test_writes(case, broadcast):
    shape, index = case
    if not right_aligned(shape, index):
        return
    expected = numbered(*shape)
    x = tensor(expected)
    target = read(expected, index).shape
    values = np.full(target[1:] if broadcast else target, -3.0)
    x[to_adjoint(index)] = tensor(values)
    write(expected, index, values)
    assert_same(x, expected)


@given(indexed_arrays())
def test_gradients(case):
    shape, index = case
    if not right_aligned(shape, index):
        return
    x = tensor(numbered(*shape), requires_grad=True)
    y = x[to_adjoint(index)]
    cotangent = numbered(*y.shape)
    (y * tensor(cotangent)).sum().backward()
    expected = np.zeros(shape)
    accumulate(expected, index, cotangent)
    assert_same(x.grad, expected)


def test_second_derivative_through_indexing():
    i = ad.tensor([0, 2, 2])
    check_derivatives(lambda x: (x[i] * x[1:4]) ** 2, [normal(5)])
    check_derivatives(lambda x: x[x.detach() > 0] ** 3, [normal(6)])
    check_derivatives(lambda x: x[:, i, None] ** 2, [normal(2, 4, kind="complex")])


def test_in_place_arithmetic_through_an_index():
    x = tensor(numbered(3, 4))
    x[1] += 10
    x[:, ::2] *= 2
    x[ad.tensor([0, 0])] -= 1
    expected = numbered(3, 4)
    expected[1] += 10
    expected[:, ::2] *= 2
    expected[[0, 0]] -= 1
    assert_same(x, expected)


def test_write_casts_to_the_tensor():
    x = ad.zeros(3, dtype=ad.int64)
    x[0] = 2.9
    x[1:] = ad.tensor([1.5, -1.5])
    assert x.tolist() == [2, 1, -1]


def test_uint8_and_int32_indices():
    x = tensor(numbered(4))
    assert x[ad.tensor([0, 3], dtype=ad.int32)].tolist() == [1, 4]
    assert x[ad.tensor([0, 3], dtype=ad.int64)].tolist() == [1, 4]


def test_numpy_arrays_and_scalars_as_indices():
    x = tensor(numbered(3, 4))
    assert_same(x[np.array([2, 0])], numbered(3, 4)[[2, 0]])
    assert_same(x[np.int64(1)], numbered(3, 4)[1])
    assert_same(x[x.tolist()[0].index(2)], numbered(3, 4)[1])
    assert_same(x[ad.tensor(1) : ad.tensor(3)], numbered(3, 4)[1:3])


ERRORS = [
    (lambda x: x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x[0, -5], IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    (lambda x: x[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
    (lambda x: x[ad.tensor([0, 3])], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x[:, ad.tensor([-5])], IndexError, "index -5 is out of bounds for dimension . with size 4"),
    (lambda x: x[::-1], ValueError, "step must be greater than zero"),
    (lambda x: x[::0], ValueError, "step (must be greater than|cannot be) zero"),
    (
        lambda x: x[ad.tensor([True, False])],
        IndexError,
        "The shape of the mask .2. at index 0 does not match",
    ),
    (lambda x: x[ad.tensor([0.5])], IndexError, "tensors used as indices must be long, int, byte or bool"),
    (
        lambda x: x[ad.tensor([0, 1]), ad.tensor([0, 1, 2])],
        IndexError,
        "shape mismatch: indexing tensors could not be broadcast together",
    ),
    (lambda x: x["a"], (IndexError, TypeError), "(?i)ind|str"),
    (lambda x: x[1.0], (IndexError, TypeError), "(?i)ind"),
    (lambda x: x[0, 0][0], IndexError, "invalid index of a 0-dim tensor"),
    (lambda x: x.__setitem__(3, 1), IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.__setitem__(ad.tensor([0, 7]), 1), IndexError, "index 7 is out of bounds"),
    (lambda x: x.__setitem__(0, ad.zeros(3)), RuntimeError, "(?i)expand|shape mismatch|broadcast"),
    (lambda x: x.__setitem__(ad.tensor([0, 1]), tensor(numbered(3, 4))), RuntimeError, "shape mismatch"),
]


@pytest.mark.parametrize("call, kind, phrase", ERRORS)
def test_errors(call, kind, phrase):
    x = tensor(numbered(3, 4))
    with pytest.raises(kind, match=phrase):
        call(x)
    assert_same(x, numbered(3, 4))
