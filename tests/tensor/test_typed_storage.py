"""Storages by themselves: what makes them, what they are made into, and how long they live."""

import copy
import gc
import pickle
import struct
import weakref

import pytest

import adjoint as ad
from adjoint._tensor.storage import UntypedStorage
from adjoint._tensor.typed_storage import TypedStorage

TYPES = [
    ad.bool,
    ad.uint8,
    ad.int8,
    ad.int16,
    ad.int32,
    ad.int64,
    ad.float16,
    ad.bfloat16,
    ad.float32,
    ad.float64,
]


@pytest.mark.parametrize("dtype", [*TYPES, ad.complex64, ad.complex128])
def test_tensors_and_storages_give_each_other(dtype):
    x = ad.arange(6).to(dtype).view(2, 3)
    storage = x.storage()
    assert storage.dtype is dtype and storage.tolist() == x.view(-1).tolist()
    assert ad.tensor(storage, dtype=dtype).tolist() == x.view(-1).tolist()
    assert ad.tensor(storage.untyped(), dtype=dtype).tolist() == x.view(-1).tolist()
    assert x.new(storage).data_ptr() == x.data_ptr()
    other = ad.int16 if dtype is not ad.int16 else ad.int32
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        ad.tensor(storage, dtype=other)


def test_one_memory_is_one_object():
    x = ad.arange(4.0)
    storage = x.untyped_storage()
    assert x[1:].untyped_storage() is storage and x.storage().untyped() is storage
    assert storage._cdata != ad.arange(4.0).untyped_storage()._cdata
    # It is the memory's, whatever becomes of the tensor.
    x.set_(ad.zeros(2))
    assert storage.nbytes() == 16 and x.untyped_storage() is not storage
    del x
    assert len(storage) == 16
    storage.note = 1
    reference = weakref.ref(storage)
    del storage
    assert reference() is None


def test_a_slice_of_bytes_shares_them():
    x = ad.tensor([1, 2, 3], dtype=ad.uint8)
    part = x.untyped_storage()[1:3]
    assert part.tolist() == [2, 3]
    part[0] = 9
    assert x.tolist() == [1, 9, 3]
    with pytest.raises(RuntimeError, match="step of 2"):
        x.untyped_storage()[::2]


@pytest.mark.parametrize("order", ["little", "big"])
def test_numbers_of_a_buffer(order):
    sign = "<" if order == "little" else ">"
    for dtype, letter, values in (
        (ad.int16, "h", [258, -2]),
        (ad.int32, "i", [67305985]),
        (ad.int64, "q", [2**40, -1]),
        (ad.float32, "f", [2.25, -0.5]),
        (ad.float64, "d", [2.25]),
    ):
        data = struct.pack(f"{sign}{len(values)}{letter}", *values)
        assert TypedStorage.from_buffer(data, order, dtype=dtype).tolist() == values
        assert TypedStorage.from_buffer(b"??" + data, order, 1, 2, dtype=dtype).tolist() == values[:1]
    data = struct.pack(f"{sign}2f", 1.5, -2.0)
    assert TypedStorage.from_buffer(data, order, dtype=ad.complex64).tolist() == [1.5 - 2j]
    assert TypedStorage.from_buffer(b"\0\1\7", order, dtype=ad.bool).tolist() == [False, True, True]
    for arguments, message in (
        ((b"123", order), "multiple of element size"),
        ((b"1234", "odd"), "invalid byte_order"),
        ((b"1234", order, 1, 5), "offset must be non-negative"),
        ((b"1234", order, 3), "buffer has only"),
    ):
        with pytest.raises(ValueError, match=message):
            TypedStorage.from_buffer(*arguments, dtype=ad.int16)
    with pytest.raises(TypeError, match="missing required argument 'byte_order'"):
        TypedStorage.from_buffer(b"1234", dtype=ad.int16)


