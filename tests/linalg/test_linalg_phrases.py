"""The words with which linear algebra refuses are torch's, which programs and users search for; `out=` takes no other dtype."""

import numpy as np
import pytest

import adjoint as ad

L = ad.linalg
A = ad.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], dtype=ad.float64)
B = ad.ones(3, 2, dtype=ad.float64)
V = ad.ones(3, dtype=ad.float64)
S = A[:, 0, None, None] * ad.ones(3, 2, 2)


def refused(f, *phrases, error=RuntimeError):
    with pytest.raises(error) as found:
        f()
    for phrase in phrases:
        assert phrase in str(found.value)


#: Functions whose result is of one dtype, whatever `out` is of.
STRICT = {
    "inv": (lambda out: L.inv(A, out=out), (3, 3)),
    "cholesky": (lambda out: L.cholesky(A, out=out), (3, 3)),
    "det": (lambda out: L.det(A, out=out), ()),
    "eigvalsh": (lambda out: L.eigvalsh(A, out=out), (3,)),
    "svdvals": (lambda out: L.svdvals(A, out=out), (3,)),
    "solve": (lambda out: L.solve(A, B, out=out), (3, 2)),
    "solve_triangular": (lambda out: L.solve_triangular(A, B, upper=True, out=out), (3, 2)),
    "qr": (lambda out: L.qr(A, out=(out, ad.empty(3, 3, dtype=ad.float64))), (3, 3)),
    "eigh": (lambda out: L.eigh(A, out=(out, ad.empty(3, 3, dtype=ad.float64))), (3,)),
    "lu_factor": (lambda out: L.lu_factor(A, out=(out, ad.empty(3, dtype=ad.int32))), (3, 3)),
}


@pytest.mark.parametrize("name", STRICT)
def test_results_take_no_other_dtype(name):
    f, shape = STRICT[name]
    for dtype, said in ((ad.float32, "float"), (ad.int32, "int"), (ad.complex128, "c10::complex<double>")):
        out = ad.full(shape, 7, dtype=dtype)
        refused(lambda out=out: f(out), f"Expected out tensor to have dtype double, but got {said} instead")
        assert bool((out == 7).all())  # nothing is written
    out = ad.empty(shape, dtype=ad.float64)
    f(out)
    assert out.isfinite().all()


#: Those that convert to what can hold the result, with what they are called when they refuse.
CONVERTING = {
    "linalg.pinv: Expected result": (lambda out: L.pinv(A, out=out), (3, 3)),
    "linalg.cond: Expected result": (lambda out: L.cond(A, out=out), ()),
    "matrix_power: Expected result": (lambda out: L.matrix_power(A, 2, out=out), (3, 3)),
    "tensorinv: Expected result": (lambda out: L.tensorinv(A, 1, out=out), (3, 3)),
    "tensorsolve: Expected result": (lambda out: L.tensorsolve(A, V, out=out), (3,)),
    "adjoint.linalg.householder_product: Expected result": (
        lambda out: L.householder_product(A, V, out=out),
        (3, 3),
    ),
}


@pytest.mark.parametrize("name", CONVERTING)
def test_results_that_cannot_be_held(name):
    f, shape = CONVERTING[name]
    words = "to be safely castable from Double dtype, but got result with dtype Long"
    refused(lambda: f(ad.empty(shape, dtype=ad.int64)), f"{name} {words}")


def test_eigenvalues_that_cannot_be_held():
    words = "Expected eigenvalues to be safely castable from ComplexDouble dtype, but got eigenvalues with dtype Double"
    refused(lambda: L.eigvals(A, out=ad.empty(3, dtype=ad.float64)), words)
    out = ad.empty(3, dtype=ad.complex128), ad.empty(3, 3, dtype=ad.float64)
    refused(lambda: L.eig(A, out=out), "Expected eigenvectors to be safely castable")


def test_norms_say_what_they_do_not_know():
    refused(lambda: L.norm(S, dim=(0, 1, 2)), "it must be of length 1 or 2. Got [0, 1, 2]")
    refused(lambda: L.matrix_norm(V, 0), "linalg.matrix_norm: Order 0 not supported.")
    refused(lambda: L.cond(A, 0), "linalg.cond got an invalid norm type: 0")
    refused(lambda: L.vector_norm(ad.arange(3)), "Got Long")
    refused(lambda: L.pinv(V), "expected a tensor with 2 or more dimensions")
    refused(lambda: L.pinv(A, atol=ad.tensor(1j)), "atol tensor of complex type is not supported")


def test_chains_say_which_tensor():
    refused(lambda: L.multi_dot([S, A]), "the first tensor must be 1D or 2D but got 3D")
    refused(lambda: L.multi_dot([A, S]), "the last tensor must be 1D or 2D but got 3D")
    refused(lambda: L.multi_dot([A, V, A]), "tensor 1 must be 2D but got 1D")
    refused(lambda: L.multi_dot([A, A.float()]), "all tensors must have be the same dtype")
    for dtype in (ad.float32, ad.complex128, ad.int64):
        out = ad.empty(3, 3, dtype=dtype)
        refused(lambda out=out: L.multi_dot([A, A], out=out), "expected out tensor to have dtype")
    refused(
        lambda: L.matrix_power(A, 1.5), "argument 'n' (position 2) must be int, not float", error=TypeError
    )
    refused(lambda: L.vecdot(V, ad.ones(4, dtype=ad.float64)), "to have the same number of elements")
    refused(lambda: L.vecdot(V, V.float()), "found x of type Double and y of type Float")
    refused(lambda: L.vander(V > 0), "but got Bool")


