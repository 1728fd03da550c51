"""Groups of dtypes, as tests name them: ``floating_types()``, ``all_types_and(torch.half)``, ``get_all_fp_dtypes()``."""

from __future__ import annotations

import adjoint

_FLOATING = (adjoint.float32, adjoint.float64)
_COMPLEX = (adjoint.complex64, adjoint.complex128)
_INTEGRAL = (adjoint.uint8, adjoint.int8, adjoint.int16, adjoint.int32, adjoint.int64)
_HALF = (adjoint.float16, adjoint.bfloat16)

_GROUPS = {
    "integral_types": _INTEGRAL,
    "floating_types": _FLOATING,
    "complex_types": _COMPLEX,
    "floating_and_complex_types": _FLOATING + _COMPLEX,
    "all_types": _FLOATING + _INTEGRAL,
    "all_types_and_complex": _FLOATING + _INTEGRAL + _COMPLEX,
    "double_types": (adjoint.float64, adjoint.complex128),
    "floating_types_and_half": (*_FLOATING, adjoint.float16),
    "all_types_and_half": (*_FLOATING, *_INTEGRAL, adjoint.float16),
}


def _group(dtypes):
    return lambda: dtypes


def _group_and(dtypes):
    return lambda *more: dtypes + tuple(d for d in more if d not in dtypes)


globals().update({name: _group(dtypes) for name, dtypes in _GROUPS.items()})
globals().update({f"{name}_and": _group_and(dtypes) for name, dtypes in _GROUPS.items()})


def empty_types():
    return ()


def custom_types(*dtypes):
    return dtypes


def get_all_int_dtypes():
    return [*_INTEGRAL]


def get_all_fp_dtypes(include_half=True, include_bfloat16=True):
    return [*_FLOATING, *_HALF[: 1 if include_half else 0], *(_HALF[1:] if include_bfloat16 else ())]


def get_all_complex_dtypes(include_complex32=False):
    return [*_COMPLEX]


def get_all_dtypes(
    include_half=True,
    include_bfloat16=True,
    include_bool=True,
    include_complex=True,
    include_complex32=False,
    include_qint=False,
):
    found = get_all_int_dtypes() + get_all_fp_dtypes(include_half, include_bfloat16)
    return found + [adjoint.bool] * include_bool + [*_COMPLEX] * include_complex


def get_all_math_dtypes(device):
    return get_all_int_dtypes() + get_all_fp_dtypes(device != "cpu", False) + get_all_complex_dtypes()
