"""Files of the safetensors format: tensors by name and a little text, which nothing in the file can make code of.

    >>> import adjoint as ad, os, tempfile
    >>> from adjoint.safetensors import load_file, save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     save_file({"weight": ad.ones(2)}, path, {"epoch": "3"})
    ...     load_file(path)
    {'weight': tensor([1., 1.])}

The functions are those of ``safetensors.torch``; `adjoint.save` and `adjoint.load` call them for names that end in
``.safetensors``. A file is the length of a header as eight bytes, the header as JSON, and the elements in little-endian order.
(The package `safetensors` has no bfloat16 without torch.) Source: https://github.com/huggingface/safetensors. Start reading at `_Header`.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import sys
from collections.abc import Mapping
from pickle import UnpicklingError
from reprlib import repr as short
from typing import IO, Any

from adjoint import _C
from adjoint._C import Tensor
from adjoint._files.reading import _check_bool
from adjoint._files.writing import overlapping
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint._tensor.device import device as _device
from adjoint._tensor.device import strided

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]
__dir__ = listing(__name__)

#: The format's names of element types, and ours.
_DTYPES = {
    "BOOL": _C.bool,
    "U8": _C.uint8,
    "I8": _C.int8,
    "I16": _C.int16,
    "I32": _C.int32,
    "I64": _C.int64,
    "F16": _C.float16,
    "BF16": _C.bfloat16,
    "F32": _C.float32,
    "F64": _C.float64,
    "C64": _C.complex64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LARGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file is no safetensors file, is damaged, or lacks what was asked for.

    Examples
    --------
    >>> import adjoint as ad
    >>> try:
    ...     ad.safetensors.load(b"")
    ... except ad.safetensors.SafetensorError as error:
    ...     print(error)
    the file is damaged, or no safetensors file: it has 0 bytes, and the length of its header takes 8
    """


# --- reading ----------------------------------------------------------------------------------------------------------


def _damaged(what):
    return SafetensorError(f"the file is damaged, or no safetensors file: {what}")


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = sorted(name for name, _ in pairs)
        raise _damaged(f"its header has {next(a for a, b in itertools.pairwise(names) if a == b)!r} twice")
    return found


def _whole(value):
    return type(value) is int and 0 <= value < 2**63


