"""The named tuples that functions with several results return: ``return_types.sort(values, indices)``.

Those of operators come from the core, under their public names; those of compositions are made here when they are first asked
for. Start reading at `_FIELDS`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from adjoint import _C

globals().update(_C._return_types())

#: What compositions return.
_FIELDS = {
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "linalg_cholesky_ex": "L info",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "lu_unpack": "P L U",
    "mode": "values indices",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "svd": "U S V",
    "triangular_solve": "solution cloned_coefficient",
}


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [getattr(__import__("sys").modules[__name__], known) for known in __dir__()]
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = namedtuple(name, _FIELDS[name], module=__name__)  # type: ignore[misc]
    made.__repr__ = lambda self: _shown(self)  # type: ignore[method-assign]
    return made


def _shown(self: Any) -> str:
    """As the core prints its own."""
    kind = type(self)
    return f"{kind.__module__}.{kind.__name__}({', '.join(map('{}={!r}'.format, kind._fields, self))})"


def __dir__() -> list[str]:
    return sorted({*_FIELDS, *_C._return_types()})
