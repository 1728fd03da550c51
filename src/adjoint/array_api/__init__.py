"""The Python array API standard over Adjoint's tensors: what `x.__array_namespace__()` returns.

    >>> import adjoint as ad
    >>> x = ad.tensor([[3.0, 1.0], [2.0, 2.0]])
    >>> xp = x.__array_namespace__()
    >>> xp.sort(x, axis=0, descending=True), xp.unique_counts(x).counts
    (tensor([[3., 2.],
            [2., 1.]]), tensor([1, 2, 1]))

Names, parameters and promotion are the standard's (version 2025.12; 2024.12 and 2023.12 are contained in it); the arrays are
tensors, and derivatives flow through all that is differentiable. Where tensors differ from the standard's arrays is said in
docs/array_api.md. `_elementwise`, `_creation`, `_shapes` and `_numbers` hold the functions, `linalg` and `fft` the extensions.
"""

import math

import adjoint as ad
from adjoint._publish.register import listing
from adjoint.array_api import _creation, _elementwise, _info, _numbers, _shapes, fft, linalg
from adjoint.array_api._creation import *
from adjoint.array_api._elementwise import *
from adjoint.array_api._info import *
from adjoint.array_api._info import __array_namespace_info__
from adjoint.array_api._numbers import *
from adjoint.array_api._shapes import *
from adjoint.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot

__array_api_version__ = "2025.12"
#: What `__array_namespace__(api_version=…)` accepts: later versions only add to earlier ones.
VERSIONS = ("2023.12", "2024.12", "2025.12")

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
bool = ad.bool
uint8, int8, int16, int32, int64 = ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64
float32, float64, complex64, complex128 = ad.float32, ad.float64, ad.complex64, ad.complex128

__all__ = [
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "matmul",
    "matrix_transpose",
    "tensordot",
    "vecdot",
    "fft",
    "linalg",
    "__array_api_version__",
    "__array_namespace_info__",
]
__all__ += _creation.__all__ + _elementwise.__all__ + _info.__all__ + _numbers.__all__ + _shapes.__all__
__dir__ = listing(__name__)
