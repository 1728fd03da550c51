"""Devices are values, whatever they name; only making a tensor on one that is not there fails. The meta device is there: its
tensors have shapes and no elements (operators on it: tests/ops/test_devices.py)."""

import copy
import pickle

import pytest

import adjoint as ad
from adjoint import nn


@pytest.mark.parametrize(
    "made, kind, index, text",
    [
        (lambda: ad.device("cuda"), "cuda", None, "cuda"),
        (lambda: ad.device("cuda:1"), "cuda", 1, "cuda:1"),
        (lambda: ad.device("cuda", 1), "cuda", 1, "cuda:1"),
        (lambda: ad.device(type="mps", index=0), "mps", 0, "mps:0"),
        (lambda: ad.device("meta"), "meta", None, "meta"),
        (lambda: ad.device(ad.device("cuda:2")), "cuda", 2, "cuda:2"),
        (lambda: ad.ones(1).device, "cpu", None, "cpu"),
    ],
)
def test_values(made, kind, index, text):
    d = made()
    assert (d.type, d.index, str(d)) == (kind, index, text)
    assert d == ad.device(text) and hash(d) == hash(ad.device(text)) and d != text
    assert pickle.loads(pickle.dumps(d)) == copy.deepcopy(d) == d
    assert eval(repr(d), {"device": ad.device}) == d


