"""torch's files, built here by hand from pickles and zip archives: what they give, and what is refused."""

import collections
import fractions
import io
import pickle
import random
import struct
import subprocess
import sys
import zipfile

import pytest

import adjoint as ad

KINDS = {
    "FloatStorage": ad.float32,
    "DoubleStorage": ad.float64,
    "HalfStorage": ad.float16,
    "BFloat16Storage": ad.bfloat16,
    "LongStorage": ad.int64,
    "IntStorage": ad.int32,
    "ShortStorage": ad.int16,
    "CharStorage": ad.int8,
    "ByteStorage": ad.uint8,
    "BoolStorage": ad.bool,
    "ComplexFloatStorage": ad.complex64,
    "ComplexDoubleStorage": ad.complex128,
}


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def value(x):
    """The instructions that push a plain value."""
    return pickle.dumps(x, 2)[2:-1]


def stored(kind="FloatStorage", key="0", count=4, location="cpu"):
    return b"(" + value("storage") + name("torch", kind) + value(key) + value(location) + value(count) + b"tQ"


def tensor(storage, size, stride, offset=0, requires_grad=False):
    return (
        name("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + storage
        + value(offset)
        + value(size)
        + value(stride)
        + value(requires_grad)
        + name("collections", "OrderedDict")
        + b")RtR"
    )


FOUR = struct.pack("<4f", 1, 2, 3, 4)


def archive(program, storages=None, **more):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", more.pop("compression", zipfile.ZIP_STORED)) as target:
        target.writestr("m/data.pkl", b"\x80\x02" + program + b".")
        for key, data in ({"0": FOUR} if storages is None else storages).items():
            target.writestr(f"m/data/{key}", data)
        for entry, data in more.items():
            target.writestr(f"m/{entry}", data)
    return file.getvalue()


def load(data, **keywords):
    return ad.load(io.BytesIO(data), **keywords)


def again(thing, **keywords):
    file = io.BytesIO()
    ad.save(thing, file, **keywords)
    return load(file.getvalue())


@pytest.mark.parametrize("kind", KINDS)
def test_a_storage_of_each_dtype(kind):
    dtype = KINDS[kind]
    data = bytes(4 * dtype.itemsize)
    x = load(archive(tensor(stored(kind), (2, 2), (1, 2)), {"0": data}))
    assert x.dtype is dtype and x.tolist() == [[0, 0], [0, 0]] and x.stride() == (1, 2)


def test_strides_offsets_and_gradients():
    x = load(archive(tensor(stored(), (2,), (2,), 1, True)))
    assert x.tolist() == [2.0, 4.0] and x.requires_grad and x.is_leaf


def test_equal_keys_are_one_storage():
    a, b = load(archive(tensor(stored(), (4,), (1,)) + tensor(stored(), (2,), (1,), 2) + b"\x86"))
    a[2] = 9
    assert b.tolist() == [9.0, 4.0]


def test_numbers_of_the_other_byte_order():
    x = load(archive(tensor(stored(), (4,), (1,)), {"0": struct.pack(">4f", 1, 2, 3, 4)}, byteorder=b"big"))
    assert x.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((5,), (1,), 0),
        ((2,), (4,), 0),
        ((1,), (1,), 4),
        ((2,), (-1,), 2),
        ((2**62, 4), (2**62, 1), 0),
        ((2,), (1, 1), 0),
    ],
)
def test_a_tensor_lies_within_its_storage(size, stride, offset):
    with pytest.raises(pickle.UnpicklingError, match="outside of its storage|as many strides as sizes"):
        load(archive(tensor(stored(), size, stride, offset)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive(tensor(stored(count=5), (5,), (1,))), "16 bytes in the archive, but 20"),
        (archive(tensor(stored(key="7"), (4,), (1,))), "lacks the entry m/data/7"),
        (archive(tensor(stored(), (4,), (1,)), compression=zipfile.ZIP_DEFLATED), "compressed"),
        (archive(b"N", **{"constants.pkl": b""}), "TorchScript"),
        (archive(name("torch", "uint16")), "torch.uint16, which Adjoint does not have"),
        (archive(tensor(stored("BoolStorage"), (4,), (1,)), {"0": b"\0\1\2\3"}), "other bytes than 0 and 1"),
        (archive(b"N")[:-30], "damaged or truncated"),
        (archive(tensor(stored(), (4,), (1,))).replace(FOUR, FOUR[::-1]), "damaged: Bad CRC"),
        (archive(name("os", "system") + value("exit 1") + b"\x85R"), "asks for os.system"),
        (archive(name("builtins", "getattr")), "asks for builtins.getattr"),
        (archive(b"ios\nsystem\n"), "asks for os.system"),
        (archive(value("os") + value("system") + b"\x93"), "asks for os.system"),
        (archive(b"}" + value({"x": 1}) + b"b"), "sets the state of a dict"),
        (archive(name("collections", "OrderedDict") + value({"x": 1}) + b"b"), "sets the state of a type"),
        (archive(name("collections", "OrderedDict") + b")R" + value({"keys": 1}) + b"b"), "attribute 'keys'"),
        (archive(name("torch", "Tensor") + b")R"), "calls Tensor itself"),
        (archive(name("__builtin__", "bytearray") + value((2**50,)) + b"R"), "a value that is not bytes"),
        (archive(b"\x8e" + struct.pack("<Q", 2**60)), "truncated: the pickle asks for"),
        (archive(b"Nr\xff\xff\xff\x7f0j\xff\xff\xff\x7e"), "KeyError"),
        (b"<!DOCTYPE html><html>", "a page of HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "pointer of Git LFS"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"hello world", "neither an archive"),
        (b"PK\x03\x04rest", "failed reading zip archive"),
        (b"\x80\x09.", "unsupported pickle protocol: 9"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(pickle.UnpicklingError, match=message):
        load(data)


def test_bad_arguments(tmp_path):
    with pytest.raises(EOFError, match="the file is empty"):
        load(b"")
    with pytest.raises(FileNotFoundError):
        ad.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="is a directory; expected a file"):
        ad.load(tmp_path)
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        ad.save(1, tmp_path / "none" / "file")
    with pytest.raises(AttributeError, match="wrong order"):
        ad.save("x", ad.ones(1))
    with pytest.raises(TypeError, match="open for text"):
        ad.load(io.StringIO())
    with pytest.raises(ValueError, match="must be a file path"):
        load(archive(b"N"), mmap=True)


def test_map_location_in_all_its_forms():
    data = archive(tensor(stored(location="cuda:0"), (4,), (1,)))
    for place in ("cpu", ad.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert load(data, map_location=place).tolist() == [1, 2, 3, 4]
    for place in (None, "cuda", {"cpu": "cpu"}, lambda storage, location: None):
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
            load(data, map_location=place)
    with pytest.raises(TypeError, match="map_location must be"):
        load(data, map_location=3)


@pytest.mark.parametrize("legacy", [False, True])
def test_what_is_written_comes_back(legacy):
    x = ad.arange(6.0)
    p = ad.nn.Parameter(ad.ones(2), requires_grad=False)
    p.note = "kept"
    net = ad.nn.BatchNorm1d(2)
    found = again(
        {
            "x": [x, x[2:], x],
            "p": p,
            "b": ad.nn.Buffer(ad.ones(1), persistent=False),
            "n": net.state_dict(),
            "plain": [
                1,
                2.5,
                1j,
                b"\xff",
                {3},
                ad.Size([2]),
                ad.bfloat16,
                ad.device("cuda:1"),
                2**80,
                collections.Counter("a"),
            ],
        },
        _use_new_zipfile_serialization=not legacy,
    )
    found["x"][0][2] = 7
    assert found["x"][1][0] == 7 and found["x"][2] is found["x"][0]
    assert type(found["p"]) is ad.nn.Parameter and not found["p"].requires_grad and found["p"].note == "kept"
    assert type(found["b"]) is ad.nn.Buffer and found["b"].persistent is False
    assert found["n"]._metadata == net.state_dict()._metadata
    assert found["plain"][5:8] == [ad.Size([2]), ad.bfloat16, ad.device("cuda:1")]


def test_one_memory_as_two_dtypes():
    x = ad.ones(2)
    a, b = again([x, x.view(ad.int32)])
    a[0] = 0
    assert b.tolist() == [0, 0x3F800000]


def test_names_in_the_file_are_torch_s_and_bytes_are_aligned(tmp_path):
    ad.save(ad.ones(3), tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as file:
        assert b"ctorch._utils\n_rebuild_tensor_v2\n" in file.read("x/data.pkl")
        assert b"adjoint" not in file.read("x/data.pkl")
        begin = (tmp_path / "x.pt").read_bytes().index(struct.pack("<3f", 1, 1, 1))
        assert begin % 64 == 0 and file.read("x/version") == b"3\n"


def test_mmap_leaves_the_file_alone(tmp_path):
    ad.save({"x": ad.ones(3)}, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    x = ad.load(tmp_path / "x.pt", mmap=True)["x"]
    x += 1
    assert x.tolist() == [2, 2, 2] and (tmp_path / "x.pt").read_bytes() == before


def test_what_a_program_allows():
    half = fractions.Fraction(1, 2)
    with pytest.raises(pickle.UnpicklingError, match="asks for fractions.Fraction"):
        again(half)
    with ad.serialization.safe_globals([fractions.Fraction]):
        assert again(half) == half
    assert ad.serialization.get_safe_globals() == []


def test_pickles_of_old_are_read():
    state = {"x": ad.ones(2), "p": ad.nn.Parameter(ad.ones(1))}
    for protocol in range(2, 6):
        found = load(pickle.dumps(state, protocol))
        assert found["x"].tolist() == [1, 1] and type(found["p"]) is ad.nn.Parameter


@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_files_are_refused_or_are_data(legacy):
    file = io.BytesIO()
    ad.save({"x": ad.ones(3), "y": [1, "text"]}, file, _use_new_zipfile_serialization=not legacy)
    whole = file.getvalue()
    r = random.Random(0)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        if r.random() < 0.2:
            del data[r.randrange(len(data)) :]
        for _ in range(r.choice([1, 2, 8])):
            if data:
                data[r.randrange(len(data))] = r.randrange(256)
        try:
            load(bytes(data))
        except (pickle.UnpicklingError, ValueError, RuntimeError, EOFError):
            refused += 1
    assert refused > 100


def legacy(program, storages):
    """A file of torch's format before archives: storages (key, number of elements, bytes) come after the pickle."""
    heads = [
        pickle.dumps(x, 2)
        for x in (
            0x1950A86A20F9469CFC6C,
            1001,
            {"little_endian": True, "protocol_version": 1001, "type_sizes": {}},
        )
    ]
    parts = [struct.pack("<q", count) + data for _, count, data in storages]
    return b"".join(
        [*heads, b"\x80\x02" + program + b".", pickle.dumps([key for key, *_ in storages], 2), *parts]
    )


def named_storage(kind, key, count):
    # The format has a sixth entry: what the storage is a part of.
    return stored(kind, key, count)[:-2] + b"NtQ"


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_conjugate_in_a_file_whose_storages_follow_is_made_of_them(weights_only):
    metadata = value({"conj": True})
    x = tensor(named_storage("ComplexFloatStorage", "7", 2), (2,), (1,))[:-2] + metadata + b"tR"
    found = load(legacy(x, [("7", 2, struct.pack("<4f", 1, 2, 3, -1))]), weights_only=weights_only)
    assert found.tolist() == [1 - 2j, 3 + 1j]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("first", [0, 9])
def test_a_sparse_tensor_in_a_file_whose_storages_follow(first, weights_only):
    x = (
        name("torch._utils", "_rebuild_sparse_tensor")
        + name("torch.serialization", "_get_layout")
        + value("torch.sparse_coo")
        + b"\x85R("
        + tensor(named_storage("LongStorage", "0", 4), (2, 2), (2, 1))
        + tensor(named_storage("FloatStorage", "1", 2), (2,), (1,))
        + name("torch", "Size")
        + value((3, 3))
        + b"\x85R\x89t\x86R"
    )
    # Memory that was used before: what is not read yet is not zero.
    ad.full((4,), 1 << 40)
    data = legacy(x, [("0", 4, struct.pack("<4q", first, 2, 1, 0)), ("1", 2, struct.pack("<2f", 5, 6))])
    if first:
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match="found index 9"):
            load(data, weights_only=weights_only)
        return
    assert load(data, weights_only=weights_only).to_dense().tolist() == [[0, 5, 0], [0, 0, 0], [6, 0, 0]]


def test_tensors_without_elements_begin_anywhere():
    empty = ad.ones(0, 2)[:, 1]
    found = again(empty)
    assert found.shape == (0,) and found.storage_offset() == empty.storage_offset() == 1
    for layout in (ad.sparse_csr, ad.sparse_csc, ad.sparse_coo):
        assert again(ad.zeros(2, 2).to_sparse(layout=layout)).to_dense().tolist() == [[0, 0], [0, 0]]
    assert load(archive(tensor(stored(), (0, 3), (3, 1), 1000))).shape == (0, 3)
    for offset in (2**62, -1):
        with pytest.raises((pickle.UnpicklingError, ValueError), match="offset"):
            load(archive(tensor(stored(), (0,), (1,), offset)))


def test_numbers_of_numpy_when_they_are_allowed():
    np = pytest.importorskip("numpy")
    number = np.float64(2.5)
    with pytest.raises(pickle.UnpicklingError, match="multiarray.scalar"):
        again(number)
    scalar = number.__reduce__()[0]
    with ad.serialization.safe_globals([scalar, np.dtype, type(np.dtype("f8"))]):
        assert again(number) == number
        old = archive(
            name("numpy.core.multiarray", "scalar")
            + pickle.dumps(np.dtype("f8"), 2)[2:-1]
            + value(b"\0" * 8)
            + b"\x86R"
        )
        assert load(old) == 0.0


def test_classes_of_torch_mean_ours_where_anything_may_be_made():
    program = name("torch.nn.modules.activation", "Tanh")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load(archive(program))
    assert load(archive(program), weights_only=False) is ad.nn.Tanh
    with pytest.raises(pickle.UnpicklingError, match="which Adjoint does not have"):
        load(archive(name("torch.nn.modules.none", "None_")), weights_only=False)


def test_states_of_batch_norm_have_the_version_of_torch_s():
    assert ad.nn.BatchNorm2d(1).state_dict()._metadata[""] == {"version": 2}


def test_storages_and_register_package():
    x = ad.arange(3.0)
    storage, bytes_ = again([x.storage(), x.untyped_storage()])
    assert storage.tolist() == [0, 1, 2] and bytes_.nbytes() == 12
    storage[0] = 7.0
    assert bytes_.tolist()[3] == 0x40
    from adjoint._files import locations

    before = list(locations._registry)
    try:
        ad.serialization.register_package(1, lambda s: None, lambda s, place: s if place == "mine" else None)
        assert load(archive(tensor(stored(location="mine"), (4,), (1,)))).tolist() == [1, 2, 3, 4]
    finally:
        locations._registry[:] = before


def test_a_storage_over_a_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"abcdefgh")
    UntypedStorage = type(ad.ones(1).untyped_storage())
    own = UntypedStorage.from_file(path)
    own[0] = 0
    assert own.nbytes() == 8 and path.read_bytes() == b"abcdefgh"
    UntypedStorage.from_file(str(path), shared=True, nbytes=2)[1] = 0
    assert path.read_bytes() == b"a\0cdefgh"
    with pytest.raises(RuntimeError, match="9 bytes are asked for"):
        UntypedStorage.from_file(path, nbytes=9)


def test_the_package_safetensors_works_under_as_torch(tmp_path):
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    program = f"""
import torch, safetensors.torch as s
model, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
s.save_file(model.state_dict(), {str(tmp_path / "m")!r})
other.load_state_dict(s.load_file({str(tmp_path / "m")!r}))
print(torch.equal(model.weight, other.weight), s.load(s.save({{"x": torch.ones(1, dtype=torch.bfloat16)}})))
"""
    done = subprocess.run(
        [sys.executable, "-m", "adjoint.as_torch", "-c", program], capture_output=True, text=True
    )
    assert done.stdout == "True {'x': tensor([1.], dtype=torch.bfloat16)}\n", done.stderr
