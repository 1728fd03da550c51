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
            r"torch.linalg.solve: \(Batch element 1\): The solver failed because the input matrix is singular",
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
    with pytest.raises(RuntimeError, match="at least 2 dim"):
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
