"""``torch.storage``: the memory below tensors, and the legacy classes, one per dtype: ``torch.FloatStorage(3)``.

Nothing is an instance of a legacy class but by its dtype; what they construct are typed storages. Start reading at
`_OfOld`.
"""

from __future__ import annotations

from typing import Any

import adjoint
from adjoint import _C
from adjoint._tensor.storage import UntypedStorage, _Storage
from adjoint._tensor.typed_storage import TypedStorage, _need_storage
from adjoint.as_torch import _legacy
from adjoint.as_torch.past.storages import Removal, tell_removal

__all__ = ["CUDA", "OF_OLD", "TypedStorage", "UntypedStorage"]

_StorageBase = _Storage
#: Under `as_torch` it takes `_internal`, which leaves out the warning.
_typed: Any = TypedStorage


def _reset_warn_typed_storage_removal() -> None:
    Removal.told = False


def _get_always_warn_typed_storage_removal() -> bool:
    return Removal.always


def _set_always_warn_typed_storage_removal(always_warn) -> None:
    Removal.always = bool(always_warn)


class _OfOld(type):
    """The type of the legacy classes."""

    _of_old: _C.dtype
    _of_cuda = False

    def __instancecheck__(cls, value):
        if cls is _LegacyStorage:
            return isinstance(value, TypedStorage)
        return isinstance(value, TypedStorage) and value._dtype is cls._of_old

    @property
    def dtype(cls):
        tell_removal(3)
        return cls._of_old

    @property
    def _dtype(cls):
        return cls._of_old

    @property
    def is_cuda(cls):
        return cls._of_cuda

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__name__}'>"


class _LegacyStorage(TypedStorage, metaclass=_OfOld):
    def __new__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        name = cls.__name__
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        for word, value in (("device", device), ("dtype", dtype)):
            if value is not None:
                raise RuntimeError(f"{name}(): '{word}' cannot be specified; the class says what it is")
        if wrap_storage is not None:
            _need_storage(args, wrap_storage, cls._of_old, None)
            return _typed(wrap_storage=wrap_storage, dtype=cls._of_old, _internal=True)
        if not _internal:
            tell_removal(3)
        return _typed(*args, dtype=cls._of_old, _internal=True)


def _make(dtype, module="torch", bases=(_LegacyStorage,), **more):
    name = f"{dtype._type_name}Storage"
    doc = f"Memory with elements of {dtype.name}."
    return name, _OfOld(name, bases, {"__module__": module, "__doc__": doc, "_of_old": dtype, **more})


_TYPES = [value for value in vars(_C).values() if isinstance(value, _C.dtype)]
#: By name: FloatStorage, LongStorage, …
OF_OLD = dict(_make(dtype) for dtype in _TYPES)
_BY_DTYPE = {kind._dtype: kind for kind in OF_OLD.values()}


class _Cuda(_LegacyStorage):
    _of_cuda = True

    def __new__(cls, *args, **keywords):
        raise TypeError(
            f"{cls.__name__}(): Torch not compiled with CUDA enabled: there is no CUDA device here"
        )

    @classmethod
    def _refuse(cls, *args, **keywords):
        raise RuntimeError("Not available for CUDA storage: there is no CUDA device here")

    from_buffer = _new_with_weak_ptr = _new_shared_filename = _refuse


#: The same names in ``torch.cuda``.
CUDA = dict(_make(dtype, "torch.cuda", (_Cuda,)) for dtype in _TYPES)


def _dtype_to_storage_type_map() -> dict:
    return {dtype: kind.__name__ for dtype, kind in _BY_DTYPE.items()}


def _storage_type_to_dtype_map() -> dict:
    return {name: dtype for dtype, name in _dtype_to_storage_type_map().items()}


def _load_from_bytes(b):
    from io import BytesIO

    return adjoint.load(BytesIO(b), weights_only=False)


def storage_type(self):
    """The legacy class of the tensor's storage."""
    return _BY_DTYPE[self.dtype]


def classes() -> dict:
    """What torch lists of itself: all types of tensors, and of storages."""
    tensors = {*_legacy.TYPES.values(), *_legacy.SPARSE_TYPES.values()}
    tensors |= {_legacy.cuda_type(name) for name in _legacy.TYPES}
    return {
        "_storage_classes": {UntypedStorage, TypedStorage, *OF_OLD.values(), *CUDA.values()},
        "_tensor_classes": tensors,
    }