def test_bytes_are_turned_around():
    for dtype, width in (
        (ad.float64, 8),
        (ad.complex128, 8),
        (ad.complex64, 4),
        (ad.bfloat16, 2),
        (ad.bool, 1),
    ):
        storage = UntypedStorage([*range(16)])
        storage.byteswap(dtype)
        rows = [[*range(at, at + width)][::-1] for at in range(0, 16, width)]
        assert storage.tolist() == sum(rows, [])


def test_casts():
    storage = TypedStorage([-1, 0, 3], dtype=ad.int32)
    assert storage.float().tolist() == [-1.0, 0.0, 3.0] and storage.float().dtype is ad.float32
    assert storage.byte().tolist() == [255, 0, 3] and storage.bool().tolist() == [True, False, True]
    assert storage.complex_double().tolist() == [-1, 0, 3]
    assert storage.int().data_ptr() != storage.data_ptr()
    assert storage.type() == "torch.IntStorage" and storage.type("torch.LongStorage").dtype is ad.int64
    assert storage.pickle_storage_type() == "IntStorage" and "of size 3" in repr(storage)


def test_copies_and_pickles():
    x = ad.arange(3.0)
    storage, view = copy.deepcopy([x.storage(), x])
    view.add_(1)
    assert storage.tolist() == [1, 2, 3] and x.tolist() == [0, 1, 2]
    for made in (x.storage(), x.untyped_storage()):
        back = pickle.loads(pickle.dumps(made))
        assert type(back) is type(made) and back.tolist() == made.tolist()
    assert x.storage().__sizeof__() - ad.zeros(1).storage().__sizeof__() == 8


@pytest.mark.parametrize("make", [UntypedStorage, lambda *a, **k: TypedStorage(*a, dtype=ad.int16, **k)])
def test_storages_without_elements(make):
    for arguments in ((), (0,), (100,), ([1, 2, 3],)):
        plain, meta = make(*arguments), make(*arguments, device="meta")
        assert (plain.nbytes(), plain.size()) == (meta.nbytes(), meta.size()) and meta.data_ptr() == 0
        for what in (lambda: meta[0], meta.tolist):
            with pytest.raises(NotImplementedError, match="Not available for 'meta' device"):
                what()
        for what in (meta.cpu, lambda: plain.copy_(meta)):
            with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
                what()
        with pytest.raises(RuntimeError, match="only available on CPU"):
            meta.share_memory_()
        assert meta.resize_(10).size() == 10


def test_wrong_arguments():
    storage = UntypedStorage(4)
    for kind, message, call in (
        (RuntimeError, "Too many positional arguments", lambda: TypedStorage(1, 2)),
        (TypeError, "Argument type not recognized", lambda: TypedStorage(ad.ones(1))),
        (TypeError, "invalid data type", lambda: TypedStorage("12")),
        (RuntimeError, "Storage device not recognized", lambda: TypedStorage(device="xla")),
        (
            RuntimeError,
            "No positional arguments",
            lambda: TypedStorage(1, wrap_storage=storage, dtype=ad.int8),
        ),
        (RuntimeError, "'dtype' must be specified", lambda: TypedStorage(wrap_storage=storage)),
        (TypeError, "must be adjoint.dtype", lambda: TypedStorage(wrap_storage=storage, dtype=0)),
        (TypeError, "must be UntypedStorage", lambda: TypedStorage(wrap_storage=ad.ones(1), dtype=ad.int8)),
        (
            RuntimeError,
            "should not be specified",
            lambda: TypedStorage(wrap_storage=storage, dtype=ad.int8, device="cpu"),
        ),
        (RuntimeError, "cannot set item", lambda: TypedStorage(2).fill_(TypedStorage(2))),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert TypedStorage(wrap_storage=storage, dtype=ad.int16).size() == 2


def test_a_file_as_memory(tmp_path):
    path = tmp_path / "numbers"
    first = TypedStorage.from_file(path, True, 1000)
    second = ad.ones(1).new(TypedStorage.from_file(path, True, 1000))
    first[999] = 2.5
    assert second[999] == 2.5 and path.stat().st_size == 4000
    assert first.untyped().filename == str(path) and UntypedStorage(1).filename is None
    with pytest.raises(RuntimeError, match="has 4000"):
        UntypedStorage.from_file(path, False, 4001)


# --- shapes on memory --------------------------------------------------------------------------------------------------


def test_resize_keeps_the_memory():
    x = ad.arange(6.0).view(2, 3)
    address, alias = x.data_ptr(), x.detach()
    assert (
        x.resize_(3).tolist() == [0, 1, 2] and x.data_ptr() == address and x.untyped_storage().nbytes() == 24
    )
    assert x.resize_(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]] and x.data_ptr() == address
    # Elements stay where they lie.
    assert alias.t().resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    # What others share stays theirs.
    x.resize_(8)
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 0, 0] and alias.tolist() == [[0, 1, 2], [3, 4, 5]]
    x[0] = 9
    assert alias[0, 0] == 0
    assert ad.empty(2, 0).resize_(0, 3).shape == (0, 3)
    with pytest.raises(RuntimeError, match="not resizable"):
        ad.from_numpy(pytest.importorskip("numpy").ones(3)).resize_(4)


