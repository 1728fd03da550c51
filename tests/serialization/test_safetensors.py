"""Files of the safetensors format, next to the package of that name; damaged ones of every kind are refused."""

import importlib
import itertools
import json
import random

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from helpers import NUMPY_DTYPES

import adjoint as ad
from adjoint.safetensors import SafetensorError, load, load_file, safe_open, save, save_file

DTYPES = [d for d in [*NUMPY_DTYPES, "bfloat16"] if d != "complex128"]


def same_bits(x, y):
    return bytes(memoryview(x.view(-1).view(ad.uint8))) == bytes(
        memoryview(y.detach().view(-1).view(ad.uint8))
    )


def tensors():
    made = {}
    for i, name in enumerate(DTYPES):
        x = (ad.arange(6 + i) - 2).to(getattr(ad, name))
        made[name] = x * (1 + 2j) if x.is_complex() else x
    made["matrix"] = ad.arange(6.0).reshape(2, 3)
    made["number"] = ad.tensor(-0.0, dtype=ad.float64)
    made["nothing"] = ad.empty(2, 0, 3)
    made["a row"] = ad.arange(8.0).reshape(4, 2)[1]  # a view, whose elements alone are written
    made['ünïcode\n"quoted"'] = ad.tensor([float("nan"), float("inf")], dtype=ad.float16)
    return made


def test_round_trip(tmp_path):
    path, given = tmp_path / "a.safetensors", tensors()
    ad.save(given, path)
    assert path.read_bytes() == save(given)
    for found in (ad.load(path), load_file(str(path)), load(path.read_bytes())):
        assert list(found) == sorted(given)
        for name, x in found.items():
            assert x.shape == given[name].shape and x.dtype is given[name].dtype and same_bits(x, given[name])
            assert x.storage_offset() == 0 and x.is_contiguous()
            x.fill_(1)  # memory of its own
    with safe_open(path, framework="pt") as file:
        assert file.metadata() is None and same_bits(file.get_tensor("a row"), given["a row"])
        part = file.get_slice("matrix")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32" and part[:, 1].tolist() == [1, 4]
        with pytest.raises(SafetensorError, match="File does not contain tensor b: it has"):
            file.get_tensor("b")
    assert all(x.is_meta for x in ad.load(path, "meta").values())


def test_the_package_reads_what_is_written_and_writes_what_is_read(tmp_path):
    path = tmp_path / "b.safetensors"
    given = {n: x for n, x in tensors().items() if n not in ("bfloat16", "complex64")}
    save_file(given, path, {"format": "pt", "ü": "1"})
    theirs = safetensors.numpy.load_file(path)
    assert theirs.keys() == given.keys()
    for name, array in theirs.items():
        assert np.array_equal(array, given[name].numpy(), equal_nan=array.dtype.kind == "f"), name
    with safetensors.safe_open(path, framework="numpy") as file, safe_open(path) as own:
        assert file.metadata() == own.metadata() == {"format": "pt", "ü": "1"}
        assert file.offset_keys() == own.offset_keys() and sorted(file.keys()) == own.keys()
    arrays = {n: x.numpy() for n, x in given.items()}
    safetensors.numpy.save_file(arrays, path)
    for name, x in load_file(path).items():
        assert same_bits(x, given[name])


def test_what_cannot_be_written(tmp_path):
    x = ad.arange(6.0).reshape(2, 3)
    cases = [
        ({"a": x, "b": x[0]}, RuntimeError, r"Some tensors share memory.*\[\['a', 'b'\]\]"),
        ({"a": x, "b": x}, RuntimeError, "Some tensors share memory"),
        ({"a": x.t()}, ValueError, "non contiguous tensor: `a`"),
        ({"a": ad.ones(1).expand(3)}, ValueError, "non contiguous"),
        ({"a": x.to_sparse()}, ValueError, "sparse tensor: `a`"),
        ({"a": x.to(ad.complex128)}, TypeError, "complex128, which the format does not know"),
        ({"a": ad.empty(2, device="meta")}, ValueError, "no elements to save"),
        ({"a": 1.0}, ValueError, "expected a Tensor but received float"),
        ({1: x}, TypeError, "name must be a str"),
        ({"__metadata__": x}, TypeError, "other than '__metadata__'"),
        ([x], ValueError, r"Expected a dict of \[str, Tensor\] but received list"),
    ]
    for given, error, words in cases:
        with pytest.raises(error, match=words):
            ad.save(given, tmp_path / "c.safetensors")
    with pytest.raises(TypeError, match="texts by name"):
        save({"a": x}, {"epoch": 3})
    with pytest.raises(TypeError, match="map_location must be a device"):
        ad.save({"a": x}, tmp_path / "d.safetensors")
        ad.load(tmp_path / "d.safetensors", {"cpu": "cpu"})
    assert not (tmp_path / "c.safetensors").exists()
    assert same_bits(load(save({"a": x.clone().requires_grad_()}))["a"], x)


