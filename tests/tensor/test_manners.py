"""A tensor as a Python object: conversions, protocols, copies, pickles, attributes, subclasses."""

import copy
import gc
import io
import operator
import pickle
import sys
import weakref

import numpy as np
import pytest
from helpers import ALL_DTYPES, NUMPY_DTYPES, array, assert_same, dtype_of, shares_memory, tensor

import adjoint as ad


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_item_and_tolist(name):
    kind = bool if name == "bool" else complex if "complex" in name else float if "float" in name else int
    x = ad.tensor([[0, 1]], dtype=dtype_of(name))
    assert x.tolist() == [[0, 1]]
    assert type(x.tolist()[0][1]) is kind and type(x[0, 1].item()) is kind
    assert x[0, 1].tolist() == 1
    assert ad.tensor([[5]], dtype=dtype_of(name)).item() == (1 if name == "bool" else 5)


def test_item_needs_one_element():
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        ad.ones(2).item()
    with pytest.raises(RuntimeError, match="a Tensor with 0 elements cannot be converted to Scalar"):
        ad.ones(0).item()


def test_conversions():
    x = ad.tensor([2.75])
    assert float(x) == 2.75 and int(x) == 2 and complex(x) == 2.75 and bool(x)
    assert not bool(ad.tensor(0)) and bool(ad.tensor([[True]]))
    assert operator.index(ad.tensor(3)) == 3 and [10, 20][ad.tensor(1)] == 20
    assert list(range(ad.tensor(2))) == [0, 1]
    assert round(float(ad.tensor(2.5)) + 0.1) == 3
    assert f"{ad.tensor(1.5):.2f}" == "1.50"
    for bad in (ad.tensor(1.5), ad.tensor([1, 2])):
        with pytest.raises(
            TypeError, match="only integer tensors of a single element can be converted to an index"
        ):
            operator.index(bad)
    with pytest.raises(
        RuntimeError, match="Boolean value of Tensor with (more than one value|no values) is ambiguous"
    ):
        bool(ad.ones(2))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(ad.ones(0))
    for number in int, float, complex:
        for bad in ad.ones(2), ad.ones(0):
            with pytest.raises(
                ValueError, match="only one element tensors can be converted to Python scalars"
            ):
                number(bad)
    for bad in ad.tensor(1.5), ad.tensor(1j):
        with pytest.raises(TypeError, match="only implemented on integer and Boolean-type tensors"):
            ~bad
        with pytest.raises(NotImplementedError):
            ad.bitwise_not(bad)
    with pytest.raises((ValueError, OverflowError, RuntimeError)):
        int(ad.tensor(float("nan")))


def test_sequence():
    x = ad.arange(6).reshape(3, 2)
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    a, b, c = x
    assert shares_memory(a, x) and c.tolist() == [4, 5]
    assert [r.tolist() for r in reversed(x)] == [[4, 5], [2, 3], [0, 1]]
    assert 3 in x and 9 not in x
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(ad.tensor(1))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(ad.tensor(1))
    y = ad.ones(2, requires_grad=True)
    assert all(element.grad_fn is not None for element in y)


def test_hash_is_identity():
    x, y = ad.ones(1), ad.ones(1)
    assert hash(x) == hash(x) and len({x, y, x}) == 2
    assert {x: "x"}[x] == "x"


def test_numpy_is_zero_copy():
    x = ad.arange(6, dtype=ad.float64).reshape(2, 3)
    a = x.numpy()
    assert isinstance(a, np.ndarray) and a.dtype == np.float64
    a[0, 0] = 9
    assert x[0, 0].item() == 9
    view = x.T[1:]
    assert view.numpy().strides == (8, 24)
    np.testing.assert_array_equal(view.numpy(), a.T[1:])
    x.add_(1)
    assert a[0, 0] == 10
    # The array keeps the memory alive.
    b = ad.full((1000,), 3.0).numpy()
    gc.collect()
    assert b.sum() == 3000


def test_numpy_with_gradient():
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        x.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)
    assert x.detach().numpy().tolist() == [1, 1]
    assert x.numpy(force=True).tolist() == [1, 1]


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_array_protocol(name):
    x = ad.tensor([[0, 1], [1, 0]], dtype=dtype_of(name))
    a = np.asarray(x)
    assert a.dtype == NUMPY_DTYPES[name] and a.tolist() == x.tolist()
    assert np.array(x).tolist() == x.tolist()
    assert np.asarray(x, dtype=np.float64 if "complex" not in name else np.complex128).tolist() == x.tolist()
    assert np.asarray(ad.tensor(1, dtype=dtype_of(name))).shape == ()


def test_numpy_functions_take_tensors():
    x = ad.tensor([1.0, 4.0])
    assert np.sqrt(np.asarray(x)).tolist() == [1, 2]
    assert np.sum(x.numpy()) == 5
    assert np.stack([x, x]).shape == (2, 2)
    assert (np.float64(2) * np.asarray(x)).tolist() == [2, 8]
    assert_same(x + ad.from_numpy(np.ones(2, np.float32)), np.array([2.0, 5.0]))


