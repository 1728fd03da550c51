"""The methods of Tensor that give it other memory: `set_`, `resize_`; and those that ask for it: `storage`, `untyped_storage`.

Memory itself is an object of `_storage`. Start reading at `Memory`.
"""

from __future__ import annotations

import math
import operator

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, extend
from adjoint._tensor.device import preserve_format
from adjoint._tensor.storage import UntypedStorage, _recording_off, _Storage
from adjoint._tensor.typed_storage import TypedStorage
from adjoint._types import Any, Ints, MemoryFormat, Shape


@extend
class Memory(Members):
    def untyped_storage(self) -> UntypedStorage:
        """The memory of the tensor, which its views share, as bytes."""
        if self._layout_number:
            raise NotImplementedError(
                f"Cannot access storage of SparseTensorImpl: a tensor of layout {self.layout} has indices and values; use values()"
            )
        _C._tell_recorders("it asks for the memory below a tensor")
        return UntypedStorage._below(self)

    def storage(self) -> TypedStorage:
        """The memory of the tensor, which its views share, as elements of its dtype."""
        return self._typed_storage()

    def _typed_storage(self) -> TypedStorage:
        return TypedStorage._over(self.untyped_storage(), self.dtype)

    def resize_(
        self, *sizes: Any, size: Shape | None = None, memory_format: MemoryFormat | None = None
    ) -> Tensor:
        """Give this tensor another shape in row-major order; its memory grows if needed.

        Elements stay where they lie in memory; new ones are zero.

        Parameters
        ----------
        sizes : int
            The shape, spelt out or as one sequence.
        memory_format : optional
            Another order of the dimensions in memory.

        Raises
        ------
        RuntimeError
            The tensor requires a gradient, or has a tangent; or its memory does not suffice and another object owns it, such
            as an array.
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
        sizes = sizes if size is None else (size,)
        sizes = sizes[0] if len(sizes) == 1 and hasattr(sizes[0], "__iter__") else sizes
        sizes = tuple([operator.index(n) for n in sizes])
        if sizes != tuple(self.shape):
            _resize(self, sizes)
        if memory_format is not None:
            from adjoint._tensor.creation import empty

            strides = empty(sizes, device="meta", memory_format=memory_format).stride()
            _replace_memory(self, _laid(self, sizes, strides))
        return self

    def resize_as_(self, other: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        """``resize_(other.shape)``; in the order of the dimensions of `other` in memory for ``memory_format=preserve_format``."""
        self.resize_(other.shape)
        if memory_format is preserve_format:
            from adjoint._tensor.creation import empty_like

            strides = empty_like(other, device="meta").stride()
            _replace_memory(self, _laid(self, tuple(other.shape), strides))
        elif memory_format is not None:
            self.resize_(other.shape, memory_format=memory_format)
        return self

    def set_(
        self,
        source: Any = None,
        storage_offset: int = 0,
        size: Shape | None = None,
        stride: Ints | None = None,
    ) -> Tensor:
        """Make this tensor a view of other memory: that of a tensor of the same dtype, with its shape, or a part of a storage.

        Parameters
        ----------
        source : Tensor or storage, optional
            None stands for no memory: the tensor has no elements then.
        storage_offset, size, stride : optional
            The part, in elements of this tensor's dtype; all of a storage, in row-major order, unless given.

        Raises
        ------
        RuntimeError
            The tensor or the source requires a gradient and grad mode is on; or the dtype cannot have one; or the part
            does not lie within the storage.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.arange(6.0)
        >>> ad.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
        tensor([[1., 2.],
                [3., 4.]])
        """
        if _C.is_grad_enabled():
            if self.requires_grad and not self.is_leaf:
                raise RuntimeError(
                    f"set_(): this tensor of shape {tuple(self.shape)} was computed, and its gradient would be lost; use "
                    "detach(), or write under no_grad()"
                )
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

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both tensors view the same elements of the same memory, in the same order."""
        mine, theirs = self.untyped_storage(), tensor.untyped_storage()
        return (
            mine.data_ptr() == theirs.data_ptr()
            and mine.nbytes() == theirs.nbytes()
            and self.storage_offset() == tensor.storage_offset()
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )


def _resize(x, sizes):
    """Give `x` a shape in row-major order, and memory enough for it."""
    if min(sizes, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {[*sizes]}")
    count, stride, item = math.prod(sizes), math.prod([max(n, 1) for n in sizes[1:]]), x.dtype.itemsize
    if stride >= 2**63:
        raise RuntimeError(f"Stride calculation overflowed: resize_() to {[*sizes]}")
    if (count + x.storage_offset()) * item >= 2**63:
        raise _C.OutOfMemoryError(
            f"out of memory: Storage size calculation overflowed with sizes={[*sizes]} of {x.dtype.name}"
        )
    strides = _C._row_major_strides(sizes)
    if x.is_meta or _C._batch_of(x) is not None:
        from adjoint import zeros

        result = zeros(sizes, dtype=x.dtype, device=x.device)
        count = min(x.numel(), count)
        if count and not x.is_meta:
            result.view(-1)[:count] = x.detach().reshape(-1)[:count]
        _replace_memory(x, result)
        return
    held, needed = x._storage()[1], (count + x.storage_offset()) * item
    grown = bool(count) and needed > held
    version = None if x.is_inference() else x._version
    if grown and not _C._moves_alone(x) and not _C._belongs_elsewhere(x):
        # What others share stays theirs, and this tensor has memory of its own.
        _replace_memory(
            x,
            _C._over(_C._copy_bytes(_C._storage_bytes(x)), x.dtype, x.shape, x.stride(), x.storage_offset()),
        )
    if grown:
        _C._resize_storage(x, needed)
    _replace_memory(x, _laid(x, sizes, strides))
    if version is not None:
        _C._set_version(x, version + 1)  # one write, however many steps it took
    if grown and _C._fills_uninitialized():
        _C._over(_C._storage_bytes(x), x.dtype, (needed // item - held // item,), (1,), held // item).copy_(
            _C._empty((needed // item - held // item,), dtype=x.dtype)
        )


def _laid(x, sizes, strides):
    """A tensor of that shape and those strides from the first element of `x` on."""
    if x.is_meta or _C._batch_of(x) is not None:
        return x.detach().as_strided(sizes, strides)
    return _C._over(_C._storage_bytes(x), x.dtype, sizes, strides, x.storage_offset())


def _part(source, offset, size, stride, dtype):
    """The tensor that `set_` describes."""
    if source is None:
        return _C._empty((0,), dtype=dtype)
    if isinstance(source, Tensor):
        if source.dtype is not dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {dtype}: set_() gives other memory, not another dtype"
            )
        if size is None and stride is None and not offset:
            return source
    elif not isinstance(source, _Storage):
        raise TypeError(
            f"set_(): argument 'source' must be a Tensor or a storage, not {type(source).__name__}"
        )
    elif isinstance(source, TypedStorage) and source._dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got type {source._dtype}"
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