class _Header:
    """What a file says of its tensors: by name the dtype, the shape and where the bytes are; checked against its length."""

    def __init__(self, file: IO[bytes], length: int) -> None:
        if length < 8:
            raise _damaged(f"it has {length} bytes, and the length of its header takes 8")
        size = int.from_bytes(file.read(8), "little")
        if not 2 <= size <= min(length - 8, _LARGEST_HEADER):
            raise _damaged(
                f"its header should have {size} bytes, and the file has {length - 8} after that number"
            )
        try:
            entries = json.loads(file.read(size).decode(), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or a number without end
            raise _damaged(f"its header is not JSON: {error}") from None
        if not isinstance(entries, dict):
            raise _damaged("its header is no JSON object")
        self.metadata = entries.pop("__metadata__", None)
        if self.metadata is not None and not (
            isinstance(self.metadata, dict) and all(isinstance(v, str) for v in self.metadata.values())
        ):
            raise _damaged("its __metadata__ are not texts by name")
        self.data = 8 + size
        places = {name: self._place(name, entry) for name, entry in entries.items()}
        self.tensors = dict(sorted(places.items(), key=lambda item: item[1][2:]))
        end = 0
        for name, (_, _, begin, stop) in self.tensors.items():
            if begin != end:
                raise _damaged(
                    f"the elements of {name!r} begin at {begin}, and those before them end at {end}"
                )
            end = stop
        if end != length - self.data:
            raise _damaged(f"its tensors take {end} bytes, and there are {length - self.data}")

    @staticmethod
    def _place(name, entry):
        if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
            raise _damaged(f"{name!r} is described by {short(entry)}, not by dtype, shape and data_offsets")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise SafetensorError(
                f"{name!r} is of dtype {short(dtype)}, which Adjoint does not have; expected one of {', '.join(_DTYPES)}"
            )
        sizes = isinstance(shape, list) and len(shape) <= 64 and all(map(_whole, shape))
        if not sizes or math.prod(max(n, 1) for n in shape) * _DTYPES[dtype].itemsize >= 2**63:
            raise SafetensorError(
                f"{name!r} has the shape {short(shape)}, which Adjoint does not have: up to 64 sizes, strides of 64 bits"
            )
        if not (isinstance(offsets, list) and len(offsets) == 2 and all(map(_whole, offsets))):
            raise _damaged(f"{name!r} has the offsets {short(offsets)}")
        begin, end = offsets
        if end - begin != math.prod(shape) * _DTYPES[dtype].itemsize:
            raise _damaged(f"{name!r} of dtype {dtype} and shape {shape} cannot have {end - begin} bytes")
        return _DTYPES[dtype], tuple(shape), begin, end

    def read(self, file, name):
        """The tensor of that name."""
        dtype, shape, begin, end = self.tensors[name]
        elements = _C._empty((end - begin,), dtype=_C.uint8)
        if end > begin:
            file.seek(self.data + begin)
            view, at = memoryview(elements).cast("B"), 0
            while at < len(view):
                count = file.readinto(view[at:])
                if not count:
                    raise _damaged(f"it ends within the elements of {name!r}")
                at += count
        elements = _in_order(elements, dtype)
        try:
            _check_bool(elements, dtype)
        except UnpicklingError:
            raise _damaged(f"{name!r} is of dtype BOOL and has other bytes than 0 and 1") from None
        stride = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        return _C._over(elements, dtype, shape, tuple(stride), 0)


def _in_order(elements, dtype):
    """The bytes, those of each number the other way round on a machine that keeps the largest part first."""
    if sys.byteorder == "little":
        return elements
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    return elements.reshape(-1, width).flip(1).reshape(-1).clone()


class safe_open:
    """A file whose tensors are read when they are asked for: a context manager.

    Parameters
    ----------
    filename : path
    framework : str
        Ignored but for its type: tensors are Adjoint's.
    device : device, str or int
        Where the tensors go.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    SafetensorError
        The file is damaged, or of another kind.

    Examples
    --------
    >>> import adjoint as ad, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     ad.safetensors.save_file({"weight": ad.eye(2), "bias": ad.ones(2)}, path)
    ...     with ad.safetensors.safe_open(path) as file:
    ...         print(file.keys(), file.get_tensor("bias"), file.get_slice("weight")[0])
    ['bias', 'weight'] tensor([1., 1.]) tensor([1., 0.])
    """

    def __init__(self, filename: Any, framework: str = "adjoint", device: Any = "cpu") -> None:
        if not isinstance(framework, str):
            raise TypeError(f"safe_open(): framework must be a str, not {type(framework).__name__}")
        self._device = _device(device)
        self._file = open(filename, "rb")  # noqa: SIM115 - it is closed in __exit__
        try:
            self._header = _Header(self._file, os.fstat(self._file.fileno()).st_size)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """The names of the tensors, sorted.

        Returns
        -------
        list of str
        """
        return sorted(self._header.tensors)

    def offset_keys(self) -> list[str]:
        """The names of the tensors in the order in which they lie in the file.

        Returns
        -------
        list of str
        """
        return list(self._header.tensors)

    def metadata(self) -> dict[str, str] | None:
        """The texts that the file has beside its tensors.

        Returns
        -------
        dict of str, optional
        """
        return self._header.metadata

    def _need(self, name):
        if name not in self._header.tensors:
            raise SafetensorError(f"File does not contain tensor {name}: it has {', '.join(self.keys())}")

    def get_tensor(self, name: str) -> Tensor:
        """The tensor of a name, read now.

        Parameters
        ----------
        name : str

        Returns
        -------
        Tensor

        Raises
        ------
        SafetensorError
            There is none of that name.
        """
        self._need(name)
        return self._header.read(self._file, name).to(self._device)

    def get_slice(self, name: str) -> Slice:
        """The tensor of a name, to be asked for its shape and for parts of it.

        Parameters
        ----------
        name : str

        Returns
        -------
        Slice
            It has `get_shape` and `get_dtype`, and is indexed like a tensor.
        """
        self._need(name)
        return Slice(self, name)


class Slice:
    """A tensor of an open file, which is read when it is indexed; see `safe_open.get_slice`."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file, self._name = file, name
        self._dtype, self._shape = file._header.tensors[name][:2]

    def get_shape(self) -> list[int]:
        """Its shape."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """The format's name of its element type."""
        return _NAMES[self._dtype]

    def __getitem__(self, index: Any) -> Tensor:
        return self._file.get_tensor(self._name)[index].clone()


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """Read all tensors of a file.

    Parameters
    ----------
    filename : path
    device : device, str or int
        Where they go.

    Returns
    -------
    dict of Tensors, each with memory of its own

    Raises
    ------
    SafetensorError
        The file is damaged, or of another kind.

    Examples
    --------
    >>> import adjoint as ad, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers.safetensors")
    ...     ad.save({"a": ad.arange(3)}, path)
    ...     ad.safetensors.load_file(path)
    {'a': tensor([0, 1, 2])}
    """
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def load(data: bytes) -> dict[str, Tensor]:
    """Read all tensors from the bytes of a file.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    dict of Tensors

    Raises
    ------
    SafetensorError
        The bytes are damaged, or of another kind.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.safetensors.load(ad.safetensors.save({"a": ad.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    file = io.BytesIO(data)
    header = _Header(file, len(data))
    return {name: header.read(file, name) for name in sorted(header.tensors)}


# --- writing ----------------------------------------------------------------------------------------------------------


def _need_plain(tensors, metadata):
    if not isinstance(tensors, Mapping):
        raise ValueError(
            f"Expected a dict of [str, Tensor] but received {type(tensors).__name__}; other objects are saved by "
            f"{switches.package}.save under a name that does not end in .safetensors"
        )
    if metadata is not None and not (
        isinstance(metadata, Mapping) and all(isinstance(t, str) for pair in metadata.items() for t in pair)
    ):
        raise TypeError(f"metadata must be texts by name, dict[str, str], but got {metadata!r}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"a tensor's name must be a str other than '__metadata__', but got {name!r}")
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected a Tensor but received {type(tensor).__name__}"
            )
        if tensor.layout is not strided:
            raise ValueError(
                f"You are trying to save a sparse tensor: `{name}`, which this format does not support; call "
                "`.to_dense()`, or save its indices and values"
            )
        if tensor.is_meta:
            raise ValueError(f"tensor `{name}` is on the device meta: it has a shape and no elements to save")
        if tensor.dtype not in _NAMES:
            raise TypeError(
                f"tensor `{name}` is of {tensor.dtype}, which the format does not know; expected one of "
                f"{', '.join(str(d) for d in _NAMES)}"
            )
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. Call `.contiguous()` on it "
                "to save it in the order of its elements; of tensors that are views of one, save that one"
            )
    if twice := overlapping(tensors):
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them "
            f"again: {twice}. Save one of each, or `.clone()` the others"
        )


def _written(tensors, metadata):
    """The header, and the tensors in the order of their elements in the file: wide ones first, so that all are aligned."""
    if isinstance(tensors, Mapping):  # which may make them anew whenever it is asked
        tensors = {name: t.detach() if isinstance(t, Tensor) else t for name, t in tensors.items()}
    _need_plain(tensors, metadata)
    tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end, ordered = 0, sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    for name in ordered:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.dtype.itemsize
        entries[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": [*tensor.shape],
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > _LARGEST_HEADER:
        raise SafetensorError(
            f"the header would have {len(header)} bytes; the format allows {_LARGEST_HEADER}"
        )
    yield len(header).to_bytes(8, "little") + header
    for name in ordered:
        tensor = tensors[name]
        width = tensor.dtype.itemsize
        begin = tensor.storage_offset() * width
        elements = _C._storage_bytes(tensor)[begin : begin + tensor.numel() * width]
        if tensor.numel():
            yield memoryview(_in_order(elements, tensor.dtype)).cast("B")


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file of these tensors.

    Parameters
    ----------
    tensors : dict of Tensors
        Contiguous ones that share no memory.
    metadata : dict of str, optional

    Returns
    -------
    bytes

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.safetensors.save({"a": ad.ones(2)})[8:70]
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  \\x00\\x00\\x80?\\x00\\x00'
    """
    return b"".join(_written(tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors by name to a file.

    Parameters
    ----------
    tensors : dict of Tensors
        Contiguous ones that share no memory; what they require of gradients is not written.
    filename : path
    metadata : dict of str, optional
        Text that goes with them.

    Raises
    ------
    ValueError
        A value is no tensor, or is not contiguous, or sparse.
    TypeError
        The format does not know the dtype: it has no complex128.
    RuntimeError
        Two tensors share memory.

    Examples
    --------
    >>> import adjoint as ad, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     ad.safetensors.save_file(ad.nn.Linear(2, 3).state_dict(), path, {"epoch": "3"})
    ...     list(ad.safetensors.load_file(path))
    ['bias', 'weight']
    """
    parts = _written(tensors, metadata)
    first = next(parts)  # what cannot be written is refused before a file is there
    with open(filename, "wb") as file:
        file.write(first)
        for part in parts:
            file.write(part)
