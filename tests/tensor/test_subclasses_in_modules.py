"""Subclasses of Tensor as parameters and in modules; what the default of `__torch_function__` does.

That operators keep the class is in test_subclasses.py.
"""

import copy
import sys
import threading

import pytest
from protocol import tensors_in

import adjoint as ad
from adjoint.utils.data import DataLoader, default_collate

F = ad.nn.functional


class Plain(ad.Tensor):
    pass


class Other(ad.Tensor):
    pass


def test_a_parameter_of_a_subclass():
    p = ad.nn.Parameter(Plain([1.0, 2.0]))
    assert type(p) is Plain and isinstance(p, ad.nn.Parameter) and p.requires_grad and p.is_leaf
    assert repr(p) == "Parameter(Plain([1., 2.], requires_grad=True))"
    assert not isinstance(Plain([1.0]), ad.nn.Parameter) and not isinstance(
        ad.nn.Parameter(ad.ones(1)), Plain
    )
    assert not isinstance(p, ad.nn.UninitializedParameter) and not isinstance(3, ad.nn.Parameter)
    layer = ad.nn.Linear(2, 1)
    layer.weight = ad.nn.Parameter(layer.weight.detach().as_subclass(Plain))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    y = layer(ad.ones(1, 2))
    assert type(y) is Plain
    y.sum().backward()
    before = layer.weight.tolist()
    ad.optim.SGD(layer.parameters(), 0.5).step()
    assert type(layer.weight) is Plain and layer.weight.tolist() == [[before[0][0] - 0.5, before[0][1] - 0.5]]
    again = copy.deepcopy(layer)
    assert type(again.weight) is Plain and isinstance(again.weight, ad.nn.Parameter) and again.weight.is_leaf
    again.load_state_dict(layer.state_dict())
    assert type(again.double().weight) is Plain and again.weight.dtype is ad.float64