def test_resize_in_an_order_of_dimensions():
    x = ad.ones(24).resize_(1, 2, 3, 4, memory_format=ad.channels_last)
    assert x.stride() == (24, 1, 8, 2)
    like = ad.ones(24).resize_as_(x, memory_format=ad.preserve_format)
    assert like.stride() == x.stride() and ad.ones(24).resize_as_(x).is_contiguous()


def test_sizes_beyond_all_memory():
    x = ad.empty((), dtype=ad.float64)
    for size, message in (
        ([2, 4, 2**29, 2**29], "Storage size calculation overflowed"),
        ([8, 8, 2**29, 2**29], "overflow"),
        ([0, 4, 2**61], "Stride calculation overflowed"),
        ([-1], "negative dimension -1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            x.resize_(size)


def test_set_keeps_the_dtype():
    x = ad.ones(2)
    for source in (ad.ones(2, dtype=ad.float64), ad.ones(2, dtype=ad.int32)):
        with pytest.raises(RuntimeError, match="Could not set tensor of type"):
            x.set_(source)
    assert x.dtype is ad.float32 and x.tolist() == [1, 1]


# --- how long objects live ---------------------------------------------------------------------------------------------


class Mark:
    """Something that hangs on a tensor, and says when it goes."""

    def __init__(self):
        self.gone = []
        weakref.finalize(self, self.gone.append, True)


def test_a_cycle_that_a_gradient_holds_is_no_garbage():
    marks = Mark(), Mark()
    gone = marks[0].gone, marks[1].gone
    x, y = ad.empty(2), ad.empty(2)
    x.mark, y.mark = marks
    x.other, y.other = y, x
    z = ad.empty(2)
    z.grad = x
    del x, y, marks
    gc.collect()
    assert gone == ([], []) and z.grad.other.other is z.grad
    del z
    gc.collect()
    assert gone == ([True], [True])


def test_a_tensor_had_by_a_weak_reference_stays():
    x = ad.arange(2.0)
    reference = weakref.ref(x)
    y = ad.empty(2)
    y.grad = x
    del x
    x = reference()
    del y
    assert x.exp().shape == (2,) and x.tolist() == [0, 1]
    del x
    assert reference() is None


def test_two_tensors_change_places():
    class Named(ad.Tensor):
        pass

    class Slotted(ad.Tensor):
        __slots__ = ("slot",)

    x, y = ad.zeros(2, requires_grad=True), ad.ones(3).as_subclass(Named)
    x.note, x.grad = "x", ad.full((2,), 5.0)
    ad.utils.swap_tensors(x, y)
    assert type(x) is Named and type(y) is ad.Tensor and y.note == "x" and not hasattr(x, "note")
    assert x.tolist() == [1, 1, 1] and y.requires_grad and y.grad.tolist() == [5, 5]
    (y * 2).sum().backward()
    assert y.grad.tolist() == [7, 7]
    reference = weakref.ref(x)
    with pytest.raises(RuntimeError, match="has weakref"):
        ad.utils.swap_tensors(x, y)
    with pytest.raises(RuntimeError, match="different slots"):
        ad.utils.swap_tensors(ad.ones(1).as_subclass(Slotted), y)
    assert reference() is x


def test_python_functions_of_elements():
    assert ad.arange(1, 4).apply_(lambda k: k + k).tolist() == [2, 4, 6]
    x, y, z = ad.arange(6.0).view(2, 3).t(), ad.ones(2), ad.full((3, 1), 2.0)
    assert x.clone().map_(y, lambda a, b: a + b).tolist() == (x + y).tolist()
    assert x.clone().map2_(y, z, lambda a, b, c: a + b * c).tolist() == (x + y * z).tolist()
    with pytest.raises(TypeError, match="not callable"):
        x.map_(y, "f")
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        x.apply_(str)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.map_(y.clone().requires_grad_(), lambda a, b: a)


def test_errors_have_torch_s_phrases():
    x = ad.ones(2, 3)
    for kind, message, call in (
        (RuntimeError, "same dimension as input", lambda: x.diff(prepend=ad.ones(3))),
        (
            RuntimeError,
            "shape of tensor to prepend or append to match",
            lambda: x.diff(dim=0, prepend=ad.ones(1, 2)),
        ),
        (RuntimeError, "start_dim cannot come after end_dim", lambda: x.flatten(1, 0)),
        (RuntimeError, "only supports boolean masks", lambda: x.masked_fill(x.to(ad.uint8), 1.0)),
        (RuntimeError, "complex Scalar to non-complex", lambda: x.index_fill(0, ad.tensor([0]), 1j)),
        (
            RuntimeError,
            "scalar_type Float but found Short",
            lambda: ad.cummax(x, 0, out=(x.short(), x.long())),
        ),
        (RuntimeError, "passed in a <class 'str'>", lambda: "a" in x),
        (TypeError, "does not inherit from Tensor", lambda: x.as_subclass(int)),
        (ValueError, "negative length", lambda: ad.broadcast_shapes(2, -1)),
        (RuntimeError, "Shape mismatch", lambda: ad.broadcast_shapes((3, 2), 5)),
        (RuntimeError, "should be of type ints", lambda: ad.broadcast_shapes(1.5)),
        (ValueError, "Overflow when unpacking long", lambda: ad.manual_seed(2**64)),
        (
            RuntimeError,
            "Double.*Long|Long.*Double",
            lambda: ad.conv2d(ad.ones(1, 1, 1, 3).long(), ad.ones(1, 1, 1, 3).double()),
        ),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert format(ad.empty((), device="meta")) == repr(ad.empty((), device="meta"))


@pytest.mark.parametrize("kind", [IndexError, RuntimeError])
def test_an_index_out_of_bounds_is_both_kinds_of_error(kind):
    x, index = ad.zeros(1, 4, 4), ad.full((4,), 9)
    for call in (
        lambda: x.index_add_(-1, index, x),
        lambda: x.index_select(1, index),
        lambda: x.index_copy_(1, index, x),
        lambda: x[0, 9],
        lambda: x[:, index],
    ):
        with pytest.raises(kind):
            call()
    with pytest.raises(kind, match="self indexing axis dim should be positive"):
        ad.zeros(0, 3).index_select(0, index)
    assert pickle.loads(pickle.dumps(ad._C.IndexError("a"))).args == ("a",)


def test_ones_and_zeros_of_any_type():
    for dtype in TYPES:
        out = ad.full((64,), 2).to(dtype)
        ad.bernoulli(ad.rand(64), out=out)
        assert {*out.to(ad.int64).tolist()} <= {0, 1} and out.dtype is dtype


def test_a_range_of_another_length_warns():
    with pytest.warns(UserWarning, match="computed number of elements 3"):
        assert ad.arange(3, out=ad.zeros(5, dtype=ad.int64)).tolist() == [0, 1, 2]


def test_sequences_of_numbers_and_draws_that_cannot_be():
    assert ad.linspace(0, 2j, 3).tolist() == [0, 1j, 2j]
    for kind, message, call in (
        (NotImplementedError, "not implemented for 'Bool'", lambda: ad.arange(3, dtype=ad.bool)),
        (RuntimeError, "Negative sizes and strides", lambda: ad.empty_strided((2,), (-1,))),
        (RuntimeError, "mismatch in length of strides", lambda: ad.empty_strided((2, 3), (1,))),
        (RuntimeError, "to - 1 is out of bounds", lambda: ad.zeros(2, dtype=ad.uint8).random_(0, 300)),
        (RuntimeError, "Rotation dim1 out of range", lambda: ad.rot90(ad.ones(2, 2), 1, (0, 5))),
        (TypeError, "must be a Tensor", lambda: ad.isin(1, 2)),
        (RuntimeError, "std and var only support", lambda: ad.ones(2, dtype=ad.int64).std()),
        (
            RuntimeError,
            "argument alpha must not be",
            lambda: ad.add(ad.tensor([1]), ad.tensor([1]), alpha=1.5),
        ),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_sparse_tensors_of_another_shape():
    x = ad.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    assert x.sparse_resize_((3, 4), 2, 0) is x and x.to_dense().sum() == 5 and x.shape == (3, 4)
    with pytest.raises(RuntimeError, match="on a non-empty sparse tensor"):
        x.sparse_resize_((3, 4), 1, 1)
    assert x.sparse_resize_and_clear_((2, 5), 1, 1)._nnz() == 0 and x.to_dense().shape == (2, 5)
    assert ad.eye(2).to_sparse_csr().to_sparse().layout is ad.sparse_coo


def test_numpy_s_functions_give_tensors():
    numpy = pytest.importorskip("numpy")
    x = ad.tensor([1, -2])
    assert numpy.abs(x).tolist() == [1, 2] and isinstance(numpy.abs(x), ad.Tensor)
    assert isinstance(x + numpy.array([1, 2]), ad.Tensor) and (x + numpy.array([1, 2])).tolist() == [2, 0]


def test_sizes_are_whole_numbers():
    numpy = pytest.importorskip("numpy")
    made = ad.Size([0, ad.tensor(2), numpy.int64(3), True])
    assert made == (0, 2, 3, 1) and all(type(n) is int for n in made)
    assert type(made + (1,)) is type(made[1:]) is ad.Size and ad.Size() == ()
    for wrong in (ad.ones(3), [1.5], ["a"], 3):
        with pytest.raises(TypeError):
            ad.Size(wrong)


@pytest.mark.parametrize("kind", ["bool", "int32", "float32", "complex64"])
def test_arrays_are_compared_element_by_element(kind):
    numpy = pytest.importorskip("numpy")
    a = numpy.array([0, 1, 0]).astype(kind)
    x = ad.tensor([0, 1, 1], dtype=getattr(ad, kind))
    assert (x == a).tolist() == [True, True, False] and (x != a).tolist() == [False, False, True]
    assert (x == numpy.array(["a"])) is False


def test_powers_and_sides_that_cannot_be():
    for message, call in (
        ("x must be a one-dimensional tensor", lambda: ad.vander(ad.tensor(1))),
        ("N must be non-negative", lambda: ad.vander(ad.tensor([1]), N=-1)),
        ("can only be 'left' or 'right' but got bad", lambda: ad.searchsorted(ad.ones(1), 1.0, side="bad")),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.warns(UserWarning, match="You can explicitly reuse an out tensor t by resizing it"):
        assert ad.normal(ad.ones(2, 3), 1.0, out=ad.ones(3)).shape == (2, 3)
