"""Reading the three formats: torch's zip archive, torch's legacy format, and plain pickles as Adjoint once wrote.

The storages of an archive are entries of their own, which the pickle refers to by number; equal numbers are one storage.
An archive is taken as torch writes it: entries stored without compression, no larger together than the file. Start reading
at `read`.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile

from adjoint import _C
from adjoint._files import machine, names
from adjoint._files.locations import restorer
from adjoint._switches import switches
from adjoint._tensor.storage import UntypedStorage
from adjoint._tensor.typed_storage import TypedStorage
from adjoint._types import Any

#: The order of bytes of archives that do not say it.
unsaid_order = None

refuse = names.refuse
MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def read(file, map_location, unpickler, mmap, keywords):
    """What a file holds.

    Parameters
    ----------
    file : file open for reading bytes
    unpickler : class, optional
        The class of unpickler that may make anything; None for the machine, which makes nothing but data.
    mmap : bool
        Leave the storages in the file, to be read when they are used.
    """
    restore = restorer(map_location)
    start = _peek(file)
    if start[:4] == b"PK\x03\x04":
        return _Archive(file, restore, unpickler, mmap, keywords).load()
    if mmap:
        raise RuntimeError(
            f"mmap can only be used with files saved with `{switches.package}.save(_use_new_zipfile_serialization=True), please {switches.package}.save "
            "your checkpoint with this option in order to use mmap."
        )
    if start[:1] != b"\x80":
        _say_what_it_is(start)
    data = file.read()
    try:
        old = machine.run(data, known={})[0] == MAGIC
    except (pickle.UnpicklingError, ValueError):
        old = False
    if old:
        return _Legacy(data, restore, unpickler, keywords).load()
    if unpickler is not None:
        return _unpickle(unpickler, io.BytesIO(data), None, keywords)[0]
    return machine.run(data, buffers=keywords.get("buffers"), encoding=keywords.get("encoding", "utf-8"))[0]


def _peek(file):
    if not (hasattr(file, "seek") and hasattr(file, "tell")):
        raise AttributeError(
            f"load(): expected a file that can seek: 'seek' and 'tell' are missing. You can only {switches.package}.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    at = file.tell()
    start = file.read(200)
    if not isinstance(start, bytes):
        raise TypeError("load(): the file is open for reading text; open it with mode 'rb'")
    file.seek(at)
    return start


def _say_what_it_is(start):
    """Refuse a file without tensors, and say what it seems to be."""
    text = start.lstrip().lower()
    if not start:
        raise EOFError("load(): the file is empty (Ran out of input)")
    if text.startswith(b"version https://git-lfs"):
        found = "a pointer of Git LFS, not the file that it stands for; fetch that with `git lfs pull`"
    elif text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        found = "a page of HTML or XML, as servers send instead of a file that they do not have; look at it, and download again"
    elif start[:2] == b"\x1f\x8b":
        found = "compressed by gzip; unpack it first"
    elif start[:6] == b"\x93NUMPY":
        found = "an array of NumPy; read it with numpy.load"
    elif start[:4] in (b"PK\x05\x06", b"PK\x07\x08"):
        found = "an empty or divided zip archive"
    elif len(start) > 9 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 1 << 40:
        found = "of the format safetensors; read it with the package safetensors"
    else:
        found = f"neither an archive of torch nor a pickle: it begins with {start[:16]!r}"
        # A pickle of protocol 0 or 1 has no mark of its own, and is read by the machine.
        if start[:1] in b"(])}cINFSVXKMJGU]":
            return
    raise refuse(f"load(): invalid load key: the file is {found}")


def _unpickle(unpickler: Any, file, persistent, keywords):
    """Run a pickle that may make anything; torch's names mean Adjoint's things."""
    known = names.table()

    class Unpickler(unpickler):
        def find_class(self, module, name):
            if module.partition(".")[0] == "torch":
                return _thing_of_torch(module, name, known)
            return super().find_class(module, name)

        def persistent_load(self, description):
            if persistent is None:
                raise refuse("load(): the pickle refers to storages, but the file has none")
            return persistent(description)

    return Unpickler(file, **keywords).load(), file.tell()


def _thing_of_torch(module, name, known):
    """What a name of torch's means here, where anything may be made: torch itself is not imported."""
    if f"{module}.{name}" in known:
        return known[f"{module}.{name}"]
    from importlib import import_module

    from adjoint.as_torch._finder import target

    own = target(module)
    found = getattr(import_module(own), name, None) if own else None
    if found is None:
        raise refuse(f"load(): the file asks for {module}.{name}, which Adjoint does not have")
    return found


