"""Element types of torch without kernels: they can be named and compared, but no tensor has one.

Libraries write tables of all dtypes when they are imported (``{torch.uint16: "U16", …}``). `NAMES` holds them.
"""

from __future__ import annotations

import adjoint
from adjoint.as_torch.standins._refused import NameOnly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NAMES"]


class ElementType(NameOnly):
    """The name of a dtype; each is of a type called like it, which is what refusals print."""

    limits: Any
    tiny: Any

    name: str
    itemsize: int
    is_floating_point = is_complex = False
    is_signed: bool = True

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return _named, (self.name,)


def _make(name, itemsize, **facts):
    return type(name, (ElementType,), {"__module__": "torch", "name": name, "itemsize": itemsize, **facts})()


def _named(name):
    return NAMES[name]


def _no_sign(kind):
    raise RuntimeError(f"is_signed is not supported for quantized types, such as {kind}")


def _all():
    for bits in (16, 32, 64):
        yield _make(f"uint{bits}", bits // 8, is_signed=False, limits=(0, 2**bits - 1))
    for name, largest, eps, tiny in (
        ("float8_e4m3fn", 448.0, 2**-3, 2**-6),
        ("float8_e4m3fnuz", 240.0, 2**-3, 2**-7),
        ("float8_e5m2", 57344.0, 2**-2, 2**-14),
        ("float8_e5m2fnuz", 57344.0, 2**-3, 2**-15),
    ):
        yield _make(name, 1, is_floating_point=True, limits=(-largest, largest), eps=eps, tiny=tiny)
    yield _make(
        "float8_e8m0fnu", 1, is_floating_point=True, limits=(2.0**-127, 2.0**127), eps=1.0, tiny=2.0**-127
    )
    yield _make("float4_e2m1fn_x2", 1, is_floating_point=True)
    for bits in range(1, 8):
        yield _make(f"uint{bits}", 1, is_signed=False)
        yield _make(f"int{bits}", 1)
    yield _make("complex32", 4, is_complex=True)
    for name, size in (("qint8", 1), ("quint8", 1), ("qint32", 4), ("quint4x2", 1), ("quint2x4", 1)):
        yield _make(name, size, is_signed=property(_no_sign))


#: By name.
NAMES = {kind.name: kind for kind in _all()}
NAMES["chalf"] = NAMES["complex32"]


class _Facts:
    """Limits of a dtype, which they name by a text."""

    _shown: Any

    dtype: str

    def __eq__(self, other):
        return type(self) is type(other) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        values = ", ".join(f"{name}={getattr(self, name):.6g}" for name in self._shown)
        return f"{type(self).__name__}({values}, dtype={self.dtype})"

    def _as(self, facts, *names):
        for name in ("bits", "min", "max", *names):
            setattr(self, name, getattr(facts, name))
        self.dtype = facts.dtype.name
        return self


class finfo(_Facts):
    """``torch.finfo``: that of Adjoint, and the facts of types that can only be named."""

    bits: Any
    eps: Any
    max: Any
    min: Any
    resolution: Any
    smallest_normal: Any
    tiny: Any

    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __new__(cls, type=None):
        self = object.__new__(cls)
        if not isinstance(type, ElementType):
            facts = adjoint.finfo() if type is None else adjoint.finfo(type)
            return self._as(facts, "eps", "tiny", "smallest_normal", "resolution")
        if not hasattr(type, "eps"):
            raise TypeError(f"torch.finfo() requires a floating point input type: {type} has no such facts")
        self.min, self.max = type.limits
        self.bits, self.dtype, self.eps, self.resolution = 8 * type.itemsize, type.name, type.eps, 1.0
        self.tiny = self.smallest_normal = type.tiny
        return self


class iinfo(_Facts):
    """``torch.iinfo``, likewise."""

    bits: Any
    max: Any
    min: Any

    _shown = ("min", "max")

    def __new__(cls, type):
        self = object.__new__(cls)
        if not isinstance(type, ElementType):
            return self._as(adjoint.iinfo(type))
        if type.is_floating_point or not hasattr(type, "limits"):
            raise TypeError(f"torch.iinfo() requires an integer input type: {type} has no such facts")
        self.min, self.max = type.limits
        self.bits, self.dtype = 8 * type.itemsize, type.name
        return self

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