def test_bfloat16_has_no_numpy():
    with pytest.raises(TypeError, match="(?i)bfloat16|ScalarType"):
        ad.ones(2, dtype=ad.bfloat16).numpy()


def test_buffer_protocol():
    """A tensor's memory can be looked at, and written, without NumPy."""
    x = ad.arange(6, dtype=ad.int32).reshape(2, 3)
    view = memoryview(x)
    assert view.shape == (2, 3) and view.itemsize == 4 and view.strides == (12, 4)
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view[1, 2] = 7
    assert x[1, 2].item() == 7
    assert memoryview(x.T).tolist() == [[0, 3], [1, 4], [2, 7]]
    kept = memoryview(ad.full((1000,), 2.0))
    gc.collect()
    assert sum(kept) == 2000


def test_frombuffer():
    source = bytearray(b"\x01\x02\x03")
    shared = ad.frombuffer(source, dtype=ad.uint8)
    assert shared.tolist() == [1, 2, 3]
    shared[0] = 9
    assert source[0] == 9
    assert ad.frombuffer(source, dtype=ad.uint8, count=1, offset=2).tolist() == [3]
    with pytest.raises(ValueError):
        ad.frombuffer(source, dtype=ad.float32)


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_dlpack_both_ways(name):
    x = ad.tensor([[0, 1], [1, 1]], dtype=dtype_of(name))
    a = np.from_dlpack(x)
    assert a.dtype == NUMPY_DTYPES[name] and a.tolist() == x.tolist()
    assert a.__array_interface__["data"][0] == x.data_ptr()
    b = np.array([[0, 1], [1, 0]]).astype(name)
    y = ad.from_dlpack(b)
    assert y.dtype == dtype_of(name) and y.tolist() == b.tolist()
    assert y.data_ptr() == b.__array_interface__["data"][0]


def test_dlpack_details():
    x = ad.arange(6.0).reshape(2, 3)
    assert tuple(x.__dlpack_device__()) == (1, 0)
    assert np.from_dlpack(x.T).strides == (4, 12)
    z = ad.from_dlpack(x)
    assert shares_memory(x, z)
    z[0, 0] = 5
    assert x[0, 0].item() == 5
    copied = np.from_dlpack(x, copy=True)
    copied[0, 0] = -1
    assert x[0, 0].item() == 5
    with pytest.raises((RuntimeError, BufferError), match="requires_grad|require gradient|requires grad"):
        np.from_dlpack(ad.ones(1, requires_grad=True))
    capsule = x.__dlpack__()
    assert "dltensor" in repr(capsule)
    del capsule
    with pytest.raises((RuntimeError, ValueError, BufferError, TypeError, AssertionError)):
        x.__dlpack__(stream=17)


def test_dlpack_releases_memory():
    kept = np.from_dlpack(ad.full((1000,), 2.0))
    gc.collect()
    assert kept.sum() == 2000
    a = np.ones(1000)
    before = sys.getrefcount(a)
    x = ad.from_dlpack(a)
    assert x.sum().item() == 1000
    del x
    gc.collect()
    assert sys.getrefcount(a) == before


def test_copy_shares_and_deepcopy_does_not():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.sum().backward()
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shares_memory(x, shallow) and not shares_memory(x, deep)
    assert deep.tolist() == [1, 2] and deep.requires_grad and deep.is_leaf
    assert deep.grad.tolist() == [1, 1] and deep.grad is not x.grad
    with pytest.raises(RuntimeError, match="[Oo]nly Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)
    base = ad.zeros(4)
    pair = copy.deepcopy([base, base[1:], base])
    assert pair[0] is pair[2] and shares_memory(pair[0], pair[1])
    memo_view = copy.deepcopy(ad.zeros(3, 4).T)
    assert memo_view.stride() == (1, 4)


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickle(name, protocol):
    x = ad.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype_of(name))
    for value in (x, x.T, x[:, 1:], ad.zeros(0, 3, dtype=x.dtype), x[0, 1]):
        back = pickle.loads(pickle.dumps(value, protocol))
        assert back.dtype == value.dtype and back.shape == value.shape and back.tolist() == value.tolist()
        assert back.stride() == value.stride()


def test_pickle_of_a_leaf_and_of_a_result():
    x = ad.ones(2, requires_grad=True)
    back = pickle.loads(pickle.dumps(x))
    assert back.requires_grad and back.is_leaf
    stream = io.BytesIO()
    pickle.dump({"a": x, "b": [x.detach()]}, stream)
    stream.seek(0)
    assert pickle.load(stream)["b"][0].tolist() == [1, 1]


def test_weak_references_and_attributes():
    x = ad.ones(2)
    x.note = "mine"
    assert x.note == "mine"
    with pytest.raises(AttributeError):
        x.nothing  # noqa: B018
    ref = weakref.ref(x)
    assert ref() is x
    del x
    assert ref() is None