class _Storages:
    """The storages of one file, each made once."""

    def __init__(self, restore, unpickler, keywords):
        self.restore, self.unpickler, self.keywords = restore, unpickler, keywords
        self.made: dict = {}

    def persistent(self, description):
        if not isinstance(description, tuple) or len(description) < 5 or description[0] != "storage":
            raise refuse("load(): the file has an invalid record of a storage")
        _, kind, key, location, count, *rest = description
        if isinstance(kind, names.Kind) and rest and rest[0] is not None:
            raise refuse("load(): the file has storages within storages, as torch wrote before version 0.4")
        if not isinstance(kind, names.Kind) or not isinstance(key, str) or not isinstance(location, str):
            raise refuse("load(): the file has an invalid record of a storage")
        if type(count) is not int or count < 0:
            raise refuse(f"load(): the file describes a storage of {count!r} elements")
        width = kind.dtype.itemsize if kind.dtype else 1
        if key not in self.made:
            storage = UntypedStorage(_owner=self.bytes(key, count * width, kind.dtype))
            self.made[key] = self.restore(storage, location)
        storage = self.made[key]
        if count * width > storage.nbytes():
            raise refuse(
                f"load(): storage {key} has {storage.nbytes()} bytes, but the file describes {count} elements of {kind.name}"
            )
        if kind.dtype is None:
            return storage
        # Programs may give back a storage that knows its dtype.
        return TypedStorage(_owner=storage._tensor, dtype=kind.dtype)

    def bytes(self, key, nbytes, dtype):
        raise NotImplementedError


def _check_bool(bytes_, dtype):
    if dtype is _C.bool and bytes_.numel() and int(bytes_.max()) > 1:
        raise refuse("load(): a storage of bool holds other bytes than 0 and 1: the file is damaged")


class _Archive(_Storages):
    def __init__(self, file, restore, unpickler, mmap, keywords):
        super().__init__(restore, unpickler, keywords)
        self.file = file
        try:
            self.zip = zipfile.ZipFile(file)
            entries = self.zip.infolist()
        except (
            zipfile.BadZipFile,
            struct.error,
            ValueError,
            OSError,
            NotImplementedError,
            UnicodeDecodeError,
        ) as error:
            raise refuse(
                "PytorchStreamReader failed reading zip archive: the archive is damaged or truncated, as after a download that "
                f"broke off ({error})"
            ) from error
        file.seek(0, os.SEEK_END)
        self.length = file.tell()
        self.entries = {entry.filename: entry for entry in entries}
        if len(self.entries) < len(entries):
            raise refuse("load(): the archive has two entries with the same name")
        if sum(entry.file_size for entry in entries) > self.length:
            raise refuse(
                "load(): the archive's entries are larger together than the file: it is damaged or malicious"
            )
        roots = [
            name[: -len("data.pkl")]
            for name in self.entries
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if len(roots) != 1:
            raise refuse(
                f"load(): the file is a zip archive with {len(roots)} entries NAME/data.pkl; expected one, as {switches.package}.save writes. "
                "It holds: " + ", ".join(sorted(self.entries)[:5])
            )
        self.root = roots[0]
        if self.root + "constants.pkl" in self.entries:
            raise refuse(
                "load(): the file is a TorchScript program (it has constants.pkl), which Adjoint does not run; save the "
                "state_dict of the model where torch is installed"
            )
        unsaid = unsaid_order or "little"
        order = (sys.byteorder if unsaid == "native" else unsaid).encode()
        if self.root + "byteorder" in self.entries:
            order = self.read("byteorder")
        if order not in (b"little", b"big"):
            raise refuse(f"load(): unknown byte order {order[:20]!r}")
        self.swapped = order == b"big"
        self.map = self._mapped() if mmap else None

    def _mapped(self):
        import mmap

        return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)

    def entry(self, name):
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise refuse(f"load(): the archive lacks the entry {self.root}{name}: it is damaged")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise refuse(
                f"load(): the entry {entry.filename} is compressed or encrypted, as torch never writes; pack the archive again "
                "without (zip -0)"
            )
        return entry

    def read(self, name):
        entry = self.entry(name)
        result = bytearray(entry.file_size)
        self._into(entry, memoryview(result))
        return bytes(result)

    def _into(self, entry, target):
        try:
            file: Any
            with self.zip.open(entry) as file:
                at = 0
                while at < len(target):
                    count = file.readinto(target[at : at + (1 << 24)])
                    if not count:
                        raise EOFError(f"{at} of {len(target)} bytes are there")
                    at += count
                # The checksum is looked at where the entry ends.
                file.read(1)
        except (
            zipfile.BadZipFile,
            EOFError,
            OSError,
            struct.error,
            RuntimeError,
            ValueError,
            NotImplementedError,
        ) as error:
            raise refuse(f"load(): the entry {entry.filename} of the archive is damaged: {error}") from error

    def load(self):
        data = self.read("data.pkl")
        if self.unpickler is not None:
            return _unpickle(self.unpickler, io.BytesIO(data), self.persistent, self.keywords)[0]
        return machine.run(data, 0, self.persistent, encoding=self.keywords.get("encoding", "utf-8"))[0]

    def bytes(self, key, nbytes, dtype):
        entry = self.entry("data/" + key)
        if entry.file_size < nbytes:
            raise refuse(
                f"load(): storage {key} has {entry.file_size} bytes in the archive, but {nbytes} are asked for: the file is "
                "damaged"
            )
        if self.map is not None and nbytes and not self.swapped:
            header = self.map[entry.header_offset : entry.header_offset + 30]
            if len(header) < 30 or header[:4] != b"PK\x03\x04":
                raise refuse(
                    f"load(): the entry {entry.filename} of the archive is damaged: it has no header"
                )
            begin = entry.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
            if begin + nbytes > self.length:
                raise refuse(f"load(): the entry {entry.filename} of the archive reaches beyond the file")
            result = _C._from_buffer(memoryview(self.map)[begin : begin + nbytes])
            if result.data_ptr() % 16:
                result = _C._copy_bytes(result)
        else:
            result = _C._empty((entry.file_size,), dtype=_C.uint8)
            if entry.file_size:
                self._into(entry, memoryview(result).cast("B"))
            if self.swapped:
                result = _swapped(result, key, dtype)
        _check_bool(result, dtype)
        return result


