"""Tensors of data: of numbers and lists, and over the memory of arrays, buffers and other libraries; and the way back.

Start reading at `tensor`.
"""

from __future__ import annotations

import sys

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import ignores, refuse_pinned
from adjoint._publish.register import Members, extend, publish
from adjoint._switches import announce, switches
from adjoint._tensor.device import device_number, get_default_device
from adjoint._tensor.storage import _Storage
from adjoint._types import Any, Device, DType

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer", "tensor"]

_tensor = _C.tensor


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    volatile: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence of numbers or tensors, array, or anything with the buffer protocol
        Lists must be rectangular. The dtype follows from the values: bool, int64, the default floating-point type,
        or its complex partner; arrays keep theirs.
    dtype : dtype, optional
    device : device, optional
    requires_grad : bool
        Whether operations on it are recorded.

    Returns
    -------
    Tensor
        A leaf.

    Raises
    ------
    ValueError
        The data is ragged.
    TypeError
        Something in it is not a number; or ``volatile=True``, whose successors are `no_grad` and `inference_mode`.
    RuntimeError
        A value does not fit into the dtype; or `requires_grad` with an integer dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> ad.tensor(1.5, requires_grad=True)
    tensor(1.5000, requires_grad=True)
    """
    if pin_memory:
        refuse_pinned("tensor", pin_memory)
    if volatile:
        from adjoint.autograd import refuse_volatile

        refuse_volatile()
    if isinstance(data, (_Storage, Tensor)):
        data = _taken(data, dtype)
    if device is None:
        return _tensor(data, dtype, requires_grad)
    before = _C._set_default_device(device_number(device))
    try:
        return _tensor(data, dtype, requires_grad)
    finally:
        _C._set_default_device(before)


def _taken(storage, dtype):
    """A tensor; or the elements of a storage, whose bytes are of the dtype that it knows, or else of the one asked for."""
    if isinstance(storage, Tensor):
        if switches.torch:
            announce(
                "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                f"sourceTensor.detach().clone().requires_grad_(True), rather than {switches.package}.tensor(sourceTensor).",
                stacklevel=3,
            )
        return storage
    from adjoint._tensor.memory import _part

    return _part(
        storage, 0, None, None, _C.get_default_dtype() if dtype is None else _C._dtype(dtype)
    ).detach()


def as_tensor(data: Any, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """`data` as a tensor, over the same memory where that is possible.

    A tensor of the right dtype is returned as it is. Arrays and other buffers share their memory unless the dtype has
    to change; what is read-only stays so, and is refused where it would be written. Everything else is copied.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2)
    >>> ad.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(device, dtype)
    if isinstance(data, (list, tuple, int, float, complex)) or (shared := _shared(data)) is None:
        return tensor(data, dtype=dtype, device=device)
    return shared.to(get_default_device() if device is None else device, dtype)


