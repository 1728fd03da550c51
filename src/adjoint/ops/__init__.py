"""Operations that are compositions of the core's operators, one file per family, named as in core/ops."""

# ruff: noqa: F401 - what is imported here is published.
from adjoint.ops import (
    convolution,
    einsum,
    linalg,
    product,
    reduction,
    sampling,
    shape,
    sorting,
    special,
    writing,
)
