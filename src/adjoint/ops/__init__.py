"""Operations that are compositions of the core's operators: one file per family, named as the family is in core/ops.

A function is where an operator of its kind would be declared: `quantile` with `sort` and `median` in `sorting`, `hstack` with
`cat` in `joining`. `einsum` alone has a name of its own, being a small language. How functions and members reach users is in
`adjoint._publish.register`.
"""

# ruff: noqa: F401 - what is imported here is published.
from adjoint.ops import (
    activation,
    arithmetic,
    comparison,
    complex,
    convolution,
    division,
    einsum,
    exponential,
    fourier,
    indexing,
    joining,
    linalg,
    normalization,
    part,
    power,
    product,
    rearranging,
    reduction,
    rounding,
    sampling,
    scan,
    selection,
    shape,
    sorting,
    special,
    writing,
)
