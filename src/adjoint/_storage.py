"""The memory below tensors as an object, and the methods of Tensor that give it other memory: `resize_`, `set_`.

A storage here is a view of a tensor's: it knows its tensor, and asks it. Bytes that a storage gives up by `resize_` stay
readable for the tensors that still point to them, and more bytes are had where they lie, or by moving a tensor that is
alone on its memory; so no tensor ever points to what is gone. Start reading at `UntypedStorage`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._register import Members, extend

__all__ = ["TypedStorage", "UntypedStorage"]


class _Storage:
    """What storages have in common. `_elements` is all of the memory as a tensor of one dimension, which shares it."""

    __slots__ = ("_tensor",)

    _tensor: Tensor
    is_cuda = is_sparse = is_hpu = False

    @property
    def _elements(self) -> Tensor:
        raise NotImplementedError

    @property
    def device(self):
        """Where the memory is."""
        return self._tensor.device

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._tensor._storage()[0]

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._tensor._storage()[1]

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    def element_size(self) -> int:
        """The number of bytes of one element."""
        raise NotImplementedError

    def __len__(self):
        return self.size()

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        """The elements as Python numbers."""
        return self._elements.tolist()

    def __getitem__(self, index):
        part = self._elements[index]
        return part.item() if part.ndim == 0 else part.tolist()

    def __setitem__(self, index, value):
        with _recording_off():
            self._elements[index] = value

    def fill_(self, value):
        """Write one value everywhere."""
        with _recording_off():
            self._elements.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Write the elements of another storage of the same size."""
        if not isinstance(source, _Storage):
            raise TypeError(f"copy_(): expected a storage, but found {type(source).__name__}")
        if source.size() != self.size():
            raise RuntimeError(
                f"copy_(): the storages have {self.size()} and {source.size()} elements; resize_() one first"
            )
        with _recording_off():
            self._elements.copy_(source._elements)
        return self

    def clone(self):
        """A copy of the memory."""
        return type(self)(_owner=self._elements.clone())

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        result = memo.get(id(self))
        if result is None:
            result = memo[id(self)] = self.clone()
        return result

    def cpu(self):
        """The storage itself."""
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes, as `Tensor.share_memory_` does."""
        return self._tensor.is_shared()

    def share_memory_(self):
        """Move the memory to where other processes can see it; see `Tensor.share_memory_`."""
        self._tensor.share_memory_()
        return self

    def is_pinned(self, device=None) -> bool:
        """Whether the memory is pinned for a device: it is not."""
        return False

    def _resize(self, nbytes):
        _C._resize_storage(self._tensor, nbytes)
        return self


class UntypedStorage(_Storage):
    """The memory below a tensor, as bytes.

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

    __slots__ = ()

    def __init__(self, size=0, *, device=None, _owner=None):
        self._tensor = _made(size, _C.uint8) if _owner is None else _owner

    @property
    def _elements(self):
        return _C._storage_bytes(self._tensor)

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """A file's bytes as memory, read when they are used.

        Parameters
        ----------
        filename : path
        shared : bool
            Write to the file what is written to the memory; False leaves the file as it is.
        nbytes : int
            How many bytes, from the beginning; 0 stands for all.

        Raises
        ------
        RuntimeError
            The file has fewer bytes.
        """
        import mmap
        import os

        with open(filename, "r+b" if shared else "rb") as file:
            length = os.fstat(file.fileno()).st_size
            nbytes = _count(nbytes) or length
            if nbytes > length:
                raise RuntimeError(
                    f"from_file(): {nbytes} bytes are asked for, but {os.fspath(filename)!r} has {length}"
                )
            if not nbytes:
                return cls(0)
            map_ = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        return cls(_owner=_C._from_buffer(map_))

    def element_size(self) -> int:
        return 1

    def resize_(self, size):
        """Use `size` bytes.

        Fewer bytes are given back to the system where they are whole pages and none is left in use; the tensors over them
        stay usable, with zeros or the old values in them.

        Raises
        ------
        RuntimeError
            More bytes are asked for than there ever were, and another tensor shares the memory, which would have to move;
            or the memory belongs to somebody else, such as an array.
        """
        return self._resize(size)

    def untyped(self):
        """The storage itself."""
        return self

    def __repr__(self):
        return f"UntypedStorage(data_ptr={self.data_ptr():#x}, nbytes={self.nbytes()})"


class TypedStorage(_Storage):
    """The memory below a tensor, as elements of its dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.arange(6.0)[2:4]
    >>> storage = x.storage()
    >>> len(storage), storage[5], storage.dtype
    (6, 5.0, adjoint.float32)
    """

    __slots__ = ("dtype",)

    def __init__(self, size=0, *, wrap_storage=None, dtype=None, device=None, _owner=None):
        if wrap_storage is not None:
            _owner = wrap_storage._tensor
        self.dtype = dtype or (_C.get_default_dtype() if _owner is None else _owner.dtype)
        self._tensor = _made(size, self.dtype) if _owner is None else _owner

    @property
    def _elements(self):
        return _C._over(_C._storage_bytes(self._tensor), self.dtype, (self.size(),), (1,), 0)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def resize_(self, size):
        """Use `size` elements; see `UntypedStorage.resize_`."""
        return self._resize(_count(size) * self.element_size())

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(_owner=self._tensor)

    _untyped_storage = property(untyped)

    def __repr__(self):
        return f"TypedStorage(dtype={self.dtype}, data_ptr={self.data_ptr():#x}, size={self.size()})"


def _made(size, dtype):
    return (
        _C.tensor(list(size), dtype=dtype) if hasattr(size, "__iter__") else _C._empty((_count(size),), dtype)
    )


