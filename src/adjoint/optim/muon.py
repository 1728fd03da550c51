"""Muon: momentum whose matrices are made orthogonal."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Sequence, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, options

__all__ = ["Muon"]


class Muon(EachParameter):
    """Muon (Jordan et al., 2024): for the matrices of hidden layers; other parameters go to AdamW.

    With b = momentum · b + (1 - momentum) · ∇, and u = ∇ + momentum · (b - ∇) with `nesterov`, else b, the step is
    p = (1 - lr · weight_decay) p - lr · s · orthogonal(u). `orthogonal` brings the singular values near 1 by
    `ns_steps` iterations x = a x + (b x xᵀ + c (x xᵀ)²) x, in bfloat16, with (a, b, c) = `ns_coefficients`.

    Parameters
    ----------
    params : iterable of Tensor, of (name, Tensor) pairs, or of dicts (parameter groups); matrices all of them
    lr, weight_decay, momentum : float
    nesterov : bool
    ns_coefficients : (float, float, float)
    eps : float
        The least norm that u is divided by.
    ns_steps : int
    adjust_lr_fn : None, 'original' or 'match_rms_adamw'
        s for a matrix of m rows and n columns: √max(1, m / n), or 0.2 √max(m, n), with which the options of AdamW
        can be kept.

    Raises
    ------
    ValueError
        A parameter is no matrix, or an option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.eye(2))
    >>> optimizer = ad.optim.Muon([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> bool((x.diagonal() < 0.95).all())
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Sequence[float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, ad.Tensor) and lr.numel() != 1:
            check_at_least_zero(lr=lr)
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 <= momentum:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, options(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{tuple(param.shape)}"
                    )

    counts_steps = False

    def _begin(self, group, param):
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": ad.zeros_like(param)}

    def _decay(self, group, lr, param, grad):
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        return grad

    def _update(self, group, t, lr, param, grad, state):
        buffer = state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * max(rows, columns) ** 0.5
        else:
            scale = max(1.0, rows / max(columns, 1)) ** 0.5
        direction = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.sub_(direction.to(param.dtype) * (lr * scale))


def _orthogonal(matrix, coefficients, steps, eps):
    """The matrix with its singular values brought near 1 by Newton and Schulz' iteration."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.mT
    x = x / ad.linalg.vector_norm(x).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = ad.addmm(x, ad.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
