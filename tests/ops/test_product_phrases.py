"""Products say in torch's words which ranks, sizes and dtypes they expected."""

import re

import pytest

import adjoint as ad

A = ad.ones(3, 3, dtype=ad.float64)
V = ad.ones(3, dtype=ad.float64)
S = ad.ones(3, 2, 2, dtype=ad.float64)


@pytest.mark.parametrize(
    "f, words",
    [
        (lambda: ad.dot(A, V), "1D tensors expected, but got 2D and 1D tensors"),
        (lambda: ad.vdot(A, V), "1D tensors expected, but got 2D and 1D tensors"),
        (lambda: ad.mv(A, A), "vector + matrix @ vector expected, got 1, 2, 2"),
        (lambda: ad.addmv(A, A, A), "vector + matrix @ vector expected, got 2, 2, 2"),
        (lambda: ad.mm(A, V), "mat2 must be a matrix, got 1-D tensor"),
        (lambda: ad.addmm(A, V, A), "mat1 must be a matrix, got 1-D tensor"),
        (lambda: ad.bmm(A, S), "batch1 must be a 3D tensor"),
        (lambda: ad.bmm(S, A), "batch2 must be a 3D tensor"),
        (lambda: ad.outer(A, V), "outer: Expected 1-D argument self, but got 2-D"),
        (lambda: ad.addr(A, V, A), "addr: Expected 1-D argument vec2, but got 2-D"),
        (lambda: ad.mv(A, ad.ones(4, dtype=ad.float64)), "size mismatch, got input (3), mat (3x3), vec (4)"),
        (
            lambda: ad.ones(2, 3, 2) @ ad.ones(2, 3, 2),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 2] but got: [2, 3].",
        ),
        (lambda: ad.mm(A, A.float()), "expected m1 and m2 to have the same dtype, but got: double != float"),
        (
            lambda: ad.addmm(ad.ones(2, 2), A, A),
            "The expanded size of the tensor (3) must match the existing size (2)",
        ),
    ],
)
def test_products_of_other_ranks(f, words):
    with pytest.raises(RuntimeError, match=re.escape(words)):
        f()
