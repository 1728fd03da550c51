"""The memory of tensors as elements of a dtype, as files hold it; under `as_torch` programs are warned (as_torch/past/storages.py).

Start reading at `TypedStorage`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import ignores
from adjoint._switches import switches
from adjoint._tensor.storage import UntypedStorage, _count, _made, _Storage
from adjoint._types import Any, Device, DType, Self

__all__ = ["TypedStorage"]


class TypedStorage(_Storage):
    """The memory of a tensor, as elements of its dtype.

    Parameters
    ----------
    size : int or sequence of numbers
        A number of elements, not initialised, or their values.
    wrap_storage : UntypedStorage
        The memory, instead of `size`.
    dtype, device : optional
        The default ones unless given.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.arange(6.0)[2:4]
    >>> storage = x.storage()
    >>> len(storage), storage[5], storage.dtype
    (6, 5.0, adjoint.float32)
    """

    _untyped_storage: UntypedStorage

    def __init__(
        self,
        *args: Any,
        wrap_storage: Any = None,
        dtype: DType | None = None,
        device: Device | None = None,
        _owner: Any = None,
    ) -> None:
        if _owner is not None:
            wrap_storage, dtype = UntypedStorage(_owner=_owner), dtype or _owner.dtype
        elif wrap_storage is None:
            dtype = dtype or _C.get_default_dtype()
            wrap_storage = UntypedStorage(_owner=_made(args, dtype, device, "TypedStorage"))
        else:
            _need_storage(args, wrap_storage, dtype, device)
        self._untyped_storage = wrap_storage
        self._dtype: Any = dtype

    @classmethod
    def _over(cls, storage, dtype):
        self = object.__new__(TypedStorage)
        self._untyped_storage, self._dtype = storage, dtype
        return self

    def _of(self, owner):
        return self._over(UntypedStorage(_owner=owner), self._dtype)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def _tensor(self):  # type: ignore[override]
        return self._untyped_storage._tensor

    @property
    def _elements(self):
        return _C._over(_C._storage_bytes(self._tensor), self._dtype, (self._size(),), (1,), 0)

    def element_size(self) -> int:
        """The number of bytes of one element."""
        return self._dtype.itemsize

    def _size(self) -> int:
        return self._tensor._storage()[1] // self._dtype.itemsize

    def resize_(self, size: int) -> Self:
        """Give the memory another number of elements."""
        self._untyped_storage.resize_(_count(size) * self._dtype.itemsize)
        return self

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    @ignores("non_blocking", why="a copy is done when the call returns", warns=False)
    def type(self, dtype: DType | None = None, non_blocking: bool = False) -> Any:
        """The name of the legacy type; or a copy of another type, given by its dtype or by that name."""
        if dtype is None:
            return f"torch.{self._dtype._type_name}Storage"
        if not isinstance(dtype, _C.dtype):
            name = dtype.rpartition(".")[2] if isinstance(dtype, str) else dtype.__name__
            dtype = next(
                d for d in vars(_C).values() if isinstance(d, _C.dtype) and f"{d._type_name}Storage" == name
            )
        return self._to(dtype)

    def _to(self, dtype):
        elements = self._readable()
        made = elements.clone() if dtype is self._dtype else elements.to(dtype)
        return self._over(UntypedStorage(_owner=made), dtype)

    @ignores("non_blocking", why="a copy is done when the call returns", warns=False)
    def to(self, *, device: Device, non_blocking: bool = False) -> Any:
        """The storage on a device."""
        return self if self.device == device else self._of(self._elements.to(device))

    def pickle_storage_type(self) -> str:
        """The name of the legacy type, without its module."""
        return f"{self._dtype._type_name}Storage"

    @classmethod
    def from_buffer(cls, *args: Any, dtype: DType | None = None, **keywords: Any) -> Any:
        """See `UntypedStorage.from_buffer`."""
        if dtype is None:
            dtype = getattr(cls, "_of_old", _C.get_default_dtype())
        return cls._over(UntypedStorage.from_buffer(*args, dtype=dtype, **keywords), dtype)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> Any:
        """So many elements of a file; see `UntypedStorage.from_file`."""
        dtype = getattr(cls, "_of_old", _C.get_default_dtype())
        return cls._over(UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype)

    def _weak_ref(self):
        return self._untyped_storage._weak_ref()

    def __reduce__(self) -> Any:
        return _read_elements, (self._dtype, bytes(self._untyped_storage.tolist()))

    def __str__(self) -> str:
        said = f"[{switches.package}.storage.TypedStorage(dtype={self._dtype}, device={self.device}) of size {self._size()}]"
        if self._tensor.is_meta:
            return f"...\n{said}"
        return "\n".join([*(f" {x}" for x in self._elements.tolist()), said])

    __repr__ = __str__


def _read_elements(dtype, data):
    """The storage that a pickle describes."""
    return TypedStorage._over(UntypedStorage([*data]), dtype)


def cast_name(dtype: _C.dtype) -> str:
    """By what name a storage gives a copy of a dtype: "float", "complex_double"."""
    return dtype._type_name.lower().replace("complex", "complex_")


def _add_casts():
    for dtype in [d for d in vars(_C).values() if isinstance(d, _C.dtype)]:

        def cast(self, _dtype=dtype):
            return self._to(_dtype)

        cast.__name__ = cast_name(dtype)
        cast.__qualname__, cast.__doc__ = f"TypedStorage.{cast.__name__}", f"A copy of {dtype.name}."
        setattr(TypedStorage, cast.__name__, cast)


_add_casts()


def _need_storage(args, storage, dtype, device):
    if args:
        raise RuntimeError(
            "TypedStorage(): No positional arguments should be given when using 'wrap_storage'"
        )
    if dtype is None:
        raise RuntimeError("TypedStorage(): Argument 'dtype' must be specified with 'wrap_storage'")
    if not isinstance(dtype, _C.dtype):
        raise TypeError(
            f"TypedStorage(): Argument 'dtype' must be {switches.package}.dtype, not {type(dtype)}"
        )
    if device is not None:
        raise RuntimeError(
            "TypedStorage(): Argument 'device' should not be specified when 'wrap_storage' is given"
        )
    if not isinstance(storage, UntypedStorage):
        raise TypeError(
            f"TypedStorage(): Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}"
        )