def test_equality_is_of_kind_and_number():
    names = ["cpu", "cpu:0", "cuda", "cuda:0", "cuda:1", "meta"]
    assert len({ad.device(name) for name in names}) == len(names)
    assert all((ad.device(a) == ad.device(b)) == (a == b) for a in names for b in names)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("cuda:01",), "Invalid device string: 'cuda:01'"),
        (("cuda:",), "Invalid device string"),
        (("cuda:x",), "Invalid device string"),
        (("cuda:²",), "Invalid device string"),
        ((":0",), "Invalid device string"),
        (("",), "Device string must not be empty"),
        (("banana",), "Expected one of cpu, cuda, .* device type at start of device string: banana"),
        (("cuda:1", 1), "must not include an index because index was passed explicitly"),
        (("cuda", -1), "Device index must not be negative"),
        ((0,), "Cannot access accelerator device when none is available"),
    ],
)
def test_what_is_no_device(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        ad.device(*arguments)


@pytest.mark.parametrize("arguments", [(), ([],), (None,), (1.5,), ("cuda", "1"), (True,)])
def test_wrong_types(arguments):
    with pytest.raises(TypeError, match="device|argument"):
        ad.device(*arguments)


def test_a_device_cannot_be_changed():
    with pytest.raises(AttributeError):
        ad.device("cpu").type = "cuda"


MAKERS = {
    "ones": lambda d: ad.ones(1, device=d),
    "tensor": lambda d: ad.tensor([1], device=d),
    "rand": lambda d: ad.rand(1, device=d),
    "arange": lambda d: ad.arange(3, device=d),
    "zeros_like": lambda d: ad.zeros_like(ad.ones(1), device=d),
    "new_ones": lambda d: ad.ones(1).new_ones(1, device=d),
    "to": lambda d: ad.ones(1).to(d),
    "to keyword": lambda d: ad.ones(1).to(device=d),
    "module": lambda d: ad.nn.Linear(1, 1).to(d),
    "layer": lambda d: ad.nn.Linear(1, 1, device=d),
    "generator": lambda d: ad.Generator(device=d),
    "default": lambda d: ad.set_default_device(d),
    "context": lambda d: ad.device(d).__enter__(),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_only_making_something_there_fails(make, name):
    for device in (name, ad.device(name)):
        with pytest.raises(RuntimeError, match=f"no device '{name}': the devices are 'cpu'(,| and) 'meta'"):
            make(device)
    make("cpu")
    make(ad.device("cpu:0"))


def test_cuda_fails_as_torch_without_cuda_does():
    for make in (lambda: ad.ones(1, device="cuda"), lambda: ad.ones(1).cuda(), lambda: ad.ones(1).cuda(1)):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            make()


def test_a_generator_is_on_the_cpu():
    assert ad.Generator().device == ad.device("cpu")


# --- the meta device -------------------------------------------------------------------------------------------------


def meta(*shape, **keywords):
    return ad.empty(*shape, device="meta", **keywords)


@pytest.mark.parametrize(
    "make", [m for name, m in MAKERS.items() if name not in ("generator", "default", "context")]
)
def test_meta_tensors_are_made_everywhere(make):
    made = make("meta")
    for t in made.parameters() if isinstance(made, nn.Module) else [made]:
        assert t.is_meta and not t.is_cpu and t.device == ad.device("meta") and t.get_device() == -1
    assert not ad.ones(1).is_meta


def test_where_tensors_are_made():
    with ad.device("meta"):
        made = [
            ad.ones(2),
            ad.tensor([1.0]),
            ad.randn(2),
            ad.arange(3),
            ad.tril_indices(3, 3),
            nn.Linear(2, 2).weight,
        ]
        assert ad.get_default_device() == ad.device("meta")
        assert ad.ones(1, device="cpu").is_cpu and ad.as_tensor([1]).is_meta
        with ad.device("cpu"):
            assert ad.ones(1).is_cpu
    assert all(t.is_meta for t in made) and made[4].shape == (2, 6)
    assert ad.ones(1).is_cpu and ad.get_default_device() == ad.device("cpu")
    ad.set_default_device("meta")
    try:
        assert ad.ones(2).is_meta
    finally:
        ad.set_default_device(None)
    # A tensor says where those like it are made, whatever is the default.
    with ad.device("meta"):
        x = ad.ones(2, device="cpu")
        assert ad.zeros_like(x).is_cpu and x.new_ones(2).is_cpu and (x + 1).is_cpu
    assert meta(2).new_zeros(3).is_meta and ad.zeros_like(meta(2)).is_meta and ad.rand_like(meta(2)).is_meta
    assert ad.zeros_like(meta(2, 3).t(), device="cpu").stride() == (1, 3)


def test_nothing_is_allocated():
    x = meta(10**6, 10**6)
    before = ad._C.memory_statistics()["allocated_bytes"]
    y = (x @ x).sin().sum(0).sort()[0]
    assert y.shape == (10**6,) and x.untyped_storage().nbytes() == 4 * 10**12 and x.data_ptr() == 0
    assert ad._C.memory_statistics()["allocated_bytes"] - before < 10**5


def test_how_meta_tensors_are_written():
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(meta(2, requires_grad=True)) == "tensor(..., device='meta', size=(2,), requires_grad=True)"
    assert repr(meta((), dtype=ad.int64)) == "tensor(..., device='meta', size=(), dtype=adjoint.int64)"


ELEMENTS = {
    "item": (lambda x: x[0, 0].item(), RuntimeError, "item.. cannot be called on meta tensors"),
    "float": (lambda x: float(x[0, 0]), RuntimeError, "item.. cannot be called on meta tensors"),
    "bool": (lambda x: bool(x[0, 0]), RuntimeError, "item.. cannot be called on meta tensors"),
    "allclose": (lambda x: ad.allclose(x, x), RuntimeError, "item.. cannot be called on meta tensors"),
    "tolist": (lambda x: x.tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "cpu": (lambda x: x.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "to": (lambda x: x.to("cpu"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "copy_": (
        lambda x: ad.ones(2, 3).copy_(x),
        NotImplementedError,
        "Cannot copy out of meta tensor; no data!",
    ),
    "numpy": (lambda x: x.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
    "buffer": (lambda x: memoryview(x), TypeError, "can't convert meta device type tensor to numpy"),
    "dlpack": (lambda x: x.__dlpack__(), BufferError, "Cannot pack tensors on meta"),
    "nonzero": (lambda x: x.nonzero(), NotImplementedError, "nonzero.*Meta tensors"),
    "mask": (lambda x: x[x > 0], NotImplementedError, "masked_select.*Meta tensors"),
    "unique": (lambda x: x.unique(), NotImplementedError, "unique.*Meta tensors"),
    "module": (
        lambda x: nn.Linear(2, 3, device="meta").to("cpu"),
        NotImplementedError,
        "no data! Please use adjoint.nn.Module.to_empty",
    ),
    "storage": (
        lambda x: x.untyped_storage().tolist(),
        NotImplementedError,
        "Cannot copy out of meta tensor",
    ),
}


@pytest.mark.parametrize("ask, error, message", ELEMENTS.values(), ids=ELEMENTS)
def test_elements_are_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask(meta(2, 3))


MIXTURES = {
    "add": lambda x, y: x + y,
    "add_": lambda x, y: x.add_(y),
    "matmul": lambda x, y: x @ y.t(),
    "cat": lambda x, y: ad.cat([x, y]),
    "where": lambda x, y: ad.where(x > 0, y, x),
    "linear": nn.functional.linear,
    "index_select": lambda x, y: x.index_select(0, y[0].long()),
    "mul": lambda x, y: ad.mul(y, x),
}


@pytest.mark.parametrize("mix", MIXTURES.values(), ids=MIXTURES)
def test_mixtures_are_refused(mix):
    for x, y in ((meta(2, 3), ad.zeros(2, 3)), (ad.zeros(2, 3), meta(2, 3))):
        with pytest.raises(
            RuntimeError,
            match="(?s)not on the expected device.*Expected all tensors to be on the same device",
        ):
            mix(x, y)


def test_what_may_be_mixed():
    x, number = meta(2, 3), ad.tensor(2.0)
    assert all(
        t.is_meta
        for t in (x + 1, 2.0 * x, x * number, number - x, ad.where(x > 0, number, x), x.copy_(ad.ones(2, 3)))
    )
    # Indices may be on the CPU, and are checked there.
    assert x[ad.tensor([0, 1, 1])].shape == (3, 3) and x[0].is_meta
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        ad.ones(2)[meta(1, dtype=ad.int64)]
    for write in (lambda: ad.add(number, number, out=meta()), lambda: ad.sum(ad.ones(2), out=meta())):
        with pytest.raises(RuntimeError, match="device"):
            write()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        ad.ones(2).data = meta(2)
    leaf = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with device type 'meta'"):
        leaf.grad = meta(2)


def test_gradients_of_shapes():
    x = meta(2, 3, requires_grad=True)
    (x * x).sum().backward()
    (x.sin() @ ad.ones(3, device="meta")).sum().backward()
    assert x.grad.is_meta and x.grad.shape == (2, 3)
    y = ad.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        y.to("meta").sum().backward()
    with ad.autograd.forward_ad.dual_level():
        d = ad.autograd.forward_ad.make_dual(meta(3), meta(3))
        assert ad.autograd.forward_ad.unpack_dual(d.exp()).tangent.is_meta
    assert ad.func.vmap(lambda t: t.sin() @ t)(meta(4, 3)).shape == (4,)


def test_modules():
    layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.LSTM(3, 4))
    weight = layer[0].weight
    assert layer.to("meta") is layer and all(t.is_meta for t in layer.state_dict().values())
    assert layer[0].weight.is_meta and layer[0].weight.requires_grad and weight.is_cpu
    result, _ = layer(meta(5, 2))
    assert result.shape == (5, 4)
    result.sum().backward()
    optimizer = ad.optim.Adam(layer.parameters())
    optimizer.step()
    layer.to_empty(device="cpu")
    assert all(t.is_cpu for t in layer.state_dict().values())
    with ad.device("meta"):
        skeleton = nn.Linear(2, 3)
    skeleton.load_state_dict(nn.Linear(2, 3).state_dict(), assign=True)
    assert skeleton.weight.is_cpu and skeleton(ad.ones(1, 2)).shape == (1, 3)


def test_functions_make_tensors_where_the_program_does():
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ad.ones(2).is_cpu and float(ad.tensor([1.5]).sin()) > 0
            return g * 2

    x = meta(3, requires_grad=True)
    x.register_hook(lambda g: g * ad.tensor(2.0))
    Double.apply(x).sum().backward()
    assert x.grad.is_meta


def test_copies_and_pickles(tmp_path):
    x, y = meta(4), meta(2, 3, dtype=ad.float64).t()
    for z in (copy.copy(y), copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert z.is_meta and (z.shape, z.stride(), z.dtype) == (y.shape, y.stride(), y.dtype)
    a, b, c = copy.deepcopy([x, x[1:], meta(4)])
    assert a.untyped_storage().nbytes() == 16 and b.storage_offset() == 1 and c.is_meta
    ad.save({"x": y, "p": nn.Parameter(x)}, tmp_path / "saved")
    found = ad.load(tmp_path / "saved")
    assert found["x"].is_meta and found["x"].stride() == (1, 3) and isinstance(found["p"], nn.Parameter)
    ad.save(ad.ones(3), tmp_path / "ones")
    assert ad.load(tmp_path / "ones", map_location="meta").is_meta


def test_shapes_follow_in_place():
    x = meta(2, 3)
    assert x.resize_(4, 5).shape == (4, 5) and x.t_().shape == (5, 4) and x.unsqueeze_(0).shape == (1, 5, 4)
    assert ad.add(meta(2), meta(2), out=meta(0)).shape == (2,)
    assert ad.sum(meta(2, 3), 0, out=meta(0)).shape == (3,)
    x = meta(3, 4)
    x[1] = 2.0
    x[:, ad.tensor([0, 1])] = meta(3, 2)
    x[meta(3, 4, dtype=ad.bool)] = 1.0
    assert x.is_meta and x._version == 3


def test_kinds_of_a_library():
    import far_device  # noqa: F401

    x = ad.ones(2, 3, device="far:1")
    assert x.device == ad.device("far", 1) and x.get_device() == 1 and not x.is_cpu and not x.is_meta
    assert ad.zeros(1, device="far").device == ad.device("far:0")
    assert hash(x.device) == hash(ad.device("far:1")) != hash(ad.device("far:0"))
    assert pickle.loads(pickle.dumps(x.device)) == copy.deepcopy(x.device) == x.device
    assert str(x) == "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='far:1')"
    with x.device:
        assert ad.rand(2).device == ad.device("far:1") and ad.tensor([1.0]).tolist() == [1.0]
    for y in (
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        x.to("far:0").to("far:1"),
        x.cpu().to(x.device),
    ):
        assert y.device == x.device and y.tolist() == x.tolist()
    assert ad.ones_like(x).device == x.new_zeros(2).device == (x * 2.0).device == x.device
    with pytest.raises(RuntimeError, match="no device 'far:2': of this kind there are 2, 'far:0' to 'far:1'"):
        ad.ones(1, device="far:2")
    with pytest.raises(RuntimeError, match="far:0 out of memory. Tried to allocate 536870912 bytes"):
        ad.empty(2**27, device="far:0")
    with pytest.raises(TypeError, match="can't convert far:1 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(BufferError, match="tensors on far:1"):
        x.__dlpack__()


def test_mixed_devices_are_both_named():
    import far_device  # noqa: F401

    x, y = ad.ones(2, device="far:0"), ad.ones(2, device="far:1")
    with pytest.raises(RuntimeError, match="at least two devices, far:0 and far:1"):
        x + y
    with pytest.raises(RuntimeError, match="at least two devices, far:1 and cpu"):
        y.add_(ad.ones(2))
    with pytest.raises(RuntimeError, match="from device far:1 to device far:0"):
        ad.exp(y, out=x)
    w = ad.ones(2, device="far:1", requires_grad=True)
    (w * y).sum().backward()
    assert w.grad.device == w.device
    with pytest.raises(RuntimeError, match="far:1"):
        w.grad = x


def test_storages_elsewhere():
    import far_device  # noqa: F401

    x = ad.arange(4.0, device="far:1")
    x.resize_(6)
    assert x.tolist()[:4] == [0, 1, 2, 3] and str(x.device) == "far:1"
    x.data = ad.zeros(2, device="far:1")
    assert x.tolist() == [0, 0]
    net = nn.Linear(3, 2).to("far")
    assert {str(p.device) for p in net.parameters()} == {"far:0"}
    assert {str(t.device) for t in net.state_dict().values()} == {"far:0"}