def _count(size):
    from operator import index

    count = index(size)
    if not 0 <= count < 2**47:
        raise RuntimeError(f"a storage of {count} elements cannot be: expected a number from 0 to 2**47 - 1")
    return count


def _recording_off():
    from adjoint.autograd import no_grad

    return no_grad()


@extend
class Memory(Members):
    def untyped_storage(self) -> UntypedStorage:
        """The memory below the tensor, which its views share, as bytes."""
        if self._layout_number:
            raise NotImplementedError(
                f"Cannot access storage of SparseTensorImpl: a tensor of layout {self.layout} has indices and values; use values()"
            )
        return UntypedStorage(_owner=self)

    def storage(self) -> TypedStorage:
        """The memory below the tensor, which its views share, as elements of its dtype."""
        return TypedStorage(_owner=self)

    def _typed_storage(self) -> TypedStorage:
        return TypedStorage(_owner=self)

    def resize_(self, *sizes, size=None, memory_format=None) -> Tensor:
        """Give this tensor another shape in row-major order, keeping its elements as far as they go; new ones are zero.

        Raises
        ------
        RuntimeError
            The tensor requires a gradient, or has a tangent.
        """
        # In inference mode nothing is recorded, and what is made there may be written.
        if self.requires_grad and not (self.is_inference() and _C.is_inference_mode_enabled()):
            raise RuntimeError(
                f"cannot resize variables that require grad: this one has shape {tuple(self.shape)}. Resize its detach(), or "
                "make a new tensor"
            )
        if _C._tangent(self) is not None:
            raise RuntimeError(
                f"cannot resize variables that has a forward grad: this one has shape {tuple(self.shape)}. Resize its primal, "
                "which unpack_dual() gives, or make a new tensor"
            )
        from adjoint import zeros

        sizes = sizes if size is None else (size,)
        sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        if tuple(sizes) == tuple(self.shape):
            return self
        result = zeros(sizes, dtype=self.dtype)
        count = min(self.numel(), result.numel())
        if count:
            result.view(-1)[:count] = self.detach().reshape(-1)[:count]
        _replace_memory(self, result)
        return self

    def resize_as_(self, other, memory_format=None) -> Tensor:
        """``resize_(other.shape)``."""
        return self.resize_(other.shape)

    def set_(self, source=None, storage_offset=0, size=None, stride=None) -> Tensor:
        """Let this tensor stand for other memory: that of a tensor, with its shape and dtype, or a part of a storage.

        Parameters
        ----------
        source : Tensor or storage, optional
            None stands for no memory: the tensor has no elements then.
        storage_offset, size, stride : optional
            The part, in elements of this tensor's dtype; all of a storage, in row-major order, unless given.

        Raises
        ------
        RuntimeError
            The tensor requires a gradient and is no leaf, or is one and grad mode is on, or the dtype cannot have one; or
            the source requires a gradient and grad mode is on; or the part does not lie within the storage.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.arange(6.0)
        >>> ad.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
        tensor([[1., 2.],
                [3., 4.]])
        """
        if self.requires_grad and not self.is_leaf:
            raise RuntimeError(
                f"set_(): this tensor of shape {tuple(self.shape)} was computed, and its gradient would be lost; use detach()"
            )
        if _C.is_grad_enabled():
            if self.requires_grad:
                raise RuntimeError(
                    "a leaf Variable that requires grad is being used in an in-place operation: set_() on shape "
                    f"{list(self.shape)}, {self.dtype.name}. Write under no_grad()"
                )
            if isinstance(source, Tensor) and source.requires_grad:
                raise RuntimeError(
                    f"the derivative for set_ is not implemented: the source of shape {list(source.shape)} requires grad, "
                    "and its gradient would be lost. Use source.detach(), or write under no_grad()"
                )
        _replace_memory(self, _part(source, storage_offset, size, stride, self.dtype))
        return self

    def is_set_to(self, tensor) -> bool:
        """Whether both are the same elements of the same memory, in the same order."""
        mine, theirs = self.untyped_storage(), tensor.untyped_storage()
        return (
            mine.data_ptr() == theirs.data_ptr()
            and mine.nbytes() == theirs.nbytes()
            and self.storage_offset() == tensor.storage_offset()
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )


def _part(source, offset, size, stride, dtype):
    """The tensor that `set_` describes."""
    if source is None:
        return _C._empty((0,), dtype)
    if isinstance(source, Tensor):
        if size is None and stride is None and not offset:
            return source
        if source.dtype is not dtype:
            raise RuntimeError(
                f"set_(): expected a source of the tensor's dtype {dtype}, but it is {source.dtype}"
            )
    elif not isinstance(source, _Storage):
        raise TypeError(
            f"set_(): argument 'source' must be a Tensor or a storage, not {type(source).__name__}"
        )
    elif isinstance(source, TypedStorage) and source.dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got type {source.dtype}"
        )
    whole = TypedStorage(
        _owner=source if isinstance(source, Tensor) else source._tensor, dtype=dtype
    )._elements
    if size is None:
        size = (max(0, whole.shape[0] - offset),)
    size = (size,) if isinstance(size, int) else tuple(size)
    if stride is None:
        stride = _C._row_major_strides(size)
    with _recording_off():
        return whole.as_strided(size, (stride,) if isinstance(stride, int) else tuple(stride), offset)


def _replace_memory(x, source):
    """Let `x` stand on the memory of `source`, as a write: what was saved of `x` is out of date.

    Versions belong to memory. The new memory's must be past the old one's, or what was saved would seem unchanged.
    """
    if x.is_inference() or source.is_inference():
        x.data = source
        return
    version = x._version
    _C._stand_on(x, source)
    _C._bump_version_past(x, version)
