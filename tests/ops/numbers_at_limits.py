"""Numbers at and beyond the limits of the element types, for the tests that put them beside tensors."""

import math

import numpy as np

#: Python numbers: the neutral ones, the ends of the small integer types and what lies beyond, halves and beyond them.
REAL_NUMBERS = [
    *(0, 1, -1, 2, 255, 256, 300, -129, 2**31, 2**40, True, False),
    *(0.0, 0.5, -1.5, 1e5, 1e-5, 6e4, 1e6, 1e300, math.nan, math.inf, -math.inf),
]
COMPLEX_NUMBERS = [1j, 2 + 0j, 1.5 - 2j]

#: What every type can hold, and some that only signed and floating-point ones can.
ELEMENTS = [0, 1, 3, 100]
SIGNED_ELEMENTS = [-1, -7]
FRACTIONS = [0.5, -2.25, 1e-3, 6e4]


def elements(kind):
    """Elements for a dtype of NumPy's kinds: 'b', 'u', 'i', 'f' or 'c'."""
    values = [0, 1] if kind == "b" else list(ELEMENTS)
    if kind in "ifc":
        values += SIGNED_ELEMENTS
    if kind in "fc":
        values += FRACTIONS
    return values


def fits(number, dtype):
    """Whether a real number can be an element of a NumPy dtype, fractions aside; -1 fits an unsigned one."""
    if dtype.kind == "b":
        return True
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if isinstance(number, int):
            return (limits.min or -limits.max) <= number <= limits.max
        return math.isfinite(number) and limits.min <= number <= limits.max
    return not math.isfinite(number) or abs(number) <= np.finfo(dtype).max
