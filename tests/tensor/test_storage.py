"""The memory below tensors as an object: what it says, and what may be done to it."""

import numpy as np
import pytest

import adjoint as ad


def test_what_a_storage_says():
    x = ad.arange(6.0)[2:5]
    typed, untyped = x.storage(), x.untyped_storage()
    assert len(typed) == typed.size() == 6 and typed.nbytes() == untyped.nbytes() == len(untyped) == 24
    assert typed.dtype is ad.float32 and typed.element_size() == 4 and untyped.element_size() == 1
    assert typed.data_ptr() == untyped.data_ptr() == x.data_ptr() - 8
    assert typed.tolist() == list(typed) == [0, 1, 2, 3, 4, 5]
    assert typed[1] == 1 and typed[-1] == 5 and typed[1:3] == [1, 2]
    assert untyped.tolist() == list(np.arange(6, dtype=np.float32).tobytes())
    assert typed.untyped().data_ptr() == typed._untyped_storage.data_ptr() == untyped.data_ptr()
    assert not typed.is_shared() and typed.device.type == "cpu"
    with pytest.raises(IndexError):
        typed[6]


def test_writes_through_a_storage_are_counted():
    x = ad.zeros(4)
    version = x._version
    x.storage()[1] = 5
    x.untyped_storage().fill_(0)
    x.storage()[0] = 2
    assert x.tolist() == [2, 0, 0, 0] and x._version == version + 3
    other = ad.ones(4)
    assert x.storage().copy_(other.storage()).tolist() == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="have 4 and 5 elements"):
        x.storage().copy_(ad.ones(5).storage())
    copy = x.storage().clone()
    copy[0] = 9
    assert x.tolist() == [1, 1, 1, 1]


def test_storages_of_their_own():
    assert len(ad._tensor.storage.UntypedStorage(10)) == 10
    assert ad._tensor.storage.UntypedStorage([1, 2, 255]).tolist() == [1, 2, 255]
    assert ad._tensor.typed_storage.TypedStorage([1.5, 2.5], dtype=ad.float64).tolist() == [1.5, 2.5]
    for size in (-1, 2**62, 2**70):
        with pytest.raises((RuntimeError, MemoryError)):
            ad._tensor.storage.UntypedStorage(size)


@pytest.mark.parametrize("size", [3, 3000, 3_000_000])
def test_a_storage_that_gives_its_bytes_up_and_gets_them_back(size):
    x = ad.ones(size)
    view = x[1:]
    storage = x.untyped_storage()
    address = storage.data_ptr()
    assert storage.resize_(0) is storage and storage.nbytes() == 0 and x.storage().size() == 0
    x.sum(), view.tolist()[:3]  # whatever they hold: readable
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 0"):
        x.as_strided((2,), (1,))
    storage.resize_(4 * size)
    assert storage.data_ptr() == address
    x.fill_(3)
    assert view.sum() == 3 * (size - 1)


def test_a_storage_that_grows():
    x = ad.arange(3.0)
    x.untyped_storage().resize_(4000)
    assert x.storage().size() == 1000 and x.tolist() == [0, 1, 2] and x.storage()[999] == 0
    x.set_(x.untyped_storage(), 0, (1000,))
    assert x.shape == (1000,) and x.sum() == 3
    view = x[1:]
    with pytest.raises(RuntimeError, match="other tensors share it"):
        x.untyped_storage().resize_(8000)
    del view
    x.untyped_storage().resize_(8000)
    for bad in (-1, -(2**63)):
        with pytest.raises(RuntimeError, match="cannot have"):
            x.untyped_storage().resize_(bad)
    for bad in (2**62, 2**63 - 1):
        with pytest.raises(MemoryError):
            x.untyped_storage().resize_(bad)
    with pytest.raises(RuntimeError, match="not resizable"):
        ad.from_numpy(np.ones(3)).untyped_storage().resize_(0)


def test_growth_is_a_write():
    x = ad.ones(3, requires_grad=True)
    y = (x * 2).exp()
    y.detach()
    loss = y.sum()
    z = ad.ones(3)
    version = z._version
    z.untyped_storage().resize_(4000)
    assert z._version > version
    loss.backward()
    assert x.grad is not None


def test_set():
    x = ad.arange(6.0)
    y = ad.empty(0)
    assert y.set_(x.untyped_storage(), 1, (2, 2), (2, 1)) is y and y.tolist() == [[1, 2], [3, 4]]
    assert y.set_(x.storage(), 2).tolist() == [2, 3, 4, 5]
    assert y.set_(x.storage()).shape == (6,)
    assert y.set_(x, 3, 2).tolist() == [3, 4]
    y[0] = 9
    assert x[3] == 9
    assert y.set_().shape == (0,) and y.dtype is ad.float32 and y.storage().size() == 0
    for arguments in [
        (x.storage(), 5, (2,)),
        (x.storage(), 0, (2,), (2**62,)),
        (x.storage(), -1, (1,)),
        (x.storage(), 0, (2**62, 4)),
    ]:
        with pytest.raises(RuntimeError):
            y.set_(*arguments)
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        y.set_(ad.ones(2, dtype=ad.int32).storage())
    with pytest.raises(TypeError, match="argument 'source' must be a Tensor or a storage, not int"):
        y.set_(3)
    with pytest.raises(TypeError, match=r"Tensor\.set_\(\) takes"):
        y.set_(x, 0, 1, 1, 1)


def test_errors_name_the_method_and_no_inner_class():
    x = ad.ones(2)
    for name in ("copy_", "zero_", "index_put_", "set_", "storage", "__deepcopy__"):
        with pytest.raises(TypeError, match=rf"Tensor\.{name}\(\)"):
            getattr(x, name)(*[1] * 9)
