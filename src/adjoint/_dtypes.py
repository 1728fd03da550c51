"""Names and limits of the element types. The types themselves are made in C++ (core/bind/convert.cpp)."""

from __future__ import annotations

from adjoint import _C

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

    def __eq__(self, other):
        return type(self) is type(other) and self.dtype is other.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        values = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__}({values}, dtype={str(self.dtype).rpartition('.')[2]})"


class iinfo(_Limits):
    """Limits of an integer dtype.

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

    def __init__(self, type):
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

    def __init__(self, type=None):
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
