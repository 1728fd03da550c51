"""Equations: solutions, inverses, least squares, and determinants. Start reading at `solve`."""

from __future__ import annotations

from math import prod

from adjoint import _C, return_types
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.arguments import dimension, give, give_all
from adjoint._switches import switches
from adjoint._types import Any, Sequence
from adjoint.linalg._checks import (
    broadcast,
    finite,
    give_cast,
    matrices,
    raise_where,
    same_dtype,
    square,
    tensor,
    type_name,
)

__all__ = [
    "det",
    "inv",
    "inv_ex",
    "ldl_solve",
    "lstsq",
    "lu_solve",
    "pinv",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
]


def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> Any:
    """`solve` that says in `info` which pivot is zero instead of raising; the result then holds infinities or NaN."""
    name = "linalg.solve"
    square(A, name)
    tensor(B, name, "B")
    same_dtype(A, B, name)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and A.shape[:-1] == B.shape)
    right = B.unsqueeze(-1) if vector else B
    if not left:
        if vector:
            raise RuntimeError(
                f"{name}: Vector broadcasting of the left hand side is not supported for left=False."
            )
        A, right = A.mT, right.mT
    if right.shape[-2] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2] if B.ndim > 1 else B.shape[0]}x{1 if vector else B.shape[-1]})"
        )
    A, right = broadcast(A, right, name)
    X, _, _, info = _C._solve(A, right)
    if check_errors:
        raise_where(
            info, "torch.linalg.solve", lambda i: "The solver failed because the input matrix is singular."
        )
    X = X.squeeze(-1) if vector else X if left else X.mT
    return give_all(out, return_types.linalg_solve_ex(X, info), "linalg.solve_ex", converts=False)


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The solution of ``A @ X = B``, or of ``X @ A = B`` where not `left`.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    B : Tensor, shape (..., n, k), (n,) or (..., n)
        A vector, or a batch of vectors whose shape is that of A without its last dimension, counts as a column. Batches
        broadcast.

    Raises
    ------
    LinAlgError
        Where a matrix is singular: which one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.solve(ad.tensor([[2.0, 0.0], [0.0, 4.0]]), ad.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return give(out, solve_ex(A, B, left=left, check_errors=True).result, "linalg.solve", converts=False)


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The solution of ``A @ X = B`` (``X @ A = B`` where not `left`) for triangular matrices.

    Parameters
    ----------
    upper : bool
        Which triangle of A is read.
    unitriangular : bool
        Take the diagonal for ones without reading it.

    Notes
    -----
    A zero on the diagonal gives infinities or NaN, no error.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.solve_triangular(ad.tensor([[2.0, 0.0], [1.0, 1.0]]), ad.ones(2, 1), upper=False)
    tensor([[0.5000],
            [0.5000]])
    """
    name = "linalg.solve_triangular"
    square(A, name)
    matrices(B, name, "B")
    same_dtype(A, B, name)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    A, B = broadcast(A, B, name)
    return give(out, _C._solve_triangular(A, B, upper, left, unitriangular), name, converts=False)


def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The solution of ``A @ X = B`` from `lu_factor`'s results; ``X @ A = B`` where not `left`, ``A.mH`` where `adjoint`.

    Examples
    --------
    >>> import adjoint as ad
    >>> LU, pivots = ad.linalg.lu_factor(ad.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> ad.linalg.lu_solve(LU, pivots, ad.tensor([[2.0], [3.0]]))
    tensor([[3.],
            [1.]])
    """
    name = "linalg.lu_solve"
    square(LU, name, "LU")
    matrices(B, name, "B")
    tensor(pivots, name, "pivots")
    same_dtype(LU, B, name)
    if pivots.dtype != _C.int32:
        raise RuntimeError(
            f"{name}: pivots should be a Tensor of scalar type {switches.package}.int32. Got {pivots.dtype}"
        )
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix: expected shape "
            f"{list(LU.shape[:-1])}, got {list(pivots.shape)}"
        )
    if LU.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({LU.shape[-2]}x{LU.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    LU, B = broadcast(LU, B, name)
    pivots = pivots.expand(LU.shape[:-1])
    if left:
        X = _C._lu_solve(LU, pivots, B, adjoint)
    else:  # X A = B is Aᴴ Xᴴ = Bᴴ
        X = _C._lu_solve(LU, pivots, B.mH, not adjoint).mH
    return give(out, X, name, converts=False)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution of ``A @ X = B`` from `ldl_factor`'s results."""
    name = "linalg.ldl_solve"
    square(LD, name, "LD")
    matrices(B, name, "B")
    same_dtype(LD, B, name)
    if B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {switches.package}.{name}: each A matrix is {LD.shape[-1]} by {LD.shape[-1]} but each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    LD, B = broadcast(LD, B, name)
    return give(out, _C._ldl_solve(LD, pivots.expand(LD.shape[:-1]), B, hermitian), name, converts=False)


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Sequence[Tensor] | None = None) -> Any:
    """`inv` that says in `info` which pivot is zero instead of raising."""
    return _inverse(A, check_errors, out, "linalg.inv_ex")


def _inverse(A, check_errors, out, name):
    square(A, "linalg.inv")
    result = return_types.linalg_inv_ex(*_C._inverse(A))
    if check_errors:
        raise_where(
            result.info,
            name,
            lambda i: (
                f"The diagonal element {i} is zero, the inversion could not be completed because the input matrix is singular."
            ),
        )
    return give_all(out, result, "linalg.inv_ex", converts=False)


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices. To multiply by it, `solve` is faster and more accurate.

    Raises
    ------
    LinAlgError
        Where a matrix is singular: which one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.inv(ad.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return give(out, _inverse(A, True, None, "linalg.inv").inverse, "linalg.inv", converts=False)


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant. Its derivative is right for singular matrices too.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.det(ad.tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    return give(out, _C._det(square(A, "linalg.det"))[0], "linalg.det", converts=False)


def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> Any:
    """Sign (for complex matrices: phase) of the determinant and logarithm of its absolute value.

    A singular matrix has sign 0 and logarithm -inf.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.slogdet(-ad.eye(3)).sign
    tensor(-1.)
    """
    found: Any = _C._slogdet(square(A, "linalg.slogdet"))  # and the factors
    sign, log = found[:2]
    return give_all(out, return_types.linalg_slogdet(sign, log), "linalg.slogdet", converts=False)


def epsilon(dtype):
    """The distance from 1 to the next larger number of a real or complex type."""
    return 1.1920928955078125e-07 if dtype in (_C.float32, _C.complex64) else 2.220446049250313e-16


def tolerances(A, atol, rtol, name):
    """Both as real tensors: `rtol` is max(m, n) epsilons unless one of them is given and positive."""
    real = A.real.dtype if A.is_complex() else A.dtype

    def as_tensor(x, what):
        if isinstance(x, Tensor):
            if x.is_complex():
                raise RuntimeError(
                    f"{name}: {what} tensor of complex type is not supported. Got {type_name(x)}"
                )
            return x.to(real)
        return _C._full((), float(x), dtype=real)

    if rtol is None:
        default = epsilon(real) * max(A.shape[-2:])
        if atol is None:
            rtol = default
        else:
            positive = as_tensor(atol, "atol") > 0
            rtol = _C.where(positive, _C._full((), 0.0, dtype=real), _C._full((), default, dtype=real))
    return as_tensor(0.0 if atol is None else atol, "atol"), as_tensor(rtol, "rtol")


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudoinverse (Moore and Penrose).

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    atol, rtol : float or Tensor, optional
        Singular values up to ``max(atol, rtol * largest)`` count as zero. By default `rtol` is ``max(m, n)`` epsilons
        of the dtype, and zero where `atol` is positive.
    rcond : float or Tensor
        The old name of `rtol`.
    hermitian : bool
        Take A for Hermitian; its lower triangle is read.

    Notes
    -----
    The derivative is that at constant rank (Golub and Pereyra, 1973), finite for repeated singular values too.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.pinv(ad.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    name = "linalg.pinv"
    if tensor(A, name).ndim < 2 or not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            f"{name}({type_name(A)}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, double, "
            "cfloat or cdouble types"
        )
    (square if hermitian else matrices)(A, name)
    finite(A, "linalg.eigh" if hermitian else "linalg.svd")
    atol, rtol = tolerances(A, atol, rcond if rtol is None else rtol, name)
    return give_cast(out, _C._pinv(A, atol.expand(A.shape[:-2]), rtol.expand(A.shape[:-2]), hermitian), name)  # type: ignore[union-attr]


def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: float | Tensor | None = None,
    *,
    driver: str | None = None,
    out: Sequence[Tensor] | None = None,
) -> Any:
    """The X that minimises the Frobenius norm of ``A @ X - B``; the one of least norm, where several do.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    B : Tensor, shape (..., m, k), or (..., m)
    rcond : float, optional
        Singular values below `rcond` times the largest count as zero; max(m, n) epsilons by default.
    driver : {'gelsy', 'gels', 'gelsd', 'gelss'}, optional
        What torch would call. The solution is always found by singular values; it decides which of the other results are
        given: `rank` not for 'gels', `singular_values` only for 'gelsd' and 'gelss'.

    Returns
    -------
    (solution, residuals, rank, singular_values)
        `residuals`, sums of squares, are given where ``m > n`` and every matrix has full rank, but not for 'gelsy', which is
        taken where no driver is named; they are empty otherwise.
        The solution is differentiable.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.lstsq(ad.tensor([[1.0], [1.0]]), ad.tensor([[1.0], [3.0]])).solution.round(decimals=3)
    tensor([[2.]])
    """
    name = f"{switches.package}.linalg.lstsq"
    matrices(A, name)
    tensor(B, name, "B")
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {type_name(A)} and other's "
            f"dtype {type_name(B)}"
        )
    if driver is None:
        driver = "gelsy"
    if driver not in ("gels", "gelsd", "gelss", "gelsy"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = A.ndim - 1 == B.ndim and A.shape[:-1] == B.shape
    right = B.unsqueeze(-1) if vector else B
    if right.ndim < 2 or right.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size(-2), but got {list(A.shape)} and {list(B.shape)}"
        )
    batch = A.shape[:-2]
    A, right = broadcast(A, right, name)
    m, n = A.shape[-2:]
    if rcond is None:
        rcond = epsilon(A.dtype) * max(m, n)
    solution, values, rank, _ = _C._least_squares(
        A.detach(), right.detach(), float(rcond), driver in ("gelsd", "gelss")
    )
    if A.shape[:-2] != batch and A.numel():  # rank and singular values are of the matrices that were given
        rank = _first_of(rank, batch)
        values = _first_of(values, batch + values.shape[-1:]) if driver in ("gelsd", "gelss") else values
    if _C._is_differentiated(A, right):
        # The value is LAPACK's, the derivative that of A⁺ B.
        smooth = pinv(A, rtol=float(rcond)) @ right
        solution = smooth + (solution - smooth.detach())
    empty = _C._zeros((0,), dtype=values.dtype)
    residuals = empty
    given = m > n and driver != "gelsy"
    if given and (driver == "gels" or rank.is_meta or _C._whole(rank == n).all().item()):
        difference = right - A @ solution
        residuals = (difference.abs() ** 2).sum(-2)
    elif solution.requires_grad:  # as if one step made all results
        residuals = solution.real.reshape(-1).narrow(0, 0, 0)
    if vector:
        solution = solution.squeeze(-1)
    results = return_types.linalg_lstsq(
        solution,
        residuals,
        _C._zeros((0,), dtype=_C.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else empty,
    )
    return give_all(out, results, "linalg.lstsq")


def _first_of(x, shape):
    """Of results for matrices that were expanded: those for the matrices of the batch that was given."""
    x = x[(0,) * (x.ndim - len(shape))]
    for d, size in enumerate(shape):
        x = x.narrow(d, 0, size)
    return x


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `tensordot` with A: `ind` is how many of its first dimensions count as rows.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.tensorinv(ad.eye(6).reshape(2, 3, 6), ind=2).shape
    adjoint.Size([6, 2, 3])
    """
    tensor(A, "linalg.tensorinv")
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if prod(rows) != prod(columns):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{prod(columns)} != {prod(rows)}"
        )
    return give_cast(out, inv(A.reshape(prod(rows), prod(columns))).reshape(*columns, *rows), "tensorinv")


def tensorsolve(
    A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The X with ``tensordot(A, X, X.ndim) = B``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.tensorsolve(ad.eye(6).reshape(2, 3, 6), ad.ones(2, 3)).shape
    adjoint.Size([6])
    """
    tensor(A, "linalg.tensorsolve")
    tensor(B, "linalg.tensorsolve", "B")
    if dims is not None:
        dims = [dimension(d, A.ndim) for d in dims]
        A = A.permute([d for d in range(A.ndim) if d not in dims] + dims)
    shape = A.shape[B.ndim :]
    if prod(shape) != prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {prod(shape)} != {prod(A.shape[: B.ndim])}"
        )
    return give_cast(
        out, solve(A.reshape(prod(shape), prod(shape)), B.reshape(-1)).reshape(shape), "tensorsolve"
    )


register.publish(globals())
