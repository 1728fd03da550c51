"""The memory of tensors as an object.

A storage holds its memory by a tensor of bytes. Bytes that it gives up by `resize_` stay readable for the tensors that still
point to them, and more bytes are had where they lie, or by moving a tensor that is alone on its memory; so no tensor ever
points to what is gone. Storages whose elements are of a dtype: `_typed_storage`. Start reading at `UntypedStorage`.
"""

from __future__ import annotations

import sys
from _weakref import ref

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Device, DType, Iterator

__all__ = ["UntypedStorage"]


class _Storage:
    """What storages have in common. `_elements` is all of the memory as a tensor of one dimension, which shares it."""

    _tensor: Tensor
    is_cuda = is_sparse = is_sparse_csr = is_hpu = False

    @property
    def _elements(self) -> Tensor:
        raise NotImplementedError

    def _readable(self) -> Tensor:
        if self._tensor.is_meta:
            raise NotImplementedError(
                "Not available for 'meta' device type: Cannot copy out of meta tensor; no data!"
            )
        return self._elements

    @property
    def device(self):
        """Where the memory is."""
        return self._tensor.device

    def get_device(self) -> int:
        """The number of the device, -1 for the CPU."""
        return self._tensor.get_device()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return 0 if self._tensor.is_meta else self._tensor._storage()[0]

    @property
    def _cdata(self) -> int:
        """What tells this memory from all others that live."""
        return _C._storage_id(self._tensor)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._tensor._storage()[1]

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    def element_size(self) -> int:
        """The number of bytes of one element."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.size()

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list:
        """The elements as Python numbers."""
        return self._readable().tolist()

    def __getitem__(self, index: Any) -> Any:
        part = self._readable()[index]
        return part.item() if part.ndim == 0 else part.tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, _Storage):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        with _recording_off():
            self._readable()[index] = value

    def fill_(self, value):
        """Write one value everywhere."""
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None):
        """Write the elements of another storage of the same size."""
        if not isinstance(source, _Storage):
            raise TypeError(f"copy_(): expected a storage, but found {type(source).__name__}")
        if source.size() != self.size():
            raise RuntimeError(
                f"copy_(): the storages have {self.size()} and {source.size()} elements; resize_() one first"
            )
        source._need_elements()
        with _recording_off():
            self._elements.copy_(source._elements)
        return self

    def _need_elements(self):
        if self._tensor.is_meta:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def _of(self, owner):
        """A storage of this kind over the memory of a tensor."""
        raise NotImplementedError

    def clone(self):
        """A copy of the memory."""
        return self._of(self._elements.clone())

    def __copy__(self) -> Any:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Any:
        # Tensors that share the memory go on sharing it: they look under the same key.
        key = ("storage", self._cdata)
        bytes_ = memo.get(key)
        if bytes_ is None:
            whole = _C._storage_bytes(self._tensor)
            bytes_ = memo[key] = _C._copy_bytes(whole)
            memo.setdefault(id(memo), []).append(whole)
        return self._of(bytes_)

    def cpu(self):
        """The storage itself."""
        self._need_elements()
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes, as `Tensor.share_memory_` does."""
        return self._tensor.is_shared()

    def share_memory_(self):
        """Move the memory to where other processes can see it; see `Tensor.share_memory_`."""
        if self._tensor.is_meta:
            raise RuntimeError("_share_fd_cpu_: only available on CPU")
        self._tensor.share_memory_()
        return self

    _share_fd_cpu_ = _share_filename_cpu_ = share_memory_

    def is_pinned(self, device=None) -> bool:
        """Whether the memory is pinned for a device: it is not."""
        return False

    def resizable(self) -> bool:
        """Whether `resize_` may change its size: not if another object owns it, such as an array."""
        return not _C._belongs_elsewhere(self._tensor)

    def _write_file(self, f, is_real_file=True, save_size=True, element_size=1):
        self._need_elements()
        if save_size:
            f.write((self.nbytes() // element_size).to_bytes(8, sys.byteorder))
        f.write(bytes(memoryview(_C._storage_bytes(self._tensor)).cast("B")) if self.nbytes() else b"")


# The storages that live, by memory: asked for twice, it is the same object.
_living: dict = {}


class UntypedStorage(_Storage):
    """The memory of a tensor, as bytes.

    Parameters
    ----------
    size : int or sequence of int
        A number of bytes, not initialised, or their values. Those of a tensor come from `Tensor.untyped_storage`.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1, 2], dtype=ad.int16)
    >>> x.untyped_storage().tolist()
    [1, 0, 2, 0]
    """

    _whose: Any = None
    #: The file that the memory is a map of, if any.
    filename: str | None = None

    def __init__(self, *args: Any, device: Device | None = None, _owner: Any = None) -> None:
        self._tensor = _made(args, _C.uint8, device, "UntypedStorage") if _owner is None else _owner

    @classmethod
    def _below(cls, tensor):
        """The storage of a tensor. It outlives the tensor, and stays what it is when the tensor is given other memory."""
        key = _C._storage_id(tensor)
        found = _living[key]() if key in _living else None
        if found is None or found._cdata != key:
            plain = not tensor.is_meta and _C._batch_of(tensor) is None
            found = cls(_owner=_C._storage_bytes(tensor) if plain else tensor)
            if plain:
                found._whose = ref(tensor)
            found._live()
        elif found._whose is not None and found._whose() is None:
            found._whose = ref(tensor)
        return found

    def _live(self):
        """Be the object of this memory until the object goes."""
        key = self._cdata

        def forget(reference):
            if _living.get(key) is reference:
                del _living[key]

        _living[key] = ref(self, forget)

    @property
    def _elements(self):
        return _C._storage_bytes(self._tensor)

    def _of(self, owner):
        return type(self)(_owner=owner)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        part = self._readable()[start:stop]
        result = type(self)(_owner=_C._from_buffer(memoryview(part)) if part.numel() else part.clone())
        return result

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: Any = None, count: int = -1, offset: int = 0, *, dtype: DType = _C.uint8
    ) -> Any:
        """A copy of the bytes of a buffer, in the order of this machine.

        Parameters
        ----------
        buffer : object with a buffer
        byte_order : {'native', 'little', 'big'}
            Of the elements in the buffer; it need not be given for bytes.
        count, offset : int
            How many elements, -1 for all, and from which byte.
        """
        data = bytes(memoryview(buffer).cast("B"))
        dtype = _C._dtype(dtype)
        width = dtype.itemsize
        if byte_order is None and dtype not in (_C.uint8, _C.int8):
            raise TypeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "native", "little", "big"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        if not 0 <= offset <= len(data):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({len(data)}) , but got {offset}"
            )
        if count < 0:
            if (len(data) - offset) % width:
                raise ValueError(f"buffer size ({len(data)}) must be a multiple of element size ({width})")
            count = (len(data) - offset) // width
        if offset + count * width > len(data):
            raise ValueError(
                f"buffer has only {len(data) - offset} elements after offset {offset}, but specified a size of {count}"
            )
        result = cls([*data[offset : offset + count * width]])
        if dtype is _C.bool:
            result._tensor.copy_(result._tensor != 0)
        if byte_order not in (None, "native", sys.byteorder):
            result.byteswap(dtype)
        return result

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """A file's bytes as memory, read when they are used.

        Parameters
        ----------
        filename : path
        shared : bool
            Write to the file what is written to the memory; the file is made, or made longer, where it is too short. False
            leaves the file as it is.
        nbytes : int
            How many bytes, from the beginning; 0 stands for all.

        Raises
        ------
        RuntimeError
            The file has fewer bytes, and is not shared.
        """
        import mmap
        import os

        nbytes = _count(nbytes)
        with open(filename, ("r+b" if os.path.exists(filename) else "w+b") if shared else "rb") as file:
            length = os.fstat(file.fileno()).st_size
            nbytes = nbytes or length
            if nbytes > length:
                if not shared:
                    raise RuntimeError(
                        f"from_file(): {nbytes} bytes are asked for, but {os.fspath(filename)!r} has {length}"
                    )
                file.truncate(nbytes)
            if not nbytes:
                return cls(0)
            map_ = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        result = cls(_owner=_C._from_buffer(map_))
        result.filename = os.fspath(filename)
        return result

    def byteswap(self, dtype: DType) -> None:
        """Reverse the byte order of each element of `dtype`; of the real and the imaginary part of a complex one."""
        dtype = _C._dtype(dtype)
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        if width > 1 and self.nbytes():
            parts = self._readable().view(-1, width)
            parts.copy_(parts.flip(1))

    def element_size(self) -> int:
        return 1

    @ignores("dtype", "non_blocking", why="bytes have one type", warns=False)
    def type(self, dtype: DType | None = None, non_blocking: bool = False) -> str:
        """The name of its type."""
        return "torch.storage.UntypedStorage"

    def resize_(self, size: int) -> Any:
        """Use `size` bytes.

        Fewer bytes are given back to the system where they are whole pages and none is left in use; the tensors over them
        stay usable, with zeros or the old values in them.

        Raises
        ------
        RuntimeError
            More bytes are asked for than there ever were, and another tensor shares the memory, which would have to move;
            or another object owns the memory, such as an array.
        """
        owner = None if self._whose is None else self._whose()
        if self._tensor.is_meta:
            self._tensor = _made((size,), _C.uint8, "meta", "UntypedStorage")
        elif owner is None or _C._storage_id(owner) != self._cdata:
            _C._resize_storage(self._tensor, size)
        else:
            # Memory that has to move may have one owner, which is the tensor for that moment.
            del self._tensor
            try:
                _C._resize_storage(owner, size)
            finally:
                self._tensor = _C._storage_bytes(owner)
                self._live()
        return self

    def untyped(self) -> Any:
        """The storage itself."""
        return self

    # What weak pointers are elsewhere: here the object knows by itself.
    def _weak_ref(self):
        return ref(self)

    @staticmethod
    def _expired(reference) -> bool:
        return reference() is None

    @staticmethod
    def _free_weak_ref(reference) -> None:
        pass

    def __reduce__(self) -> Any:
        return _read_bytes, (bytes(self.tolist()),)

    def __repr__(self) -> str:
        return f"UntypedStorage(data_ptr={self.data_ptr():#x}, nbytes={self.nbytes()})"


