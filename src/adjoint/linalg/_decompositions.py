"""Factorisations of matrices: Cholesky, LU, LDL, QR, eigenvalues, singular values.

All take batches of matrices in the last two dimensions, real or complex, in single or double precision, and are
differentiable unless they say otherwise. Start reading at `cholesky`.
"""

from __future__ import annotations

from adjoint import _C, return_types
from adjoint._C import Tensor
from adjoint._publish import register
from adjoint._publish.arguments import give, give_all, scalar_type
from adjoint._switches import switches
from adjoint._types import Any, Sequence
from adjoint.linalg._checks import (
    finite,
    give_cast,
    matrices,
    need_cast,
    raise_where,
    square,
    tensor,
    two_or_more,
)

__all__ = [
    "cholesky",
    "cholesky_ex",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "ldl_factor",
    "ldl_factor_ex",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "qr",
    "svd",
    "svdvals",
]


def _tracked(A):
    return _C._is_differentiated(A)


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Sequence[Tensor] | None = None
) -> Any:
    """`cholesky` that says in `info` what went wrong instead of raising.

    Returns
    -------
    (L, info)
        `info` is int32, one per matrix: 0, or the order of the leading minor that is not positive definite.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.cholesky_ex(-ad.eye(2)).info
    tensor(1, dtype=adjoint.int32)
    """
    return _cholesky(A, upper, check_errors, out, "linalg.cholesky_ex")


def _cholesky(A, upper, check_errors, out, name):
    square(A, "linalg.cholesky")
    L, info = _C._cholesky(A.mH if upper else A)
    if check_errors:
        raise_where(info, name, _not_positive)
    return give_all(
        out, return_types.linalg_cholesky_ex(L.mH if upper else L, info), "linalg.cholesky_ex", converts=False
    )


def _not_positive(order):
    return (
        "The factorization could not be completed because the input is not positive-definite (the leading minor of "
        f"order {order} is not positive-definite)."
    )


def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular `L` with ``A = L @ L.mH`` of Hermitian positive definite matrices.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
        Only the lower triangle is read, or the upper one where `upper`.
    upper : bool
        Give ``L.mH`` instead.

    Raises
    ------
    LinAlgError
        Where a matrix is not positive definite: which one, and which leading minor.

    Notes
    -----
    The derivative treats both triangles alike (I. Murray, *Differentiation of the Cholesky decomposition*, 2016).

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.cholesky(ad.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return give(out, _cholesky(A, upper, True, None, "linalg.cholesky").L, "linalg.cholesky", converts=False)


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Sequence[Tensor] | None = None
) -> Any:
    """`lu_factor` that says in `info` which pivot is zero instead of raising."""
    two_or_more(tensor(A, "linalg.lu_factor_ex"), "torch.lu_factor")
    matrices(A, "linalg.lu_factor_ex")
    result = return_types.linalg_lu_factor_ex(*_C._lu_factor(A, pivot))
    if check_errors:
        raise_where(result.info, "torch.linalg.lu_factor", _zero_pivot)
    return give_all(out, result, "linalg.lu_factor_ex", converts=False)