class Anew(dict):
    """Another tensor of another size each time that one is asked for."""

    def __getitem__(self, name):
        return ad.ones(len(self) + next(self.count))

    def items(self):
        return [(name, self[name]) for name in self]

    count = itertools.count()


def test_a_file_is_of_the_tensors_that_were_there_first():
    assert load(save(Anew(a=None, b=None)))["b"].sum() > 0


def test_parts_of_one_memory_without_common_bytes_are_written(tmp_path):
    x = ad.arange(12.0).reshape(4, 3)
    given = {"c": x[3:], "a": x[0], "b": x[1:3]}
    assert all(same_bits(y, given[n]) for n, y in load(save(given)).items())
    with pytest.raises(RuntimeError, match=r"share memory.*\[\['c', 'd', 'e'\]\]"):
        save({"d": x[1:3], "c": x[:2], "e": x[2:], "f": ad.ones(2)})


def test_tensors_of_another_device_are_copied():
    importlib.import_module("far_device")
    assert load(save({"a": ad.arange(3.0, device="far:1")}))["a"].tolist() == [0, 1, 2]


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DAMAGED = [
    (b"", "it has 0 bytes"),
    (b"\0" * 8, "its header should have 0 bytes"),
    (b"\xff" * 20, "its header should have"),
    (file_of(b"no json."), "is not JSON"),
    (file_of(b"\xff\xfe{}"), "is not JSON"),
    (file_of(b"[" * 100000), "is not JSON"),
    (file_of([1]), "no JSON object"),
    (file_of(b'{"a":1,"a":2}'), "'a' twice"),
    (file_of({"__metadata__": {"a": 1}}), "__metadata__ are not texts"),
    (file_of({"a": 1}), "described by 1"),
    (file_of({"a": {"dtype": "F32", "shape": [1]}}, bytes(4)), "not by dtype, shape and data_offsets"),
    (file_of({"a": entry("F8_E4M3", (4,))}, bytes(4)), "'F8_E4M3', which Adjoint does not have"),
    (file_of({"a": entry([])}, bytes(4)), "which Adjoint does not have"),
    (file_of({"a": entry(shape=(-1,))}, bytes(4)), "has the shape"),
    (file_of({"a": entry(shape=(True,))}, bytes(4)), "has the shape"),
    (file_of({"a": entry(shape=(2**62, 4))}, bytes(4)), "has the shape"),
    (file_of({"a": entry(shape=(0, 2**70), offsets=(0, 0))}), "has the shape"),
    (file_of({"a": entry(shape=(0, 2**31, 2**31, 2**31), offsets=(0, 0))}), "which Adjoint does not have"),
    (file_of({"a": entry(shape=[1] * 65)}, bytes(4)), "which Adjoint does not have"),
    # A product of so many numbers would take minutes, and so would counting names.
    (file_of({"a": entry(shape=[2**60] * 200_000)}, bytes(4)), "which Adjoint does not have"),
    (file_of(b'{"a":1,' + b",".join(b'"%d":1' % i for i in range(60_000)) + b',"59999":1}'), "twice"),
    (file_of(b'{"a":{"shape":[' + b"9" * 5000 + b"]}}"), "is not JSON"),
    (file_of({"a": entry(offsets=(4, 0))}, bytes(4)), "cannot have -4 bytes"),
    (file_of({"a": entry(offsets=(0, 4.0))}, bytes(4)), "has the offsets"),
    (file_of({"a": entry(offsets=(4, 8))}, bytes(8)), "begin at 4, and those before them end at 0"),
    (file_of({"a": entry(), "b": entry()}, bytes(4)), "begin at 0, and those before them end at 4"),
    (file_of({"a": entry()}, bytes(5)), "take 4 bytes, and there are 5"),
    (file_of({"a": entry()}, bytes(3)), "take 4 bytes, and there are 3"),
]


@pytest.mark.parametrize("data, words", DAMAGED, ids=[words for _, words in DAMAGED])
def test_damaged_files(data, words, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(data)
    for read in (lambda: load(data), lambda: ad.load(tmp_path / "x.safetensors")):
        with pytest.raises(SafetensorError, match=words):
            read()
    if "Adjoint does not have" not in words:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(data)


def test_bools_are_0_or_1():
    with pytest.raises(SafetensorError, match="other bytes than 0 and 1"):
        load(file_of({"a": entry("BOOL", (2,), (0, 2))}, b"\1\2"))


def test_any_changed_byte_gives_tensors_or_an_error():
    whole = save({"a": ad.ones(3), "b": ad.tensor([True])}, {"k": "v"})
    rng = random.Random(0)
    for _ in range(2000):
        data = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(1, 4) if data else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found = load(bytes(data))
        except SafetensorError:
            continue
        assert all(isinstance(x, ad.Tensor) for x in found.values())
