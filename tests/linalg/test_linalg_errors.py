"""What linear algebra refuses: singular, not square, of other types, not finite; and that nothing is written then."""

import pytest

import adjoint as ad

L = ad.linalg
SINGULAR = ad.tensor([[1.0, 2.0], [2.0, 4.0]])
NAN = ad.tensor([[float("nan"), 0.0], [0.0, 1.0]])
FUNCTIONS = {
    name: getattr(L, name)
    for name in (
        "inv det slogdet cholesky eigh eigvalsh eig eigvals qr svd svdvals pinv lu lu_factor ldl_factor matrix_exp cond "
        "matrix_rank matrix_norm"
    ).split()
}
NEEDS_SQUARE = "inv det slogdet cholesky eigh eigvalsh eig eigvals ldl_factor matrix_exp".split()


def test_the_error_is_one_class():
    assert issubclass(L.LinAlgError, RuntimeError)


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda a: L.inv(a), r"linalg.inv: \(Batch element 1\): The diagonal element 2 is zero"),
        (
            lambda a: L.solve(a, ad.ones(2, 2, 1)),
            r"adjoint.linalg.solve: \(Batch element 1\): The solver failed because the input matrix is singular",
        ),
        (lambda a: L.lu_factor(a), r"\(Batch element 1\): U\[2,2\] is zero"),
        (
            lambda a: L.cholesky(a),
            r"\(Batch element 1\): .* \(the leading minor of order 2 is not positive-definite\)",
        ),
    ],
)
def test_singular(f, text):
    with pytest.raises(L.LinAlgError, match=text):
        f(ad.stack([ad.eye(2), SINGULAR]))


def test_the_ex_forms_do_not_raise():
    assert L.inv_ex(SINGULAR).info.item() == 2
    assert L.cholesky_ex(-ad.eye(2)).info.item() == 1
    assert L.lu_factor_ex(SINGULAR).info.item() == 2
    assert L.solve_ex(SINGULAR, ad.ones(2)).info.item() == 2
    with pytest.raises(L.LinAlgError):
        L.inv_ex(SINGULAR, check_errors=True)


