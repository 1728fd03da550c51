"""Equations of two operands that are one product of matrices are planned once; the others go the general way. Both are NumPy's."""

import numpy as np
import pytest
from helpers import assert_close, tensor

import adjoint as ad
from adjoint.ops import einsum as module

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 5, "f": 2}


@pytest.mark.parametrize("seed", range(60))
def test_equations_drawn_at_random(seed):
    rng = np.random.default_rng(seed)
    first, second = ("".join(rng.permutation(list(SIZES))[: rng.integers(1, 5)]) for _ in range(2))
    known = sorted(set(first + second))
    output = "".join(rng.permutation([label for label in known if rng.random() < 0.6]))
    arrow = rng.random() < 0.8
    equation = f"{first},{second}" + f"->{output}" * arrow
    x, y = (rng.standard_normal([SIZES[label] for label in labels]) for labels in (first, second))
    assert_close(ad.einsum(equation, tensor(x), tensor(y)), np.einsum(equation, x, y))


@pytest.mark.parametrize(
    ("equation", "planned"),
    [
        ("ij,jk->ik", True),
        ("ij,jk->ki", True),
        ("bij,bjk", True),
        ("bhid,bhjd->bhij", True),
        ("ij,ij->", True),
        ("i j , j k -> i k", True),
        ("ij,jk->i", False),  # k is summed over in one operand alone
        ("ii,ij->j", False),
        ("...ij,...jk->...ik", False),
        ("i,j->ij", False),
    ],
)
def test_what_is_planned(equation, planned):
    shapes = [
        [3] * len(part.replace("...", "").replace(" ", "")) for part in equation.partition("->")[0].split(",")
    ]
    x, y = (ad.rand(*shape, dtype=ad.float64) for shape in shapes)
    assert (module._plan(equation, x.shape, y.shape) is not None) == planned
    assert_close(ad.einsum(equation, x, y), np.einsum(equation, x.numpy(), y.numpy()))
