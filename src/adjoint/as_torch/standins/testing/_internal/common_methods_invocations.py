"""Sizes of examples, and masks. torch's table of operators is not here: Adjoint's own table has its tests."""

import adjoint
from adjoint.as_torch.standins.testing._internal._names import name

L, M, S, XS = 20, 10, 5, 3
op_db: list = []
unary_ufuncs = binary_ufuncs = reduction_ops = shape_funcs = spectral_funcs = sparse_unary_ufuncs = op_db


def mask_not_all_zeros(shape):
    """A mask of about every other element, and of one at least."""
    while True:
        mask = adjoint.randn(shape).gt(0)
        if mask.any():
            return mask


def __getattr__(wanted):
    return name("common_methods_invocations", wanted)
