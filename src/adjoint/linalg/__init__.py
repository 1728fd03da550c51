"""Linear algebra with torch.linalg's interface: decompositions, solvers, norms and products of batches of matrices.

Real and complex, in single and double precision, through the LAPACK of the BLAS library that is installed; every result
has derivatives of all orders unless its page says otherwise. `_decompositions` holds factorisations, `_solvers` equations
and determinants, `_norms` norms, condition and rank, `_products` products and powers; the primitives and their derivatives
are in core/ops/linalg.h.
"""

# ruff: noqa: F401, F403 - each file says in __all__ what it publishes.
from adjoint._publish.register import listing
from adjoint.linalg import _decompositions, _norms, _products, _solvers
from adjoint.linalg._checks import LinAlgError
from adjoint.linalg._decompositions import *
from adjoint.linalg._norms import *
from adjoint.linalg._products import *
from adjoint.linalg._solvers import *

__all__ = [
    "LinAlgError",
]
__all__ += _decompositions.__all__ + _norms.__all__ + _products.__all__ + _solvers.__all__
__dir__ = listing(__name__)