def test_older_functions_use_their_words():
    refused(lambda: ad.cholesky_solve(B[:2], A), "Incompatible matrix sizes for cholesky_solve")
    refused(lambda: ad.cholesky_solve(V, A), "b should have at least 2 dimensions, but has 1")
    refused(lambda: ad.triangular_solve(B, V), "Expected A to have at least 2 dimensions")
    refused(lambda: ad.triangular_solve(B.float(), A), "found b of type Float and A of type Double")
    refused(lambda: ad.cholesky_inverse(A * 0), "The diagonal element 1 is zero", error=L.LinAlgError)
    refused(lambda: ad.cholesky_inverse(B), "cholesky_inverse: A must be batches of square matrices")
    refused(lambda: L.lu_factor(V), "Expected tensor with 2 or more dimensions. Got size: [3] instead")
    refused(
        lambda: ad.lu_unpack(A, V), "LU_pivots is expected to be a contiguous tensor of adjoint.int32 dtype"
    )
    refused(lambda: ad.ormqr(A, V, B.float()), "Expected input and other to have the same dtype")
    refused(lambda: ad.trace(V), "trace: expected a matrix, but got tensor with dim 1")
    refused(lambda: ad.cdist(A, B), "X1 and X2 must have the same number of columns. X1: 3 X2: 2")
    refused(lambda: ad.cdist(A, V), "cdist only supports at least 2D tensors, X2 got: 1D")
    refused(lambda: ad.tensordot(A, A.float()), "both inputs should have same dtype")
    LD, pivots = L.ldl_factor(A)
    refused(lambda: L.ldl_solve(LD, pivots, B[:2]), "Incompatible matrix sizes for adjoint.linalg.ldl_solve")
    refused(lambda: L.lstsq(A, B.float()), "Expected input and other to have the same dtype")


def test_a_batch_that_does_not_broadcast_says_where():
    x, y = A.expand(2, 3, 3), B.expand(4, 3, 2)
    refused(lambda: L.solve(x, y), "The size of tensor a (2) must match the size of tensor b (4)")


def test_the_old_factorisation_takes_singular_matrices():
    LU, pivots = ad.lu(ad.ones(2, 2))
    np.testing.assert_array_equal(LU.numpy(), [[1.0, 1.0], [1.0, 0.0]])
    assert pivots.tolist() == [1, 2]


@pytest.mark.parametrize("hermitian", [False, True])
def test_a_pseudoinverse_of_nan_is_refused(hermitian):
    x = A.clone()
    x[1, 1] = float("nan")
    words = "The algorithm failed to converge because the input matrix contained non-finite values"
    refused(lambda: L.pinv(x, hermitian=hermitian), words, error=L.LinAlgError)


@pytest.mark.parametrize(
    "equation, operands, words",
    [
        (
            "a-a",
            [V],
            "invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]",
        ),
        ("a->1", [V], "invalid subscript given at index 3"),
        ("a..", [V], "found '.' for operand 0 that is not part of any ellipsis"),
        ("a......", [V], "found '.' for operand 0 for which an ellipsis was already found"),
        ("...->.", [V], "found '.' for output that is not part of any ellipsis (...)"),
        ("...->......", [V], "found '.' for output but an ellipsis (...) was already found"),
        ("a,b", [V], "fewer operands were provided than specified in the equation"),
        ("a", [V, V], "more operands were provided than specified in the equation"),
        (
            "a",
            [A],
            "the number of subscripts in the equation (1) does not match the number of dimensions (2) for operand 0 and no "
            "ellipsis was given",
        ),
        ("ab...", [V], "(2) is more than the number of dimensions (1) for operand 0"),
        ("aa", [B], "subscript a is repeated for operand 0 but the sizes don't match, 2 != 3"),
        ("a->aa", [V], "output subscript a appears more than once in the output"),
        ("a->b", [V], "output subscript b does not appear in the equation for any input operand"),
        (
            "a,a",
            [V, V[:2]],
            "subscript a has size 2 for operand 1 which does not broadcast with previously seen size 3",
        ),
    ],
)
def test_equations_that_do_not_fit(equation, operands, words):
    refused(lambda: ad.einsum(equation, *operands), words)


def test_equations_that_are_none():
    refused(
        lambda: ad.einsum("a"), "must specify the equation string and at least one operand", error=ValueError
    )
    refused(lambda: ad.einsum(3, V), "argument 'equation' (position 1) must be str, not int", error=TypeError)
    assert ad.einsum(" i . . . -> i".replace(". . .", "..."), B).shape == (3,)


def test_a_solution_that_its_out_cannot_hold():
    words = "Expected result to be safely castable from Float dtype, but got result with dtype Int"
    refused(lambda: ad.cholesky_solve(ad.ones(2, 1), ad.eye(2), out=ad.zeros(2, 1, dtype=ad.int32)), words)