def test_identity_survives_inside_the_graph():
    x = ad.ones(2, requires_grad=True)
    x.note = "leaf"
    y = x * 2
    seen = y.grad_fn.next_functions[0][0].variable
    assert seen is x and seen.note == "leaf"
    y.sum().backward()
    assert x.grad is x.grad


def test_subclass():
    class Mine(ad.Tensor):
        def double(self):
            return self * 2

    x = ad.tensor([1.0]).as_subclass(Mine)
    assert isinstance(x, Mine) and x.double().tolist() == [2]


class Flagged(ad.nn.Parameter):
    """A parameter with a name for its role: the usual reason to subclass."""


def test_parameter_is_a_tensor():
    p = Flagged(ad.ones(2))
    assert isinstance(p, ad.Tensor) and isinstance(p, ad.nn.Parameter) and p.requires_grad
    assert type(p) is Flagged


def test_attributes():
    x = ad.zeros(2, 3, dtype=ad.float64)
    assert x.shape == (2, 3) and x.size() == (2, 3) and x.size(-1) == 3 and x.ndim == x.dim() == 2
    assert x.shape.numel() == 6 and isinstance(x.shape, tuple)
    assert x.numel() == x.nelement() == 6
    assert x.element_size() == x.itemsize == 8 and x.nbytes == 48
    assert x.dtype == ad.float64 and str(x.device) == "cpu" and x.device.type == "cpu"
    assert x.is_leaf and not x.requires_grad and x.grad is None and x.grad_fn is None
    assert x.data_ptr() % 8 == 0 and ad.is_tensor(x) and not ad.is_tensor(1)
    assert x.is_floating_point() and not x.is_complex() and x.is_contiguous()
    assert x.untyped_storage().nbytes() == 48


def test_data_and_detach():
    x = ad.ones(2, requires_grad=True)
    x.data.mul_(3)
    assert x.tolist() == [3, 3] and not x.data.requires_grad
    d = x.detach()
    assert shares_memory(x, d) and not d.requires_grad
    x.data = ad.zeros(2)
    assert x.tolist() == [0, 0] and x.requires_grad


def test_to():
    x = ad.ones(2)
    assert x.to(ad.float32) is x and x.to("cpu") is x and x.cpu() is x
    assert x.to(ad.float64).dtype == ad.float64
    assert x.to(ad.zeros(1, dtype=ad.int8)).dtype == ad.int8
    assert x.to(ad.float32, copy=True) is not x
    assert x.to(device="cpu", dtype=ad.float16).dtype == ad.float16
    assert x.type(ad.int64).dtype == ad.int64
    assert x.type_as(ad.zeros(1, dtype=ad.float64)).dtype == ad.float64
    for shorthand, dtype in (
        ("double", ad.float64),
        ("float", ad.float32),
        ("half", ad.float16),
        ("bfloat16", ad.bfloat16),
        ("long", ad.int64),
        ("int", ad.int32),
        ("short", ad.int16),
        ("char", ad.int8),
        ("byte", ad.uint8),
        ("bool", ad.bool),
    ):
        assert getattr(x, shorthand)().dtype == dtype
    y = ad.ones(2, requires_grad=True)
    (g,) = ad.autograd.grad(y.double().sum(), y)
    assert g.dtype == ad.float32
    with pytest.raises((RuntimeError, AssertionError), match="(?i)cuda|device"):
        x.to("cuda")


def test_filling():
    x = ad.zeros(2, 3)
    assert x.fill_(2) is x and x.tolist() == [[2] * 3] * 2
    assert x.zero_() is x and x.sum().item() == 0
    assert x.copy_(ad.arange(3)) is x and x.tolist() == [[0, 1, 2]] * 2
    x.T.copy_(ad.arange(6).reshape(3, 2))
    assert x.tolist() == [[0, 2, 4], [1, 3, 5]]
    with pytest.raises(RuntimeError, match="(?i)size|shape|broadcast"):
        x.copy_(ad.zeros(4))
    i = ad.zeros(2, dtype=ad.int64)
    i.copy_(ad.tensor([1.9, -1.9]))
    assert i.tolist() == [1, -1]
    overlapping = ad.arange(6.0)
    overlapping[1:].copy_(overlapping[:-1].clone())
    assert overlapping.tolist() == [0, 0, 1, 2, 3, 4]
    assert x.clone().tolist() == x.tolist() and not shares_memory(x, x.clone())
    y = ad.zeros(3, requires_grad=True)
    (g,) = ad.autograd.grad((y.clone() * 2).sum(), y)
    assert g.tolist() == [2, 2, 2]


def test_threads_and_default_dtype():
    ad.set_num_threads(2)
    assert ad.get_num_threads() == 2
    with pytest.raises((RuntimeError, ValueError)):
        ad.set_num_threads(0)
    ad.set_default_dtype(ad.float64)
    assert ad.zeros(1).dtype == ad.float64 and tensor([1.0]).dtype == ad.float64
    with pytest.raises(TypeError):
        ad.set_default_dtype(ad.int64)


def test_array_of_a_copy_is_independent():
    x = ad.ones(2)
    a = array(x)
    x.zero_()
    assert a.tolist() == [1, 1]
