"""Making tensors: from data, filled, in sequence, like another one."""

import array as standard_array
import inspect
import itertools
import math

import numpy as np
import pytest
from helpers import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    NUMPY_DTYPES,
    array,
    assert_close,
    assert_same,
    dtype_of,
    shares_memory,
    tensor,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import adjoint as ad


def test_inferred_dtypes():
    assert ad.tensor(1).dtype == ad.int64
    assert ad.tensor(1.0).dtype == ad.float32
    assert ad.tensor(True).dtype == ad.bool
    assert ad.tensor(1j).dtype == ad.complex64
    assert ad.tensor([1, 2.0]).dtype == ad.float32
    assert ad.tensor([True, 2]).dtype == ad.int64
    assert ad.tensor([1, 2j]).dtype == ad.complex64
    assert ad.tensor([]).dtype == ad.float32 and ad.tensor([]).shape == (0,)
    assert ad.tensor([[], []]).shape == (2, 0)
    assert ad.tensor(((1, 2), (3, 4))).tolist() == [[1, 2], [3, 4]]
    assert ad.tensor(range(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_explicit_dtype(name):
    x = ad.tensor([0, 1, 1], dtype=dtype_of(name))
    assert x.dtype == dtype_of(name)
    assert x.tolist() == [0, 1, 1]


def test_tensor_copies_as_tensor_does_not():
    a = np.arange(3.0)
    copy, shared, also = ad.tensor(a), ad.as_tensor(a), ad.from_numpy(a)
    a[0] = 9
    assert copy.tolist() == [0, 1, 2]
    assert shared.tolist() == also.tolist() == [9, 1, 2]
    x = ad.zeros(2)
    assert ad.as_tensor(x) is x
    assert ad.as_tensor(x, dtype=ad.float64).dtype == ad.float64
    assert not shares_memory(x, x.clone())
    also[1] = 7
    assert a[1] == 7


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_from_numpy(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    assert_same(ad.from_numpy(a), a, dtype_of(name))
    assert_same(ad.from_numpy(a.T[:, 1:]), a.T[:, 1:])
    assert_same(ad.tensor(a), a, dtype_of(name))
    assert ad.tensor(a[0, 0]).item() == a[0, 0]


def test_from_numpy_refusals():
    with pytest.raises(ValueError, match="(?i)negative"):
        ad.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError):
        ad.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError):
        ad.from_numpy([1, 2])
    with pytest.raises(TypeError):
        ad.tensor(np.array([object()]))


def test_from_other_things():
    assert ad.tensor([ad.tensor(1.0), ad.tensor(2.0)]).tolist() == [1, 2]
    assert ad.tensor([np.float64(1), np.float64(2)]).tolist() == [1, 2]
    buffer = standard_array.array("d", [1.0, 2.0])
    shared = ad.frombuffer(buffer, dtype=ad.float64)
    buffer[0] = 5
    assert shared.tolist() == [5, 2]
    assert ad.asarray([1, 2]).tolist() == [1, 2]


def test_asarray_keeps_history_unless_told_not_to():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    assert ad.asarray(y) is y and ad.asarray(x) is x and ad.asarray(y, requires_grad=True) is y
    assert ad.asarray(y, dtype=ad.float64).grad_fn is not None
    copied = ad.asarray(y, copy=True)
    assert copied.data_ptr() != y.data_ptr() and ad.autograd.grad(copied.sum(), x)[0].tolist() == [2, 2]
    for source in (x, y):
        plain = ad.asarray(source, requires_grad=False)
        assert not plain.requires_grad and plain.data_ptr() == source.data_ptr() and source.requires_grad
        assert not ad.asarray(source, copy=True, requires_grad=False).requires_grad
    z = x.detach()
    leaf = ad.asarray(z, requires_grad=True)
    assert leaf.requires_grad and leaf.is_leaf and leaf.data_ptr() == z.data_ptr() and not z.requires_grad
    assert not ad.asarray([1.0]).requires_grad and ad.asarray([1.0], requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        ad.asarray([1], requires_grad=True)


RAGGED = [[[1, 2], [3]], [1, [2]], [[1], 2], [[[1]], [2]]]


@pytest.mark.parametrize("data", RAGGED)
def test_ragged_lists(data):
    with pytest.raises(
        (ValueError, TypeError),
        match="expected sequence of length|not a sequence|(?i:ragged|number|scalar|len|integer)",
    ):
        ad.tensor(data)


@pytest.mark.parametrize("data", ["abc", [None], [object()], {"a": 1}, None])
def test_what_is_not_data(data):
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        ad.tensor(data)


def test_values_that_do_not_fit():
    with pytest.raises((RuntimeError, OverflowError), match="(?i)overflow"):
        ad.tensor(300, dtype=ad.uint8)
    with pytest.raises((RuntimeError, OverflowError, ValueError), match="(?i)overflow"):
        ad.tensor(2**63)
    with pytest.raises((RuntimeError, ValueError), match="(?i)nan|infinity|overflow"):
        ad.tensor(math.nan, dtype=ad.int64)
    with pytest.raises((RuntimeError, TypeError), match="(?i)complex"):
        ad.tensor(1j, dtype=ad.float32)


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_filled(name):
    dtype = dtype_of(name)
    assert ad.zeros(2, 3, dtype=dtype).tolist() == [[0] * 3] * 2
    assert ad.ones((2, 3), dtype=dtype).tolist() == [[1] * 3] * 2
    assert ad.full((2,), 1, dtype=dtype).tolist() == [1, 1]
    assert ad.empty(2, 0, dtype=dtype).shape == (2, 0)
    assert ad.eye(2, 3, dtype=dtype).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert ad.zeros((), dtype=dtype).item() == 0
    assert ad.zeros(2, dtype=dtype).dtype == dtype


def test_full_infers():
    assert ad.full((1,), 2).dtype == ad.int64
    assert ad.full((1,), 2.0).dtype == ad.float32
    assert ad.full((1,), True).dtype == ad.bool
    assert ad.full([1], 2j).dtype == ad.complex64


def test_like_and_new():
    x = ad.zeros(2, 3, dtype=ad.float64)
    assert ad.ones_like(x).dtype == ad.float64 and ad.zeros_like(x).shape == (2, 3)
    assert ad.full_like(x, 7).tolist() == [[7.0] * 3] * 2
    assert ad.empty_like(x, dtype=ad.int8).dtype == ad.int8
    assert ad.rand_like(x).dtype == ad.randn_like(x).dtype == ad.float64
    assert ad.randint_like(x, 5).dtype == ad.float64
    assert x.new_zeros(4).dtype == ad.float64 and x.new_ones((2, 1)).shape == (2, 1)
    assert x.new_full((2,), 3).tolist() == [3, 3]
    assert x.new_empty(0).shape == (0,)
    assert x.new_tensor([1, 2]).dtype == ad.float64
    # The order of strides of a dense input is kept.
    assert ad.empty_like(ad.zeros(2, 3).T).stride() == (1, 3)


ARANGE = [(5,), (2, 7), (2, 9, 3), (5, 0, -2), (0,), (3, 3), (0.0, 1.0, 0.25), (1.0, 2.05, 0.1), (-1, 1.5)]


@pytest.mark.parametrize("arguments", ARANGE)
def test_arange(arguments):
    expected = np.arange(*arguments)
    kind = ad.int64 if all(isinstance(a, int) for a in arguments) else ad.float32
    x = ad.arange(*arguments)
    assert x.dtype == kind
    assert_close(x, expected, rtol=1e-6, atol=1e-7)
    assert_close(ad.arange(*arguments, dtype=ad.float64), expected.astype(float))


def test_arange_errors():
    for arguments in ((0, 5, 0), (0, 5, -1), (5, 0)):
        with pytest.raises((RuntimeError, ValueError), match="(?i)step|bound"):
            ad.arange(*arguments)
    with pytest.raises((RuntimeError, ValueError)):
        ad.arange(0, math.inf)
    with pytest.raises((RuntimeError, ValueError)):
        ad.arange(math.nan)


def test_linspace_and_logspace():
    for steps in (0, 1, 2, 5, 100):
        assert_close(ad.linspace(-1, 2, steps, dtype=ad.float64), np.linspace(-1, 2, steps))
        assert_close(ad.logspace(-1, 2, steps, dtype=ad.float64), np.logspace(-1, 2, steps))
    assert_close(ad.logspace(0, 3, 4, base=2.0, dtype=ad.float64), np.logspace(0, 3, 4, base=2))
    x = ad.linspace(0, 1, 11)
    assert x.dtype == ad.float32 and x[-1].item() == 1.0
    assert ad.linspace(0, 10, 5, dtype=ad.int64).tolist() == [0, 2, 5, 7, 10]
    with pytest.raises((RuntimeError, ValueError), match="(?i)steps"):
        ad.linspace(0, 1, -1)


def test_one_hot():
    one_hot = ad.nn.functional.one_hot
    assert one_hot(ad.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot(ad.tensor([[1]]), 3).tolist() == [[[0, 1, 0]]]
    assert one_hot(ad.tensor([1]), 2).dtype == ad.int64
    with pytest.raises(RuntimeError, match="(?i)class"):
        one_hot(ad.tensor([3]), 2)
    with pytest.raises(RuntimeError, match="(?i)class|negative|non-negative"):
        one_hot(ad.tensor([-1]))


def test_bad_sizes():
    with pytest.raises(RuntimeError, match="(?i)negative"):
        ad.zeros(-1)
    with pytest.raises(TypeError):
        ad.zeros(1.5)
    with pytest.raises((RuntimeError, OverflowError, MemoryError, TypeError)):
        ad.zeros(2**62, 2**62)
    with pytest.raises((RuntimeError, MemoryError)):
        ad.empty(2**55)


def test_indices_of_triangles_of_any_form():
    for row, col, offset in itertools.product(
        (0, 1, 4), (0, 1, 3, 6), (-9, -4, -2, 0, 1, 3, 6, 2**62, -(2**62))
    ):
        for got, want in (
            (ad.tril_indices, np.tri(row, col, max(-9, min(offset, 9)))),
            (ad.triu_indices, 1 - np.tri(row, col, max(-9, min(offset, 9)) - 1)),
        ):
            assert_same(got(row, col, offset), np.stack(np.nonzero(want)))
    assert ad.tril_indices(2**60, 0).shape == ad.triu_indices(2**60, 2**40, 2**41).shape == (2, 0)
    for size in (2**40, 2**62):
        with pytest.raises(RuntimeError, match=r"overflow|from 0 to 2\*\*60"):
            ad.tril_indices(size, size)


def test_tril_indices():
    assert_same(ad.tril_indices(3, 4, -1), np.stack(np.tril_indices(3, -1, 4)))
    assert_same(ad.triu_indices(3, 4, 1), np.stack(np.triu_indices(3, 1, 4)))


@given(
    hnp.arrays(
        st.sampled_from(list(NUMPY_DTYPES.values())), hnp.array_shapes(min_dims=0, min_side=0, max_side=4)
    )
)
def test_round_trip_through_lists_and_numpy(a):
    with np.errstate(all="ignore"):
        x = ad.from_numpy(a) if a.flags.writeable else ad.tensor(a)
        assert_same(x, a)
        np.testing.assert_array_equal(x.numpy(), a)
        assert x.numpy().dtype == a.dtype
        assert_same(tensor(array(x)), a)


def test_complex_dtypes_are_complex():
    for name in ALL_DTYPES:
        assert dtype_of(name).is_complex == (name in COMPLEX_DTYPES)


#: Functions that make tensors, with arguments for a tensor of some elements; those that take `out` first.
MAKERS = {
    "empty": (2,),
    "zeros": (2,),
    "ones": (2,),
    "full": ((2,), 1),
    "eye": (2,),
    "arange": (3,),
    "range": (0, 3),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "rand": (2,),
    "randn": (2,),
    "randint": (5, (2,)),
    "randperm": (3,),
    "normal": (0.0, 1.0, (2,)),
}
OTHERS = {
    "scalar_tensor": (1,),
    "empty_strided": ((2,), (1,)),
    "empty_permuted": ((2,), (0,)),
    **{f"{name}_window": (4,) for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
    **{f"{name}_like": (ad.ones(2),) for name in ("empty", "zeros", "ones", "rand", "randn")},
    "full_like": (ad.ones(2), 1),
    "randint_like": (ad.ones(2), 5),
}
METHODS = {
    "new_tensor": ([1.0, 2.0],),
    "new_empty": (2,),
    "new_zeros": (2,),
    "new_ones": (2,),
    "new_full": ((2,), 1),
    "new_empty_strided": ((2,), (1,)),
}


def makers():
    for name, arguments in {**MAKERS, **OTHERS}.items():
        yield name, getattr(ad, name), arguments
    for name, arguments in METHODS.items():
        yield name, getattr(ad.ones(1), name), arguments


def test_all_that_make_tensors_take_the_same_keywords():
    keywords = {"dtype", "layout", "device", "requires_grad", "pin_memory"}
    for name, make, arguments in makers():
        parameters = set(inspect.signature(make).parameters)
        assert keywords <= parameters, name
        assert ("out" in parameters) == (name in MAKERS), name
        given = {"device": "cpu", "layout": ad.strided, "pin_memory": False}
        made = make(*arguments, dtype=ad.float64, requires_grad=True, **given)
        assert made.dtype is ad.float64 and made.requires_grad and made.is_leaf, name
        assert make(*arguments, dtype=float).dtype is ad.float64, name
        with pytest.raises(RuntimeError, match="no device 'cuda'"):
            make(*arguments, device="cuda")
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument"):
            make(*arguments, nothing=1)


def test_every_function_that_makes_tensors_is_in_the_lists_above():
    creating = {name for name in dir(ad) if hasattr(getattr(ad, name), "_signature")}
    assert creating == {*MAKERS, *OTHERS}
    assert {name for name in dir(ad.Tensor) if hasattr(getattr(ad.Tensor, name), "_signature")} == {*METHODS}


@pytest.mark.parametrize("name", MAKERS)
def test_the_dtype_is_that_of_out(name):
    make = getattr(ad, name)
    out = ad.empty(0, dtype=ad.float64)
    assert make(*MAKERS[name], out=out) is out and out.dtype is ad.float64 and out.numel() > 1
    assert make(*MAKERS[name], out=out, dtype=ad.float64) is out
    with pytest.raises(
        RuntimeError,
        match=r"dtype Float does not match dtype of out parameter \(Double\)",
    ):
        make(*MAKERS[name], out=out, dtype=ad.float32)
    # The result takes the memory of `out`, and is a leaf that needs a gradient where that is asked for.
    assert make(*MAKERS[name], out=ad.empty(0), requires_grad=True).requires_grad


@pytest.mark.parametrize("name", OTHERS)
def test_what_takes_no_out_says_so(name):
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'out'"):
        getattr(ad, name)(*OTHERS[name], out=ad.empty(0))


def test_what_is_missing_or_wrong_is_named_by_the_function_that_was_called():
    with pytest.raises(TypeError, match=r"^full\(\) missing 1 required positional argument: 'fill_value'"):
        ad.full((2,))
    with pytest.raises(TypeError, match=r"^Tensor\.new_full\(\) missing 1 required positional argument"):
        ad.ones(1).new_full((2,))
    with pytest.raises(TypeError, match=r"^zeros\(\): argument 'out' must be Tensor, not int"):
        ad.zeros(2, out=3)
    with pytest.raises(
        TypeError, match=r"^zeros_like\(\): argument 'input' \(position 1\) must be Tensor, not int"
    ):
        ad.zeros_like(3)


# --- calls that one row does ------------------------------------------------------------------------------------------------

LIKE = ad.ones(2, 3, dtype=ad.float64).t()

#: Functions with such calls, and arguments: those of the short way, and others beside them.
PLAIN = {
    "empty": [((2, 3), {}), (((2,),), {})],
    "zeros": [
        ((2, 3), {}),
        (((2, 3),), {}),
        (([2, 3],), {}),
        ((), {}),
        (((),), {}),
        ((3,), {"dtype": ad.float64}),
        ((3,), {"dtype": int}),
        ((3,), {"requires_grad": True}),
        ((3,), {"dtype": None, "device": "cpu"}),
        ((-1,), {}),
        ((2**62, 4), {}),
        ((2**70,), {}),
        ((1.5,), {}),
        ((3,), {"dtype": ad.int64, "requires_grad": True}),
        ((3,), {"dtyp": 1}),
        ((np.int64(3), 2), {}),
        ((True,), {}),
        ((ad.Size([2, 1]),), {}),
    ],
    "ones": [((2,), {}), ((2,), {"dtype": ad.bool}), ((2, -3), {})],
    "full": [
        (((2,), 7), {}),
        (((2,), 7.5), {}),
        ((2, 7.5), {}),
        (((2,), True), {}),
        (((2,), 300), {"dtype": ad.uint8}),
        (((2,),), {}),
    ],
    "eye": [((3,), {}), ((2, 3), {}), ((-1,), {}), ((2, 2), {"dtype": ad.complex64})],
    "arange": [
        ((5,), {}),
        ((1, 5), {}),
        ((1, 9, 3), {}),
        ((5, 1), {}),
        ((5.5,), {}),
        ((1.5, 4), {"dtype": ad.int64}),
        ((3,), {"dtype": ad.float16}),
        ((1, 5, 0), {}),
        ((0, 300), {"dtype": ad.uint8}),
    ],
    "empty_like": [((LIKE,), {})],
    "zeros_like": [
        ((LIKE,), {}),
        ((LIKE,), {"dtype": ad.int64}),
        ((LIKE,), {"requires_grad": True}),
        (([1],), {}),
    ],
    "ones_like": [((LIKE,), {}), ((ad.nn.Parameter(LIKE),), {})],
    "full_like": [((LIKE, 2), {}), ((LIKE, 2.5), {"dtype": ad.int64}), ((LIKE,), {})],
    "rand": [((2, 3), {}), (((2,),), {"dtype": ad.float64}), ((2,), {"requires_grad": True}), ((-2,), {})],
    "rand_like": [((LIKE,), {}), ((LIKE,), {"dtype": ad.float32}), ((LIKE.to(ad.int64),), {})],
    "randn_like": [((LIKE,), {}), ((LIKE.to(ad.complex64),), {})],
    "randn": [((2, 3), {}), ((2,), {"dtype": ad.complex64}), ((2,), {"dtype": ad.int64})],
}


@pytest.mark.parametrize("name", PLAIN)
def test_the_short_way_is_that_of_the_function(name):
    """What a call gives, by the one row that does it, is what the function itself makes; so are errors."""
    public = getattr(ad, name)

    def outcome(f, args, kwargs):
        ad.manual_seed(3)
        try:
            t = f(*args, **kwargs)
        except Exception as error:
            return type(error), str(error)
        values = None if name.startswith("empty") else t.detach().tolist()
        return t.shape, t.dtype, t.stride(), t.requires_grad, t.is_leaf, t.device, values

    for args, kwargs in PLAIN[name]:
        found = outcome(public, args, kwargs)
        wanted = outcome(public.__wrapped__, args, kwargs)
        if isinstance(wanted[0], type) and issubclass(wanted[0], Exception):
            assert isinstance(found[0], type) and issubclass(found[0], Exception), (args, kwargs, found)
        else:
            assert found == wanted, (args, kwargs)


def test_the_short_way_has_modes_and_devices():
    from adjoint.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func, args

    with Mode():
        assert ad.zeros(3) == (ad.zeros, (3,))
    with ad.device("meta"):
        assert ad.zeros(3).is_meta and ad.ones(2, dtype=ad.float64).is_meta and ad.arange(3).is_meta
    assert ad.zeros_like(ad.zeros(3, device="meta")).is_meta and not ad.zeros(3).is_meta
    with ad.inference_mode():
        assert ad.zeros(3).is_inference()
    before = ad.get_default_dtype()
    try:
        ad.set_default_dtype(ad.float64)
        assert (
            ad.zeros(1).dtype
            is ad.ones(1).dtype
            is ad.randn(1).dtype
            is ad.full((1,), 2.0).dtype
            is ad.float64
        )
    finally:
        ad.set_default_dtype(before)