def _made(args, dtype, device, name):
    """The memory that the arguments of a storage's constructor describe."""
    from adjoint._tensor.device import device_number

    if len(args) > 1:
        raise RuntimeError(
            f"{name}(): Too many positional arguments: expected a size, or a sequence of values"
        )
    size = args[0] if args else 0
    if isinstance(size, (str, Tensor, _Storage)):
        known = "invalid data type 'str'" if isinstance(size, str) else "Argument type not recognized"
        raise TypeError(f"{name}(): {known}: {type(size).__name__}; expected a size, or a sequence of values")
    number = None
    if device is not None:
        try:
            number = device_number(device)
        except (RuntimeError, AssertionError) as error:
            raise RuntimeError(f"{name}(): Storage device not recognized: {device}") from error
    before = None if number is None else _C._set_default_device(number)
    try:
        if hasattr(size, "__iter__"):
            return _C.tensor([*size], dtype=dtype)
        return _C._empty((_count(size),), dtype=dtype)
    finally:
        if before is not None:
            _C._set_default_device(before)


def _read_bytes(data):
    """The storage that a pickle describes."""
    return UntypedStorage([*data])


def _count(size):
    from operator import index

    count = index(size)
    if not 0 <= count < 2**47:
        raise RuntimeError(
            f"a storage of {count} elements cannot exist: expected a number from 0 to 2**47 - 1"
        )
    return count


def _recording_off():
    from adjoint.autograd import no_grad

    return no_grad()
