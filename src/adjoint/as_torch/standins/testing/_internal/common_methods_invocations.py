"""Sizes of examples, and masks. torch's table of operators is not here: Adjoint's own table has its tests."""

import adjoint
from adjoint.as_torch.standins.testing._internal._names import name

L, M, S, XS = 20, 10, 5, 3
op_db: list = []
unary_ufuncs = binary_ufuncs = reduction_ops = shape_funcs = spectral_funcs = sparse_unary_ufuncs = op_db


class DecorateInfo:
    """Decorators for the tests of an operator."""

    def __init__(
        self, decorators, cls_name=None, test_name=None, *, device_type=None, dtypes=None, active_if=True
    ):
        self.decorators = decorators if isinstance(decorators, (list, tuple)) else [decorators]
        self.cls_name, self.test_name = cls_name, test_name
        self.device_type, self.dtypes, self.active_if = device_type, dtypes, active_if


def mask_not_all_zeros(shape):
    """A mask of about every other element, and of one at least."""
    while True:
        mask = adjoint.randn(shape).gt(0)
        if mask.any():
            return mask


def __getattr__(wanted):
    return name("common_methods_invocations", wanted)