def test_a_parameter_whose_class_is_lost_by_detach():
    class Loses(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with ad.overrides.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the same type"):
        ad.nn.Parameter(ad.ones(1).as_subclass(Loses))


def test_results_with_parameters_and_buffers_are_plain():
    p, b = ad.nn.Parameter(ad.ones(2, 2)), ad.nn.Buffer(ad.ones(2, 2))
    for x in (p, b):
        for result in (
            x * 2,
            x.T,
            x[0],
            x.data,
            x.detach(),
            x.clone(),
            F.linear(x, x),
            ad.zeros_like(x),
            x.sum(),
            ad.cat([x, x]),
        ):
            assert type(result) is ad.Tensor
    mine = type("Mine", (ad.nn.Parameter,), {})(ad.ones(2))
    assert (
        type(mine) is not ad.nn.Parameter
        and type(mine + 1) is ad.Tensor
        and type(type(mine)(mine)) is type(mine)
    )
    assert ad.nn.Parameter.__torch_function__ is ad.nn.Buffer.__torch_function__


MODULES = {
    "Linear": (ad.nn.Linear(8, 3), (2, 8)),
    "Sequential": (ad.nn.Sequential(ad.nn.Linear(8, 2), ad.nn.GELU(), ad.nn.Dropout(0.1)), (2, 8)),
    "Conv1d": (ad.nn.Conv1d(4, 3, 3), (2, 4, 8)),
    "ConvTranspose2d": (ad.nn.ConvTranspose2d(4, 3, 3), (2, 4, 5, 5)),
    "BatchNorm1d": (ad.nn.BatchNorm1d(4), (2, 4, 8)),
    "LayerNorm": (ad.nn.LayerNorm(8), (2, 8)),
    "GroupNorm": (ad.nn.GroupNorm(2, 4), (2, 4, 8)),
    "MaxPool2d": (ad.nn.MaxPool2d(2, return_indices=True), (1, 2, 4, 4)),
    "Upsample": (ad.nn.Upsample(scale_factor=2), (1, 2, 4)),
    "Softmax": (ad.nn.Softmax(1), (2, 8)),
    "LSTM": (ad.nn.LSTM(8, 3, 2, bidirectional=True), (4, 1, 8)),
    "GRUCell": (ad.nn.GRUCell(8, 3), (2, 8)),
    "TransformerEncoderLayer": (ad.nn.TransformerEncoderLayer(8, 2, 16), (3, 1, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_keep_the_class(name):
    module, shape = MODULES[name]
    x = ad.rand(shape)
    assert {type(y) for y in tensors_in(module(x))} == {ad.Tensor}
    y = module(x.as_subclass(Plain))
    assert {type(y) for y in tensors_in(y)} == {Plain}
    for y in tensors_in(y):
        if y.requires_grad:
            y.sum().backward(retain_graph=True)
    assert all(type(p.grad) is ad.Tensor for p in module.parameters())


@pytest.mark.parametrize("lazy", [ad.nn.UninitializedParameter, ad.nn.UninitializedBuffer])
def test_what_has_no_size_yet_says_so(lazy):
    x = lazy()
    for call in (
        lambda: x + 1,
        lambda: ad.ones(1) * x,
        lambda: x.sum(),
        lambda: x.numel(),
        lambda: x[0],
        lambda: len(x),
        lambda: F.linear(ad.ones(1, 1), x),
        lambda: ad.nn.init.zeros_(x),
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in .*LazyModule"):
            call()
    assert (
        x.dtype is ad.float32 and x.grad is None and x.is_floating_point() and x.double().dtype is ad.float64
    )
    x.materialize((2,))
    assert (x * 0 + 1).shape == (2,)


def test_loading_of_data():
    data = [Plain([float(i)]) for i in range(4)]
    assert type(default_collate(data)) is Plain
    for batch in DataLoader(data, batch_size=2):
        assert type(batch) is Plain and batch.shape == (2, 1)


# --- the default -------------------------------------------------------------------------------------------------------


class Metadata(ad.Tensor):
    """Hands on what its arguments carry."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        given = [a.metadata for a in args if hasattr(a, "metadata")]
        for x in tensors_in(result):
            x.metadata = given[0]
        return result


def test_a_class_with_metadata():
    m = ad.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(Metadata)
    m.metadata = {"owner": "us"}
    for result in (m + 1, ad.ones(2, 2) @ m, m.T, m[0], *ad.unbind(m), F.relu(m)):
        assert result.metadata == {"owner": "us"}, result


def test_what_the_default_leaves_alone():
    leaf = Plain([1.0]).requires_grad_()
    leaf.sum().backward()
    assert type(leaf.grad) is ad.Tensor and type(leaf.detach().view(1)._base) is not None
    x = ad.ones(2)
    assert type(x.as_subclass(Plain)[0]._base) is ad.Tensor
    assert ad.overrides.get_default_nowrap_functions() == {ad.Tensor.grad.__get__, ad.Tensor._base.__get__}
    assert ad.Tensor.__torch_function__(ad.add, (ad.Tensor,), (x, 1)).tolist() == [2, 2]
    assert Plain.__torch_function__(ad.add, (Other,), (x, 1)) is NotImplemented
    assert type(Plain.__torch_function__(ad.add, (Plain,), (x, 1), {"alpha": 2})) is Plain
    assert type(Plain.__torch_function__(lambda: [x, (1, x)], ())[1][1]) is Plain


def test_threads():
    wrong = []

    def work():
        s = Plain([1.0, 2.0])
        for _ in range(200):
            if type(s * 2 + 1) is not Plain:
                wrong.append(s)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    with ad.overrides.DisableTorchFunctionSubclass():
        assert type(Plain([1.0]) * 2) is ad.Tensor
    for t in threads:
        t.join()
    assert wrong == []


def test_nothing_is_left_over():
    s = Plain([1.0, 2.0])

    def many():
        for _ in range(300):
            y = s * 2
            y.T, y[0], y.split(1), ad.cat([y, s]), y.shape
            try:
                s + ad.ones(3)
            except RuntimeError:
                pass

    many()
    before = [sys.getrefcount(x) for x in (Plain, s, None)][:2], ad.memory_statistics()["allocated_bytes"]
    many()
    assert (
        [sys.getrefcount(x) for x in (Plain, s, None)][:2],
        ad.memory_statistics()["allocated_bytes"],
    ) == before
