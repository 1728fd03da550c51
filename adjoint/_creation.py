"""Functions that make tensors: of data, filled, in sequence, like another one. Random ones are in `_random`.

Sizes are spelt out or given as one sequence, ``zeros(2, 3)`` or ``zeros((2, 3))``. All take `dtype` (the default type
when it is left out), `device` ('cpu'), `requires_grad`, and `layout` and `pin_memory`, which change nothing here; many
take `out`. Start reading at `tensor`.
"""

from __future__ import annotations

import sys

from adjoint import _C
from adjoint._C import Tensor
from adjoint._device import check_device, contiguous_format

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]

_empty, _zeros, _full, _empty_like, _full_like = _C._empty, _C._zeros, _C._full, _C._empty_like, _C._full_like
_tensor = _C.tensor


# --- of data -----------------------------------------------------------------------------------------------------


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False, volatile=None):
    """A new tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence of numbers or tensors, array, or anything with the buffer protocol
        Lists must be rectangular. The dtype follows from the values: bool, int64, the default floating-point type,
        or its complex partner; arrays keep theirs.
    dtype : dtype, optional
    device : 'cpu', optional
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
        Something in it is not a number.
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
    if device is not None:
        check_device(device)
    if volatile is not None:
        from adjoint.autograd import refuse_volatile

        refuse_volatile()
    return _tensor(data, dtype, requires_grad)


def as_tensor(data, dtype=None, device=None):
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
    check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, (list, tuple, int, float, complex)):
        return _tensor(data, dtype)
    shared = _shared(data)
    if shared is None:
        return _tensor(data, dtype)
    return shared if dtype is None else shared.to(dtype)


def _shared(data):
    """A tensor over the memory of an array-like object, or None."""
    if isinstance(data, (bytes, str)):
        return None
    try:
        memoryview(data)
    except TypeError:
        return _C._from_dlpack(data.__dlpack__()) if hasattr(data, "__dlpack__") else None
    return _C._from_buffer(data)


def from_numpy(array):
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
    return _C._from_buffer(array)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """`obj` as a tensor: shared where possible (`copy=None`), always copied (True), never copied (False).

    Raises
    ------
    ValueError
        ``copy=False`` where a copy is needed.
    """
    check_device(device)
    if copy:
        result = obj.detach().clone() if isinstance(obj, Tensor) else _tensor(obj)
        result = result if dtype is None else result.to(dtype)
    else:
        result = as_tensor(obj, dtype)
        if copy is not None:
            shared = obj if isinstance(obj, Tensor) else None if _is_plain(obj) else _shared(obj)
            if shared is None or shared._storage()[0] != result._storage()[0]:
                raise ValueError("asarray(): can't alias the given object without a copy; use copy=None")
        if isinstance(obj, Tensor) and result is obj and requires_grad != obj.requires_grad:
            result = obj.detach()
    return result.requires_grad_() if requires_grad else result


def _is_plain(obj):
    return isinstance(obj, (list, tuple, int, float, complex, bytes, str))


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
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
    return result.requires_grad_() if requires_grad else result


def from_dlpack(ext_tensor, *, device=None, copy=None):
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
    check_device(device)
    export = getattr(ext_tensor, "__dlpack__", None)
    if export is None:
        return _C._from_dlpack(ext_tensor)
    keywords = {} if copy is None else {"copy": copy}
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


# --- filled ------------------------------------------------------------------------------------------------------


def _into(out, result):
    """Give the result to `out`, which takes its shape when it is empty."""
    if out.shape != result.shape:
        if out.numel():
            raise RuntimeError(
                f"out= has shape {list(out.shape)} but the result has shape {list(result.shape)}"
            )
        out.data = result.to(out.dtype)
        return out
    return out.copy_(result)


def empty(
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    memory_format=None,
    names=None,
    **keywords,
):
    """A tensor whose elements are whatever the memory held."""
    if device is not None:
        check_device(device)
    result = _empty(_size(size, keywords, "empty"), dtype, requires_grad)
    return result if out is None else _into(out, result)


def zeros(
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
    **keywords,
):
    """A tensor of zeros.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.zeros(2, 3, dtype=ad.int64)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    if device is not None:
        check_device(device)
    result = _zeros(_size(size, keywords, "zeros"), dtype, requires_grad)
    return result if out is None else _into(out, result)