def _swapped(bytes_, key, dtype):
    if dtype is None:
        raise refuse(
            f"load(): storage {key} was written on a machine with the other byte order, without a dtype"
        )
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    whole = bytes_.numel() // width * width
    return bytes_[:whole].reshape(-1, width).flip(1).reshape(-1).clone()


class _Legacy(_Storages):
    """Five pickles, then the bytes of each storage after their number."""

    def __init__(self, data, restore, unpickler, keywords):
        super().__init__(restore, unpickler, keywords)
        self.data = data
        self.wanted: dict = {}
        self.total = 0

    def load(self):
        at, found = 0, []
        for _ in range(3):
            value, at = machine.run(self.data, at, known={})
            found.append(value)
        if found[1] != PROTOCOL:
            raise refuse(f"Invalid protocol version: {found[1]}")
        if not isinstance(found[2], dict) or found[2].get("little_endian") is not True:
            raise refuse(
                "load(): the file was written on a machine with the other byte order, in torch's legacy format"
            )
        # What looks at elements while it is made (a conjugate, a sparse tensor) must find them: storages are read first.
        start, at = at, machine.skim(self.data, at, self.persistent)
        keys, at = machine.run(self.data, at, known={})
        if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(self.wanted):
            raise refuse("load(): the file's list of storages differs from the storages that its tensors use")
        for key in keys:
            target, dtype = self.wanted[key]
            width = dtype.itemsize if dtype else 1
            header = self.data[at : at + 8]
            if len(header) < 8 or int.from_bytes(header, "little", signed=True) * width != target.numel():
                raise refuse(
                    f"load(): storage {key} does not have the size that its tensors state: the file is damaged or truncated"
                )
            at += 8
            piece = self.data[at : at + target.numel()]
            if len(piece) < target.numel():
                raise refuse(f"load(): the file ends within storage {key}: it is truncated")
            if piece:
                memoryview(target).cast("B")[:] = piece
            at += len(piece)
            _check_bool(target, dtype)
        if self.unpickler is None:
            return machine.run(
                self.data, start, self.persistent, encoding=self.keywords.get("encoding", "utf-8")
            )[0]
        file = io.BytesIO(self.data)
        file.seek(start)
        return _unpickle(self.unpickler, file, self.persistent, self.keywords)[0]

    def bytes(self, key, nbytes, dtype):
        self.total += nbytes
        if self.total > len(self.data):
            raise refuse(
                f"load(): the file of {len(self.data)} bytes describes larger storages: it is truncated"
            )
        result = _C._empty((nbytes,), dtype=_C.uint8)
        self.wanted[key] = result, dtype
        return result
