"""A few eigenpairs of a large symmetric problem: `lobpcg` by its iteration (Knyazev, 2001). Start reading at `extreme_pairs`.

Each step looks for the best pairs within the span of three blocks: the present vectors X, their preconditioned residuals and the
directions P in which X moved last. The basis of that span is made orthonormal by the eigenvectors of its Gram matrix, without the
directions that it has twice (Stathopoulos and Wu, 2002), so that nearly converged blocks do no harm.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor.dtypes import finfo
from adjoint._tensor.random import randn
from adjoint._types import Any, Callable
from adjoint.autograd.grad_mode import no_grad
from adjoint.linalg._decompositions import eigh

__all__ = ["iterated"]

#: Steps of an iteration whose number is not given.
STEPS = 1000


def iterated(A, B, X, iK, block, niter, tol, largest, k):
    """`lobpcg` of each matrix of a batch, with as many vectors as `block` says: the k outermost pairs, without derivatives."""
    with no_grad():
        if X is None:
            X = randn(*A.shape[:-1], block, dtype=A.dtype, device=A.device)
        batch = A.shape[:-2]
        if not batch:
            values, vectors = extreme_pairs(A, B, X, iK, niter, tol, largest)
            return values[:k], vectors[:, :k]
        wide: list[Any] = [
            m if m is None else m.expand(*batch, *m.shape[-2:]).flatten(0, -3) for m in (A, B, X, iK)
        ]
        found = []
        for i in range(batch.numel()):
            one: Any = [m if m is None else m[i] for m in wide]
            found.append(extreme_pairs(one[0], one[1], one[2], one[3], niter, tol, largest))
        values, vectors = (_C.stack([pair[i] for pair in found]).unflatten(0, batch) for i in (0, 1))
        return values[..., :k], vectors[..., :k]


def extreme_pairs(
    A: Tensor,
    B: Tensor | None,
    X: Tensor,
    iK: Tensor | None,
    niter: int | None,
    tol: float | None,
    largest: bool,
) -> tuple[Tensor, Tensor]:
    """As many eigenvalues of ``A x = λ B x`` at one end of the spectrum as X has columns, outermost first, and their vectors.

    A pair has converged where ``‖A x - λ B x‖ ≤ tol · (‖A‖ + |λ| ‖B‖) ‖x‖``, in norms estimated from X.
    """
    tol = finfo(X.dtype).eps ** 0.5 if tol is None else tol
    apply_b: Callable[..., Any] = (lambda x: x) if B is None else (lambda x: B @ x)
    sizes = [(A @ X).norm() / X.norm(), apply_b(X).norm() / X.norm()]
    P = X[:, :0]
    values, C = _best(A, apply_b, X, X.shape[-1], largest)
    X = X @ C
    steps = STEPS if niter is None else niter
    while steps:
        steps -= 1
        BX = apply_b(X)
        residuals = A @ X - BX * values
        bounds = tol * (sizes[0] + values.abs() * sizes[1]) * X.norm(dim=0)
        if bool((residuals.norm(dim=0) <= bounds).all()):
            break
        W = residuals if iK is None else iK @ residuals
        # What lies in the span of X already would drown in rounding what does not.
        W, P = (V - X @ (BX.mH @ V) for V in (W, P))
        S = _C.cat([X, W, P], -1)
        values, C = _best(A, apply_b, S, X.shape[-1], largest)
        P = S[:, X.shape[-1] :] @ C[X.shape[-1] :]
        X = S @ C
    return values, X


def _best(A, apply_b, S, k, largest):
    """The outermost k Ritz values of the span of S, and the combinations of its columns that are their vectors."""
    basis = _orthonormal(S, apply_b)
    # Once more: the first time, rounding is as large as the smallest direction kept is small.
    basis = basis @ _orthonormal(S @ basis, apply_b)
    S = S @ basis
    values, vectors = eigh(S.mH @ (A @ S))
    values, vectors = (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
    return values[:k], basis @ vectors[:, :k]


def _orthonormal(S, apply_b):
    """The combinations of the columns of S that are orthonormal in the product of B, and span what S does."""
    gram = S.mH @ apply_b(S)
    scale = gram.diagonal().real.clamp(min=0).rsqrt().nan_to_num(0, 0, 0)
    found, turn = eigh(scale.unsqueeze(-1) * gram * scale)
    kept = found > found[-1] * found.shape[0] * finfo(found.dtype).eps * 10
    return scale.unsqueeze(-1) * turn[:, kept] * found[kept].rsqrt()
