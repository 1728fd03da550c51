"""Types of elements, devices, and what the namespace says of itself."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint._types import Any, Device

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": (ad.bool,),
    "signed integer": (ad.int8, ad.int16, ad.int32, ad.int64),
    "unsigned integer": (ad.uint8,),
    "real floating": (ad.float32, ad.float64),
    "complex floating": (ad.complex64, ad.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
#: Types that the standard does not have count with their kind.
_OTHERS = {ad.float16: ("real floating", "numeric"), ad.bfloat16: ("real floating", "numeric")}


def isdtype(dtype: ad.dtype, kind: Any) -> bool:
    """Whether a type is another, of a kind (``"real floating"``, …), or any of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype(): expected one of {[*KINDS]}, but got {kind!r}")
        return dtype in KINDS[kind] or kind in _OTHERS.get(dtype, ())
    if not isinstance(kind, ad.dtype):
        raise TypeError(
            f"isdtype(): expected a dtype, a kind or a tuple of them, but got {type(kind).__name__}"
        )
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> ad.dtype:
    """The type of an operation on these arrays, types and Python numbers; arrays without dimensions count as others do."""
    if not arrays_and_dtypes:
        raise ValueError("result_type(): at least one array or dtype is required")
    dtypes = [
        x.dtype if isinstance(x, Tensor) else x
        for x in arrays_and_dtypes
        if isinstance(x, (Tensor, ad.dtype))
    ]
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, (Tensor, ad.dtype))]
    if not dtypes:
        raise ValueError("result_type(): at least one array or dtype is required beside Python numbers")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = ad.promote_types(result, dtype)
    for number in numbers:
        result = of_number(number, result)
    return result


def of_number(number, dtype):
    """The type of an operation on an array of `dtype` and a Python number."""
    if isinstance(number, bool):
        if dtype is not ad.bool:
            raise TypeError(f"a Python bool goes with arrays of bool, but found {dtype}")
    elif isinstance(number, complex):
        if not isdtype(dtype, ("real floating", "complex floating")):
            raise TypeError(f"a Python complex goes with arrays of floating-point numbers, but found {dtype}")
        return dtype.to_complex() if dtype.is_floating_point else dtype
    elif isinstance(number, float):
        if not isdtype(dtype, ("real floating", "complex floating")):
            raise TypeError(f"a Python float goes with arrays of floating-point numbers, but found {dtype}")
    elif not isinstance(number, int):
        raise TypeError(f"expected an array, a dtype or a Python number, but got {type(number).__name__}")
    elif dtype is ad.bool:
        raise TypeError("a Python int goes with arrays of numbers, but found bool")
    return dtype


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion leads from one type to the other."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    return ad.promote_types(from_, to) is to


def astype(x: Tensor, dtype: ad.dtype, /, *, copy: bool = True, device: Device | None = None) -> Tensor:
    """A copy of another type; `x` itself where it has that type and `copy` is False."""
    if x.is_complex() and not dtype.is_complex:
        raise TypeError(f"astype(): a complex array cannot become {dtype}; take real(x) or imag(x) first")
    return x.to(device=device, dtype=dtype, copy=copy) if device is not None else x.to(dtype, copy=copy)


class _Limits:
    def __init__(self, given: Any, dtype: Any, names: Any) -> None:
        for name in names:
            value = getattr(given, name)
            setattr(self, name, float(value) if isinstance(value, float) else value)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class finfo(_Limits):
    """Limits of a floating-point type, or of the parts of a complex one: bits, eps, max, min, smallest_normal, dtype."""

    def __init__(self, type: Any, /) -> None:
        dtype = type.dtype if isinstance(type, Tensor) else type
        dtype = {ad.complex64: ad.float32, ad.complex128: ad.float64}.get(dtype, dtype)
        super().__init__(ad.finfo(dtype), dtype, ("bits", "eps", "max", "min", "smallest_normal"))


class iinfo(_Limits):
    """Limits of an integer type: bits, max, min, dtype."""

    def __init__(self, type: Any, /) -> None:
        dtype = type.dtype if isinstance(type, Tensor) else type
        super().__init__(ad.iinfo(dtype), dtype, ("bits", "max", "min"))


class __array_namespace_info__:
    """What the namespace can do."""

    def capabilities(self):
        """Boolean indices, shapes that depend on data, and the most dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return ad.device("cpu")

    def devices(self):
        return (ad.device("cpu"),)

    def default_dtypes(self, *, device=None):
        real = ad.get_default_dtype()
        kinds = {"real floating": real, "complex floating": ad.promote_types(real, ad.complex64)}
        return {**kinds, "integral": ad.int64, "indexing": ad.int64}

    def dtypes(self, *, device=None, kind=None):
        chosen = [d for k in ("bool", "numeric") for d in KINDS[k] if kind is None or isdtype(d, kind)]
        return {d.name: d for d in chosen}
