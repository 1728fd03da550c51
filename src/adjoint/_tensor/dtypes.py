"""Element types: their names and limits, conversions to them, and questions about them.

The types themselves are made in C++ (core/bind/convert.cpp). Start reading at `Conversion`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import ignores
from adjoint._publish.register import Members, composition, extend, member
from adjoint._tensor.device import device_number
from adjoint._types import Any, Device, DType, MemoryFormat

__all__ = ["ALIASES", "finfo", "iinfo"]

ALIASES = {
    "float": _C.float32,
    "double": _C.float64,
    "half": _C.float16,
    "long": _C.int64,
    "int": _C.int32,
    "short": _C.int16,
    "cfloat": _C.complex64,
    "cdouble": _C.complex128,
}


class _Limits:
    __slots__ = ("bits", "dtype", "max", "min")
    _shown: Any
    dtype: Any

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__}({values}, dtype={str(self.dtype).rpartition('.')[2]})"


class iinfo(_Limits):
    """Limits of an integer dtype.

    Parameters
    ----------
    type : dtype
        An integer dtype.

    Attributes
    ----------
    bits, min, max : int

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.iinfo(ad.int8).max
    127
    """

    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, type: DType) -> None:
        type = _C._dtype(type)
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(
                f"iinfo() requires an integer dtype, but got {type}. Use finfo for floating-point types"
            )
        self.dtype = type
        self.bits = 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1


class finfo(_Limits):
    """Limits of a floating-point dtype; of the parts of a complex one.

    Parameters
    ----------
    type : dtype, optional
        A floating-point or complex dtype; the default one if left out.

    Attributes
    ----------
    bits : int
    eps : float
        The distance from 1 to the next larger number.
    min, max : float
    tiny, smallest_normal : float
        The smallest positive number of full precision.
    resolution : float
        The power of ten that its decimal digits resolve.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.finfo(ad.bfloat16).eps
    0.0078125
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: DType | None = None) -> None:
        type = _C.get_default_dtype() if type is None else _C._dtype(type)
        if not (type.is_floating_point or type.is_complex):
            raise TypeError(
                f"finfo() requires a floating point dtype, but got {type}. Use iinfo for integer types"
            )
        self.dtype = type.to_real()
        # Bits of the fraction, and the largest exponent.
        digits, exponent = _FORMATS[self.dtype]
        self.bits = 8 * self.dtype.itemsize
        self.eps = 2.0**-digits
        self.max = (2 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - exponent)
        self.resolution = 10.0 ** -int(digits * 0.30103)


_FORMATS = {_C.float16: (10, 15), _C.bfloat16: (7, 127), _C.float32: (23, 127), _C.float64: (52, 1023)}

# --- conversion ------------------------------------------------------------------------------------------------------

_PYTHON_TYPES = (float, int, bool, complex)
_DTYPES = [value for value in vars(_C).values() if isinstance(value, _C.dtype)]


def _to_type(x, dtype):
    if x.dtype.is_complex:
        _C._warn_of_lost_parts(x.dtype, _C._dtype(dtype))
    return _C._to_type(x, dtype)


