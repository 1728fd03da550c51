"""The solution of L Lᴴ X = B as a function of all of L.

The value reads the lower triangle, as every routine does that takes a Cholesky factor. The derivative is that of
``solve(L @ L.mH, B)`` by all elements of L, so that a factor which is the result of a computation gets the gradient that the
dense formula gives. Start reading at `Solve`.
"""

from __future__ import annotations

from adjoint._types import Any, Tensor
from adjoint.autograd import Function


def _factor(L):
    """The lower triangle, with the derivative of all of L."""
    return L - L.detach().triu(1)


class Solve(Function):
    """With A = L Lᴴ: dX = A⁻¹ (dB - dA X), B̄ = A⁻¹ X̄, Ā = -B̄ Xᴴ, L̄ = (Ā + Āᴴ) L."""

    generate_vmap_rule = True

    @staticmethod
    def forward(B: Tensor, L: Tensor):
        from adjoint.linalg import solve_triangular

        return solve_triangular(L.mH, solve_triangular(L, B, upper=False), upper=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)
        ctx.save_for_forward(inputs[1], output)

    @staticmethod
    def backward(ctx, g):
        from adjoint import cholesky_solve

        L, X = ctx.saved_tensors
        gB = cholesky_solve(g, L)
        if not ctx.needs_input_grad[1]:
            return gB, None
        gA = -gB @ X.mH
        return gB, (gA + gA.mH) @ _factor(L)

    @staticmethod
    def jvp(ctx, dB, dL):
        from adjoint import cholesky_solve

        L, X = ctx.saved_tensors
        d: Any = 0 if dB is None else dB
        if dL is not None:
            half = dL @ _factor(L).mH
            d = d - (half + half.mH) @ X
        return cholesky_solve(d, L)
