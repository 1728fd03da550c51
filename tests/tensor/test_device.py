"""Devices are values, whatever they name; only making a tensor on another device than the CPU fails."""

import copy
import pickle

import pytest

import adjoint as ad


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
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "meta"])
def test_only_making_something_there_fails(make, name):
    for device in (name, ad.device(name)):
        with pytest.raises(RuntimeError, match=f"no device '{name}': the only device is 'cpu'"):
            make(device)
    make("cpu")
    make(ad.device("cpu:0"))


def test_cuda_fails_as_torch_without_cuda_does():
    for make in (lambda: ad.ones(1, device="cuda"), lambda: ad.ones(1).cuda(), lambda: ad.ones(1).cuda(1)):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            make()


def test_a_generator_is_on_the_cpu():
    assert ad.Generator().device == ad.device("cpu")
