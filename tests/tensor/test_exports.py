"""Memory that arrays, buffers and capsules show: it stays where it is and what it is, whatever becomes of the tensor.

Who exports memory holds the storage and not the tensor. Start reading at `OUT`, the ways out, and `CHANGES`, what may give a
tensor other memory or would move its own.
"""

import gc

import numpy as np
import pytest

import adjoint as ad

OUT = {
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "memoryview": lambda x: np.asarray(memoryview(x)),
    "__dlpack__": np.from_dlpack,
    "capsule": lambda x: ad.from_dlpack(x.__dlpack__()).numpy(),
    "a part": lambda x: x[1:].numpy(),
    "detach": lambda x: x.detach().numpy(),
    "data": lambda x: x.data.numpy(),
    "storage": lambda x: np.asarray(memoryview(ad.tensor([], dtype=x.dtype).set_(x.untyped_storage()))),
}


def _module(x):
    parameter = ad.nn.Module()
    parameter.register_buffer("x", x)
    parameter.double()


def _set_data(x):
    x.data = ad.zeros(3)


def _delete_owner(x):
    x.data = ad.zeros(x.shape[0])
    gc.collect(0)


CHANGES = {
    "data": _set_data,
    "data of the same size": _delete_owner,
    "set_": lambda x: x.set_(ad.zeros(1)),
    "set_ to nothing": lambda x: x.set_(),
    "resize_ larger": lambda x: x.resize_(8 * x.numel() + 1000),
    "resize_ to nothing": lambda x: x.resize_(0),
    "storage larger": lambda x: x.untyped_storage().resize_(10 * x.untyped_storage().nbytes() + 10000),
    "storage to nothing": lambda x: x.untyped_storage().resize_(0),
    "share_memory_": lambda x: x.share_memory_(),
    "out": lambda x: ad.add(ad.ones(9 * x.numel() + 1), 1.0, out=x.resize_(0)),
    "swap": lambda x: ad.utils.swap_tensors(x, ad.zeros(2)),
    "double": _module,
    "as_strided_": lambda x: x.as_strided_((1,), (1,)),
    "nothing": lambda x: None,
}
REFUSED = "storage that is not resizable|other tensors share the memory|are out of bounds for storage"


@pytest.mark.parametrize("size", [8, 300, 1 << 16])
@pytest.mark.parametrize("out", OUT)
def test_what_is_exported_stays(out, size):
    gc.collect()
    for change in CHANGES.values():
        x = ad.full((size,), 3.0)
        a = OUT[out](x)
        try:
            change(x)
        except RuntimeError as error:
            assert any(words in str(error) for words in REFUSED.split("|")), error
        gc.collect(0)
        others = [ad.full((size,), 7.0) for _ in range(12)]
        assert (a == 3.0).all()
        a[...] = -1.0
        assert all((t == 7.0).all() for t in others)


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_exports_and_changes(seed):
    rng = np.random.default_rng(seed)
    tensors, exported = [ad.full((int(rng.choice([5, 200, 5000])),), float(i)) for i in range(4)], []
    outs, changes = list(OUT.values()), list(CHANGES.values())
    for step in range(40):
        i = int(rng.integers(len(tensors)))
        if tensors[i].numel() < 2 or tensors[i].dtype is not ad.float32 or rng.random() < 0.1:
            tensors[i] = ad.full((int(rng.choice([5, 200, 5000])),), 100.0 + step)
        x = tensors[i]
        if rng.random() < 0.4:
            a = outs[rng.integers(len(outs))](x)
            exported.append((a, a.copy()))
        else:
            try:
                changes[rng.integers(len(changes))](x)
            except RuntimeError as error:
                assert any(words in str(error) for words in REFUSED.split("|")), error
        if exported and rng.random() < 0.2:
            del exported[rng.integers(len(exported))]
        for a, values in exported:
            np.testing.assert_array_equal(a, values)


def test_memory_moves_again_when_the_exports_have_gone():
    x = ad.arange(4.0)
    a, m = x.numpy(), memoryview(x)
    storage = x.untyped_storage()
    assert not storage.resizable()
    with pytest.raises(
        RuntimeError, match="Trying to resize storage that is not resizable: an array, a buffer or a capsule"
    ):
        storage.resize_(1 << 20)
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.resize_(100000)
    del a
    m.release()
    assert storage.resizable()
    storage.resize_(1 << 20)
    assert x.resize_(100000)[:4].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_more_exports_than_are_counted():
    x = ad.zeros(3)
    arrays = [x.numpy() for _ in range(200)]
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(1 << 20)
    arrays[7][1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]


def test_an_array_shows_the_data_that_a_module_had():
    m = ad.nn.Linear(100, 100).requires_grad_(False)
    a = m.weight.numpy()
    values = a.copy()
    m.double()
    others = [ad.full((100, 100), 7.0) for _ in range(9)]
    assert (a == values).all() and len(others) == 9