def _shared(data):
    """A tensor over the memory of an array-like object, or None."""
    if isinstance(data, (bytes, str)):
        return None
    try:
        memoryview(data)
    except TypeError:
        return _C._from_dlpack(data.__dlpack__()) if hasattr(data, "__dlpack__") else None
    return _C._from_buffer(data)


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array: writing to one writes to the other.

    Parameters
    ----------
    array : numpy.ndarray
        Of any dtype that has a counterpart here, with strides that are not negative.

    Raises
    ------
    TypeError
        Not an array, or its dtype has no counterpart.
    ValueError
        A stride is negative, or no multiple of the element size.

    Examples
    --------
    >>> import adjoint as ad, numpy as np
    >>> a = np.zeros(2)
    >>> x = ad.from_numpy(a)
    >>> x[0] = 1.0
    >>> a.tolist()
    [1.0, 0.0]
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if array.dtype.char not in "?bBhHiIlLqQefdFD":
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. The only supported types are: float64, float32, "
            "float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool."
        )
    if switches.torch and not array.flags.writeable:
        announce(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. Here writes to the tensor "
            "are refused; copy the array to write to it.",
            stacklevel=2,
        )
    return _C._from_buffer(array)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor: shared where possible (`copy=None`), always copied (True), never copied (False).

    Parameters
    ----------
    obj : tensor, array, buffer, number, or nested sequences of numbers
    requires_grad : bool, optional
        As `obj` does, where it is not given; a tensor keeps its history then. False leaves the history out.

    Raises
    ------
    ValueError
        ``copy=False`` where a copy is needed.
    """
    if requires_grad is False and isinstance(obj, Tensor) and obj.requires_grad:
        obj = obj.detach()
    if copy:
        result = obj.clone() if isinstance(obj, Tensor) else tensor(obj, device=device)
        result = result.to(device, dtype)
    else:
        result = as_tensor(obj, dtype, device)
        if copy is not None:
            shared = obj if isinstance(obj, Tensor) else None if _is_plain(obj) else _shared(obj)
            if shared is None or shared._storage()[0] != result._storage()[0]:
                raise ValueError("asarray(): can't alias the given object without a copy; use copy=None")
    if not requires_grad or result.requires_grad:
        return result
    return _C._as_leaf(result.detach() if result is obj else result)


def _is_plain(obj):
    return isinstance(obj, (list, tuple, int, float, complex, bytes, str))


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor over the bytes of a buffer, which it shares.

    Parameters
    ----------
    buffer : object with the buffer protocol
    dtype : dtype
    count : int
        Elements to take; a negative number takes all.
    offset : int
        Bytes to skip at the start.

    Raises
    ------
    ValueError
        The bytes do not make whole elements, or there are too few of them.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.frombuffer(bytearray(b"\\x01\\x02"), dtype=ad.uint8)
    tensor([1, 2], dtype=adjoint.uint8)
    """
    view = memoryview(buffer)
    if not view.contiguous:
        raise ValueError("frombuffer(): the buffer is not contiguous")
    view = view.cast("B") if view.nbytes else memoryview(bytearray())
    dtype = _C._dtype(dtype)
    size, itemsize = view.nbytes, dtype.itemsize
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0:
        if (size - offset) % itemsize:
            raise ValueError(
                f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of "
                f"element size ({itemsize})"
            )
        count = (size - offset) // itemsize
    if offset + count * itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    result = _C._reinterpret(_C._from_buffer(view[offset : offset + count * itemsize]), dtype)
    return _C._as_leaf(result) if requires_grad else result


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A one-dimensional tensor over a file, whose parts are read as they are used.

    Parameters
    ----------
    filename : str or path
    shared : bool
        Whether writes go to the file, which is made, or made longer, where it is too short; else they stay in memory.
    size : int
        The number of elements.
    dtype : dtype, optional

    Raises
    ------
    RuntimeError
        The file is too short for a tensor that does not share it.

    Examples
    --------
    >>> import adjoint as ad, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     ad.from_file(file.name, shared=True, size=3, dtype=ad.int32).fill_(7).sum().item()
    21
    """
    import mmap
    import os

    dtype = _C.get_default_dtype() if dtype is None else _C._dtype(dtype)
    needed = size * dtype.itemsize
    if size <= 0:
        return _C._empty((0,), dtype=dtype, requires_grad=requires_grad)
    with open(filename, "a+b" if shared else "rb") as file:
        found = os.fstat(file.fileno()).st_size
        if found < needed and not shared:
            raise RuntimeError(
                f"from_file(): {size} elements of {dtype} take {needed} bytes, but file <{filename}> has only {found}"
            )
        if found < needed:
            os.ftruncate(file.fileno(), needed)
        memory = mmap.mmap(file.fileno(), needed, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return frombuffer(memory, dtype=dtype, count=size, requires_grad=requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an array of another library, by the DLPack protocol.

    Parameters
    ----------
    ext_tensor : object with ``__dlpack__``, or a capsule
    device : 'cpu', optional
    copy : bool, optional
        True asks the other library for a copy, False forbids one.

    Examples
    --------
    >>> import adjoint as ad, numpy as np
    >>> ad.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if device is not None and device_number(device):
        raise RuntimeError(
            f"from_dlpack(): memory can be shared on the CPU only, but device is {device}; use .to() on the result"
        )
    export = getattr(ext_tensor, "__dlpack__", None)
    if export is None:
        return _C._from_dlpack(ext_tensor)
    keywords: dict[str, Any] = {} if copy is None else {"copy": copy}
    if device is not None:
        keywords["dl_device"] = (1, 0)
    try:
        capsule = export(max_version=(1, 0), **keywords)
    except TypeError:
        # From before version 1: no such arguments.
        if copy is False:
            raise ValueError("from_dlpack(): the other library cannot promise not to copy") from None
        result = _C._from_dlpack(export())
        return result.clone() if copy else result
    return _C._from_dlpack(capsule)


@extend
class Exchange(Members):
    """NumPy and DLPack."""

    def __array_namespace__(self, *, api_version=None):
        """The Python array API's functions: `adjoint.array_api`.

        Raises
        ------
        ValueError
            It is of another version than was asked for.
        """
        from adjoint import array_api

        if api_version is not None and api_version not in array_api.VERSIONS:
            *first, last = array_api.VERSIONS
            raise ValueError(
                f"expected api_version to be {', '.join(first)} or {last}, but got {api_version!r}"
            )
        return array_api

    @ignores("stream", why="operations are done when they return", warns=False)
    def to_device(self, device: Device, /, *, stream: Any = None) -> Tensor:
        """The tensor on a device, itself where it is there: the array API's name of ``to``."""
        return self.to(device)

    __array_priority__ = 1000

    def numpy(self, *, force: bool = False) -> Any:
        """The values as a NumPy array over the same memory.

        Parameters
        ----------
        force : bool
            Detach first where that is needed.

        Raises
        ------
        RuntimeError
            The tensor needs a gradient, and recording is on.
        TypeError
            The dtype is bfloat16, which NumPy does not have.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        try:
            import numpy
        except ImportError as error:
            raise ImportError(
                "Tensor.numpy() needs NumPy, which is not installed: pip install numpy"
            ) from error
        if self.requires_grad:
            if not force and _C.is_grad_enabled():
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead. It is "
                    + (f"the result of {type(self.grad_fn).__name__}" if self.grad_fn else "a leaf")
                    + f", of shape {list(self.shape)}, {self.dtype.name}; writes to the array would not be recorded."
                )
            self = self.detach()
        if self.dtype is _C.bfloat16:
            raise TypeError(
                "Got unsupported ScalarType BFloat16: NumPy has no bfloat16; use .float().numpy()"
            )
        if self._device_number:
            if not force or self.is_meta:
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                    "memory first."
                )
            self = self.cpu()
        return numpy.asarray(memoryview(self))

    def __array_wrap__(self, array, context=None, return_scalar=False):
        # NumPy's functions of tensors give tensors.
        return _C._from_buffer(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"a tensor of {self.dtype} cannot become an array of {dtype} without a copy")
        return array.astype(dtype)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.requires_grad:
            raise BufferError(
                "Can't export tensors that require gradient (requires_grad=True): use tensor.detach()"
            )
        if stream is not None:
            raise BufferError(
                f"__dlpack__(): stream must be None for a tensor on the CPU, but got {stream!r}"
            )
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(
                f"__dlpack__(): cannot export to device {tuple(dl_device)}; this tensor is on (1, 0), the CPU"
            )
        versioned = max_version is not None and max_version[0] >= 1
        if copy:
            return _C._to_dlpack(self.clone(), versioned, True)
        if not versioned and self._storage()[2]:
            raise BufferError(
                "__dlpack__(): read-only memory needs max_version=(1, 0) or higher, or copy=True"
            )
        return _C._to_dlpack(self, versioned, False)

    def __dlpack_device__(self):
        if not self.is_cpu:
            raise BufferError(
                f"Cannot pack tensors on {self.device}: DLPack knows no such device; call .cpu() first"
            )
        return (1, 0)


# What is given is data: a tensor of a subclass too is taken as it is.
publish(globals(), None, False)