def _zero_pivot(i):
    return (
        f"U[{i},{i}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform "
        "the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def lu_factor(A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None) -> Any:
    """LU factorisation with partial pivoting in the compact form that `lu_solve` takes.

    Returns
    -------
    (LU, pivots)
        `LU` holds U in its upper triangle and L, whose diagonal is one, below. Row ``i`` was exchanged with row
        ``pivots[i] - 1``, in order.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.lu_factor(ad.tensor([[0.0, 1.0], [2.0, 4.0]])).pivots
    tensor([2, 2], dtype=adjoint.int32)
    """
    factors = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return give_all(
        out, return_types.linalg_lu_factor(factors.LU, factors.pivots), "linalg.lu_factor", converts=False
    )


def unpack(LU, pivots, pivot=True):
    """P, L and U from the compact form; P is empty without pivoting."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = LU.narrow(-1, 0, k).tril(-1) + _C._eye(m, k, dtype=LU.dtype)
    U = LU.narrow(-2, 0, k).triu()
    if not pivot:
        return _C._zeros((0,), dtype=LU.dtype), L, U
    rows = _C._lu_permutation(pivots, m)
    # Row i of PᵀA is row rows[i] of A: P has a one at (rows[i], i).
    P = (rows.unsqueeze(-2) == _C._arange(0, m, 1, dtype=_C.int64).unsqueeze(-1)).to(LU.dtype)
    return P, L, U


def lu(A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None) -> Any:
    """``A = P @ L @ U`` with a permutation, a unit lower triangle and an upper triangle.

    Singular matrices are factored too. Without pivoting P is empty.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.lu(ad.tensor([[0.0, 1.0], [2.0, 4.0]])).U
    tensor([[2., 4.],
            [0., 1.]])
    """
    two_or_more(tensor(A, "linalg.lu"), "linalg.lu")
    matrices(A, "linalg.lu")
    LU, pivots, _ = _C._lu_factor(A, pivot)
    return give_all(out, return_types.linalg_lu(*unpack(LU, pivots, pivot)), "linalg.lu", converts=False)


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Sequence[Tensor] | None = None
) -> Any:
    """`ldl_factor` that says in `info` which block of D is zero instead of raising."""
    square(A, "linalg.ldl_factor_ex")
    result = return_types.linalg_ldl_factor_ex(*_C._ldl_factor(A, hermitian))
    if check_errors:
        raise_where(
            result.info,
            "torch.linalg.ldl_factor_ex",
            lambda i: (
                f"The diagonal element {i} of D is exactly zero: the factorization is done, but ldl_solve would divide by it."
            ),
        )
    return give_all(out, result, "linalg.ldl_factor_ex", converts=False)


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Sequence[Tensor] | None = None) -> Any:
    """``A = L D Lᵀ`` (``L D Lᴴ`` where `hermitian`) in the compact form that `ldl_solve` takes.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.ldl_factor(ad.tensor([[2.0, 4.0], [4.0, 5.0]])).LD.shape
    adjoint.Size([2, 2])
    """
    factors = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return give_all(
        out, return_types.linalg_ldl_factor(factors.LD, factors.pivots), "linalg.ldl_factor", converts=False
    )


def qr(A: Tensor, mode: str = "reduced", *, out: Sequence[Tensor] | None = None) -> Any:
    """``A = Q @ R`` with orthonormal columns and an upper triangle.

    Parameters
    ----------
    mode : {'reduced', 'complete', 'r'}
        'complete' gives all columns of Q (differentiable for matrices that are not tall); 'r' only R, which is not
        differentiable.

    Notes
    -----
    The derivative needs the first ``min(m, n)`` columns to be independent.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.qr(ad.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    matrices(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if mode == "r":
        # Q is computed where the derivative of R needs it.
        R = _C._qr(A, False)[1] if _tracked(A) else _C._geqrf(A).a.narrow(-2, 0, min(A.shape[-2:])).triu()
        return give_all(
            out, return_types.linalg_qr(_C._zeros((0,), dtype=A.dtype), R), "linalg.qr", converts=False
        )
    return give_all(out, return_types.linalg_qr(*_C._qr(A, mode == "complete")), "linalg.qr", converts=False)


def _not_converged(what):
    return lambda info: (
        f"The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated {what} "
        f"(error code: {info})."
    )


def _triangle(UPLO, name):
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def _eigh(A, UPLO, vectors, name):
    square(A, name)
    upper = _triangle(UPLO, name)
    values, vectors, info = _C._eigh(finite(A, name), upper, vectors)
    raise_where(info, name, _not_converged("eigenvalues"))
    return return_types.linalg_eigh(values, vectors)


def eigh(A: Tensor, UPLO: str = "L", *, out: Sequence[Tensor] | None = None) -> Any:
    """Ascending eigenvalues and orthonormal eigenvectors of Hermitian matrices.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    UPLO : {'L', 'U'}
        Which triangle is read.

    Notes
    -----
    Eigenvectors are determined up to a phase, and within the space of a repeated eigenvalue up to a rotation: only
    functions that do not depend on these have a derivative. The derivative divides by differences of eigenvalues; those that
    are equal up to rounding (``n`` epsilons of the largest) are left out, so that the gradient is finite, and right for every
    smooth function of the eigenvalues.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.eigh(ad.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return give_all(out, _eigh(A, UPLO, True, "linalg.eigh"), "linalg.eigh", converts=False)


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending. Their derivative is finite for repeated ones too."""
    tensor(A, "linalg.eigvalsh")
    return give(
        out, _eigh(A, UPLO, _tracked(A), "linalg.eigvalsh").eigenvalues, "linalg.eigvalsh", converts=False
    )


def _eig(A, vectors, name):
    square(A, name)
    finite(A, f"{switches.package}.linalg.eig: input tensor should not contain infs or NaNs")
    values, vectors, info = _C._eig(A, vectors)
    raise_where(info, name, _not_converged("eigenvalues"))
    return return_types.linalg_eig(values, vectors)


def eig(A: Tensor, *, out: Sequence[Tensor] | None = None) -> Any:
    """Complex eigenvalues, in no order, and right eigenvectors of length one of square matrices.

    Notes
    -----
    Only functions that do not depend on the phases of the eigenvectors have a derivative, and only for matrices with a
    full set of eigenvectors.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.eig(ad.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.imag.abs()
    tensor([1., 1.])
    """
    result = _eig(A, True, "linalg.eig")
    for to, value, what in zip(out or (), result, ("eigenvalues", "eigenvectors")):
        need_cast(to, value, "torch.linalg.eig", what)
    return give_all(out, result, "linalg.eig")


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex eigenvalues of square matrices."""
    tensor(A, "linalg.eigvals")
    values = _eig(A, _tracked(A), "linalg.eigvals").eigenvalues
    return give_cast(out, values, "torch.linalg.eigvals", "eigenvalues")


def _svd(A, full_matrices, vectors, name):
    matrices(A, name)
    U, S, Vh, info = _C._svd(finite(A, name), full_matrices, vectors)  # type: ignore[misc]
    raise_where(info, name, _not_converged("singular values"))
    return return_types.linalg_svd(U, S, Vh)


def _check_driver(driver, name):
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(f"{name}: unknown driver {driver!r}: expected None, 'gesvd', 'gesvdj' or 'gesvda'")
    if driver is not None:
        raise RuntimeError(
            f"{switches.package}.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Sequence[Tensor] | None = None
) -> Any:
    """``A = U @ diag(S) @ Vh`` with orthonormal columns of U and rows of Vh and descending S.

    Parameters
    ----------
    full_matrices : bool
        All columns of U and rows of Vh, not only those that belong to singular values.

    Notes
    -----
    Only functions that do not depend on the phases of the vectors have a derivative. Like for `eigh`, pairs of singular
    values that are equal up to rounding are left out of it, and zero ones where it would divide by them.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.svd(ad.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    _check_driver(driver, "linalg.svd")
    return give_all(out, _svd(A, full_matrices, True, "linalg.svd"), "linalg.svd", converts=False)


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values, descending. Their derivative is finite for repeated ones too."""
    tensor(A, "linalg.svdvals")
    _check_driver(driver, "linalg.svdvals")
    return give(out, _svd(A, False, _tracked(A), "linalg.svdvals").S, "linalg.svdvals", converts=False)


def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of ``H_1 H_2 … H_k`` with ``H_i = I - tau_i v_i v_iᴴ``.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), m >= n
        ``v_i`` is column i: zero above row i, one at row i, and what `A` holds below.
    tau : Tensor, shape (..., k), k <= n

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.linalg.householder_product(ad.zeros(2, 1), ad.tensor([2.0]))
    tensor([[-1.],
            [-0.]])
    """
    name = "linalg.householder_product"
    matrices(A, name, "input")
    tensor(tau, name, "tau")
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau.ndim != A.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {A.ndim}"
        )
    if tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.dtype != A.dtype:
        raise RuntimeError(
            f"{switches.package}.{name}: tau dtype {scalar_type(tau)} does not match input dtype {scalar_type(A)}"
        )
    if not (_tracked(A) or _tracked(tau)):
        return give_cast(out, _C._householder_product(A, tau), "torch." + name)
    m, n = A.shape[-2:]
    Q = _C._eye(m, n, dtype=A.dtype).expand(*A.shape[:-2], m, n)
    V = A.tril(-1) + _C._eye(m, n, dtype=A.dtype)
    if not tau.shape[-1]:
        Q = _C._attach(_C._attach(Q, A), tau)  # of no reflectors it is constant, and a function of both
    for i in reversed(range(tau.shape[-1])):
        v = V.narrow(-1, i, 1)
        Q = Q - tau.narrow(-1, i, 1).unsqueeze(-1) * (v @ (v.mH @ Q))
    return give_cast(out, Q, "torch." + name)


def reflectors_of(A):
    """What `geqrf` gives, step by step in operations that are recorded: LAPACK's signs, and no reflection where nothing is below."""
    from adjoint.nn.functional import pad

    m, n = A.shape[-2:]
    rest, rows, columns, factors = A, [], [], []
    for i in range(min(m, n)):
        alpha, below = rest[..., :1, :1], rest[..., 1:, :1]
        size = (below * below.conj()).real.sum(-2, keepdim=True)
        nothing = (size == 0) & (alpha.imag == 0) if A.is_complex() else size == 0
        norm = _C.where(nothing, 1.0, (alpha * alpha.conj()).real + size).sqrt()
        beta = _C.where(alpha.real < 0, norm, -norm).to(A.dtype)
        v = _C.cat([alpha.new_ones(alpha.shape), below / _C.where(nothing, 1.0, alpha - beta)], -2)
        factors.append(_C.where(nothing, 0.0, (beta - alpha) / beta)[..., 0])
        others = rest[..., 1:]
        others = others - factors[-1].conj().unsqueeze(-1) * (v @ (v.mH @ others))
        diagonal = _C.where(nothing, alpha, beta)
        rows.append(pad(_C.cat([diagonal, others[..., :1, :]], -1), (i, 0)))
        columns.append(pad(v[..., 1:, :], (0, 0, i + 1, 0)))
        rest = others[..., 1:, :]
    if not rows:
        return A.clone(), A.new_zeros((*A.shape[:-2], 0))
    a = pad(_C.cat(rows, -2), (0, 0, 0, m - len(rows))) + pad(_C.cat(columns, -1), (0, n - len(columns)))
    return a, _C.cat(factors, -1)


register.publish(globals())