def ones(
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
    **keywords,
):
    """A tensor of ones.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.ones(2)
    tensor([1., 1.])
    """
    if device is not None:
        check_device(device)
    result = _full(_size(size, keywords, "ones"), 1.0, dtype, requires_grad)
    return result if out is None else _into(out, result)


def full(
    size,
    fill_value,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor of one value; its dtype follows from the value.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.full((2,), 7)
    tensor([7, 7])
    """
    if device is not None:
        check_device(device)
    if isinstance(fill_value, Tensor) and dtype is None:
        dtype = fill_value.dtype
    result = _full(size, fill_value, dtype, requires_grad)
    return result if out is None else _into(out, result)


def _size(size, keywords, name):
    """The sizes, by position or by the keyword `size`."""
    if not keywords:
        return size
    given = keywords.pop("size", None)
    if keywords:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(keywords))!r}")
    if size:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    return given


def empty_strided(
    size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A tensor of given strides whose elements are whatever the memory held."""
    check_device(device)
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    result = _empty((length,), dtype, False).as_strided(tuple(size), tuple(stride))
    return result.requires_grad_() if requires_grad else result


def empty_like(
    input, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    """As `empty`, with the shape, the dtype and the order of strides of `input`."""
    if device is not None:
        check_device(device)
    if memory_format is contiguous_format:
        return _empty(input.shape, dtype or input.dtype, requires_grad)
    return _empty_like(input, dtype, requires_grad)


def zeros_like(
    input, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    """As `zeros`, with the shape, the dtype and the order of strides of `input`."""
    return full_like(
        input, 0, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format
    )


def ones_like(
    input, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    """As `ones`, with the shape, the dtype and the order of strides of `input`."""
    return full_like(
        input, 1, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format
    )


def full_like(
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    memory_format=None,
):
    """As `full`, with the shape, the dtype and the order of strides of `input`."""
    if device is not None:
        check_device(device)
    if memory_format is contiguous_format:
        return _full(input.shape, fill_value, dtype or input.dtype, requires_grad)
    return _full_like(input, fill_value, dtype, requires_grad)


def scalar_tensor(s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A zero-dimensional tensor of the default dtype."""
    check_device(device)
    return _full((), s, dtype or _C.get_default_dtype(), requires_grad)


# --- in sequence -------------------------------------------------------------------------------------------------


def arange(
    start=0,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Numbers from `start` up to but without `end`, `step` apart: ``arange(end)``, ``arange(start, end, step)``.

    The dtype is int64 when all three are integers, else the default floating-point type.

    Raises
    ------
    RuntimeError
        `step` is 0 or points away from `end`, or a bound is not finite.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.arange(3)
    tensor([0, 1, 2])
    >>> ad.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    """
    if device is not None:
        check_device(device)
    if end is None:
        start, end = 0, start
    result = _C._arange(start, end, step, dtype, requires_grad)
    return result if out is None else _into(out, result)


def linspace(
    start,
    end,
    steps,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """`steps` numbers from `start` to `end`, both included, equally far apart.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_device(device)
    result = _C._linspace(start, end, steps, dtype, requires_grad)
    return result if out is None else _into(out, result)


def logspace(
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """`base` to the powers of ``linspace(start, end, steps)``."""
    check_device(device)
    result = _C._logspace(start, end, steps, base, dtype, requires_grad)
    return result if out is None else _into(out, result)


def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A matrix with ones on its diagonal and zeros elsewhere, of shape (n, m); square when `m` is left out.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if device is not None:
        check_device(device)
    result = _C._eye(n, n if m is None else m, dtype, requires_grad)
    return result if out is None else _into(out, result)


def tril_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Rows and columns of the elements on and below a diagonal of a (row, col) matrix, as a tensor of two rows."""
    check_device(device)
    return _full((row, col), True, None).tril(offset).nonzero().t().to(dtype or _C.int64)


def triu_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Rows and columns of the elements on and above a diagonal of a (row, col) matrix, as a tensor of two rows."""
    check_device(device)
    return _full((row, col), True, None).triu(offset).nonzero().t().to(dtype or _C.int64)
