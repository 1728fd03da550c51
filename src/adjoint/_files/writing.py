"""Writing what torch reads: a pickle that calls things by torch's names, and the storages beside it.

Tensors over one memory are written over one storage, so they share it again when they come back. Start reading at `Pickler`.
"""

from __future__ import annotations

import pickle
import struct
import sys
import zipfile
from typing import Any

from adjoint import _C
from adjoint._files.locations import location_tag
from adjoint._files.names import STORAGES
from adjoint._files.reading import MAGIC, PROTOCOL
from adjoint._tensor.device import device, layout
from adjoint._tensor.storage import UntypedStorage
from adjoint._tensor.typed_storage import TypedStorage

_NAMES = {dtype: name for name, dtype in STORAGES.items()}
#: Bytes of a storage in an archive begin at multiples of this many.
ALIGNMENT = 64


class _Name:
    """A name in the file: nothing of that name need exist here."""

    __slots__ = ("module", "name")

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        raise TypeError(f"{self.module}.{self.name} is a name to be written")


_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_DTYPE = _Name("torch._utils", "_rebuild_tensor_v3")
_META_TENSOR = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_SPARSE_TENSOR = _Name("torch._utils", "_rebuild_sparse_tensor")
_LAYOUT = _Name("torch.serialization", "_get_layout")
_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_OF_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_CLASS, _PARAMETER_CLASS = _Name("torch", "Tensor"), _Name("torch.nn.parameter", "Parameter")
_BYTES = _Name("torch.storage", "UntypedStorage")
_KINDS = {dtype: _Name("torch", name) for name, dtype in STORAGES.items()}
_DTYPES = {dtype: _Name("torch", dtype.name) for dtype in _NAMES}