@extend
class Conversion(Members):
    def to(
        self,
        *args: Any,
        dtype: DType | None = None,
        device: Device | None = None,
        other: Tensor | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: MemoryFormat | None = None,
    ) -> Tensor:
        """The tensor in another dtype: ``to(dtype)``, ``to(device, dtype)``, ``to(other)``; itself if nothing changes.

        Parameters
        ----------
        dtype : dtype, optional
        device : device, optional
        other : Tensor, optional
            The dtype and the device are taken from it.
        copy : bool
            Make a new tensor even where nothing changes.
        memory_format : memory_format, optional
            The order of dimensions in memory.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2).to(ad.int64)
        tensor([1, 1])
        """
        if args:
            first, *rest = args
            if isinstance(first, _C.dtype) or first in _PYTHON_TYPES:
                dtype = first
            elif isinstance(first, Tensor):
                other = first
            else:
                device = first
                if rest:
                    dtype, *rest = rest
            if rest:
                non_blocking, copy = (*rest, copy)[:2]
        if other is not None:
            dtype, device = other.dtype, other.device
        if device is not None:
            place, here = device_number(device), self._device_number
            if place != here:
                return _C._to_device(self, place, here).to(dtype=dtype, memory_format=memory_format)
        if memory_format is not None:
            return _to_laid(self, dtype, copy, memory_format, "to")
        if dtype is None or dtype is self.dtype or _C._dtype(dtype) is self.dtype:
            return self.clone() if copy else self
        return _to_type(self, dtype)

    @ignores("non_blocking", why="a copy is done when the call returns", warns=False)
    def type(self, dtype: DType | None = None, non_blocking: bool = False) -> Any:
        """The tensor in another dtype; without one, the name of its type."""
        if dtype is None:
            if self.is_sparse:
                return f"{str(self.dtype).partition('.')[0]}.sparse.{self.dtype._type_name}Tensor"
            if self._device_number:
                return f"{str(self.dtype).partition('.')[0]}.{self.device.type}.{self.dtype._type_name}Tensor"
            return f"{str(self.dtype).partition('.')[0]}.{self.dtype._type_name}Tensor"
        if dtype is Tensor:
            dtype = _C.get_default_dtype()
        if "cuda" in str(dtype):
            raise TypeError(f"type(): {dtype} is not available: there is no CUDA device here")
        if isinstance(dtype, str):
            name = dtype.rpartition(".")[2].removesuffix("Tensor")
            found = [d for d in _DTYPES if d._type_name == name]
            if not found:
                raise ValueError(f"invalid type: {dtype!r}")
            dtype = found[0]
        elif isinstance(dtype, type):
            # A legacy tensor type, such as LongTensor, has its dtype as an attribute.
            dtype = _C._dtype(getattr(dtype, "dtype", dtype))
        return self if dtype is self.dtype else _to_type(self, dtype)

    def type_as(self, other: Tensor) -> Tensor:
        """The tensor in the dtype of `other`."""
        return self.to(other.dtype)

    def cpu(self, memory_format: MemoryFormat | None = None) -> Tensor:
        """The tensor on the CPU: itself, where it is there."""
        here = self.to("cpu") if self._device_number else self
        return here if memory_format is None else _to_laid(here, None, False, memory_format, "cpu")

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed


def _to_laid(x, dtype, copy, memory_format, name):
    from adjoint._tensor.memory_format import laid

    converted = x if dtype is None or dtype is x.dtype else _to_type(x, dtype)
    result = laid(converted, memory_format, name)
    return result.clone() if copy and result is x else result


def _shorthand(name, dtype):
    def convert(self: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        if memory_format is not None:
            return _to_laid(self, dtype, False, memory_format, name)
        return self if self.dtype is dtype else _to_type(self, dtype)

    convert.__name__, convert.__qualname__ = name, "Tensor." + name
    convert.__doc__ = f"The tensor as {str(dtype).rpartition('.')[2]}."
    member(name, convert)


for _dtype in _DTYPES:
    _shorthand(_dtype._type_name.lower().replace("complex", "c"), _dtype)


# --- questions -------------------------------------------------------------------------------------------------------


@composition(method=False)
def typename(obj: Any) -> str:
    """The name of an object's type; of a tensor with its dtype, as ``x.type()``."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@composition(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point type."""
    return input.is_floating_point()


@composition(method=False)
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.is_complex()


@composition(method=False, consults=False)
def result_type(*tensors: Tensor) -> _C.dtype:
    """The dtype that an operation on the arguments would have: tensors or numbers.

    Tensors with dimensions decide; zero-dimensional ones, and then numbers, only where their category is higher.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.result_type(ad.tensor([1]), 1.5)
    adjoint.float32
    """
    groups: tuple[list[_C.dtype], ...] = ([], [], [])
    for x in tensors:
        if isinstance(x, Tensor):
            groups[1 if x.ndim == 0 else 0].append(x.dtype)
        else:
            # NumPy's float64 is a float of Python's.
            groups[2].append(_C.tensor(float(x) if isinstance(x, float) else x).dtype)
    result = None
    for group in groups:
        lower = None
        for dtype in group:
            lower = dtype if lower is None else _C.promote_types(lower, dtype)
        if result is None:
            result = lower
        elif lower is not None and _category(lower) > _category(result):
            real = result.is_floating_point and lower.is_complex
            result = result.to_complex() if real else _C.promote_types(result, lower)
    if result is None:
        raise TypeError("result_type() expected at least one tensor or number, but got none")
    return result


def _category(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not _C.bool)