@pytest.mark.parametrize("name", NEEDS_SQUARE)
def test_square_is_needed(name):
    with pytest.raises(
        RuntimeError, match="must be batches of square matrices, but they are 2 by 3 matrices"
    ):
        FUNCTIONS[name](ad.ones(2, 3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types(name):
    with pytest.raises(TypeError, match="must be Tensor, not list|Tensor"):
        FUNCTIONS[name]([[1.0]])
    for dtype in (ad.int64, ad.bool, ad.float16):
        if name in ("matrix_norm", "matrix_exp") and dtype == ad.float16:
            continue
        with pytest.raises(RuntimeError):
            FUNCTIONS[name](ad.ones(2, 2, dtype=dtype))
    with pytest.raises(RuntimeError, match="at least 2 dim|2 or more dim"):
        FUNCTIONS[name](ad.ones(2))


@pytest.mark.parametrize("n, batch", [(2, ()), (3, (5,)), (40, ())])
def test_what_is_not_a_number_is_not_positive(n, batch):
    a = ad.eye(n).expand(*batch, n, n).clone()
    a[..., n - 1, 0] = float("nan")
    with pytest.raises(L.LinAlgError, match=f"leading minor of order {n} is not positive-definite"):
        L.cholesky(a)
    assert (L.cholesky_ex(a).info == n).all()


def test_dimensions_of_a_norm_out_of_range():
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
        L.matrix_norm(ad.ones(2, 3, 4), 1, dim=(0, 3))


@pytest.mark.parametrize("name", "eigh eigvalsh eig eigvals svd svdvals".split())
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite(name, bad):
    with pytest.raises(L.LinAlgError, match="contained non-finite values"):
        FUNCTIONS[name](ad.tensor([[bad, 0.0], [0.0, 1.0]]))
    with pytest.raises(L.LinAlgError, match="Batch element 1"):
        FUNCTIONS[name](ad.stack([ad.eye(2), ad.full((2, 2), bad)]))


def test_shapes_that_do_not_fit():
    with pytest.raises(
        RuntimeError, match=r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"
    ):
        L.solve(ad.eye(2), ad.ones(3, 1))
    with pytest.raises(RuntimeError, match="do not broadcast"):
        L.solve(ad.ones(2, 3, 3), ad.ones(4, 3, 1))
    with pytest.raises(RuntimeError, match="Expected A and B to have the same dtype"):
        L.solve(ad.eye(2), ad.ones(2, 1, dtype=ad.float64))
    with pytest.raises(RuntimeError, match="should match"):
        L.lstsq(ad.ones(3, 2), ad.ones(2, 1))
    with pytest.raises(RuntimeError, match="int32"):
        L.lu_solve(ad.eye(2), ad.ones(2), ad.ones(2, 1))
    with pytest.raises(RuntimeError, match="tau"):
        L.householder_product(ad.ones(3, 2), ad.ones(2, 2))
    with pytest.raises(RuntimeError, match="reduced"):
        L.qr(ad.eye(2), "full")
    with pytest.raises(RuntimeError, match="UPLO"):
        L.eigh(ad.eye(2), "X")


def test_pivots_that_lead_nowhere():
    """They come from the caller, and LAPACK follows them."""
    for bad in (0, 3, -1, 2**31 - 1):
        with pytest.raises(ValueError, match="lu_factor"):
            L.lu_solve(ad.eye(2), ad.tensor([1, bad], dtype=ad.int32), ad.ones(2, 1))
        with pytest.raises(ValueError, match="lu_factor"):
            ad.lu_unpack(ad.eye(2), ad.tensor([1, bad], dtype=ad.int32))
    with pytest.raises(ValueError, match="ldl_factor"):
        L.ldl_solve(ad.eye(2), ad.tensor([1, 9], dtype=ad.int32), ad.ones(2, 1))


def test_inputs_are_unchanged():
    a = ad.tensor([[4.0, 1.0], [1.0, 3.0]])
    before = a.clone()
    for f in FUNCTIONS.values():
        f(a)
    assert (a == before).all() and a._version == 0


A = ad.tensor([[3.0, 1.0], [1.0, 2.0]])
ROOT = L.cholesky(A)
#: As torch: what LAPACK fills in place takes an `out=` of its own type, what is composed any that the result can be cast to.
FIXED = {
    "inv": lambda o: L.inv(A, out=o),
    "inverse": lambda o: ad.inverse(A, out=o),
    "solve": lambda o: L.solve(A, A, out=o),
    "solve_triangular": lambda o: L.solve_triangular(A, A, upper=True, out=o),
    "cholesky": lambda o: L.cholesky(A, out=o),
    "svdvals": lambda o: L.svdvals(A, out=o),
    "eigvalsh": lambda o: L.eigvalsh(A, out=o),
    "det": lambda o: L.det(A, out=o),
    "lu_solve": lambda o: L.lu_solve(*L.lu_factor(A), A, out=o),
    "ldl_solve": lambda o: L.ldl_solve(*L.ldl_factor(A), A, out=o),
    "matrix_power": lambda o: L.matrix_power(A, 3, out=o),
    "vecdot": lambda o: L.vecdot(A, A, out=o),
    "qr": lambda o: L.qr(A, out=(o, o.clone())),
    "eigh": lambda o: L.eigh(A, out=(o, o.clone())),
    "svd": lambda o: L.svd(A, out=(o, o.clone(), o.clone())),
    "slogdet": lambda o: L.slogdet(A, out=(o, o.clone())),
    "lu": lambda o: L.lu(A, out=(o, o.clone(), o.clone())),
    "lu_factor": lambda o: L.lu_factor(A, out=(o, o.int())),
    "ldl_factor": lambda o: L.ldl_factor(A, out=(o, o.int())),
    "inv_ex": lambda o: L.inv_ex(A, out=(o, o.int())),
    "cholesky_ex": lambda o: L.cholesky_ex(A, out=(o, o.int())),
}
CAST = {
    "cholesky": lambda o: ad.cholesky(A, out=o),
    "cholesky_solve": lambda o: ad.cholesky_solve(A, ROOT, out=o),
    "cholesky_inverse": lambda o: ad.cholesky_inverse(ROOT, out=o),
    "householder_product": lambda o: L.householder_product(A, A[0], out=o),
    "pinv": lambda o: L.pinv(A, out=o),
    "cond": lambda o: L.cond(A, out=o),
    "tensorinv": lambda o: L.tensorinv(A, ind=1, out=o),
    "tensorsolve": lambda o: L.tensorsolve(A, A[0], out=o),
}


@pytest.mark.parametrize("dtype", ["float64", "complex64", "float16", "int64"])
@pytest.mark.parametrize("name", FIXED)
def test_out_of_another_type(name, dtype):
    out = ad.zeros(0, dtype=getattr(ad, dtype))
    said = {"float64": "double", "int64": "long int", "float16": "c10::Half"}.get(
        dtype, "c10::complex<float>"
    )
    with pytest.raises(
        RuntimeError,
        match=f"Expected out tensor to have dtype float, but got {said} instead|result with dtype Long",
    ):
        FIXED[name](out)
    assert out.numel() == 0
    FIXED[name](ad.zeros(0))


@pytest.mark.parametrize("name", CAST)
def test_out_that_the_result_is_cast_to(name):
    wide, same = ad.zeros(0, dtype=ad.float64), ad.zeros(0)
    assert CAST[name](wide) is wide and ad.equal(wide, CAST[name](same).double())
    with pytest.raises(
        RuntimeError, match="Float can't be cast to .* Long|castable from Float dtype, but got .* Long"
    ):
        CAST[name](ad.zeros(0, dtype=ad.int64))


def test_signs_of_determinants_that_are_not_finite():
    inf, nan = float("inf"), float("nan")
    for a, sign, log in (
        ([[inf, 1.0], [1.0, 2.0]], 1.0, inf),
        ([[1.0, 0.0], [0.0, -inf]], -1.0, inf),
        ([[nan, 1.0], [1.0, 2.0]], 0.0, nan),
    ):
        found = L.slogdet(ad.tensor(a))
        assert found.sign.item() == sign and (found.logabsdet.item() == log or log != log)


def test_norms_of_more_dimensions_need_them_named():
    for ord in ("fro", "nuc", 2, ad.inf):
        with pytest.raises(RuntimeError, match="the input must be 1D or 2D. Got 3D"):
            L.norm(ad.ones(2, 2, 2), ord)
    assert L.norm(ad.ones(2, 2, 2), "fro", (-2, -1)).tolist() == [2.0, 2.0]