# Python's pickler in Python: the one in C writes only names that can be imported.
class Pickler(pickle._Pickler):
    """Writes a pickle by torch's names; `storages` are those that it refers to, by their keys."""

    memoize: Any
    proto: Any
    save: Any
    write: Any

    def __init__(self, file, protocol, legacy=False):
        super().__init__(file, protocol)
        self.legacy = legacy
        #: Per memory: its key, a storage that holds it, and the dtype that it was first written as.
        self.storages: dict = {}

    def persistent_id(self, obj):
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            address, nbytes = obj._tensor._storage()[:2]
            dtype: Any = obj._dtype if isinstance(obj, TypedStorage) else None
            # Memory of no bytes has no address of its own.
            known = self.storages.setdefault(
                (obj.device, address, nbytes) if nbytes else (id(obj),), (str(len(self.storages)), obj, dtype)
            )
            if self.legacy and known[2] is not dtype:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types in torch's legacy "
                    "format; write an archive, or clone() one of them"
                )
            width = dtype.itemsize if dtype else 1
            kind = _KINDS[dtype] if dtype else _BYTES
            description = ("storage", kind, known[0], location_tag(obj), nbytes // width)
            return (*description, None) if self.legacy else description
        return None

    def reducer_override(self, obj):
        if isinstance(obj, _C.Tensor):
            return _tensor(self, obj)
        cls = type(obj)
        if cls is _C.Size:
            return _SIZE, (tuple(obj),)
        if cls is layout:
            return _LAYOUT, (f"torch.{obj.name}",)
        if cls is device:
            return _DEVICE, ((obj.type,) if obj.index is None else (obj.type, obj.index))
        if cls is _C.dtype or cls is _Name or obj is _C.Tensor or obj is _C.Size or obj is device:
            return "name"
        if isinstance(obj, type) and obj.__name__ == "Parameter":
            from adjoint.nn.parameter import Parameter

            return "name" if obj is Parameter else NotImplemented
        return NotImplemented

    def save_global(self, obj, name=None):
        written = obj if isinstance(obj, _Name) else _DTYPES.get(obj) if isinstance(obj, _C.dtype) else None
        if written is None:
            from adjoint.nn.parameter import Parameter

            for known, its in (
                (_C.Tensor, _CLASS),
                (_C.Size, _SIZE),
                (device, _DEVICE),
                (Parameter, _PARAMETER_CLASS),
            ):
                if obj is known:
                    written = its
        if written is None:
            return super().save_global(obj, name)  # type: ignore[misc]  # of Python's own pickler
        if self.proto >= 4:
            self.save(written.module)
            self.save(written.name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{written.module}\n{written.name}\n".encode())
        self.memoize(obj)

    # What the base class does with functions and classes, which it finds by their type, comes here too.
    dispatch = dict(pickle._Pickler.dispatch)


def _tensor(pickler, x):
    """The call that makes a tensor anew."""
    from collections import OrderedDict

    from adjoint.nn.parameter import Parameter, is_lazy

    if is_lazy(x) or type(x).__reduce_ex__ not in _OURS():
        return NotImplemented
    if x._backward_hooks:
        from adjoint.utils.hooks import warn_if_has_hooks

        warn_if_has_hooks(x)
    cls, attributes = type(x), dict(x.__dict__)
    requires_grad = bool(x.requires_grad)
    if x._layout_number:
        number, coalesced, indices, others, values = _C._sparse_parts(x)
        parts = (indices, values, x.shape, coalesced) if number == 0 else (indices, others, values, x.shape)
        return _of_class(cls, (_SPARSE_TENSOR, (x.layout, parts)), requires_grad, attributes)
    place = x.storage_offset(), tuple(x.shape), tuple(x.stride())
    address, nbytes = x._storage()[:2]
    known = pickler.storages.get((x.device, address, nbytes))
    flag = requires_grad and not isinstance(x, Parameter)
    if x.is_meta:
        made: Any = (_META_TENSOR, (x.dtype, *place[1:], flag))
    elif known is not None and known[2] is not x.dtype and not pickler.legacy:
        storage = UntypedStorage(_owner=x)
        made = (_TENSOR_OF_DTYPE, (storage, *place, flag, OrderedDict(), x.dtype))
    else:
        made = (_TENSOR, (TypedStorage(_owner=x, dtype=x.dtype), *place, flag, OrderedDict()))
    return _of_class(cls, made, requires_grad, attributes)


def _of_class(cls, made, requires_grad, attributes):
    """The call that makes a tensor of its class, with its attributes, from that which makes it plain."""
    from collections import OrderedDict

    from adjoint.nn.parameter import Buffer, Parameter

    if cls is _C.Tensor and not attributes:
        return made
    if cls is Parameter:
        arguments: tuple[Any, ...] = (_Made(made), requires_grad, OrderedDict())
        return (_PARAMETER_WITH_STATE, (*arguments, attributes)) if attributes else (_PARAMETER, arguments)
    if cls is Buffer:
        cls, attributes["_is_buffer"] = _C.Tensor, True
    return _OF_TYPE, (made[0], cls, made[1], attributes)


def _OURS():
    from adjoint.nn.parameter import Buffer, Parameter

    return _C.Tensor.__reduce_ex__, Parameter.__reduce_ex__, Buffer.__reduce_ex__


class _Made:
    """A call to be written where its result is an argument."""

    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return self.made


def archive(obj, file, protocol, root="archive"):
    """Write torch's zip archive."""
    import io

    data = io.BytesIO()
    pickler = Pickler(data, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as target:
        _entry(target, f"{root}/data.pkl", data.getbuffer())
        _entry(target, f"{root}/.format_version", b"1")
        _entry(target, f"{root}/.storage_alignment", str(ALIGNMENT).encode())
        _entry(target, f"{root}/byteorder", sys.byteorder.encode())
        for key, storage, _ in pickler.storages.values():
            _entry(target, f"{root}/data/{key}", _bytes(storage))
        _entry(target, f"{root}/version", b"3\n")


def _bytes(storage):
    whole = _C._storage_bytes(storage._tensor).cpu()
    return memoryview(whole).cast("B") if whole.numel() else b""


def _entry(target, name, data):
    info = zipfile.ZipInfo(name)
    # From here on zipfile puts 20 bytes of its own into the header.
    large = len(data) > 1 << 30
    begin = target.fp.tell() + 30 + len(name.encode()) + 4 + 20 * large
    padding = -begin % ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    info.file_size = len(data)
    with target.open(info, "w", force_zip64=large) as entry:
        for at in range(0, len(data), 1 << 26):
            entry.write(data[at : at + (1 << 26)])


def legacy(obj, file, protocol):
    """Write torch's legacy format: pickles one after the other, then the storages."""
    pickle.dump(MAGIC, file, protocol)
    pickle.dump(PROTOCOL, file, protocol)
    sizes = {"short": 2, "int": 4, "long": 4}
    pickle.dump(
        {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": sizes},
        file,
        protocol,
    )
    pickler = Pickler(file, protocol, legacy=True)
    pickler.dump(obj)
    pickle.dump([key for key, _, _ in pickler.storages.values()], file, protocol)
    for _, storage, dtype in pickler.storages.values():
        data = _bytes(storage)
        width = dtype.itemsize if dtype else 1
        file.write(struct.pack("<q", len(data) // width))
        file.write(data[: len(data) // width * width])


def overlapping(tensors) -> list[list[str]]:
    """The names, together, of contiguous tensors that have bytes in common."""
    places: dict[Any, list[tuple[int, int, str]]] = {}
    for name, x in tensors.items():
        if x.numel():
            begin = x.storage_offset() * x.dtype.itemsize
            place = begin, begin + x.numel() * x.dtype.itemsize, name
            places.setdefault((x.device, x._storage()[0]), []).append(place)
    groups: list[list[str]] = []
    for of_one in places.values():
        last = 0
        for begin, end, name in sorted(of_one):
            if begin < last:
                groups[-1].append(name)
            else:
                groups.append([name])
            last = max(last, end)
    return [sorted(names) for names in groups if len(names) > 1]
